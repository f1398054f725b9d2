"""What a process holds: its memory, and which of its containers have grown."""

from __future__ import annotations

import gc
import os
from collections import Counter, deque
from pathlib import Path
from typing import Any, NamedTuple

SMALL = 256  # shorter containers are nobody's per-host state
_CONTAINERS = (dict, set, list, deque)


class Holdings(NamedTuple):
    """As of one moment, after a collection."""

    rss: int
    containers: dict[str, int]  #: who holds it -> its length
    objects: dict[str, int]  #: type -> how many of it the collector knows


def look() -> Holdings:
    """Return what this process holds. Takes a second or two."""
    gc.unfreeze()  # else what was there at the start, and has grown, would not be seen
    gc.collect()
    rss = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    tracked = gc.get_objects()
    objects = Counter(_name(type(each)) for each in tracked)
    long: dict[int, Any] = {}
    for each in tracked:
        # A container of strings and numbers alone is not tracked itself: whoever refers to it is.
        for found in (each, *gc.get_referents(each)):
            if isinstance(found, _CONTAINERS) and len(found) >= SMALL and found is not tracked:
                long[id(found)] = found
    containers: dict[str, int] = {}
    for found in long.values():
        owner = _owner(found, {id(tracked), id(long)})
        containers[owner] = max(containers.get(owner, 0), len(found))
    return Holdings(rss, containers, dict(objects))


def grown(before: Holdings, after: Holdings, least: int) -> list[tuple[str, int, int]]:
    """Return the containers that are longer by *least*: holder, length before, length after."""
    return sorted(
        (owner, before.containers.get(owner, 0), length)
        for owner, length in after.containers.items()
        if length - before.containers.get(owner, 0) >= least
    )


def more(before: Holdings, after: Holdings, least: int) -> list[tuple[str, int, int]]:
    """Return the types of which there are more by *least*: type, how many before, how many after."""
    return sorted(
        (name, before.objects.get(name, 0), number)
        for name, number in after.objects.items()
        if number - before.objects.get(name, 0) >= least
    )


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _owner(found: Any, ours: set[int], depth: int = 0) -> str:
    """Return who refers to a container, as `class.attribute`, through containers in between."""
    names = []
    for each in gc.get_referrers(found):
        if id(each) in ours or type(each).__name__ in {"frame", "list_iterator", "dict_valueiterator"}:
            continue
        if isinstance(each, dict) and (key := _key_of(each, found)) is not None:
            if "__name__" in each and "__spec__" in each:
                return f"module {each['__name__']}.{key}"
            holder = next((o for o in gc.get_referrers(each) if getattr(o, "__dict__", None) is each), None)
            if holder is not None:
                return f"{_name(type(holder))}.{key}"
            if depth < 2:
                names.append(f"{_owner(each, ours, depth + 1)}[{str(key)[:20]}]")
        elif hasattr(each, "cache_info"):
            names.append(f"the lru_cache of {each.__module__}.{each.__qualname__}")
        elif not isinstance(each, (*_CONTAINERS, tuple)):
            names.append(f"{_name(type(each))}.{_attribute(each, found)}")
    return min(names, default=f"a {type(found).__name__} of {_name(type(next(iter(found))))}")


def _key_of(holder: dict[Any, Any], value: Any) -> Any:
    return next((key for key, each in list(holder.items()) if each is value), None)


def _attribute(holder: Any, value: Any) -> str:
    names = [*getattr(holder, "__dict__", {}), *getattr(type(holder), "__slots__", ())]
    return next((name for name in names if getattr(holder, name, None) is value), "?")
