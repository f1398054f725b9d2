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

import logging
import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from zlib import crc32

from crawlproj.exceptions import Refused
from crawlproj.frontier.partition import CHUNK, PAGE, Partition
from crawlproj.frontier.records import Figures, Granted, Outcome, Pending, Report
from crawlproj.knobs import KNOBS, check_knob

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

    from redis.asyncio import Redis

    from crawlproj.config import Config
    from crawlproj.frontier.codec import Entry
    from crawlproj.frontier.records import DeadLetter, Grant, HostView
    from crawlproj.knobs import Value
    from crawlproj.scripts import Scripts

logger = logging.getLogger(__name__)

_STRANDED = -2  # what `next` says instead of a time
_GLOB = re.compile(r"[*?\[\]^\\]")
BLOOM_BLOCK = 2**20  # bits, as lua/common.lua has it


class Frontier:
    """One crawl's frontier. *frontier_id* names its keys, *partitions* is how many parts it has."""

    def __init__(self, redis: Redis, scripts: Scripts, frontier_id: str, partitions: int = 1) -> None:
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

    async def create(self, config: Config, policies: Mapping[str, str] | None = None) -> None:
        """Make it, or join it when it is there.

        Raises BadSetting when something is set that is another for the life of this frontier: its filter, its
        partitions, its *policies* for URLs.
        """
        fixed = {**_filter(config), "partitions": len(self.parts), **(policies or {})}
        joining = {name: config.knobs[name] for name in config.turned}
        for number, part in enumerate(self.parts):
            await part.create({**fixed, "partition": number}, config.knobs, joining)
        await self.crawl_knobs()
        await self._look_again()

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

    load_seeds = schedule  # a seed enters as any URL does; who asked for it is in its entry

    async def peek(self, key: str, n: int) -> list[bytes]:
        """Return entries of a start-URL key, leaving them there."""
        return await self.parts[0].peek(key, n)

    async def take_from(self, key: str, raw: bytes, entries: Sequence[Entry]) -> bool:
        """Take an entry from a start-URL key and let its requests in, in one step.

        False: another worker has taken it. Raises Refused when the run is sealed.
        """
        own = [entry for entry in entries if self._part(entry.host) is self.parts[0]]
        await self.schedule([entry for entry in entries if entry not in own])
        return await self.parts[0].take_from(key, raw, own)

    async def next(self, worker: str, n: int, lease_seconds: float) -> Granted:
        """Lease at most *n* URLs that are due, for *lease_seconds*."""
        lease_ms = round(lease_seconds * 1000)
        grants: list[Grant] = []
        waits: list[int] = []
        self._turn += 1
        for number in range(len(self.parts)):
            part = self.parts[(self._turn + number) % len(self.parts)]
            share = math.ceil((n - len(grants)) / (len(self.parts) - number))
            try:
                wait, granted = await part.next(worker, share, lease_ms, self._left())
            except Refused:  # another worker has sealed the run: there is nothing to do, now or later
                continue
            if wait == _STRANDED:
                wait = 0 if await self.repair() else -1
            grants += granted
            waits.append(wait)
        if self.figures.version != self.knobs.get("version"):
            await self.crawl_knobs()
        soonest = min((wait for wait in waits if wait >= 0), default=None)
        return Granted(soonest, grants)

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

        Returns whether the lease was still ours, and how many outlinks were new. A stale token
        changes nothing. Outlinks beyond one script's share go ahead of it: a crash in between
        means that the page is fetched again and finds them seen. *duration_ms* is how long the fetch
        took, *size* the bytes that came.
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

    async def release(self, worker: str, tokens: Sequence[int]) -> int:
        """Give leases back that were never started. Returns how many were ours."""
        given = 0
        for part, share in self._by_token(tokens):
            try:
                given += await part.release(worker, share)
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
                return (await self.parts[0].seal())[0]
            return await self._seal_all()
        except Refused:  # somebody else has, and has dropped it
            return False

    async def _seal_all(self) -> bool:
        """Hold every partition, look whether anything has moved since the first, and close them all.

        A link goes from one partition to another while the lease it was found under is still open, so none
        is on its way while all are found empty twice and nothing has entered or left in between.
        """
        first = [await part.seal("hold") for part in self.parts]
        second = [await part.seal("hold") for part in self.parts]
        if first != second or not all(held for held, _ in second):
            for part in self.parts:
                await part.seal("let_go")
            return False
        return all([(await part.seal("close"))[0] for part in self.parts])

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

    # --- the operator ---------------------------------------------------------------------------

    async def crawl_knobs(self) -> dict[str, Value]:
        """Return the crawl's knobs as they are now."""
        found = await self.parts[0].tune({})
        self.knobs = {name: found[name] for name in (*KNOBS, "version")}
        return {name: found[name] for name in KNOBS}

    async def set_crawl(self, **knobs: Value) -> None:
        """Turn knobs of the whole crawl; every worker obeys from its next lease on. Raises BadArgument."""
        checked = {name: check_knob(name, value) for name, value in knobs.items()}
        for part in self.parts:
            await part.tune(checked)
        await self.crawl_knobs()
        await self._look_again()

    async def host_knobs(self, host: str) -> dict[str, Value]:
        """Return what a host has of its own."""
        view = await self.host(host)
        return dict(view.knobs) if view is not None else {}

    async def set_host(self, host: str, *, blocked: bool | None = None, **knobs: Value | None) -> None:
        """Turn a host's own knobs, at once; None takes one away. A host that is not known yet is made.

        Raises BadArgument for what no host can have.
        """
        own: dict[str, Value | bool] = {
            name: check_knob(name, value, of_host=True) if value is not None else False
            for name, value in knobs.items()
        }
        if blocked is not None:
            own["blocked"] = 1 if blocked else False
        await self._part(host).set_host(host, own)

    async def set_crawl_delay(self, host: str, milliseconds: int, *, shared: bool = False) -> None:
        """Take what a robots.txt asks for as a queue's interval; 0: it asks for none.

        One that hosts share keeps what it has, if that is more.
        """
        name = "least_crawl_delay" if shared else "crawl_delay"
        await self._part(host).set_host(host, {name: milliseconds})

    async def block(self, host: str) -> None:
        """Hand out nothing of a host; what it has queued stays."""
        await self.set_host(host, blocked=True)

    async def unblock(self, host: str) -> None:
        """Let a host have its turns again."""
        await self.set_host(host, blocked=False)

    async def delete_host(self, host: str) -> int:
        """Forget a host: its queue, its leases, its knobs. Returns how many URLs were queued.

        They stay seen. A new URL of it makes it anew: block it to have none.
        """
        part = self._part(host)
        await part.set_host(host, {"blocked": 1})
        taken = 0
        while True:
            more = await part.take_host(host)
            taken += more
            if more < PAGE:
                return taken

    async def reprioritise(self, host: str, priority: int, chosen: Callable[[bytes], bool] = bool) -> int:
        """Give queued entries of a host another priority. Returns how many.

        They keep their order. *chosen* says which, by the entry; all of them, if it is not given. What
        workers take meanwhile is left alone.
        """
        part = self._part(host)
        levels: list[Any] = await self._redis.zrange(f"{part.prefix}p:{host}", 0, -1)
        moved = 0
        for old in (0, *map(int, levels)):
            if old == priority:
                continue
            key = f"{part.prefix}q:{host}" if old == 0 else f"{part.prefix}l:{old}:{host}"
            left: int = await self._redis.llen(key)
            while left > 0:
                items: list[Any] = await self._redis.lrange(key, 0, min(left, CHUNK) - 1)
                if not items:
                    break
                marked = [(item, chosen(entry_of(item)[0])) for item in items]
                stood = await part.reprioritise(host, old, priority, marked)
                moved += sum(moves for _, moves in marked[:stood])
                left -= max(stood, 1)
        return moved

    async def dump_pending(self, host: str | None = None) -> AsyncIterator[Pending]:
        """Yield what is queued, of one host or all, in the order of its queue. No snapshot."""
        for part in self.parts:
            names = [host.encode()] if host is not None else await part.names()
            for name in names:
                if host is None or self._part(host) is part:
                    async for pending in self._pending(part, name.decode()):
                        yield pending
        async for pending in self._delayed(host):
            yield pending

    async def dead_letters(self) -> AsyncIterator[DeadLetter]:
        """Yield what will not be tried again, and why."""
        for number, part in enumerate(self.parts):
            async for letter in part.dead_letters():
                yield letter if number == 0 else _renamed(letter, number)

    async def requeue(self, ids: Sequence[str]) -> int:
        """Queue dead letters again, as if they had never been tried. Returns how many there were."""
        moved = 0
        for number, part in enumerate(self.parts):
            own = [
                each.partition("@")[0]
                for each in ids
                if each.partition("@")[2] == (str(number) if number else "")
            ]
            moved += await part.requeue(own)
        return moved

    async def mark_seen(
        self, seen: Mapping[str, Sequence[int]], *, results: Sequence[int] = (), started: int = 0
    ) -> None:
        """Restore what a lost frontier knew, queuing nothing. *seen* has fingerprints by host."""
        shares: dict[int, list[int]] = {number: [] for number in range(len(self.parts))}
        for host, fingerprints in seen.items():
            shares[self._number(host)] += fingerprints
        for number, share in shares.items():
            for start in range(0, len(share), PAGE):
                await self.parts[number].mark(0, share[start : start + PAGE], ())
        for start in range(0, len(results), PAGE):
            await self.parts[0].mark(0, (), results[start : start + PAGE])
        await self.parts[0].mark(started, (), ())

    async def hosts(self) -> list[HostView]:
        """Return every host there is, in alphabetical order: an operator's view, no snapshot."""
        views: list[HostView] = []
        for part in self.parts:
            names = [name.decode() for name in await part.names()]
            for start in range(0, len(names), CHUNK):
                views += await part.hosts(names[start : start + CHUNK])
        return sorted(views, key=lambda view: view.host)

    async def host(self, host: str) -> HostView | None:
        """Return one host, or None if the frontier does not know it."""
        return next(iter(await self._part(host).hosts([host])), None)

    # --- consistency ----------------------------------------------------------------------------

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
        if not await self._redis.exists(part.prefix + "b:0"):  # a Bloom filter does not count
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

    # --- inside ---------------------------------------------------------------------------------

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

    def _tokens(self, member: bytes) -> Iterable[int]:
        """Return the tokens that share a deadline."""
        first, _, many = member.partition(b":")
        return range(int(first), int(first) + int(many or 1) * len(self.parts), len(self.parts))

    async def _control(self, what: str, reason: str = "") -> None:
        for part in self.parts:
            await part.control(what, reason)

    async def _look_again(self) -> None:
        """Let hosts that knobs had put aside, or have now, go where they belong."""
        for part in self.parts:
            retired: Any = await self._redis.smembers(part.prefix + "retired")
            await part.place([*retired, *await part.busy()])

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

    async def _pending(self, part: Partition, host: str) -> AsyncIterator[Pending]:
        levels: list[Any] = await self._redis.zrevrange(f"{part.prefix}p:{host}", 0, -1)
        ordered = sorted({0, *map(int, levels)}, reverse=True)
        for level in ordered:
            key = f"{part.prefix}q:{host}" if level == 0 else f"{part.prefix}l:{level}:{host}"
            start = 0
            while True:
                items: list[Any] = await self._redis.lrange(key, start, start + PAGE - 1)
                for item in items:
                    entry, attempts = entry_of(item)
                    yield Pending(host=host, entry=entry, priority=level, attempts=attempts)
                start += len(items)
                if not items:
                    break

    async def _delayed(self, host: str | None) -> AsyncIterator[Pending]:
        for part in self.parts:
            async for pending in part.delayed():
                if host is None or pending.host == host:
                    yield pending


def entry_of(item: bytes) -> tuple[bytes, int]:
    """Return the entry that an item of a queue holds, and the attempts made."""
    if item[:1] != b"!":
        return item, 0
    head, mark, entry = item[1:].partition(b"!")
    return (entry, int(head.partition(b",")[0])) if mark else (item, 0)


def _renamed(letter: DeadLetter, number: int) -> DeadLetter:
    return replace(letter, id=f"{letter.id}@{number}")


def _filter(config: Config) -> dict[str, float | str]:
    """Return what the seen filter of a new frontier is like."""
    found: dict[str, float | str] = {"shards": config.seen_shards, "seen_filter": config.seen_filter}
    if config.seen_filter == "bloom":
        bits = math.ceil(-math.log2(config.bloom_error))
        blocks = math.ceil(config.bloom_capacity * bits / math.log(2) / BLOOM_BLOCK)
        found |= {"bloom_blocks": blocks, "bloom_bits": bits}
    return found
