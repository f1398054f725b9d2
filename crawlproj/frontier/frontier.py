"""The frontier of one crawl: what is still to do, in Redis.

Operations have Heritrix's names. Every one of them is a single script on the server (see `lua/`), so
that whoever dies in between leaves nothing half done. What a URL goes through:

    schedule ─► queued ─► next ─► leased ─► finish ─► succeeded | failed | disregarded | dead
                  ▲                 │  └──────────────► retry: queued again, later
                  └── release, or reclaim when the lease runs out

A frontier has one partition, or several that can lie on several servers of a Redis Cluster. What is said
of one script then holds for each partition: links that go to others enter ahead of the report of the page
they were found on, and a run is sealed in two steps.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from secrets import token_hex
from typing import TYPE_CHECKING

from crawlproj.exceptions import Refused
from crawlproj.frontier.operations import Operations
from crawlproj.frontier.partition import CHUNK, Partition
from crawlproj.frontier.records import MARKING, Figures, Granted, Outcome, Report
from crawlproj.frontier.upkeep import Upkeep

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from crawlproj.config import Config
    from crawlproj.frontier.entries import Entry
    from crawlproj.frontier.records import Grant
    from crawlproj.knobs import Value

_STRANDED = -2  # what `next` says instead of a time
_TO_PAUSE = 2  # what `seal` says of a part that is to pause at its finish
BLOOM_BLOCK = 1_048_000  # bits, as lua/queues.lua has it


class Frontier(Operations, Upkeep):
    """One crawl's frontier. *frontier_id* names its keys, *partitions* is how many parts it has."""

    async def create(
        self,
        config: Config,
        policies: Mapping[str, str] | None = None,
        *,
        run: int = 0,
        fills: bool = False,
    ) -> None:
        """Make it, or join it when it is there. With *fills* a new one is filled first, see `fill`.

        *run* is what the caller works at; once a later one goes on with the frontier, it gets nothing of it.
        Raises BadSetting when something is set that is another for the life of this frontier: its filter, its
        partitions, its *policies* for URLs.
        """
        fixed = {**_filter(config), "partitions": len(self.parts), **(policies or {})}
        new = {**config.knobs, "run": run or 1, **({"filling": MARKING} if fills else {})}
        joining = {name: config.knobs[name] for name in config.turned}
        for number, part in enumerate(self.parts):
            part.run = run
            await part.create({**fixed, "partition": number}, new, joining)
        await self.crawl_knobs()
        await self._look_again()
        if len(self.parts) > 1:
            await self.refresh()
            if any(part.figures.closed for part in self.parts):
                await self.seal()  # whoever was closing one part after the other has died

    # --- URLs in, leases out --------------------------------------------------------------------

    async def schedule(self, entries: Sequence[Entry], *, counted: bool = False) -> int:
        """Let URLs in; seen ones are dropped. Returns how many were new.

        *counted* says that they go on a target that has been counted before.
        Raises Refused when the run is sealed.
        """
        added = 0
        for part, share in self._shares(entries):
            added += await part.schedule(share, counted=counted, token="") or 0
        return added

    async def busy_hosts(self) -> int:
        """Return how many hosts have something to do."""
        return sum(await asyncio.gather(*(part.busy_hosts() for part in self.parts)))

    load_seeds = schedule  # a seed enters as any URL does; who asked for it is in its entry

    async def peek(self, key: str, n: int) -> list[bytes]:
        """Return entries of a start-URL key, leaving them there."""
        return await self.parts[0].peek(key, n)

    async def take_from(self, key: str, raw: bytes, entries: Sequence[Entry]) -> bool:
        """Take an entry from a start-URL key and let its requests in, in one step.

        False: another worker has taken it, or it stays, for as many URLs as may have been let in. Raises
        Refused when the run is sealed.
        """
        own = [entry for entry in entries if self._part(entry.host) is self.parts[0]]
        over = self.figures.over
        await self.schedule([entry for entry in entries if entry not in own])
        if self.figures.over > over:
            return False
        return await self.parts[0].take_from(key, raw, own)

    async def next(self, worker: str, n: int, lease_seconds: float) -> Granted:
        """Lease at most *n* URLs that are due, for *lease_seconds*."""
        lease_ms = round(lease_seconds * 1000)
        grants: list[Grant] = []
        waits: list[int] = []
        may_have_more, refused = False, 0
        self._turn += 1
        for number in range(len(self.parts)):
            part = self.parts[(self._turn + number) % len(self.parts)]
            share = math.ceil((n - len(grants)) / (len(self.parts) - number))
            try:
                wait, granted = await part.next(worker, share, lease_ms, self._left())
            except Refused:  # another worker has sealed the run: there is nothing to do, now or later
                refused += 1
                continue
            if wait == _STRANDED:
                wait = 0 if await self.repair() else -1
            grants += granted
            waits.append(wait)
            may_have_more = may_have_more or 0 < share == len(granted)
        if may_have_more and len(grants) < n:
            waits.append(0)
        if refused == len(self.parts):
            return Granted(None, [], gone=True)
        if self.figures.version != self.knobs.get("version"):
            await self.crawl_knobs()
        if len(self.parts) > 1 and self.knobs.get("pause_at_finish"):
            await self._pause_at_finish()
        soonest = min((wait for wait in waits if wait >= 0), default=None)
        return Granted(soonest, grants)

    async def _pause_at_finish(self) -> None:
        if self.figures.idle and not (self.figures.stop or self.figures.closed):
            with suppress(Refused):  # another worker has sealed it
                await self._end_all(closing=False)

    def _left(self) -> int:
        """Return how many new targets may start, where one partition cannot know; -1 where it can."""
        most = int(self.knobs.get("max_target", 0))
        if len(self.parts) == 1 or not most:
            return -1
        return max(0, most - self.figures.started)

    async def finish(
        self,
        token: int,
        outcome: Outcome,
        *,
        outlinks: Sequence[Entry] = (),
        results: Iterable[int] = (),
        retry_after_ms: int | None = None,
        host_incident: bool = False,
        counted: bool = False,
        duration_ms: int | None = None,
        size: int = 0,
    ) -> tuple[bool, int]:
        """End a lease; its outlinks enter in the same step.

        Returns whether the lease was still ours, and how many outlinks were new. A stale token changes
        nothing, but for links that went to other partitions ahead of it. Outlinks beyond one script's
        share go ahead, too: a crash in between means that the page is fetched again and finds them seen.
        *duration_ms* is how long the fetch took, *size* the bytes that came.
        """
        return await self._finish(
            Report(
                token=token,
                outcome=outcome,
                outlinks=outlinks,
                results=list(results),
                retry_after_ms=retry_after_ms,
                host_incident=host_incident,
                counted=counted,
                duration_ms=duration_ms,
                size=size,
            )
        )

    async def _finish(self, report: Report) -> tuple[bool, int]:
        home = self.parts[report.token % len(self.parts)]
        ahead, own = self._ahead(home, report.outlinks)
        added = 0
        try:
            for part, share in ahead:
                token = str(report.token) if part is home else ""
                new = await part.schedule(share, counted=report.counted, token=token)
                if new is None:
                    return False, 0
                added += new
            ended, more = await home.finish(report._replace(outlinks=own) if ahead else report)
        except Refused:
            return False, 0
        return ended, added + more

    async def finish_all(self, reports: Sequence[Report]) -> list[tuple[bool, int]]:
        """End leases, many in one script, for whoever has several at hand; see `finish`."""
        if len(self.parts) > 1 or any(len(report.outlinks) > CHUNK for report in reports):
            return [await self._finish(report) for report in reports]
        return await self.parts[0].finish_all(reports)

    def _ahead(
        self, home: Partition, outlinks: Sequence[Entry]
    ) -> tuple[list[tuple[Partition, Sequence[Entry]]], Sequence[Entry]]:
        """Return what of a page's outlinks goes ahead of its report, and what goes with it."""
        if len(self.parts) == 1 and len(outlinks) <= CHUNK:
            return [], outlinks
        ahead: list[tuple[Partition, Sequence[Entry]]] = []
        own: Sequence[Entry] = ()
        for part, share in self._shares(outlinks):
            if part is not home:
                ahead.append((part, share))
                continue
            more = max(len(share) - CHUNK, 0)
            own = share[more:]
            if more:
                ahead.append((part, share[:more]))
        return ahead, own

    async def renew(self, worker: str, tokens: Sequence[int], lease_seconds: float) -> list[int]:
        """Keep leases for another while. Returns those that are no longer ours."""
        lost: list[int] = []
        for part, share in self._by_token(tokens):
            try:
                lost += await part.renew(worker, share, round(lease_seconds * 1000))
            except Refused:
                lost += share
        return lost

    async def release(self, worker: str, tokens: Sequence[int], *, again: bool = False) -> int:
        """Give leases back that were never started. Returns how many were ours.

        *again*: if the limit on targets has stopped the run, as many others may start in their place.
        """
        given = 0
        for part, share in self._by_token(tokens):
            try:
                given += await part.release(worker, share, again=again)
            except Refused:
                continue
        return given

    async def reclaim(self) -> int:
        """Give expired leases back to their hosts; `next` does it too. Returns how many."""
        return sum([await part.reclaim() for part in self.parts])

    # --- the run --------------------------------------------------------------------------------

    async def seal(self) -> bool:
        """Close it for good; refused while anything is queued or leased, or it is paused."""
        try:
            if len(self.parts) == 1:
                return (await self.parts[0].seal()).answer == 1
            return await self._end_all(closing=True)
        except Refused:  # somebody else has, and has dropped it
            return False

    async def _end_all(self, *, closing: bool) -> bool:
        """Hold every partition, look whether anything has moved since the first, and close them all.

        A link goes from one partition to another while the lease it was found under is still open, so none
        is on its way while all are found empty twice and nothing has entered or left in between. Where it
        is to pause first, it does; without *closing* that is all. Returns whether it is closed.
        """
        sealer = token_hex(8)
        first = [await part.seal("hold", sealer) for part in self.parts]
        # Some may have been opened for a later run by a worker that has died since.
        through = all(each.answer and each.run == first[0].run for each in first)
        if through and first == [await part.seal("hold", sealer) for part in self.parts]:
            if any(each.answer == _TO_PAUSE for each in first):
                for part in self.parts:
                    await part.seal("rest", sealer)
                return False
            if closing and all([(await part.seal("close", sealer)).answer for part in self.parts]):
                return True
        for part in self.parts:
            await part.seal("let_go", sealer)
        return False

    async def reopen(self, run: int, knobs: Mapping[str, Value] | None = None) -> bool:
        """Open it for a later *run*, once, if it was closed in an earlier one. Returns whether it is open.

        It goes on with what it holds: queues, hosts, what was seen, knobs, dead letters. What counts for one
        run begins anew, everything queued is a new target, it is paused if new runs begin so, and *knobs* are
        turned: a run's limits are its own. Any number of workers may call it; when one dies over it, the next
        goes on.
        """
        return all([await part.reopen(run, knobs or {}) for part in self.parts])

    async def fill(self, done: int) -> Figures:
        """Say that a step of bringing in what earlier runs know is *done*: MARKING, then QUEUING.

        Who marks is not due comes first, so that no link to it is followed; a frontier that is being filled
        is never idle, and is not sealed unless it was stopped. A step may be said to be done twice.
        """
        for part in self.parts:
            await part.fill(done)
        return self.figures

    async def pause(self) -> None:
        """Hand out nothing until `resume`."""
        await self._control("pause")

    async def resume(self) -> None:
        """Hand out leases again; a crawl that has paused at its finish may end."""
        await self._control("resume")

    async def stop(self, reason: str) -> None:
        """Start nothing new; what is leased goes on."""
        await self._control("stop", reason or "stopped")

    async def refresh(self) -> Figures:
        """Read the figures."""
        await self._control("")
        return self.figures

    async def exists(self) -> bool:
        """Say whether its keys are there."""
        return await self.parts[0].exists()


def _filter(config: Config) -> dict[str, float | str]:
    """Return what the seen filter of a new frontier is like."""
    found: dict[str, float | str] = {"shards": config.seen_shards, "seen_filter": config.seen_filter}
    if config.seen_filter == "bloom":
        bits = math.ceil(-math.log2(config.bloom_error))
        blocks = math.ceil(config.bloom_capacity * bits / math.log(2) / BLOOM_BLOCK)
        found |= {"bloom_capacity": config.bloom_capacity, "bloom_error": config.bloom_error}
        found |= {"bloom_blocks": blocks, "bloom_bits": bits}
    return found
