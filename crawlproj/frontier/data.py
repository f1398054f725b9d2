"""Values of Python in JSON's types, and back.

What JSON has not is an object whose first key begins with `$`:

    $b bytes   $t tuple   $s set   $z frozenset   $dt datetime   $day date
    $d a dict whose keys are not all strings   $i an item, by its class' dotted path
"""

from __future__ import annotations

import sys
from base64 import b64decode, b64encode
from datetime import date, datetime
from typing import Any

from itemadapter import ItemAdapter


def loaded_class(path: str, base: type) -> type:
    """Return a request class, or for *base* object an item class, without importing anything for it."""
    module, _, name = path.rpartition(".")
    found = vars(sys.modules[module]).get(name) if module in sys.modules else None
    if isinstance(found, type) and (
        issubclass(found, base) if base is not object else ItemAdapter.is_item_class(found)
    ):
        return found
    raise ValueError(f"{path} is not loaded, or no class of this kind")


def class_path(cls: type, base: type) -> str:
    """Return the name by which `loaded_class` finds a class again. Raises ValueError if it would not."""
    path = f"{cls.__module__}.{cls.__qualname__}"
    if loaded_class(path, base) is not cls:
        raise ValueError(f"{path} is another class by now")
    return path


def as_data(value: Any, where: str) -> Any:
    """Return *value*, found at *where*, in JSON's types. Raises ValueError if it has none."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, bytes):
        return {"$b": b64encode(value).decode()}
    if isinstance(value, list):
        return [as_data(each, where) for each in value]
    if isinstance(value, (tuple, set, frozenset)):
        tag = {tuple: "$t", set: "$s", frozenset: "$z"}.get(type(value))
        if tag is not None:
            return {tag: [as_data(each, where) for each in value]}
    if type(value) is dict:
        pairs = [(as_data(key, where), as_data(each, f"{where}[{key!r}]")) for key, each in value.items()]
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return dict(pairs)
        return {"$d": [list(pair) for pair in pairs]}
    if isinstance(value, datetime):
        return {"$dt": value.isoformat()}
    if isinstance(value, date):
        return {"$day": value.isoformat()}
    if ItemAdapter.is_item(value) and not isinstance(value, dict):
        return _item_as_data(value, where)
    raise ValueError(f"{where} holds a {type(value).__name__}")


def _item_as_data(item: Any, where: str) -> dict[str, Any]:
    adapter = ItemAdapter(item)
    fields = {key: adapter[key] for key in adapter}
    data = {"$i": class_path(type(item), object), "v": as_data(fields, where)}
    try:
        from_data(data)
    except Exception as exc:  # noqa: BLE001  # its class is anybody's; now the spider can still be told
        raise ValueError(f"{where} holds a {type(item).__name__} that cannot be made again: {exc}") from None
    return data


def from_data(value: Any) -> Any:
    """Return what `as_data` was given. Raises whatever a value that it never returned leads to."""
    if isinstance(value, list):
        return [from_data(each) for each in value]
    if not isinstance(value, dict):
        return value
    tag = next(iter(value), "")
    if not tag.startswith("$"):
        return {key: from_data(each) for key, each in value.items()}
    content = value[tag]
    match tag:
        case "$b":
            return b64decode(content)
        case "$t" | "$s" | "$z":
            kind = {"$t": tuple, "$s": set, "$z": frozenset}[tag]
            return kind(from_data(each) for each in content)
        case "$d":
            return {from_data(key): from_data(each) for key, each in content}
        case "$dt":
            return datetime.fromisoformat(content)
        case "$day":
            return date.fromisoformat(content)
        case "$i":
            return loaded_class(content, object)(**from_data(value["v"]))
    raise ValueError(f"unknown tag {tag}")
