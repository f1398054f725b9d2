"""Whether a frontier is what it says, and what to do if it is not."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

from crawlproj.frontier.partition import CHUNK, PAGE, Partition
from crawlproj.frontier.parts import Parts

if TYPE_CHECKING:
    from collections.abc import Iterable

logger = logging.getLogger(__name__)

_GLOB = re.compile(r"[*?\[\]^\\]")


class Upkeep(Parts):
    """The consistency of a frontier."""

    async def inspect(self) -> list[str]:
        """Return what is wrong with hosts, one sentence each; may be asked of a running fleet."""
        faults: list[str] = []
        for part in self.parts:
            names = await part.names()
            for start in range(0, len(names), CHUNK):
                faults += (await part.inspect(names[start : start + CHUNK])).faults
        return faults

    async def check(self) -> list[str]:
        """Return what is inconsistent, sums among it. Only true while nobody is at work."""
        return [fault for part in self.parts for fault in await self._check(part)]

    async def _check(self, part: Partition) -> list[str]:
        names = {*await part.names(), *await self._names_in_keys(part)}
        faults: list[str] = []
        ordered = sorted(names)
        queued: int = await self._redis.zcard(part.prefix + "delayed")
        held = leased = 0
        for start in range(0, len(ordered), CHUNK):
            found = await part.inspect(ordered[start : start + CHUNK])
            queued, held, leased = queued + found.queued, held + found.held, leased + found.leased
            faults += found.faults
        tokens: list[Any] = await self._redis.hkeys(part.prefix + "inproc")
        deadlines: list[Any] = await self._redis.zrange(part.prefix + "lease", 0, -1)
        covered = {token for member in deadlines for token in self._tokens(member)}
        faults += [f"lease {token.decode()} has no deadline" for token in tokens if int(token) not in covered]
        await part.control("")
        actual = {
            "queued": queued,
            "held": held,
            "leased": leased,
            "results": await self._members(part, "r:"),
        }
        actual["dead"] = await self._redis.xlen(part.prefix + "dead")
        if (await part.tune({}))["seen_filter"] == "exact":  # a Bloom filter does not count
            actual["seen"] = await self._members(part, "s:")
        if len(tokens) != leased:
            faults.append(f"there are {len(tokens)} leases, and hosts have {leased} in flight")
        for name, number in actual.items():
            counted = getattr(part.figures, name)
            if counted != number:
                faults.append(f"the counter says {counted} {name}, and there are {number}")
        return faults

    async def repair(self) -> list[str]:
        """Put hosts back that have keys and are in no structure; returns them.

        No operation leaves one so. A restored backup may, or a server that evicts keys. What such a server
        has thrown away is not waited for.
        """
        back: list[str] = []
        for part in self.parts:
            stray = await part.place(sorted({*await self._names_in_keys(part), *await part.names()}))
            back += stray
            if not stray and await part.recount():
                logger.error("The server at hand has lost queued URLs; `scrapy rebuild` brings them back")
        if back:
            logger.error("%d hosts were in no queue and are back, %s for one", len(back), back[0])
        return back

    async def drop(self) -> None:
        """Remove all its keys, a few hundred at a time."""
        for part in reversed(self.parts):  # the first one's `ctl` last: a half-dropped one is found again
            names = []
            async for key in self._redis.scan_iter(self._pattern(part, "*"), count=PAGE):
                if key != (part.prefix + "ctl").encode():
                    names.append(key)
                if len(names) == PAGE:
                    await self._redis.unlink(*names)
                    names = []
            await self._redis.unlink(*names, part.prefix + "ctl")

    def _tokens(self, member: bytes) -> Iterable[int]:
        """Return the tokens that share a deadline."""
        first, _, many = member.partition(b":")
        return range(int(first), int(first) + int(many or 1) * len(self.parts), len(self.parts))

    def _pattern(self, part: Partition, rest: str) -> str:
        return _GLOB.sub(lambda found: chr(92) + found[0], part.prefix) + rest

    async def _names_in_keys(self, part: Partition) -> list[bytes]:
        skip = len(part.prefix) + 2
        pattern = self._pattern(part, "[hqp]:*")
        return [key[skip:] async for key in self._redis.scan_iter(pattern, count=PAGE)]

    async def _members(self, part: Partition, kind: str) -> int:
        pipe = self._redis.pipeline(transaction=False)
        async for key in self._redis.scan_iter(self._pattern(part, f"{kind}*"), count=PAGE):
            pipe.scard(key)
        return sum(await pipe.execute())
