"""What lateness costs: itself, and never the distance."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from crawlproj.politeness.pace import LATE_FREE_MS, LATEST_MS
from crawlproj.politeness.runtime import keys_of
from tests.politeness.virtual import Fleet, run

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

FREE = LATE_FREE_MS / 1000
IN_FLIGHT = keys_of("e.test")[1]
ROUNDING = 0.0011  # starts are reserved, and lateness is told, in whole milliseconds


def gaps(fleet: Fleet) -> list[float]:
    return [after - before for (before, _), (after, _) in pairwise(sorted(fleet.starts))]


def total(fleet: Fleet) -> float:
    return max(fleet.starts)[0] - min(fleet.starts)[0]


def busy_machine(seed: int, longest: float) -> Callable[[], float]:
    """Return the lateness of a machine that has no time: mostly little, now and then a lot, in seconds."""
    chance = random.Random(seed)
    return lambda: chance.choice(
        [0, 0.0005, 0.001, 0.003, chance.uniform(0.005, 0.03), chance.uniform(0, longest)]
    )


# One at a time that is late for longer than the interval holds its place for longer than that, and others
# only learn by asking that it is free.
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("workers", "cap", "longest"), [(1, 1, 0.5), (4, 1, 0.1), (1, 4, 0.5), (4, 4, 0.5), (8, 2, 0.3)]
)
def test_late_starts_keep_their_distance_and_cost_their_lateness(
    server: redis.Redis, workers: int, cap: int, longest: float, seed: int
) -> None:
    """100 pages by workers that wake up late: no gap is short, and all of it takes as much longer."""
    chance = random.Random(seed)
    fleet = Fleet(
        server,
        cap=cap,
        interval=0.2,
        lateness=busy_machine(seed, longest),
        latency=lambda: chance.uniform(0.0001, 0.004),
        service=lambda: chance.uniform(0.001, 0.05),
        seed=seed,
    )
    run(fleet.crawl(workers, 100))
    assert len(fleet.starts) == 100
    assert min(gaps(fleet)) >= 0.2 - FREE - ROUNDING
    told = 100 * 2 * 0.004  # how late a start was is known as exactly as the server's time is
    assert total(fleet) <= 99 * 0.2 + sum(fleet.late) + told


@pytest.mark.parametrize(("workers", "cap"), [(1, 1), (4, 1), (1, 4), (4, 4)])
def test_what_is_hardly_late_costs_nothing(server: redis.Redis, workers: int, cap: int) -> None:
    """A loop's timers and a call to the server are not added to every interval."""
    chance = random.Random(7)
    fleet = Fleet(
        server,
        cap=cap,
        interval=0.2,
        lateness=lambda: chance.uniform(0, 0.0012),
        latency=lambda: chance.uniform(0.0001, 0.0004),
    )
    run(fleet.crawl(workers, 100))
    assert min(gaps(fleet)) >= 0.2 - FREE - ROUNDING
    assert total(fleet) <= 99 * 0.2 + 0.02


@pytest.mark.parametrize("cap", [1, 2, 4])
def test_nobody_starves(server: redis.Redis, cap: int) -> None:
    """A worker whose own next request is at hand has no more turns than those that ask now and then."""
    fleet = Fleet(server, cap=cap, interval=0.1, lateness=busy_machine(3, 0.05))
    run(fleet.crawl(5, 150))
    order = [worker for _, worker in sorted(fleet.starts)]
    for first in range(0, 125, 25):
        turns = Counter(order[first : first + 25])
        assert min(turns[worker] for worker in range(5)) >= 3


@pytest.mark.parametrize("cap", [2, 4])
@pytest.mark.parametrize("after", [0.0, 0.05, 0.3])
def test_a_crash_before_a_start_was_told_of_holds_a_domain_up_for_a_second(
    server: redis.Redis, cap: int, after: float
) -> None:
    """Whether it went out nobody knows: the others keep their distance from the latest time it could have."""
    fleet = Fleet(server, cap=cap, interval=0.2)

    async def crawl() -> None:
        dies, *others = (fleet.join() for _ in range(3))
        await fleet.fetch(others[0])
        task = asyncio.create_task(fleet.fetch(dies))
        while not server.zcard(IN_FLIGHT):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        fleet.kill(dies)
        await asyncio.sleep(after)
        await asyncio.gather(*(fleet.fetch(others[n % 2]) for n in range(6)))
        task.cancel()
        fleet.stop()

    run(crawl())
    live = sorted(start for start, worker in fleet.starts if worker)
    dead = [start for start, worker in fleet.starts if not worker]
    assert len(live) == 7
    assert live[1] - live[0] <= 0.2 + LATEST_MS / 1000 + 0.2 + 0.05
    assert all(abs(start - at) >= 0.2 - FREE - ROUNDING for start in live for at in dead)
    assert live[-1] - live[1] <= 5 * 0.2 + 0.02


def test_one_that_comes_later_than_it_may_is_reserved_anew(server: redis.Redis) -> None:
    """It stood still for seconds; the others did not wait for it, and it keeps its distance from them."""
    stood_still = iter([5.0])
    fleet = Fleet(server, cap=4, interval=0.2, lateness=lambda: next(stood_still, 0.0))
    run(fleet.crawl(3, 40))
    assert len(fleet.starts) == 40
    assert min(gaps(fleet)) >= 0.2 - FREE - ROUNDING
    assert max(fleet.late) < 1
    assert total(fleet) <= 39 * 0.2 + LATEST_MS / 1000 + 0.2


def test_a_server_that_is_far_away_is_still_crawled(server: redis.Redis) -> None:
    """Redis on the other side of the world, so that every start comes later than it first may."""
    fleet = Fleet(server, cap=2, interval=0.2, latency=lambda: 1.5)
    run(fleet.crawl(2, 4))
    assert len(fleet.starts) == 4
    assert min(gaps(fleet)) >= 0.2 - FREE - ROUNDING


def test_waiting_costs_few_calls(server: redis.Redis) -> None:
    """Whoever was refused knows when asking is of use: two or three calls an interval and worker."""
    fleet = Fleet(server, cap=4, interval=1.0)
    run(fleet.crawl(4, 60))
    calls = sum(turns._runtime._scripts.calls for turns in fleet.workers)
    assert calls <= 60 * (3 + 3 * 4)
