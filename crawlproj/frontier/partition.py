"""One partition of a frontier: the keys of one hash tag, and the scripts that work on them.

A partition is a whole frontier of its own; `crawlproj.frontier.frontier` makes one of several.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from redis.exceptions import ResponseError

from crawlproj.exceptions import BadSetting, Refused
from crawlproj.frontier.records import STATES, DeadLetter, Figures, Grant, HostView, Pending, Report
from crawlproj.scripts import script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence

    from crawlproj.connections import Client
    from crawlproj.frontier.entries import Entry
    from crawlproj.knobs import Value
    from crawlproj.scripts import Argument, Script, Scripts

CHUNK = 100  # links or hosts in one script: it stays below a millisecond or so on the server
REPORTS = 64  # leases that end in one script, as long as their links are few
MAX_PRIORITY = 2**53  # what a number in Lua and the score of a sorted set keep apart
FORMAT = 3  # of what is written, as in lua/common.lua; another one is not read
_OTHER_FORMAT = "the frontier of this run was written by another version: finish it with that, or rebuild it"
NO_KNOBS: Mapping[str, Value] = MappingProxyType({})
PAGE = 1000  # letters or entries read at once

#: Which setting a thing that is fixed for a frontier's life comes from; policies for URLs go by theirs.
FIXED = {
    "shards": "FRONTIER_SEEN_SHARDS",
    "partitions": "FRONTIER_PARTITIONS",
    "seen_filter": "FRONTIER_SEEN_FILTER",
    "bloom_capacity": "FRONTIER_BLOOM_CAPACITY",
    "bloom_error": "FRONTIER_BLOOM_ERROR",
}
_FILTER = ("seen_filter", "bloom_capacity", "bloom_error")  # of these, in this order


class Share(NamedTuple):
    """What one partition granted: leases, and the wait as the server says it."""

    wait_ms: int
    grants: list[Grant]


class Inspection(NamedTuple):
    """What some hosts hold, and what is wrong with them."""

    queued: int
    held: int
    leased: int
    faults: list[str]


class Sealing(NamedTuple):
    """What a partition says when it is asked to close."""

    answer: int  #: see `lua/seal.lua`
    activity: int  #: grows with whatever enters or leaves
    run: int  #: that it is open for, or was


_MORE = 2  # what `reopen` says while there is something to do

#: What operations need before them, in this order: all but a few of them hosts and their queues.
_SWITCHES = ("common",)
_QUEUES = ("common", "hosts", "queues")
_LEASES = (*_QUEUES, "leases")
_PARTS = {
    **dict.fromkeys(("control", "count_busy", "fill", "seal", "tune"), _SWITCHES),
    **dict.fromkeys(("next", "finish", "renew", "release", "reclaim"), _LEASES),
    **dict.fromkeys(("busy", "inspect", "names", "place", "take_host"), _LEASES),
}


def _operation(name: str, *, allow_oom: bool = False) -> Script:
    return script(__package__, name, before=_PARTS.get(name, _QUEUES), allow_oom=allow_oom)


class Partition:
    """The scripts of one hash tag. *prefix* begins all its keys."""

    def __init__(self, redis: Client, scripts: Scripts, prefix: str) -> None:
        self.prefix = prefix
        self.figures = Figures()
        self.run = 0  #: what its user is at work on; 0: whichever run there is
        self._redis = redis
        self._scripts = scripts
        self._keys = (prefix,)
        self._reports: list[tuple[Report, asyncio.Future[tuple[bool, int]]]] = []
        self._sending: set[asyncio.Task[None]] = set()

    async def create(
        self,
        fixed: Mapping[str, float | str],
        knobs: Mapping[str, Value],
        joining: Mapping[str, Value],
    ) -> None:
        """Make it, or join it when it is there. Raises BadSetting for what is fixed and another there."""
        fixed = {**fixed, "format": FORMAT}
        given = (json.dumps(each) for each in (fixed, dict(knobs), dict(joining)))
        other = await self._scripts.call(script(__package__, "create"), self._keys, *given)
        if other:
            name, value = (part.decode() for part in other)
            if name == "format":
                raise Refused(_OTHER_FORMAT)
            if name.startswith("bloom_"):  # the filters differ: say it by what people set
                there = await self.tune({})
                name = next(each for each in _FILTER if there.get(each) != fixed[each])
                value = there[name] if name == "seen_filter" else f"{there.get(name, math.nan):g}"
            shown = value if value != "nil" else "unset"
            raise BadSetting(FIXED.get(name, name), fixed[name], f"{shown}, as this crawl has it")

    async def schedule(self, entries: Sequence[Entry], *, counted: bool, token: str) -> int | None:
        """Let URLs in; returns how many were new, or None for a token that is stale."""
        added = 0
        for start in range(0, len(entries), CHUNK):
            links = _links(entries[start : start + CHUNK], counted=counted)
            new, figures = await self._call("schedule", token, *links)
            self._note(figures)
            if new < 0:
                return None
            added += new
        return added

    async def busy_hosts(self) -> int:
        """Return how many hosts have something to do."""
        return int(await self._call("count_busy"))

    async def peek(self, key: str, n: int) -> list[bytes]:
        """Return entries of a start-URL key, leaving them there."""
        return list(await self._scripts.call(script(__package__, "peek"), (key,), n))

    async def take_from(self, key: str, raw: bytes, entries: Sequence[Entry]) -> bool:
        """Take an entry from a start-URL key and let its requests in, in one step.

        On a cluster the key is mostly elsewhere. Then they are let in first: a crash between the two steps
        means that the entry is read again, and that they are found seen.
        """
        keys = (self.prefix, key)
        if not self._scripts.are_together(*keys):
            over = self.figures.over
            await self.schedule(entries, counted=False, token="")
            if self.figures.over > over:
                return False  # it stays for a later run
            return bool(await self._scripts.call(script(__package__, "drop_from"), (key,), raw))
        call = self._scripts.call(_operation("take_from"), keys, raw, *_links(entries, counted=False))
        taken, figures = await self._answer(call)
        self._note(figures)
        return bool(taken)

    async def next(self, worker: str, n: int, lease_ms: int, left: int) -> Share:
        """Lease at most *n* URLs, at most *left* of them new targets (-1: as many as the limit allows)."""
        wait, figures, flat = await self._call("next", worker, n, lease_ms, left, self.run, allow_oom=True)
        self._note(figures)
        grants = [
            Grant(
                int(flat[i]),
                flat[i + 1].decode(),
                flat[i + 2],
                None if flat[i + 3] < 0 else flat[i + 3],
                flat[i + 5],
                json.loads(flat[i + 4]) if flat[i + 4] else NO_KNOBS,
            )
            for i in range(0, len(flat), 6)
        ]
        return Share(wait, grants)

    def finish(self, report: Report) -> asyncio.Future[tuple[bool, int]]:
        """End a lease, in one script with all others that end in this turn of the event loop."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[bool, int]] = loop.create_future()
        if not self._reports:
            loop.call_soon(self._send_reports)
        self._reports.append((report, answer))
        return answer

    def _send_reports(self) -> None:
        waiting, self._reports = self._reports, []
        task = asyncio.get_running_loop().create_task(self._answer_all(waiting))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _answer_all(self, waiting: list[tuple[Report, asyncio.Future[tuple[bool, int]]]]) -> None:
        try:
            ends = await self.finish_all([report for report, _ in waiting])
        except BaseException as exc:
            for _, answer in waiting:
                if not answer.done():
                    answer.set_exception(exc) if isinstance(exc, Exception) else answer.cancel()
            if not isinstance(exc, Exception):
                raise
            return
        for (_, answer), end in zip(waiting, ends, strict=True):
            if not answer.done():
                answer.set_result(end)

    async def finish_all(self, reports: Sequence[Report]) -> list[tuple[bool, int]]:
        """End leases, many in one script. Returns what `Frontier.finish` does, for each."""
        shares = []
        start = 0
        while start < len(reports):
            end, links = start, 0
            while end < len(reports) and end - start < REPORTS:
                links += len(reports[end].outlinks)
                if links > CHUNK and end > start:
                    break
                end += 1
            shares.append(self._finish(reports[start:end]))
            start = end
        if len(shares) == 1:
            return await shares[0]
        return [end for share in await asyncio.gather(*shares) for end in share]

    async def _finish(self, reports: Sequence[Report]) -> list[tuple[bool, int]]:
        arguments: list[Argument] = []
        for report in reports:
            arguments += (
                report.token,
                report.outcome.value,
                report.retry_after_ms or 0,
                int(report.host_incident),
                int(random.random() * 1000),  # jitter, in thousandths
                -1 if report.duration_ms is None else report.duration_ms,
                report.size,
                len(report.results),
                len(report.outlinks),
                *map(str, report.results),
                *_links(report.outlinks, counted=report.counted),
            )
        try:
            *answers, figures = await self._call("finish", *arguments, allow_oom=True)
        except Refused:
            return [(False, 0)] * len(reports)
        self._note(figures)
        return [(bool(answers[i]), answers[i + 1]) for i in range(0, len(answers), 2)]

    async def renew(self, worker: str, tokens: Sequence[int], lease_ms: int) -> list[int]:
        """Keep leases for another while. Returns those that are no longer the worker's."""
        lost = await self._call("renew", worker, lease_ms, *tokens, allow_oom=True)
        return [int(token) for token in lost]

    async def release(self, worker: str, tokens: Sequence[int], *, again: bool) -> int:
        """Give leases back that were never started."""
        return int(await self._call("release", worker, int(again), *tokens, allow_oom=True))

    async def reclaim(self) -> int:
        """Give expired leases back to their hosts. Returns how many."""
        return int(await self._call("reclaim", allow_oom=True))

    async def seal(self, what: str = "close", sealer: str = "") -> Sealing:
        """Close it if nothing is left; see `lua/seal.lua`."""
        answer, figures, activity, run = await self._call("seal", what, sealer, self.run, allow_oom=True)
        self._note(figures)
        return Sealing(int(answer), int(activity), int(run))

    async def reopen(self, run: int, knobs: Mapping[str, Value]) -> bool:
        """Open it for a later run; see `lua/reopen.lua`. Returns whether it is open."""
        answer = _MORE
        while answer == _MORE:
            answer, figures = await self._call("reopen", run, json.dumps(dict(knobs)), allow_oom=True)
            self._note(figures)
        self.run = run
        return bool(answer)

    async def control(self, what: str, reason: str = "") -> None:
        """Pause, resume or stop; nothing: read the figures."""
        self._note(await self._call("control", what, reason, allow_oom=True))

    async def fill(self, done: int) -> None:
        """Go on with the step of filling it that follows one that is *done*."""
        self._note(await self._call("fill", done, allow_oom=True))

    async def tune(self, knobs: Mapping[str, Value]) -> dict[str, Any]:
        """Change knobs of the crawl. Returns everything that its control record holds."""
        found: dict[str, Any] = json.loads(await self._call("tune", json.dumps(dict(knobs)), allow_oom=True))
        return found

    async def set_host(self, host: str, own: Mapping[str, Value | bool]) -> dict[str, Value]:
        """Change a host's own knobs; False takes one away. Returns those it has then."""
        found = json.loads(await self._call("set_host", host, json.dumps(dict(own)), allow_oom=True))
        return dict(found)

    async def take_host(self, host: str) -> int:
        """Take some of a host's queue away, and with the last the host. Returns how many; PAGE: not all."""
        return int(await self._call("take_host", host, PAGE, allow_oom=True))

    async def reprioritise(self, host: str, old: int, new: int, chosen: Sequence[tuple[bytes, bool]]) -> int:
        """Move chosen entries from the head of one list of a host. Returns how many stood there."""
        flat = [part for item, moves in chosen for part in (item, int(moves))]
        return int(await self._call("reprioritise", host, old, new, *flat, allow_oom=True))

    async def mark(
        self, *, started: int = 0, size: int = 0, seen: Sequence[int] = (), results: Sequence[int] = ()
    ) -> None:
        """Restore what counted as started, as bytes, seen and a result, without queuing anything."""
        flat = (*map(str, seen), *map(str, results))
        self._note(await self._call("mark", started, size, len(seen), *flat))

    async def hosts(self, names: Sequence[str]) -> list[HostView]:
        """Return some hosts; those it does not know are left out."""
        replies = await self._call("host", *names, allow_oom=True)
        return [_view(name, reply) for name, reply in zip(names, replies, strict=True) if reply]

    async def inspect(self, names: Sequence[bytes]) -> Inspection:
        """Look for faults of some hosts."""
        queued, held, leased, faults = await self._call("inspect", *names, allow_oom=True)
        return Inspection(queued, held, leased, [fault.decode() for fault in faults])

    async def place(self, names: Sequence[bytes]) -> list[str]:
        """Look at hosts anew; returns those that were in no structure."""
        stray: list[str] = []
        for start in range(0, len(names), CHUNK):
            reply = await self._call("place", *names[start : start + CHUNK], allow_oom=True)
            stray += [name.decode() for name in reply]
        return stray

    async def recount(self) -> bool:
        """Count anew what is queued, if nothing can be leased. Returns whether the counter was wrong."""
        wrong, figures = await self._call("recount", allow_oom=True)
        self._note(figures)
        return bool(wrong)

    async def dead_letters(self) -> AsyncIterator[DeadLetter]:
        """Yield what will not be tried again, oldest first."""
        after = "-"
        while True:
            rows: Any = await self._redis.xrange(self.prefix + "dead", after, "+", count=PAGE)
            for number, fields in rows:
                after = f"({number.decode()}"
                yield DeadLetter(
                    id=number.decode(),
                    host=fields[b"host"].decode(),
                    entry=fields[b"entry"],
                    reason=fields[b"reason"].decode(),
                    attempts=int(fields[b"attempts"]),
                    at=datetime.fromtimestamp(int(number.partition(b"-")[0]) / 1000, UTC),
                )
            if len(rows) < PAGE:
                return

    async def requeue(self, ids: Sequence[str]) -> int:
        """Queue dead letters again. Returns how many there were."""
        return int(await self._call("requeue", *ids)) if ids else 0

    async def delayed(self) -> AsyncIterator[Pending]:
        """Yield what waits for another attempt, soonest first."""
        flat = await self._call("delayed", allow_oom=True)
        for i in range(0, len(flat), 4):
            host, priority, entry, attempts = flat[i : i + 4]
            yield Pending(host=host.decode(), entry=entry, priority=priority, attempts=attempts, delayed=True)

    async def exists(self) -> bool:
        """Say whether its keys are there."""
        return bool(await self._redis.exists(self.prefix + "ctl"))

    async def names(self) -> list[bytes]:
        """Return every host that is in a structure."""
        return list(dict.fromkeys(await self._call("names", allow_oom=True)))

    async def busy(self) -> list[bytes]:
        """Return the hosts that have leases."""
        return list(await self._call("busy", allow_oom=True))

    async def _call(self, name: str, *arguments: Argument, allow_oom: bool = False) -> Any:
        operation = _operation(name, allow_oom=allow_oom)
        return await self._answer(self._scripts.call(operation, self._keys, *arguments))

    async def _answer(self, reply: Awaitable[Any]) -> Any:
        """Return a reply. Raises Refused when the run is over, its keys still there or not."""
        try:
            return await reply
        except ResponseError as exc:
            if "CLOSED" in str(exc) or "NOFRONTIER" in str(exc):
                self.figures = self.figures._replace(queued=0, held=0, leased=0, closed=True)
                raise Refused("this run is sealed and takes no more URLs") from None
            if "FORMAT" in str(exc):
                raise Refused(_OTHER_FORMAT) from None
            raise

    def _note(self, raw: Sequence[Any]) -> None:
        *counts, paused, stop, closed, version, filling = raw
        self.figures = Figures._make((*counts, bool(paused), stop.decode(), bool(closed), version, filling))


def _view(name: str, reply: Sequence[Any]) -> HostView:
    state, queued, in_flight, interval, source, due, spent, budget, errors, knobs, backs_off = reply
    return HostView(
        host=name,
        state=STATES[state.decode()],
        queued=queued,
        in_flight=in_flight,
        min_interval_ms=interval,
        interval_source=source.decode() or "default",
        next_due_ms=due,
        spent=spent,
        budget=budget,
        errors=errors,
        backs_off_ms=backs_off,
        knobs=dict(json.loads(knobs)),
    )


def _links(entries: Iterable[Entry], *, counted: bool) -> list[Argument]:
    flat: list[Argument] = []
    common = "c" if counted else ""
    for entry in entries:
        flags = f"{common}{'f' if entry.forced else ''}{'h' if entry.head else ''}"
        if entry.repeats:
            flags += "r"
        if entry.attempts:
            flags += f"a{entry.attempts}"
        priority = max(-MAX_PRIORITY, min(entry.priority, MAX_PRIORITY)) if entry.priority else 0
        flat += (entry.host, str(entry.fingerprint), priority, flags, entry.data)
    return flat
