"""Waiting for one's turn."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from crawlproj.politeness.pace import LATE_FREE_MS, IntervalSource, Pace
from crawlproj.politeness.runtime import keys_of
from crawlproj.politeness.turns import Turns

if TYPE_CHECKING:
    import redis

    from tests.politeness.conftest import Workers

KEY, IN_FLIGHT = keys_of("e.test")
SLACK = LATE_FREE_MS / 1000 + 0.0005


def pace(interval_ms: int) -> Pace:
    return Pace(interval_ms=interval_ms, source=IntervalSource.LEASE)


async def wait_for(condition) -> None:
    """Wait until something is so that does not tell."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("cap", [1, 3])
async def test_requests_go_out_an_interval_apart_in_the_whole_fleet(workers: Workers, cap: int) -> None:
    """By this machine's clock, measured where the request goes out; with places for one or for three."""
    fleet = [Turns(workers()) for _ in range(3)]
    went_out: list[float] = []

    async def request(turns: Turns) -> None:
        grant = await turns.take("e.test", pace(50), cap)
        went_out.append(time.monotonic())
        late_ms = turns.lateness_ms(grant)
        turns.started(grant, late_ms)
        await asyncio.sleep(0.02)
        turns.give_back(grant, late_ms=late_ms)

    await asyncio.gather(*(request(fleet[n % 3]) for n in range(15)))
    gaps = [after - before for before, after in pairwise(sorted(went_out))]
    assert min(gaps) >= 0.05 - SLACK


async def test_no_more_are_in_flight_than_the_cap(workers: Workers) -> None:
    """20 requests of two workers, two at a time, and all of them have their turn."""
    fleet = [Turns(workers()) for _ in range(2)]
    inside = most = served = 0

    async def request(turns: Turns) -> None:
        nonlocal inside, most, served
        grant = await turns.take("e.test", pace(0), 2)
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0.005)
        inside -= 1
        served += 1
        turns.give_back(grant)

    await asyncio.gather(*(request(fleet[n % 2]) for n in range(20)))
    assert (most, served) == (2, 20)


async def test_within_a_worker_the_first_to_come_is_the_first_to_go(workers: Workers) -> None:
    """Requests for a taken place keep their order."""
    turns = Turns(workers())
    order: list[int] = []

    async def request(number: int) -> None:
        grant = await turns.take("e.test", pace(0), 1)
        order.append(number)
        turns.give_back(grant)

    first = await turns.take("e.test", pace(0), 1)
    tasks = []
    for number in range(8):
        tasks.append(asyncio.create_task(request(number)))
        await wait_for(lambda seen=number: turns.waiting("e.test") == seen + 1)
    turns.give_back(first)
    await asyncio.gather(*tasks)
    assert order == list(range(8))
    assert not turns._lines


async def test_only_the_first_of_a_line_asks_redis(workers: Workers, server: redis.Redis) -> None:
    """30 requests that wait for one place cost as many calls as one."""
    turns = Turns(workers())
    first = await turns.take("e.test", pace(0), 1)
    tasks = [asyncio.create_task(turns.take("e.test", pace(0), 1))]
    await wait_for(lambda: turns.waiting("e.test") == 1)
    server.config_resetstat()
    tasks += [asyncio.create_task(turns.take("e.test", pace(0), 1)) for _ in range(29)]
    await asyncio.sleep(0.5)
    assert turns.waiting("e.test") == 30
    assert server.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"] <= 8
    turns.give_back(first)
    turns.give_back(await tasks[0])
    for task in tasks[1:]:
        task.cancel()
    await asyncio.wait(tasks[1:])


async def test_a_place_freed_in_this_worker_is_taken_at_once(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody sits out a pause, here of a minute, for a place whose end this worker has seen."""
    pauses: list[float] = []
    monkeypatch.setattr("crawlproj.politeness.turns.poll_ms", lambda *_, **__: pauses.append(60) or 60_000)
    turns = Turns(workers())
    first = await turns.take("e.test", pace(0), 1)
    waiting = asyncio.create_task(turns.take("e.test", pace(0), 1))
    await wait_for(lambda: pauses)
    turns.give_back(first)
    async with asyncio.timeout(10):
        await waiting


async def test_a_place_freed_in_another_worker_is_found(workers: Workers) -> None:
    """By asking now and then."""
    one, other = Turns(workers()), Turns(workers())
    first = await one.take("e.test", pace(0), 1)
    waiting = asyncio.create_task(other.take("e.test", pace(0), 1))
    await asyncio.sleep(0.2)
    one.give_back(first)
    async with asyncio.timeout(10):
        await waiting


@pytest.mark.parametrize("after", [0.0, 0.005, 0.1])
async def test_a_cancelled_wait_leaks_neither_place_nor_start(
    workers: Workers, server: redis.Redis, after: float
) -> None:
    """In the line, in the call or before its start: what it held goes to the next."""
    turns = Turns(workers())
    first = await turns.take("e.test", pace(10_000), 2)
    second = asyncio.create_task(turns.take("e.test", pace(10_000), 2))  # waits for its start
    third = asyncio.create_task(turns.take("e.test", pace(10_000), 2))  # waits for a place
    await asyncio.sleep(after)
    for task in (third, second):
        task.cancel()
    await asyncio.wait([second, third])
    turns.give_back(first)
    await turns._runtime.flush()
    assert server.zcard(IN_FLIGHT) == 0
    assert not turns._lines
    assert not turns._runtime._held
    if after == 0.1:  # it had its start by then
        assert int(server.hget(KEY, "last_request_at")) <= first.start_ms + 100


async def test_the_line_moves_on_when_its_first_is_cancelled(workers: Workers) -> None:
    """Somebody else asks from then on."""
    turns = Turns(workers())
    first = await turns.take("e.test", pace(0), 1)
    gone = asyncio.create_task(turns.take("e.test", pace(0), 1))
    await wait_for(lambda: turns.waiting("e.test") == 1)
    stays = asyncio.create_task(turns.take("e.test", pace(0), 1))
    await wait_for(lambda: turns.waiting("e.test") == 2)
    gone.cancel()
    await asyncio.wait([gone])
    turns.give_back(first)
    async with asyncio.timeout(10):
        await stays


async def test_one_at_a_time_keeps_its_distance_from_a_worker_that_stood_still(workers: Workers) -> None:
    """A start that came late by a busy event loop is what the next one keeps its distance from."""
    one, other = Turns(workers()), Turns(workers())
    turn = asyncio.create_task(one.take("e.test", pace(200), 1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    time.sleep(0.15)  # noqa: ASYNC251  # a callback that does not give way
    grant = await turn
    went_out = time.monotonic()
    one.give_back(grant, late_ms=one.lateness_ms(grant))
    await one._runtime.flush()
    await other.take("e.test", pace(200), 1)
    assert time.monotonic() - went_out >= 0.2 - SLACK


async def test_several_at_a_time_keep_their_distance_from_a_worker_that_stood_still(
    workers: Workers,
) -> None:
    """Nobody goes before it is known when that start really was."""
    one, other = Turns(workers()), Turns(workers())
    went_out: list[float] = []

    async def request(turns: Turns) -> None:
        grant = await turns.take("e.test", pace(100), 5)
        went_out.append(time.monotonic())
        turns.started(grant, turns.lateness_ms(grant))

    await request(one)
    tasks = [asyncio.create_task(request(turns)) for turns in (one, other, one)]
    await asyncio.sleep(0.05)
    time.sleep(0.25)  # noqa: ASYNC251  # the first of them should have started meanwhile
    await asyncio.gather(*tasks)
    assert min(after - before for before, after in pairwise(went_out)) >= 0.1 - SLACK


async def test_a_start_is_never_early(workers: Workers) -> None:
    """A timer that fires early is waited out."""
    times = iter([100.0, 100.0 + 0.005, 100.0 + 0.01, 100.0 + 0.021, 101.0])
    turns = Turns(workers(), clock=lambda: next(times))
    await turns._until(100.02)  # by this clock the fourth look is the first that is not before it
    assert next(times) == 101.0
