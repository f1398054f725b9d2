"""Queue entries of what PostgreSQL knows of pages and of the links on them."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from crawlproj.exceptions import BadUrl, UndecodableEntry
from crawlproj.frontier.canonical import normalise
from crawlproj.frontier.entries import Stored
from crawlproj.frontier.partition import CHUNK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from crawlproj.frontier.codec import Codec
    from crawlproj.frontier.entries import Entry
    from crawlproj.frontier.frontier import Frontier

#: Of a request's meta: how its last fetch came about. A page that is visited again begins anew.
_OF_ONE_FETCH = frozenset(
    {"redirect_times", "redirect_ttl", "redirect_urls", "redirect_reasons", "retry_times"}
)


class Recall:
    """Makes entries of rows, and lets them into a frontier or marks them there as seen."""

    def __init__(self, frontier: Frontier, codec: Codec) -> None:
        self.unreadable = 0  #: rows and links that no request can be made of any more
        self._frontier = frontier
        self._codec = codec

    def page(self, row: Mapping[str, Any]) -> Stored | None:
        """Return a page as that which its links inherit from; url, canonical_url, depth, source_tag count."""
        with suppress(BadUrl):
            wire = normalise(row["url"])
            tag = row["source_tag"]
            return Stored(
                url=row["url"],
                wire=wire,
                canonical=row["canonical_url"],
                depth=row["depth"],
                tag=tag,
                extra={} if tag is None else {"t": tag},
            )
        return None

    def entry(self, url: str, extra: str | None, depth: int, page: Stored | None = None) -> Entry | None:
        """Return the entry of a link, or of a page by its own URL; None if there can be none."""
        try:
            return self._codec.encode_stored(url, self._with_login(url, extra), depth, page)
        except (BadUrl, UndecodableEntry, ValueError):
            self.unreadable += 1
            return None

    def _with_login(self, url: str, extra: str | None) -> str | None:
        """Add the login that the start requests have for the origin: it is not kept with pages."""
        words = self._codec.login_of(url)
        if words is None:
            return extra
        return json.dumps({"a": words, **json.loads(extra or "{}")}, separators=(",", ":"))

    def known(self, row: Mapping[str, Any]) -> Entry | None:
        """Return the entry of a page by its `url`, `request` and `depth`."""
        url = row["url"]
        with suppress(BadUrl):
            url = normalise(url)
        return self.entry(url, row["request"], row["depth"])

    async def let_in(self, entries: Sequence[Entry], *, counted: bool = False) -> int:
        """Let entries in, seen ones excepted, and return how many were new. Raises Refused."""
        if not entries:
            return 0
        placed = await self._codec.assign(entries)
        shares = [placed[start : start + CHUNK] for start in range(0, len(placed), CHUNK)]
        # Begun in their order, sent together.
        added = await asyncio.gather(*(self._frontier.schedule(share, counted=counted) for share in shares))
        return sum(added)

    async def mark(self, rows: Sequence[Mapping[str, Any]]) -> int:
        """Mark pages as seen, and return how many there were. Raises Refused."""
        entries = [entry for row in rows if (entry := self.known(row)) is not None]
        seen: dict[str, list[int]] = {}
        for entry in await self._codec.assign(entries):
            seen.setdefault(entry.host, []).append(entry.fingerprint)
        await self._frontier.mark_seen(seen)
        return len(entries)


def again(entry: Entry) -> Entry:
    """Return an entry that was made before as one to be let in anew: without what came of its last fetch."""
    line, _, extra = entry.data.partition("\n")
    data = entry.data
    if "redirect_" in extra or "retry_" in extra:
        said: dict[str, Any] = json.loads(extra)
        if isinstance(said.get("m"), dict):
            said["m"] = {name: value for name, value in said["m"].items() if name not in _OF_ONE_FETCH}
        said = {name: value for name, value in said.items() if value != {}}
        data = f"{line}\n{json.dumps(said, separators=(',', ':'))}" if said else line
    return replace(entry, data=data, forced=False)


@cache
def sql(query: str) -> bytes:
    """Return a statement on pages."""
    return files("crawlproj.pages").joinpath("sql", f"{query}.sql").read_bytes()
