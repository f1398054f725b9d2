"""The partitions of a frontier, and which of them an entry, a host or a lease belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

from crawlproj.frontier.partition import Partition
from crawlproj.frontier.records import Figures

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from crawlproj.connections import Client
    from crawlproj.frontier.entries import Entry
    from crawlproj.knobs import Value
    from crawlproj.scripts import Scripts


class Parts:
    """One crawl's keys. *frontier_id* names them, *partitions* is how many parts they have."""

    def __init__(self, redis: Client, scripts: Scripts, frontier_id: str, partitions: int = 1) -> None:
        # The first one is where a frontier without partitions is, so that either finds the other.
        tags = [frontier_id, *(f"{frontier_id}:{number}" for number in range(1, partitions))]
        self.parts = [Partition(redis, scripts, f"frontier:{{{tag}}}:") for tag in tags]
        self.prefix = self.parts[0].prefix
        self.knobs: dict[str, Value] = {}  #: the crawl's, as of the last look
        self._redis = redis
        self._turn = 0

    @property
    def figures(self) -> Figures:
        """What it counts, and its switches, as of the last operation."""
        if len(self.parts) == 1:
            return self.parts[0].figures
        return Figures.sum([part.figures for part in self.parts])

    def _number(self, host: str) -> int:
        return crc32(host.encode()) % len(self.parts)

    def _part(self, host: str) -> Partition:
        return self.parts[0] if len(self.parts) == 1 else self.parts[self._number(host)]

    def _shares(self, entries: Sequence[Entry]) -> Iterable[tuple[Partition, Sequence[Entry]]]:
        if len(self.parts) == 1:
            return [(self.parts[0], entries)] if entries else []
        shares: dict[int, list[Entry]] = {}
        for entry in entries:
            shares.setdefault(self._number(entry.host), []).append(entry)
        return [(self.parts[number], share) for number, share in shares.items()]

    def _by_token(self, tokens: Sequence[int]) -> Iterable[tuple[Partition, list[int]]]:
        shares: dict[int, list[int]] = {}
        for token in tokens:
            shares.setdefault(token % len(self.parts), []).append(token)
        return [(self.parts[number], share) for number, share in shares.items()]

    async def _control(self, what: str, reason: str = "") -> None:
        for part in self.parts:
            await part.control(what, reason)

    async def _look_again(self) -> None:
        """Let hosts that knobs had put aside, or have now, go where they belong."""
        for part in self.parts:
            retired: Any = await self._redis.smembers(part.prefix + "retired")
            names = [*retired, *await part.busy()]
            if not self.knobs["hold_queues"]:  # none of them waits inactive
                names += await self._redis.zrange(part.prefix + "inactive", 0, -1)
            await part.place(names)
