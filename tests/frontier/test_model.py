"""The frontier beside its model (`model.py`), step by step: the same answers, the same state, no fault.

The suite runs the same examples every time, for less than a minute. To look further, with new ones:

    MODEL_EXAMPLES=2000 timeout 1800 python -m pytest tests/frontier/test_model.py --timeout 1800

Hypothesis prints the shortest run that goes apart, as a program of these rules.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace
from functools import cache
from hashlib import sha1
from itertools import count

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from crawlproj.connections import open_redis
from crawlproj.exceptions import Refused
from crawlproj.frontier import partition, upkeep
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.records import Figures, HostView, Outcome
from crawlproj.scripts import Script, Scripts
from tests.frontier.conftest import CODEC, config, link, name_of
from tests.frontier.model import ANTI_CALENDAR, UNIT, WAG, ZERO, Ending, Link, Model

EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "0"))
STEPS = 50  # of one example
START = 1_700_000_000_000
CHUNK, PAGE = 4, 2  # what goes in one script, so small here that there are often several
LONG = 1_000_000_000  # longer than anything waits here

NAMES = count()
HOSTS = [f"h{n}.test" for n in range(4)]
PATHS = [*map(str, range(24)), "a?b=1", "a?b=2", "day/1", "day/2", "a/2021/", "b/2021/"]
WORKERS = ["x", "y"]
BASE = config()


def often(value, *others):
    """Mostly this, now and then another."""
    return st.sampled_from([value] * (2 * len(others)) + list(others))


def some(most=3, **knobs):
    """A few of these, each with one of its values."""
    pairs = [st.tuples(st.just(name), values) for name, values in knobs.items()]
    return st.lists(st.one_of(pairs), max_size=most).map(dict)


def link_of(host, path, *rest):
    return Link(host, f"{host}/{path}", *rest)


HOST = st.sampled_from([*HOSTS, *HOSTS[:1] * 3])  # one has most, so that there is much of it at once
PRIORITY = often(0, 1, -1, 7)
YES = often(False, True)  # rarely
LINKS = st.lists(
    st.builds(link_of, HOST, st.sampled_from(PATHS), PRIORITY, YES, YES, YES), min_size=1, max_size=6
).map(tuple)
# All waits are such that with them every time is a whole number of milliseconds.
PER_HOST = {
    "interval_ms": st.sampled_from([0, 0, 10, 1000]),
    "in_flight": st.sampled_from([1, 2, 3]),
    "session_balance": st.sampled_from([3000, 0, 1, 2]),
    "error_penalty": st.sampled_from([0, 2]),
    "total_budget": often(-1, 0, 2, 4),
    "precedence": st.sampled_from([1, 0, 2, 7]),
    "snooze_deactivate_ms": st.sampled_from([300_000, 1000, 0]),
    "delay_factor": st.sampled_from([0, 0.5, 5]),
    "min_delay_ms": st.sampled_from([0, 0, 20]),
    "max_delay_ms": st.sampled_from([30_000, 1000, 0]),
    "crawl_delay_max_ms": st.sampled_from([300_000, 500]),
    "retry_delay_ms": st.sampled_from([1000, 0]),
    "retry_delay_max_ms": st.sampled_from([900_000, 3000]),
    "max_kills": st.sampled_from([10, 1, 2]),
    "host_bandwidth_kb": often(0, 125),
    "cost_policy": st.sampled_from([UNIT, ZERO, WAG, ANTI_CALENDAR]),
}
KNOBS = {
    **PER_HOST,
    "precedence_floor": often(1024, 2),
    "ready_backlog": st.sampled_from([50, 1, 2]),
    "hold_queues": often(1, 0),
    "total_bandwidth_kb": often(0, 125),
    "max_target": often(0, 5, 20),
    "max_urls": often(0, 8, 20),
    "pause_at_start": often(0, 1),
    "pause_at_finish": often(0, 1),
}
SHAPE = (  # what most depends on
    "ready_backlog", "in_flight", "interval_ms", "session_balance", "snooze_deactivate_ms", "max_kills",
    "retry_delay_ms", "pause_at_finish", "max_target", "max_urls",
)  # fmt: skip
BEGIN = st.builds(
    lambda shape, more: {**more, **shape},
    st.fixed_dictionaries({name: KNOBS[name] for name in SHAPE}),
    some(8, **KNOBS),
)
LEASE_MS = often(60_000, 10, 1000)
PICK = st.integers(0, 11)  # which one of those that there are
PICKS = st.lists(PICK, max_size=3)
ENDING = {
    "outcome": often("succeeded", "failed", "retry", "disregarded", "unreadable"),
    "links": LINKS,
    "counted": YES,
    "results": st.lists(st.integers(0, 20), max_size=2).map(tuple),
    "asked": often(0, 500, 5000),
    "incident": YES,
    "jitter": st.sampled_from([0, 0.25, 0.5, 0.75]),
    "duration": st.sampled_from([None, 0, 100, 4000]),
    "size": st.sampled_from([0, 1280, 640_000]),
}


WORK = {
    "worker": st.integers(0, 1),
    "off": often(0, 4, 101),
    "hows": st.lists(st.fixed_dictionaries(ENDING), min_size=1, max_size=3),
}


class StandingClock(Scripts):
    """Runs operations with a clock that stands where the key `clock`, beside the frontier's, says."""

    def call(self, operation, keys, *arguments):
        return super().call(_with_clock(operation), keys, *arguments)


@cache
def _with_clock(operation: Script) -> Script:
    """Return it with another source of time, and with the same arithmetic."""
    asked, given = b"redis.call('TIME')", b"{ 0, redis.call('GET', 'clock') * 1000 }"
    if asked not in operation.text:
        return operation
    assert operation.text.count(asked) == 1
    text = operation.text.replace(asked, given)
    return Script(operation.name, text, sha1(text, usedforsecurity=False).hexdigest())


class Dice:
    """Gives the jitters that the model is given, in turn."""

    def __init__(self) -> None:
        self.jitters: list[float] = []

    def random(self) -> float:
        return self.jitters.pop(0)


@cache
def _entry(each: Link):
    entry = link(each.url, priority=each.priority, forced=each.forced, head=each.head)
    return replace(entry, data=entry.data + '\n{"v":1}') if each.same_path else entry


def entries(links):
    """Return links as the frontier takes them."""
    return [_entry(each) for each in links]


class Both(RuleBasedStateMachine):
    """Workers and an operator with a frontier, and with its model."""

    url: str
    dice: Dice

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.same = True
        self.steps = 0
        self.newest = 0
        self.over: list[int] = []  # tokens that are in force no more
        self.runner.run(self._open())

    async def _open(self) -> None:
        self.redis = open_redis(self.url)
        self.scripts = StandingClock(self.redis, "test")
        name = f"model{next(NAMES)}"
        self.frontiers = [Frontier(self.redis, self.scripts, name) for _ in WORKERS]
        self.frontier = self.frontiers[0]

    # --- comparing -------------------------------------------------------------------------------

    def run(self, operation):
        """Do it. Once it has failed, nothing is compared any more."""
        self.same = False
        found = self.runner.run(operation)
        self.same = True
        return found

    def agree(self, found, expected) -> None:
        self.same = False
        assert found == expected
        self.same = True

    @invariant()
    def compare(self):
        hosts, figures = self.run(self._state())
        self.agree({view.host: view for view in hosts}, self.hosts_expected())
        self.agree(figures, self.figures_expected())
        self.steps += 1
        if self.steps % 5 == 0:
            self.compare_urls()

    async def _state(self):
        return await asyncio.gather(self.frontier.hosts(), self.frontiers[1].refresh())

    def compare_urls(self):
        """Every URL that waits, in the order in which it will leave; every dead letter; and no fault."""
        self.agree(self.run(self.frontier.check()), [])
        pending, dead = self.run(self._urls())
        # Hosts come in no order, and after them what waits for another attempt.
        pending.sort(key=lambda each: (each[-1], not each[-1] and each[0]))
        self.agree(pending, self.pending_expected())
        letters = [(each.host, each.item.url, each.reason, each.attempts) for each in self.model.dead]
        self.agree(dead, letters)

    async def _urls(self):
        return [
            (each.host, each.priority, _url(each.host, each.entry), each.attempts, each.delayed)
            async for each in self.frontier.dump_pending()
        ], [
            (each.host, _url(each.host, each.entry), each.reason, each.attempts)
            async for each in self.frontier.dead_letters()
        ]

    def hosts_expected(self):
        model = self.model
        return {
            name: HostView(
                host=name,
                state=host.state,
                queued=host.queued,
                in_flight=host.in_flight,
                min_interval_ms=model.interval_of(host)[0],
                interval_source=model.interval_of(host)[1],
                next_due_ms=max(0, host.due - model.now),
                spent=host.spent,
                budget=model.knob(host, "total_budget"),
                errors=host.errors,
                backs_off_ms=max(0, host.backs_off_until - model.now),
                knobs=host.own | ({"blocked": 1} if host.blocked else {}),
            )
            for name, host in model.hosts.items()
        }

    def figures_expected(self):
        model = self.model
        return Figures(
            queued=model.queued,
            held=model.held,
            leased=len(model.leases),
            started=model.started,
            results=len(model.results),
            seen=len(model.seen),
            dead=len(model.dead),
            late=model.late,
            fresh=model.fresh,
            admitted=model.admitted,
            over=model.over,
            bytes=model.bytes,
            paused=model.paused,
            stop=model.stopped,
            closed=model.closed,
            version=model.version,
        )

    def pending_expected(self):
        queued = [
            (name, priority, item.url, item.attempts, False)
            for name, host in sorted(self.model.hosts.items())
            for priority, item in host.items
        ]
        return queued + [
            (each.host, each.priority, each.item.url, each.item.attempts, True)
            for each in sorted(self.model.delayed)
        ]

    def forget_leases(self, before):
        """Note which leases have come to an end."""
        self.over += [token for token in before if token not in self.model.leases]

    # --- a worker's steps ------------------------------------------------------------------------

    @initialize(knobs=BEGIN, seen_filter=often("exact", "bloom"), links=LINKS)
    def create(self, knobs, seen_filter, links):
        self.model = Model({**BASE.knobs, **knobs}, START)
        self.set_clock()
        for worker in self.frontiers:
            self.run(
                worker.create(
                    replace(BASE, knobs=self.model.knobs, seen_filter=seen_filter, bloom_capacity=10_000)
                )
            )
        self.schedule(0, links, False)

    @rule(worker=st.integers(0, 1), links=LINKS, counted=YES)
    def schedule(self, worker, links, counted):
        operation = self.frontiers[worker].schedule(entries(links), counted=counted)
        if self.model.closed and links:
            self.refused(operation)
            return
        shares = [links[start : start + CHUNK] for start in range(0, len(links), CHUNK)]
        added = sum(self.model.schedule(share, counted=counted) for share in shares)
        self.agree(self.run(operation), added)

    @rule(worker=st.integers(0, 1), links=LINKS, gone=YES)
    def take_from(self, worker, links, gone):
        """Of several workers that have read an entry of a feed, one takes it."""
        if not gone:
            self.run(self.redis.sadd("feed", "entry"))
        operation = self.frontiers[worker].take_from("feed", b"entry", entries(links))
        if self.model.closed:
            self.refused(operation)
        else:
            taken = not gone and not self.model.is_full_of_urls()
            self.agree(self.run(operation), taken)
            self.model.schedule(links if taken else (), counted=False)
        self.run(self.redis.delete("feed"))

    def refused(self, operation):
        with pytest.raises(Refused):
            self.runner.run(operation)

    @rule(worker=st.integers(0, 1), n=st.integers(0, 4), lease_ms=LEASE_MS)
    def next(self, worker, n, lease_ms):
        before = list(self.model.leases)
        granted = self.run(self.frontiers[worker].next(WORKERS[worker], n, lease_ms / 1000))
        wait, leases = self.model.next(WORKERS[worker], n, lease_ms)
        self.agree(
            [
                (grant.host, name_of(grant), grant.attempts, grant.interval_ms, dict(grant.knobs))
                for grant in granted.grants
            ],
            [
                (lease.host, lease.item.url, lease.item.attempts, lease.interval_ms, lease.knobs)
                for lease in leases
            ],
        )
        self.agree(granted.wait_ms, wait)
        for grant, lease in zip(granted.grants, leases, strict=True):
            self.agree(grant.token > self.newest, True)
            self.newest = grant.token
            first = granted.grants[0].token
            self.model.leases[grant.token] = replace(lease, token=grant.token, group=first)
        self.forget_leases(before)

    def work(self, worker, off, hows):
        """What workers do most: lease, and end some of it."""
        self.next(worker, 3, LONG)
        for how, token in zip(hows, list(self.model.leases), strict=False):
            self.end(worker, [Ending(token=token, **how)])

    def work_later(self, worker, off, hows):
        self.wait_for_the_next_event(off)
        self.work(worker, off, hows)

    # Each several times, so that they come as often as everything else together.
    work_1 = rule(**WORK)(work)
    work_later_1 = rule(**WORK)(work_later)
    work_2 = rule(**WORK)(work)
    work_later_2 = rule(**WORK)(work_later)
    work_3 = rule(**WORK)(work)
    work_later_3 = rule(**WORK)(work_later)
    work_4 = rule(**WORK)(work)
    work_later_4 = rule(**WORK)(work_later)

    @precondition(lambda self: self.model.leases)
    @rule(worker=st.integers(0, 1), pick=PICK, how=st.fixed_dictionaries(ENDING))
    def finish(self, worker, pick, how):
        tokens = sorted(self.model.leases)
        self.end(worker, [Ending(token=tokens[pick % len(tokens)], **how)])

    @precondition(lambda self: self.model.leases)
    @rule(worker=st.integers(0, 1), pick=PICK)
    def succeed(self, worker, pick):
        self.finish(worker, pick, {"outcome": "succeeded"})

    @precondition(lambda self: self.model.leases)
    @rule(
        worker=st.integers(0, 1),
        picks=st.lists(PICK, min_size=2, max_size=4),
        hows=st.lists(st.fixed_dictionaries(ENDING), min_size=4, max_size=4),
    )
    def finish_several(self, worker, picks, hows):
        """Together, some of them perhaps too late or twice."""
        tokens = [*sorted(self.model.leases), *self.over[-1:]]
        found = [tokens[pick % len(tokens)] for pick in picks]
        endings = [Ending(token=token, **how) for token, how in zip(found, hows, strict=False)]
        # No more links than go into one script.
        self.end(worker, [replace(ending, links=ending.links[: CHUNK // len(endings)]) for ending in endings])

    @precondition(lambda self: self.over)
    @rule(worker=st.integers(0, 1), pick=PICK, how=st.fixed_dictionaries(ENDING))
    def finish_late(self, worker, pick, how):
        """Whoever comes too late changes nothing."""
        self.end(worker, [Ending(token=self.over[pick % len(self.over)], **how)])

    def end(self, worker, endings):
        self.dice.jitters = [ending.jitter for ending in endings]
        before = list(self.model.leases)
        found = self.run(self._finish(self.frontiers[worker], endings))
        self.agree(found, self.model_end(endings[0]) if len(endings) == 1 else self.model.finish(endings))
        self.forget_leases(before)

    def model_end(self, ending):
        """What a page has in links beyond one script's share goes ahead of its report."""
        ahead = ending.links[:-CHUNK]
        if ahead and ending.token not in self.model.leases:
            self.model.late += 1
            return [(False, 0)]
        added = self.model.schedule(ahead, counted=ending.counted)
        ((in_time, more),) = self.model.finish([replace(ending, links=ending.links[-CHUNK:])])
        return [(in_time, added + more)]

    async def _finish(self, worker, endings):
        return await asyncio.gather(
            *(
                worker.finish(
                    ending.token,
                    Outcome[ending.outcome.upper()],
                    outlinks=entries(ending.links),
                    results=ending.results,
                    retry_after_ms=ending.asked or None,
                    host_incident=ending.incident,
                    counted=ending.counted,
                    duration_ms=ending.duration,
                    size=ending.size,
                )
                for ending in endings
            )
        )

    @rule(worker=st.integers(0, 1), picks=PICKS, lease_ms=LEASE_MS)
    def renew(self, worker, picks, lease_ms):
        tokens = self.pick(picks)
        found = self.run(self.frontiers[worker].renew(WORKERS[worker], tokens, lease_ms / 1000))
        self.agree(found, self.model.renew(WORKERS[worker], tokens, lease_ms))

    @rule(worker=st.integers(0, 1), picks=PICKS)
    def release(self, worker, picks):
        self.give_back(worker, self.pick(picks))

    def give_back(self, worker, tokens):
        before = list(self.model.leases)
        found = self.run(self.frontiers[worker].release(WORKERS[worker], tokens))
        self.agree(found, self.model.release(WORKERS[worker], tokens))
        self.forget_leases(before)

    @rule(
        worker=st.integers(0, 1),
        host=HOST,
        paths=st.lists(st.sampled_from(PATHS), min_size=3, max_size=3, unique=True),
        hows=st.lists(st.fixed_dictionaries(ENDING), max_size=2),
        outage=YES,
    )
    def work_side_by_side(self, worker, host, paths, hows, outage):
        """Several URLs of one host at once; the worker ends some and gives the others back."""
        self.set_host(host, {"in_flight": 3, "interval_ms": 0})
        self.schedule(worker, tuple(Link(host, f"{host}/{path}", forced=True) for path in paths), False)
        self.next(worker, 4, LONG)
        held = (WORKERS[worker], host)
        own = [each.token for each in self.model.leases.values() if (each.worker, each.host) == held]
        same = {"outcome": "retry", "incident": True, "asked": 0} if outage else {}
        for how, token in zip(hows, own, strict=False):
            self.end(worker, [Ending(token=token, **{**how, **same})])
        self.give_back(worker, own)
        self.compare_urls()

    def pick(self, picks):
        """Return tokens, some in force and some not, whose ever they are."""
        tokens = [*sorted(self.model.leases), *self.over[-1:]]
        return list(dict.fromkeys(tokens[pick % len(tokens)] for pick in picks if tokens))

    @rule()
    def reclaim(self):
        before = list(self.model.leases)
        self.agree(self.run(self.frontier.reclaim()), self.model.reclaim())
        self.forget_leases(before)

    @rule(worker=st.integers(0, 1), knobs=some(**KNOBS))
    def join(self, worker, knobs):
        """Another worker comes, with knobs of its own on its command line."""
        looked_at = self.run(self._looked_at(knobs))
        joining = replace(BASE, knobs={**BASE.knobs, **knobs}, turned=frozenset(knobs))
        filters = self.run(self._fixed())
        self.run(self.frontiers[worker].create(replace(joining, **filters), run=self.model.run))
        self.model.join(knobs, looked_at)

    async def _fixed(self):
        found = await self.frontier.parts[0].tune({})
        return {"seen_filter": found["seen_filter"], "bloom_capacity": 10_000}

    # --- time ------------------------------------------------------------------------------------

    def set_clock(self):
        self.run(self.redis.set("clock", self.model.now))

    @rule(ms=st.sampled_from([1, 10, 500, 1000, 5000, 60_000]))
    def wait(self, ms):
        self.model.now += ms
        self.set_clock()

    @rule(off=st.sampled_from([-1, 0, 0, 1, 4, 101]))
    def wait_for_the_next_event(self, off):
        now = self.model.now
        times = [time for time in self.model.times() if time > now]
        if times:
            self.wait(max(0, min(times) + off - now))

    # --- an operator's steps ---------------------------------------------------------------------

    @rule(host=HOST, knobs=some(**{name: st.none() | values for name, values in PER_HOST.items()}))
    def set_host(self, host, knobs):
        self.run(self.frontier.set_host(host, **knobs))
        self.model.set_host(host, knobs)

    @rule(host=HOST, precedence=PER_HOST["precedence"])
    def prefer(self, host, precedence):
        self.set_host(host, {"precedence": precedence})

    @rule(host=st.sampled_from(HOSTS))
    def block(self, host):
        blocked = not (host in self.model.hosts and self.model.hosts[host].blocked)
        self.run(self.frontier.set_host(host, blocked=blocked))
        self.model.set_host(host, {}, blocked=blocked)

    @rule(host=st.sampled_from(HOSTS), ms=st.sampled_from([0, 5, 2000]))
    def set_crawl_delay(self, host, ms):
        self.run(self.frontier.set_crawl_delay(host, ms))
        self.model.set_host(host, {}, crawl_delay=ms)

    @rule(host=st.sampled_from(HOSTS), ms=st.sampled_from([None, 0, 20, 3000]))
    def set_language_interval(self, host, ms):
        self.run(self.frontier.set_language_interval(host, ms))
        self.model.set_host(host, {}, language_interval=ms)

    @rule(host=HOST, ms=st.sampled_from([1, 500, 5000]))
    def rest(self, host, ms):
        self.run(self.frontier.rest(host, ms))
        self.model.set_host(host, {}, rest=ms)

    @rule(host=st.sampled_from(HOSTS), ms=st.sampled_from([0, 20, 3000]))
    def share_a_language(self, host, ms):
        """As a queue of several hosts hears of one of them."""
        self.run(self.frontier.set_language_interval(host, ms, shared=True))
        self.model.share_language_interval(host, ms)

    @rule(knobs=some(**KNOBS))
    def set_crawl(self, knobs):
        looked_at = self.run(self._looked_at(knobs))
        self.run(self.frontier.set_crawl(**knobs))
        self.model.set_crawl(knobs, looked_at)
        self.agree(self.run(self.frontiers[1].crawl_knobs()), self.model.knobs)

    async def _looked_at(self, knobs):
        """Return the hosts whose place new knobs may change, in the order in which the server has them."""
        part = self.frontier.parts[0]
        found = [*await self.redis.smembers(part.prefix + "retired"), *await part.busy()]
        if not knobs.get("hold_queues", self.model.knobs["hold_queues"]):
            found += await self.redis.zrange(part.prefix + "inactive", 0, -1)
        return [name.decode() for name in found]

    @rule(host=st.sampled_from(HOSTS))
    def delete_host(self, host):
        before = list(self.model.leases)
        self.agree(self.run(self.frontier.delete_host(host)), self.model.delete_host(host))
        self.forget_leases(before)

    @rule(host=HOST, priority=PRIORITY, digit=st.sampled_from("/0123"))
    def reprioritise(self, host, priority, digit):
        def is_chosen(url):
            return digit in url.removeprefix(host)

        operation = self.frontier.reprioritise(host, priority, lambda entry: is_chosen(_url(host, entry)))
        self.agree(self.run(operation), self.model.reprioritise(host, priority, is_chosen))

    @precondition(lambda self: self.model.dead)
    @rule(picks=st.lists(PICK, min_size=1, max_size=3))
    def requeue(self, picks):
        ids = self.run(self._letters())
        picks = list(dict.fromkeys(pick % len(ids) for pick in picks))
        operation = self.frontier.requeue([ids[pick] for pick in picks])
        if self.model.closed and picks:
            self.refused(operation)
            return
        self.agree(self.run(operation), self.model.requeue([self.model.dead[pick] for pick in picks]))

    async def _letters(self):
        return [letter.id async for letter in self.frontier.dead_letters()]

    @rule(links=LINKS, results=ENDING["results"], started=often(0, 1), size=often(0, 500))
    def mark_seen(self, links, results, started, size):
        """What was known before is known again."""
        seen = {}
        for each in links:
            seen.setdefault(each.host, []).append(_entry(each).fingerprint)
        self.run(self.frontier.mark_seen(seen, results=results, started=started, size=size))
        self.model.mark_seen([each.url for each in links], results, started, size)

    @precondition(lambda self: not self.model.paused)
    @rule(for_long=YES)
    def pause(self, for_long):
        self.run(self.frontier.pause())
        self.model.paused = True
        if not for_long:
            self.next(0, 3, LONG)
            if not self.model.may_seal():
                self.seal(0)
            self.resume()

    @rule()
    def resume(self):
        self.run(self.frontier.resume())
        self.model.resume()

    @precondition(lambda self: len(self.over) > 15)
    @rule(reason=st.sampled_from(["enough", "late"]))
    def stop(self, reason):
        self.run(self.frontier.stop(reason))
        self.model.stop(reason)

    @precondition(lambda self: not self.model.may_seal() or len(self.over) > 15)
    @rule(worker=st.integers(0, 1))
    def seal(self, worker):
        self.agree(self.run(self.frontiers[worker].seal()), self.model.seal())

    @rule(
        worker=st.integers(0, 1),
        later=often(1, 0, 2),
        how=st.fixed_dictionaries(ENDING),
        knobs=some(max_target=KNOBS["max_target"], max_urls=KNOBS["max_urls"]),
    )
    def go_on(self, worker, later, how, knobs):
        """A limit stops the run, and the next one goes on where it was, also with what is tried again."""
        if later:
            self.stop("enough")
            for token in list(self.model.leases):
                self.end(worker, [Ending(token=token, **{**how, "outcome": "retry"})])
            self.seal(worker)
        run = self.model.run + later
        for each in self.frontiers:
            self.agree(self.run(each.reopen(run, knobs)), self.model.reopen(run, knobs))
        self.compare()

    # --- the end ---------------------------------------------------------------------------------

    def teardown(self):
        try:
            if self.same and hasattr(self, "model"):
                self.compare_urls()
                self.drain()
                self.leave_nothing()
        finally:
            self.runner.run(self._close())
            self.runner.close()

    def drain(self):
        """Everything comes out, in the order that the model says, and then it can be sealed."""
        free = {"total_budget": None, "precedence": None, "max_kills": None}
        for host in [host for host in HOSTS if host in self.model.hosts]:
            self.set_host(host, free)
            if self.model.hosts[host].blocked:
                self.block(host)
        self.set_crawl({"total_budget": -1, "max_target": 1000, "precedence_floor": 1024})
        if self.model.paused:
            self.resume()
        more = [Link("last.test", "last.test/1"), Link("last.test", "last.test/2")]
        while not self.model.may_seal():
            self.next(0, 4, LONG)
            for _ in list(self.model.leases):
                self.succeed(0, 0)
            self.compare()
            self.wait_for_the_next_event(0)
            if self.model.wire_free > self.model.now:
                self.wait(60_000)
            if self.model.paused:  # at its finish; something may come all the same
                self.resume()
                self.schedule(0, (more.pop(),) if more else (), False)
        self.seal(0)
        self.agree(self.model.closed, True)
        self.compare()

    def leave_nothing(self):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(upkeep, "PAGE", PAGE)
            self.run(self.frontier.drop())
        self.agree(self.run(self.redis.keys()), [b"clock"])  # of the test's own

    async def _close(self) -> None:
        await self.redis.flushdb()  # after a failure, too: the next example finds nothing of it
        await self.scripts.close()
        await self.redis.aclose()


def _url(host, entry):
    return CODEC.decode(host, entry).wire.removeprefix("http://")


PROFILE = settings(
    stateful_step_count=STEPS,
    derandomize=not EXAMPLES,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
)


@pytest.mark.timeout(600)  # seconds, most of them to make a failure small
@pytest.mark.parametrize(
    ("valkey_url", "examples"),
    [("valkey", EXAMPLES or 24), ("redis", EXAMPLES or 6)],  # the same scripts run there
    indirect=["valkey_url"],
)
def test_the_frontier_does_what_its_model_does(redis_url, examples, monkeypatch):
    """Whatever happens in whatever order: the same answers, order, states, figures and times."""
    dice = Dice()
    monkeypatch.setattr(partition, "random", dice)
    for module in [module for name, module in sys.modules.items() if name.startswith("crawlproj.frontier.")]:
        for size in ("CHUNK", "PAGE"):
            if hasattr(module, size) and module is not upkeep:  # it would only take more steps to look
                monkeypatch.setattr(module, size, globals()[size])
    machine = type("Both", (Both,), {"url": redis_url, "dice": dice})
    run_state_machine_as_test(machine, settings=settings(PROFILE, max_examples=examples))
