"""The frontier in plain Python: what it has to do, without a server, without speed, one step after another.

`test_model` runs it beside the real one. It is written to be read: an operation here says what the script of
that name means. Times are whole milliseconds, and time stands still but for `now`.

A host is looked at again (`_place`) when an operation has touched it, at the end of the operation and in
the order of first touch; `next` also looks at hosts whose wait is over. Between two looks it stays where it
is, whatever has become of the crawl's knobs. A URL that finds others of its priority queued touches nothing.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import EllipsisType
from typing import NamedTuple

CALENDAR = re.compile(
    r"calendar|year|month|day|date|viewcal|\D19\d\d\D|\D20\d\d\D|event|yr=|calendrier|jour", re.ASCII
)
ZERO, UNIT, WAG, ANTI_CALENDAR = 1, 2, 3, 4  # cost policies
DEACTIVATED = -1


@dataclass(frozen=True)
class Item:
    """A URL in a queue. *counted*: it goes on a target that has been counted before."""

    url: str
    counted: bool = False
    attempts: int = 0
    kills: int = 0
    same_path: bool = False  #: as the page that it was found on


class Link(NamedTuple):
    """A URL on its way in."""

    host: str
    url: str
    priority: int = 0
    forced: bool = False
    head: bool = False
    same_path: bool = False


@dataclass
class Host:
    """One queue of the queue of queues."""

    name: str
    levels: dict[int, deque[Item]] = field(default_factory=dict)
    state: str = ""  #: where it stands; "": nowhere yet
    turn: tuple[float, int] = (0, 0)  #: precedence and number, among the ready or the inactive ones
    in_flight: int = 0
    due: int = 0
    spent: int = 0
    session_from: int = 0  #: spent when it became inactive, or DEACTIVATED
    errors: int = 0
    steps: int = 0  #: incidents in a row
    waits_since: int = 0  #: when the last wait of the whole host began
    backs_off_until: int = 0
    crawl_delay: int = 0
    language_interval: int | None = None  #: in the place of the crawl's
    blocked: bool = False
    own: dict[str, float] = field(default_factory=dict)  #: its own knobs

    @property
    def queued(self) -> int:
        return sum(len(level) for level in self.levels.values())

    @property
    def items(self) -> list[tuple[int, Item]]:
        """All that is queued, with its priority, in the order in which it will leave."""
        priorities = sorted(self.levels, reverse=True)
        return [(priority, item) for priority in priorities for item in self.levels[priority]]

    def take(self) -> None:
        priority = max(self.levels)
        self.levels[priority].popleft()
        if not self.levels[priority]:
            del self.levels[priority]


@dataclass
class Lease:
    """An item in a worker's hands. *is_new*: it was counted as a target when it was leased."""

    token: int
    host: str
    worker: str
    item: Item
    priority: int
    is_new: bool
    at: int
    deadline: int
    interval_ms: int | None  #: the host's own
    knobs: dict[str, float]  #: the host's own
    group: int = 0  #: the first token of those that were given together
    is_renewed: bool = False


class Delayed(NamedTuple):
    """Another attempt, in a while. The fields are in the order in which they come back."""

    due: int
    token: int
    host: str
    priority: int
    item: Item


class Letter(NamedTuple):
    """What will not be tried again."""

    host: str
    item: Item
    reason: str
    attempts: int
    run: int


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a lease ends."""

    token: int
    outcome: str
    links: tuple[Link, ...] = ()
    counted: bool = False
    results: tuple[int, ...] = ()
    asked: int = 0
    incident: bool = False
    jitter: float = 0
    duration: int | None = None
    size: int = 0


class Model:
    """The frontier of one crawl. *knobs* are those of `crawlproj.knobs`, all of them."""

    def __init__(self, knobs: Mapping[str, float], now: int) -> None:
        self.knobs = dict(knobs)
        self.now = now
        self.hosts: dict[str, Host] = {}
        self.leases: dict[int, Lease] = {}
        self.delayed: list[Delayed] = []
        self.seen: set[str] = set()
        self.results: set[int] = set()
        self.dead: list[Letter] = []
        self.run = 1
        self.started = self.late = self.admitted = self.over = self.bytes = 0
        self.paused = bool(knobs["pause_at_start"])
        self.closed = self.paused_at_finish = self.may_finish = False
        self.stopped = ""
        self.version = 1  #: of the knobs
        self.wire_free = 0.0  #: when the whole crawl's bandwidth is free again
        self._turns = 0
        self._touched: dict[str, Host] = {}

    # --- where a host stands ---------------------------------------------------------------------

    def knob(self, host: Host, name: str) -> float:
        return host.own.get(name, self.knobs[name])

    def interval_of(self, host: Host) -> tuple[int, str]:
        """Its own, else its robots.txt's unless that of its language or the crawl's is longer; and whose."""
        if "interval_ms" in host.own:
            return int(host.own["interval_ms"]), "host"
        usual = int(self.knobs["interval_ms"]), "default"
        if host.language_interval is not None:
            usual = host.language_interval, "language"
        asked = int(min(host.crawl_delay, self.knob(host, "crawl_delay_max_ms")))
        return (asked, "robots") if asked > usual[0] else usual

    def is_retired(self, host: Host) -> bool:
        budget = self.knob(host, "total_budget")
        too_late = self.knob(host, "precedence") >= self.knobs["precedence_floor"]
        return host.blocked or 0 <= budget <= host.spent or too_late

    def is_full(self, host: Host) -> bool:
        return host.in_flight >= self.knob(host, "in_flight")

    def is_over(self, host: Host) -> bool:
        """Say whether its session is."""
        balance = self.knob(host, "session_balance")
        return host.session_from == DEACTIVATED or 0 < balance < host.spent - host.session_from

    def _place_of(self, host: Host) -> str:
        if host.in_flight and (not host.queued or self.is_full(host)):
            return "in-process"
        waits = host.due > self.now
        if not host.queued:
            return "retired" if host.blocked else "snoozed" if waits else "exhausted"
        if self.is_retired(host):
            return "retired"
        if waits:
            return "snoozed"
        if not self.knobs["hold_queues"]:
            return "ready"
        if self.is_over(host):
            return "inactive"
        if host.state in ("ready", "inactive"):
            return host.state
        inactive = self.standing("inactive")
        better_waits = bool(inactive) and inactive[0].turn[0] < self.knob(host, "precedence")
        has_room = len(self.standing("ready")) < self.knobs["ready_backlog"]
        return "ready" if has_room and not better_waits else "inactive"

    def _place(self, host: Host) -> None:
        """Put a host where it belongs; one that comes to a line of hosts goes to its end."""
        old, host.state = host.state, self._place_of(host)
        long = host.due - self.now >= self.knob(host, "snooze_deactivate_ms")
        if host.state == "snoozed" and long:
            host.session_from = DEACTIVATED
        if host.state == old:
            return
        if host.state == "inactive" or (host.state == "ready" and host.session_from == DEACTIVATED):
            host.session_from = host.spent
        if host.state in ("ready", "inactive"):
            self._turns += 1
            host.turn = (self.knob(host, "precedence"), self._turns)

    def _touch(self, name: str) -> Host:
        host = self.hosts.setdefault(name, Host(name))
        return self._touched.setdefault(name, host)

    def _settle(self) -> None:
        for host in self._touched.values():
            self._place(host)
        self._touched = {}

    def standing(self, state: str) -> list[Host]:
        """Hosts of a line, in the order of their turns; snoozed ones in that of their wake-up."""
        found = [host for host in self.hosts.values() if host.state == state]
        if state == "snoozed":
            return sorted(found, key=lambda host: (host.due, host.name))
        return sorted(found, key=lambda host: host.turn)

    # --- in --------------------------------------------------------------------------------------

    def _put(self, name: str, item: Item, priority: int, *, head: bool = False) -> None:
        """Higher priorities leave first; within one, first in first out."""
        host = self.hosts.get(name)
        if host is None or priority not in host.levels:
            host = self._touch(name)
        level = host.levels.setdefault(priority, deque())
        if head:
            level.appendleft(item)
        else:
            level.append(item)

    def _admit(self, links: tuple[Link, ...], *, counted: bool) -> int:
        added = 0
        for link in links:
            if link.url not in self.seen and not counted:
                if self.is_full_of_urls():
                    self.over += 1
                    continue
                self.admitted += 1
            if link.forced or link.url not in self.seen:
                item = Item(link.url, counted, same_path=link.same_path)
                self._put(link.host, item, link.priority, head=link.head)
                added += 1
            self.seen.add(link.url)
        if added:
            self.may_finish = False
        return added

    def is_full_of_urls(self) -> bool:
        limit = self.knobs["max_urls"]
        return bool(limit) and self.admitted >= limit

    def schedule(self, links: tuple[Link, ...], *, counted: bool) -> int:
        """Returns how many were new."""
        added = self._admit(links, counted=counted)
        self._settle()
        return added

    # --- out -------------------------------------------------------------------------------------

    def next(self, worker: str, n: int, lease_ms: int) -> tuple[int | None, list[Lease]]:
        """Returns in how many ms something is due by itself, None: nothing is; and leases without tokens."""
        self._reclaim()
        for due in sorted(each for each in self.delayed if each.due <= self.now):
            self.delayed.remove(due)
            self._put(due.host, due.item, due.priority, head=True)
        for host in self.standing("snoozed"):
            if host.due <= self.now:
                self._touch(host.name)
        self._settle()
        if self.knobs["pause_at_finish"] and self._is_at_finish() and self.idle and not self.paused:
            self.paused = self.paused_at_finish = True
        throttled = self.knobs["total_bandwidth_kb"] > 0 and self.wire_free > self.now
        leases: list[Lease] = []
        while len(leases) < n and not (self.paused or self.stopped or self.closed or throttled):
            line = (self.standing("ready") or self.standing("inactive"))[: n - len(leases)]
            if not line or not self._lease_from(line, worker, lease_ms, leases):
                break
        times = self.times() + [lease.deadline for lease in leases]
        wait = max(0, min(times) - self.now) if times else None
        self._settle()
        return (int(self.wire_free - self.now) if throttled else wait), leases

    def _lease_from(self, line: list[Host], worker: str, lease_ms: int, leases: list[Lease]) -> bool:
        """Give hosts their turns, together. Returns False when no new target may start any more."""
        stood = line[0].state
        for host in line:
            host.state = ""  # it has had its turn
        for number, host in enumerate(line):
            if not self.is_retired(host) and not self.is_full(host):  # no knob was turned meanwhile
                if not self._may_start(host.items[0][1]):
                    for other in line[number:]:
                        other.state = stood
                        self._touch(other.name)
                    return False
                leases.append(self._lease(host, worker, lease_ms))
            self._place(host)
        return True

    def _may_start(self, item: Item) -> bool:
        limit = self.knobs["max_target"]
        return item.counted or not limit or self.started < limit

    def _lease(self, host: Host, worker: str, lease_ms: int) -> Lease:
        priority, item = host.items[0]
        host.take()
        interval, source = self.interval_of(host)
        host.in_flight += 1
        # What it took to notice that it was due is not added to every interval.
        is_noticed_late = self.now - host.due > min(interval / 4, 100)
        host.due = (self.now if is_noticed_late else host.due) + interval
        self.started += not item.counted
        return Lease(
            token=0,
            host=host.name,
            worker=worker,
            item=item,
            priority=priority,
            is_new=not item.counted,
            at=self.now,
            deadline=self.now + lease_ms,
            interval_ms=None if source == "default" else interval,
            knobs=dict(host.own),
        )

    def times(self) -> list[int]:
        """When something is due by itself: a host, another attempt, a lease that nobody renews."""
        return [
            *(host.due for host in self.standing("snoozed")),
            *(each.due for each in self.delayed),
            *(lease.deadline for lease in self.leases.values()),
        ]

    # --- back ------------------------------------------------------------------------------------

    def _end(self, token: int) -> tuple[Lease, Host]:
        lease = self.leases.pop(token)
        host = self._touch(lease.host)
        host.in_flight -= 1
        return lease, host

    def finish(self, endings: list[Ending]) -> list[tuple[bool, int]]:
        """End leases, together. Returns whether each was still in force, and how many links were new."""
        tokens = dict.fromkeys(ending.token for ending in endings if ending.token in self.leases)
        ended = {token: self._end(token) for token in tokens}
        answers = [self._finish(ending, ended.pop(ending.token, None)) for ending in endings]
        self._settle()
        return answers

    def _finish(self, ending: Ending, ended: tuple[Lease, Host] | None) -> tuple[bool, int]:
        if ended is None:
            self.late += 1
            return False, 0
        lease, host = ended
        self.bytes += ending.size
        if ending.incident:
            self._back_off(host, lease, ending)
        self._rest(host, ending)
        if ending.outcome == "succeeded":
            host.steps = 0
            host.spent += self.cost_of(host, lease.item)
        elif ending.outcome == "failed":
            host.spent += self.cost_of(host, lease.item) + int(self.knob(host, "error_penalty"))
            host.errors += 1
        elif ending.outcome == "unreadable":
            self.dead.append(Letter(host.name, lease.item, "unreadable", lease.item.attempts, self.run))
        elif ending.outcome == "retry":
            self._try_again(host, lease, ending)
        self.results.update(ending.results)
        return True, self._admit(ending.links, counted=ending.counted)

    def _back_off(self, host: Host, lease: Lease, ending: Ending) -> None:
        """All of a host waits: as long as it asked for, else one step longer for each incident."""
        wait = ending.asked
        if not wait:
            if host.steps and lease.at <= host.waits_since:
                return  # part of an incident that it waits for already
            host.steps += 1
            wait = self._retry_delay(host, host.steps - 1, ending.jitter)
        host.waits_since = self.now
        ends = self.now + int(min(wait, self.knob(host, "retry_delay_max_ms")))
        host.backs_off_until = max(host.backs_off_until, ends)
        host.due = max(host.due, ends)

    def _retry_delay(self, host: Host, steps: int, jitter: float) -> int:
        return int(self.knob(host, "retry_delay_ms") * 2 ** min(steps, 30) * (0.75 + jitter / 2))

    def _rest(self, host: Host, ending: Ending) -> None:
        """As long as the fetch took times a factor, within bounds; and until its bytes are paid for."""
        if ending.duration is not None:
            delay = min(self.knob(host, "delay_factor") * ending.duration, self.knob(host, "max_delay_ms"))
            host.due = max(host.due, self.now + int(max(delay, self.knob(host, "min_delay_ms"))))
        if rate := self.knob(host, "host_bandwidth_kb"):
            host.due = max(host.due, math.floor(self.now + ending.size / (rate * 1.024)))
        if rate := self.knobs["total_bandwidth_kb"]:
            free = max(self.now, self.wire_free)
            self.wire_free = free + ending.size / (rate * 1.024)

    def _try_again(self, host: Host, lease: Lease, ending: Ending) -> None:
        again = replace(lease.item, attempts=lease.item.attempts + 1, counted=True)
        if ending.incident:
            self._put(host.name, again, lease.priority, head=True)  # the host's wait is its own
            return
        wait = ending.asked or self._retry_delay(host, lease.item.attempts, ending.jitter)
        due = self.now + int(min(wait, self.knob(host, "retry_delay_max_ms")))
        self.delayed.append(Delayed(due, lease.token, host.name, lease.priority, again))

    def cost_of(self, host: Host, item: Item) -> int:
        policy = self.knob(host, "cost_policy")
        if policy == WAG:
            return 1 + ("?" in item.url) + item.same_path
        path = item.url.removeprefix(host.name)
        if policy == ANTI_CALENDAR and CALENDAR.search(path.lower()):
            return 2
        return 0 if policy == ZERO else 1

    def _reclaim(self) -> int:
        expired = sorted(
            (lease.deadline, lease.group, not lease.is_renewed, token)
            for token, lease in self.leases.items()
            if lease.deadline <= self.now
        )
        for *_, token in expired:
            lease, host = self._end(token)
            item = replace(lease.item, kills=lease.item.kills + 1, counted=True)
            if item.kills >= self.knob(host, "max_kills"):
                self.dead.append(Letter(host.name, item, "killed_its_worker", item.attempts, self.run))
            else:
                self._put(host.name, item, lease.priority, head=True)
            host.due = max(host.due, self.now + self.interval_of(host)[0])  # it may have been asked
        return len(expired)

    def reclaim(self) -> int:
        """Give back what nobody has renewed. Returns how many."""
        count = self._reclaim()
        self._settle()
        return count

    def renew(self, worker: str, tokens: list[int], lease_ms: int) -> list[int]:
        """Returns those that are not the worker's. One that has run out is kept, if nobody was faster."""
        lost = []
        for token in tokens:
            lease = self.leases.get(token)
            if lease and lease.worker == worker:
                lease.deadline = self.now + lease_ms
                lease.group, lease.is_renewed = token, True
            else:
                lost.append(token)
        return lost

    def release(self, worker: str, tokens: list[int]) -> int:
        """As if never leased, but for the host's interval. Returns how many were the worker's."""
        own = [token for token in tokens if token in self.leases and self.leases[token].worker == worker]
        given = [self._end(token) for token in own]
        for lease, host in reversed(given):  # so that the first is the first again
            self._put(host.name, lease.item, lease.priority, head=True)
            self.started -= lease.is_new
        self._settle()
        return len(given)

    # --- an operator -----------------------------------------------------------------------------

    def set_host(
        self,
        name: str,
        knobs: Mapping[str, float | None],
        *,
        blocked: bool | None = None,
        crawl_delay: int | None = None,
        language_interval: int | EllipsisType | None = ...,
        rest: int = 0,
    ) -> None:
        """None: it has none of its own any more. It goes at once where it belongs now."""
        host = self.hosts.get(name) or Host(name)
        before = self.knob(host, "precedence")
        own = {**host.own, **knobs}
        host.own = {knob: value for knob, value in own.items() if value is not None}
        if blocked is not None:
            host.blocked = blocked
        if crawl_delay is not None:
            host.crawl_delay = crawl_delay
        if rest:
            host.due = max(host.due, self.now + rest)
            host.backs_off_until = max(host.backs_off_until, self.now + rest)
        if language_interval is not ...:
            host.language_interval = language_interval
        has_language = host.language_interval is not None
        if not host.state and not (host.own or host.blocked or host.crawl_delay or has_language):
            return  # nothing to know of it
        self.hosts[name] = host
        self._touch(name)
        if self.knob(host, "precedence") != before and host.state in ("ready", "inactive"):
            host.state = ""  # its turn depends on it
        self._settle()

    def share_language_interval(self, name: str, ms: int) -> None:
        """The longest that any of its hosts has, and never less than the crawl's of that moment."""
        host = self.hosts.get(name) or Host(name)
        before = self.knobs["interval_ms"] if host.language_interval is None else host.language_interval
        self.set_host(name, {}, language_interval=max(int(before), ms))

    def set_crawl(self, knobs: Mapping[str, float], looked_at: list[str]) -> None:
        """They hold from now on. Hosts that may be free now are *looked_at*, in no order of their own."""
        self.version += bool(knobs)
        self.knobs.update(knobs)
        self._look_again(looked_at)

    def join(self, knobs: Mapping[str, float], looked_at: list[str]) -> None:
        """A worker comes with knobs on its command line."""
        turned = {name: value for name, value in knobs.items() if value != self.knobs[name]}
        self.version += bool(turned)
        self.knobs.update(turned)
        self._look_again(looked_at)

    def _look_again(self, names: list[str]) -> None:
        for name in names:
            self._touch(name)
        self._settle()

    def reprioritise(self, name: str, priority: int, chosen: Callable[[str], bool]) -> int:
        """Chosen URLs go behind those of their new priority, in the order in which they stood."""
        host = self.hosts.get(name) or Host(name)
        moving = [(old, item) for old, item in host.items if old != priority]
        if moving:
            self._touch(name)
        moving = [(old, item) for old, item in moving if chosen(item.url)]
        for old, item in moving:
            host.levels[old].remove(item)
            if not host.levels[old]:
                del host.levels[old]
        for _, item in moving:
            self._put(name, item, priority)
        self._settle()
        return len(moving)

    def mark_seen(self, urls: list[str], results: Iterable[int], started: int, size: int) -> None:
        """Restore what was known, without queuing anything."""
        self.seen.update(urls)
        self.results.update(results)
        self.started += started
        self.admitted += started
        self.bytes += size

    def delete_host(self, name: str) -> int:
        """Returns how many URLs were pending. They stay seen."""
        host = self.hosts.pop(name, None) or Host(name)
        delayed = [each for each in self.delayed if each.host == name]
        self.delayed = [each for each in self.delayed if each.host != name]
        self.leases = {token: lease for token, lease in self.leases.items() if lease.host != name}
        return host.queued + len(delayed)

    def requeue(self, letters: list[Letter]) -> int:
        """As if they had never been tried; those of this run are no new targets. Returns how many."""
        for letter in letters:
            self.dead.remove(letter)
            item = replace(letter.item, attempts=0, kills=0, counted=letter.run == self.run)
            self._put(letter.host, item, 0)
        self._settle()
        return len(letters)

    def resume(self) -> None:
        """After a pause at the finish it may end, until something new comes."""
        self.may_finish = self.may_finish or self.paused_at_finish
        self.paused = self.paused_at_finish = False

    def stop(self, reason: str) -> None:
        self.stopped = self.stopped or reason

    def seal(self) -> bool:
        """Refused while anything is leased, or queued and not held by a retired host, or it is paused."""
        if not self.may_seal():
            return False
        self.closed = True
        return True

    def reopen(self, run: int, knobs: Mapping[str, float]) -> bool:
        """Once per run: it goes on with what it holds, and none of that has counted. Says if it is open."""
        if not self.closed or run <= self.run:
            return not self.closed
        self.run = run
        self.knobs.update(knobs)
        self.version += 1
        self.closed = self.paused_at_finish = self.may_finish = False
        self.paused = bool(self.knobs["pause_at_start"])
        self.stopped = ""
        self.started = self.late = self.admitted = self.over = self.bytes = 0
        self.results = set()
        for host in self.hosts.values():
            for priority, level in host.levels.items():
                host.levels[priority] = deque(replace(item, counted=False) for item in level)
        self.delayed = [each._replace(item=replace(each.item, counted=False)) for each in self.delayed]
        return True

    def may_seal(self) -> bool:
        if self.leases:
            return False
        if self.stopped:
            return True
        return self.idle and not self.paused and not (self.knobs["pause_at_finish"] and self._is_at_finish())

    def _is_at_finish(self) -> bool:
        """Say whether a crawl that has begun has yet to be told that it may end."""
        return self.started > 0 and not self.may_finish and not self.stopped

    # --- figures ---------------------------------------------------------------------------------

    @property
    def queued(self) -> int:
        return sum(host.queued for host in self.hosts.values()) + len(self.delayed)

    @property
    def held(self) -> int:
        return sum(host.queued for host in self.hosts.values() if host.state == "retired")

    @property
    def idle(self) -> bool:
        return self.queued == self.held and not self.leases

    @property
    def fresh(self) -> int:
        waiting = [item for host in self.hosts.values() for _, item in host.items]
        return sum(not item.counted for item in (*waiting, *(each.item for each in self.delayed)))
