"""Operations in an order that nobody thought of: always consistent, and nothing is lost or done twice."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace

import pytest

from crawlproj.frontier.records import Outcome
from tests.frontier.conftest import link, name_of

HOSTS = 6
URLS = 25  # of each host
STEPS = 250


class Crowd:
    """Three workers that do at random whatever a worker can do, and remember what became of every URL."""

    def __init__(self, workers, chance):
        self.workers = workers
        self.chance = chance
        self.leases = {}  #: token -> (URL, worker, whether it may have run out)
        self.scheduled = set()
        self.ended = Counter()
        self.blocked = set()

    @property
    def frontier(self):
        return self.chance.choice(self.workers)

    def some_links(self):
        chance = self.chance
        hosts = [f"h{chance.randrange(HOSTS)}.test" for _ in range(chance.randrange(6))]
        names = [f"{host}/{chance.randrange(URLS)}" for host in hosts]
        return [
            replace(link(name), priority=chance.choice([0, 0, 0, 1, -1]), head=chance.random() < 0.1)
            for name in names
        ]

    def enter(self, entries):
        self.scheduled |= {entry.url.removeprefix("http://") for entry in entries}

    async def schedule(self):
        entries = self.some_links()
        new = len({entry.url.removeprefix("http://") for entry in entries} - self.scheduled)
        assert await self.frontier.schedule(entries) == new
        self.enter(entries)

    async def next(self):
        worker = self.chance.choice("xyz")
        short = self.chance.random() < 0.3
        granted = await self.frontier.next(worker, self.chance.randrange(5), 0.001 if short else 60)
        for grant in granted.grants:
            name = name_of(grant)
            assert grant.token not in self.leases
            assert name in self.scheduled
            assert not self.ended[name]
            assert grant.host not in self.blocked
            held = [
                each for each, *_, may_be_lost in self.leases.values() if each == name and not may_be_lost
            ]
            assert held == []  # nobody has it for certain
            self.leases[grant.token] = (name, worker, short)

    async def finish(self):
        if not self.leases:
            return
        token = self.chance.choice(list(self.leases))
        name, _, may_be_lost = self.leases.pop(token)
        outcome = self.chance.choice([Outcome.SUCCEEDED, Outcome.SUCCEEDED, Outcome.FAILED, Outcome.RETRY])
        entries = self.some_links()
        in_time, _ = await self.frontier.finish(
            token, outcome, outlinks=entries, results=[token], host_incident=self.chance.random() < 0.3
        )
        assert in_time or may_be_lost
        if in_time:
            self.enter(entries)
            self.ended[name] += outcome is not Outcome.RETRY

    async def release(self):
        worker = self.chance.choice("xyz")
        tokens = [token for token, (_, owner, _) in self.leases.items() if owner == worker][:2]
        certain = sum(not self.leases.pop(token)[2] for token in tokens)
        assert certain <= await self.frontier.release(worker, tokens) <= len(tokens)

    async def renew(self):
        worker = self.chance.choice("xyz")
        tokens = [token for token, (_, owner, _) in self.leases.items() if owner == worker]
        lost = await self.frontier.renew(worker, tokens, 60)
        for token in tokens:
            name, owner, may_be_lost = self.leases.pop(token)
            assert token not in lost or may_be_lost
            if token not in lost:
                self.leases[token] = (name, owner, False)

    async def reclaim(self):
        await asyncio.sleep(0.002)
        await self.frontier.reclaim()

    async def block(self):
        host = f"h{self.chance.randrange(HOSTS)}.test"
        if host in self.blocked:
            self.blocked.remove(host)
        else:
            self.blocked.add(host)
        await self.frontier.set_host(host, blocked=host in self.blocked)

    async def tune(self):
        chance = self.chance
        await self.frontier.set_host(
            f"h{chance.randrange(HOSTS)}.test",
            interval_ms=chance.choice([None, 0, 1, 5]),
            in_flight=chance.choice([None, 1, 3]),
            precedence=chance.choice([0, 1, 2]),
            total_budget=chance.choice([None, -1, 1000]),
        )

    async def switch(self):
        await self.frontier.pause()
        await self.next()
        await self.frontier.resume()

    async def seal(self):
        assert not await self.frontier.seal()


@pytest.mark.parametrize("seed", range(6))
async def test_any_order_of_operations(fleet, seed):
    """After each step all is consistent; in the end each URL has ended exactly once."""
    chance = random.Random(seed)
    knobs = {
        "ready_backlog": 2,
        "session_balance": 3,
        "error_penalty": 2,
        "retry_delay_ms": 1,
        "max_kills": 1000,
    }
    workers = [
        await fleet(min_interval_ms=seed % 3, host_max_in_flight=1 + seed % 2, **knobs) for _ in range(3)
    ]
    crowd = Crowd(workers, chance)
    await workers[0].schedule([link("h0.test/0")])
    crowd.enter([link("h0.test/0")])
    often = [crowd.schedule, crowd.next, crowd.next, crowd.next, crowd.finish, crowd.finish, crowd.finish]
    steps = [*often, crowd.release, crowd.renew, crowd.reclaim, crowd.block, crowd.tune, crowd.switch]
    for _ in range(STEPS):
        step = chance.choice(steps)
        await step()
        assert await workers[0].check() == [], step.__name__
        if not (await workers[0].refresh()).idle:
            await crowd.seal()
    for host in sorted(crowd.blocked):
        await workers[0].set_host(host, blocked=False)
    crowd.blocked.clear()
    while not (await workers[0].refresh()).idle:
        await crowd.next()
        await crowd.finish()
        if not crowd.leases:
            await crowd.reclaim()
    assert await workers[0].seal()
    assert set(crowd.ended) >= crowd.scheduled
    assert {crowd.ended[name] for name in crowd.scheduled} == {1}
    figures = workers[0].figures
    assert (figures.seen, figures.queued, figures.dead) == (len(crowd.scheduled), 0, 0)
    assert figures.started == len(crowd.scheduled)
