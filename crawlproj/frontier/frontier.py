"""The frontier of one crawl: what is still to do, in Redis.

Operations have Heritrix's names. Every one of them is a single script on the server (see `lua/`), so
that whoever dies in between leaves nothing half done. What a URL goes through:

    schedule ─► queued ─► next ─► leased ─► finish ─► succeeded | failed | disregarded | dead
                  ▲                 │  └──────────────► retry: queued again, later
                  └── release, or reclaim when the lease runs out
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from redis.exceptions import ResponseError

from crawlproj.exceptions import BadSetting, Refused
from crawlproj.scripts import script

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Sequence

    from redis.asyncio import Redis

    from crawlproj.config import Config
    from crawlproj.frontier.codec import Entry
    from crawlproj.scripts import Argument, Script, Scripts

logger = logging.getLogger(__name__)

CHUNK = 100  # links in one script: it stays below a millisecond or so on the server
PRECEDENCE_FLOOR = 255  # hosts at or above it are never activated, as in Heritrix
MAX_PRIORITY = 2**53  # what a number in Lua and the score of a sorted set keep apart
_STRANDED = -2  # what `next` says instead of a time
_GLOB = re.compile(r"[*?\[\]^\\]")
STATES = {
    "r": "ready",
    "i": "inactive",
    "s": "snoozed",
    "p": "in-process",
    "t": "retired",
    "x": "exhausted",
}


class Outcome(StrEnum):
    """How a lease ends."""

    SUCCEEDED = "s"
    FAILED = "f"
    RETRY = "r"
    DISREGARDED = "d"
    UNREADABLE = "k"


class Figures(NamedTuple):
    """What the frontier counts, and its switches, as of the last operation."""

    queued: int = 0
    held: int = 0  #: of these, by hosts that are blocked or have spent their budget
    leased: int = 0
    started: int = 0  #: targets
    results: int = 0
    seen: int = 0
    dead: int = 0
    late: int = 0
    fresh: int = 0  #: queued that would be new targets: neither tried before nor a redirect's end
    paused: bool = False
    stop: str = ""
    closed: bool = False

    @property
    def idle(self) -> bool:
        """Say whether nothing is leased, and nothing is queued that may ever be."""
        return self.queued == self.held and self.leased == 0


class Grant(NamedTuple):
    """One lease as the server gives it."""

    token: int
    host: str
    attempts: int
    interval_ms: int | None
    entry: bytes


class Granted(NamedTuple):
    """What `next` found: leases, and when it is worth asking again."""

    wait_ms: int | None  #: until something is due; None: nothing will be, by itself
    grants: list[Grant]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """One host's queue as an operator sees it."""

    host: str
    state: str
    queued: int
    in_flight: int
    min_interval_ms: int
    interval_source: str
    next_due_ms: int
    spent: int
    budget: int
    errors: int


def _operation(name: str, *, allow_oom: bool = False) -> Script:
    return script(__package__, name, common="common", allow_oom=allow_oom)


class Frontier:
    """One crawl's frontier. *frontier_id* names its keys."""

    def __init__(self, redis: Redis, scripts: Scripts, frontier_id: str) -> None:
        self.prefix = f"frontier:{{{frontier_id}}}:"
        self.figures = Figures()
        self._redis = redis
        self._scripts = scripts
        self._keys = (self.prefix,)

    async def create(self, config: Config) -> None:
        """Make it, or join it when it is there. Raises BadSetting for another number of shards."""
        knobs: dict[str, Argument] = {
            "shards": config.seen_shards,
            "interval_ms": config.min_interval_ms,
            "in_flight": config.host_max_in_flight,
            "balance": config.session_balance,
            "budget": config.total_budget,
            "penalty": config.error_penalty,
            "backlog": config.ready_backlog,
            "floor": PRECEDENCE_FLOOR,
            "retry_ms": config.retry_delay_ms,
            "retry_max_ms": config.retry_delay_max_ms,
            "max_kills": config.max_kills,
            "max_target": config.max_target,
        }
        flat = [part for pair in knobs.items() for part in pair]
        shards = await self._scripts.call(script(__package__, "create"), self._keys, *flat)
        if shards != config.seen_shards:
            raise BadSetting("FRONTIER_SEEN_SHARDS", config.seen_shards, f"{shards}, as this crawl has it")
        # With another budget than before they may go on.
        retired: Any = await self._redis.smembers(self.prefix + "retired")
        await self._place(list(retired))

    async def schedule(self, entries: Sequence[Entry], *, counted: bool = False) -> int:
        """Let URLs in; seen ones are dropped. Returns how many were new.

        *counted* says that they go on a target that has been counted before.
        Raises Refused when the run is sealed.
        """
        return await self._let_in(entries, counted=counted, token="") or 0

    load_seeds = schedule  # a seed enters as any URL does; who asked for it is in its entry

    async def peek(self, key: str, n: int) -> list[bytes]:
        """Return entries of a start-URL key, leaving them there."""
        return list(await self._scripts.call(script(__package__, "peek"), (key,), n))

    async def take_from(self, key: str, raw: bytes, entries: Sequence[Entry]) -> bool:
        """Move one entry of a start-URL key into the frontier. False: another worker has."""
        operation = _operation("take_from")
        reply = self._scripts.call(operation, (self.prefix, key), raw, *_links(entries, counted=False))
        taken, figures = await self._answer(reply)
        self._note(figures)
        return bool(taken)

    async def next(self, worker: str, n: int, lease_seconds: float) -> Granted:
        """Lease at most *n* URLs that are due, for *lease_seconds*."""
        lease_ms = round(lease_seconds * 1000)
        try:
            wait, figures, flat = await self._call("next", worker, n, lease_ms, allow_oom=True)
        except Refused:  # another worker has sealed the run: there is nothing to do, now or later
            return Granted(None, [])
        self._note(figures)
        if wait == _STRANDED:
            wait = 0 if await self.repair() else -1
        grants = [
            Grant(
                int(flat[i]),
                flat[i + 1].decode(),
                int(flat[i + 2]),
                int(flat[i + 3]) if int(flat[i + 3]) >= 0 else None,
                flat[i + 4],
            )
            for i in range(0, len(flat), 5)
        ]
        return Granted(wait if wait >= 0 else None, grants)

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
    ) -> tuple[bool, int]:
        """End a lease; its outlinks enter in the same step.

        Returns whether the lease was still ours, and how many outlinks were new. A stale token
        changes nothing. Outlinks beyond one script's share go ahead of it: a crash in between
        means that the page is fetched again and finds them seen.
        """
        ahead = max(len(outlinks) - CHUNK, 0)
        fingerprints = [str(number) for number in results]
        try:
            added = await self._let_in(outlinks[:ahead], counted=counted, token=str(token))
            if added is None:
                return False, 0
            ended, more, figures = await self._call(
                "finish",
                token,
                outcome.value,
                retry_after_ms or 0,
                int(host_incident),
                random.randrange(1000),  # jitter, in thousandths
                len(fingerprints),
                *fingerprints,
                *_links(outlinks[ahead:], counted=counted),
                allow_oom=True,
            )
        except Refused:
            return False, 0
        self._note(figures)
        return bool(ended), added + more

    async def renew(self, worker: str, tokens: Sequence[int], lease_seconds: float) -> list[int]:
        """Keep leases for another while. Returns those that are no longer ours."""
        try:
            lost = await self._call("renew", worker, round(lease_seconds * 1000), *tokens, allow_oom=True)
        except Refused:
            return list(tokens)
        return [int(token) for token in lost]

    async def release(self, worker: str, tokens: Sequence[int]) -> int:
        """Give leases back that were never started."""
        if not tokens:
            return 0
        try:
            return int(await self._call("release", worker, *tokens, allow_oom=True))
        except Refused:
            return 0

    async def reclaim(self) -> int:
        """Give expired leases back to their hosts; `next` does it too. Returns how many."""
        return int(await self._call("reclaim", allow_oom=True))

    async def seal(self) -> bool:
        """Close it for good; refused while anything is queued or leased."""
        try:
            closed, figures = await self._call("seal", allow_oom=True)
        except Refused:  # somebody else has, and has dropped it
            return False
        self._note(figures)
        return bool(closed)

    async def pause(self) -> None:
        """Hand out nothing until `resume`."""
        await self._control("pause")

    async def resume(self) -> None:
        """Hand out leases again."""
        await self._control("resume")

    async def stop(self, reason: str) -> None:
        """Start nothing new; what is leased goes on."""
        await self._control("stop", reason or "stopped")

    async def refresh(self) -> Figures:
        """Read the figures."""
        await self._control("")
        return self.figures

    async def set_host(
        self,
        host: str,
        *,
        interval_ms: int | None = None,
        in_flight: int | None = None,
        budget: int | None = None,
        precedence: int | None = None,
        blocked: bool | None = None,
    ) -> bool:
        """Change a host's own knobs, at once. Returns whether the host was known."""
        given = {"iv": interval_ms, "fl": in_flight, "bu": budget, "pr": precedence, "bl": blocked}
        flat = [part for name, value in given.items() if value is not None for part in (name, int(value))]
        return bool(await self._call("set_host", host, *flat))

    async def check(self) -> list[str]:
        """Return what is inconsistent, one sentence each. Reads everything."""
        return [fault.decode() for fault in await self._call("check", allow_oom=True)]

    async def repair(self) -> list[str]:
        """Put hosts back that have keys and are in no structure; returns them.

        No operation leaves one so. A restored backup may, or a server that evicts keys.
        """
        known = set(await self._names())
        pattern = f"{_GLOB.sub(lambda found: chr(92) + found[0], self.prefix)}[hqp]:*"
        stray = set()
        async for key in self._redis.scan_iter(pattern, count=1000):
            name = key[len(self.prefix) + 2 :]
            if name not in known:
                stray.add(name)
        found = await self._place(sorted(stray))
        if found:
            logger.error("%d hosts were in no queue and are back, %s for one", len(found), found[0])
        return found

    async def hosts(self) -> list[HostView]:
        """Return every host there is, one by one: an operator's view, no snapshot."""
        names = sorted(set(await self._names()))
        views: list[HostView | None] = []
        for start in range(0, len(names), CHUNK):
            views += await asyncio.gather(
                *(self.host(name.decode()) for name in names[start : start + CHUNK])
            )
        return [view for view in views if view is not None]

    async def host(self, host: str) -> HostView | None:
        """Return one host, or None if the frontier does not know it."""
        reply = await self._call("host", host, allow_oom=True)
        if not reply:
            return None
        state, *numbers = reply
        queued, in_flight, interval, own, due, spent, budget, errors = (int(each) for each in numbers)
        return HostView(
            host=host,
            state=STATES[state.decode()],
            queued=queued,
            in_flight=in_flight,
            min_interval_ms=interval,
            interval_source="lease" if own else "default",
            next_due_ms=due,
            spent=spent,
            budget=budget,
            errors=errors,
        )

    async def exists(self) -> bool:
        """Say whether its keys are there."""
        return bool(await self._redis.exists(self.prefix + "ctl"))

    async def drop(self) -> None:
        """Remove all its keys, a few hundred at a time."""
        shards = await self._scripts.call(script(__package__, "create"), self._keys)
        names = [f"{kind}:{n}" for kind in "sr" for n in range(-shards // 2 - 1, shards // 2 + 1)]
        for view in await self.hosts():
            priorities: list[Any] = await self._redis.zrange(f"{self.prefix}p:{view.host}", 0, -1)
            names += [f"l:{priority.decode()}:{view.host}" for priority in priorities]
            names += [f"{kind}:{view.host}" for kind in "hqp"]
        names += ["ready", "inactive", "snoozed", "inprocess", "retired", "exhausted", "delayed"]
        names += ["lease", "inproc", "dead", "ctr", "ctl"]  # `ctl` last: a half-dropped one is found again
        for start in range(0, len(names), 500):
            await self._redis.unlink(*(self.prefix + name for name in names[start : start + 500]))

    # --- inside ---------------------------------------------------------------------------------

    async def _let_in(self, entries: Sequence[Entry], *, counted: bool, token: str) -> int | None:
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

    async def _names(self) -> list[bytes]:
        pipe = self._redis.pipeline(transaction=False)
        for name in ("ready", "inactive", "snoozed"):
            pipe.zrange(self.prefix + name, 0, -1)
        for name in ("inprocess", "retired"):
            pipe.smembers(self.prefix + name)
        pipe.hkeys(self.prefix + "exhausted")
        return [name for group in await pipe.execute() for name in group]

    async def _place(self, names: Sequence[bytes]) -> list[str]:
        """Look at hosts anew; returns those that were in no structure."""
        stray: list[str] = []
        for start in range(0, len(names), CHUNK):
            reply = await self._call("place", *names[start : start + CHUNK], allow_oom=True)
            stray += [name.decode() for name in reply]
        return stray

    async def _call(self, name: str, *arguments: Argument, allow_oom: bool = False) -> Any:
        operation = _operation(name, allow_oom=allow_oom)
        return await self._answer(self._scripts.call(operation, self._keys, *arguments))

    async def _control(self, what: str, reason: str = "") -> None:
        self._note(await self._call("control", what, reason, allow_oom=True))

    async def _answer(self, reply: Awaitable[Any]) -> Any:
        """Return a reply. Raises Refused when the run is over, its keys still there or not."""
        try:
            return await reply
        except ResponseError as exc:
            if "CLOSED" in str(exc) or "NOFRONTIER" in str(exc):
                self.figures = self.figures._replace(queued=0, held=0, leased=0, closed=True)
                raise Refused("this run is sealed and takes no more URLs") from None
            raise

    def _note(self, raw: Sequence[Any]) -> None:
        *counts, paused, stop, closed = raw
        self.figures = Figures._make((*counts, bool(paused), stop.decode(), bool(closed)))


def _links(entries: Sequence[Entry], *, counted: bool) -> list[Argument]:
    flat: list[Argument] = []
    common = "c" if counted else ""
    for entry in entries:
        flags = f"{common}{'f' if entry.forced else ''}{'h' if entry.head else ''}"
        priority = max(-MAX_PRIORITY, min(entry.priority, MAX_PRIORITY))
        flat += (entry.host, str(entry.fingerprint), priority, flags, entry.data)
    return flat
