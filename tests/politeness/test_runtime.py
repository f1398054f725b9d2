"""The reservation of starts, on a real server."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
import time
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
import redis
from redis.crc import key_slot
from redis.exceptions import ResponseError

from crawlproj.politeness.pace import LATE_FREE_MS
from crawlproj.politeness.runtime import Busy, Grant, _keys, keys_of

if TYPE_CHECKING:
    from tests.politeness.conftest import OwnValkey, Workers

KEY, IN_FLIGHT = keys_of("e.test")


async def grant(runtime, interval: int = 0, cap: int = 1, **more) -> Grant:
    answer = await runtime.reserve("e.test", interval, "lease", cap, **more)
    assert isinstance(answer, Grant)
    return answer


async def gone(runtime, *given, **more) -> Grant:
    """Reserve a start and say that it was in time, so that the next one can be."""
    granted = await grant(runtime, *given, **more)
    runtime.started(granted, 0)
    return granted


def wait_ms(granted: Grant) -> float:
    """Return how long it is until a start, never less."""
    return max(granted.sure - time.monotonic(), 0) * 1000


async def noticed(*workers) -> None:
    """Wait until these have seen that Redis is away."""
    while not all(each._scripts.away for each in workers):  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def now_ms(server: redis.Redis) -> float:
    seconds, micros = server.time()
    return seconds * 1000 + micros / 1000


async def test_starts_are_an_interval_apart_across_all_workers(workers: Workers) -> None:
    """50 reservations at once over 5 connections: no two starts closer than the interval."""
    fleet = [workers() for _ in range(5)]
    grants: list[Grant] = []

    async def one(worker) -> None:
        while isinstance(answer := await worker.reserve("e.test", 40, "lease", 100), Busy):  # noqa: ASYNC110
            await asyncio.sleep(0)
        worker.started(answer, 0)
        grants.append(answer)

    await asyncio.gather(*(one(fleet[n % 5]) for n in range(50)))
    starts = sorted(each.start_ms for each in grants)
    assert min(after - before for before, after in pairwise(starts)) >= 40
    assert starts[-1] - starts[0] == 49 * 40


async def test_a_grant_says_how_long_to_wait(workers: Workers, server: redis.Redis) -> None:
    """The first start is now, the next one an interval later, on the server's clock."""
    worker = workers()
    first = await gone(worker, 500, cap=2)
    second = await grant(worker, 500, cap=2)
    assert wait_ms(first) == 0
    assert second.start_ms - first.start_ms == 500
    assert wait_ms(second) <= 501  # the first start is rounded up to a millisecond
    assert second.due <= second.sure
    left = wait_ms(second)
    assert now_ms(server) + left >= second.start_ms


async def test_domains_do_not_wait_for_each_other(workers: Workers) -> None:
    """Ten domains start at once, whatever their interval."""
    worker = workers()
    answers = await asyncio.gather(*(worker.reserve(f"{n}.test", 60_000, "lease", 1) for n in range(10)))
    assert [wait_ms(each) for each in answers if isinstance(each, Grant)] == [0] * 10


async def test_the_state_is_kept_under_its_contract_name(workers: Workers, server: redis.Redis) -> None:
    """`downloader:domain_runtime:<domain>` has four fields that anybody may read."""
    worker = workers()
    first = await gone(worker, 1500, cap=3)
    await worker.reserve("e.test", 700, "default", 3)
    assert server.hgetall("downloader:domain_runtime:e.test") == {
        b"last_request_at": str(first.start_ms + 700).encode(),
        b"in_flight_count": b"2",
        b"min_interval_ms": b"700",
        b"min_interval_source": b"default",
    }


def test_both_keys_of_a_domain_are_in_one_cluster_slot() -> None:
    """The hash tag of the second is the whole name of the first."""
    for domain in ("e.test", "127.0.0.1:8080", "[::1]:8080"):
        first, second = keys_of(domain)
        assert key_slot(first.encode()) == key_slot(second.encode())


async def test_no_more_are_in_flight_than_the_cap(workers: Workers) -> None:
    """The third of two is refused, in whatever worker, until one is given back."""
    one, other = workers(), workers()
    first = await grant(one, cap=2)
    await grant(other, cap=2)
    assert isinstance(await other.reserve("e.test", 0, "lease", 2), Busy)
    one.release(first)
    await one.flush()
    await grant(other, cap=2)


async def test_who_was_refused_a_place_has_a_turn_before_those_who_come_later(workers: Workers) -> None:
    """A worker that always has its next request at hand does not keep a domain to itself."""
    busy, second, third = workers(), workers(), workers()
    held = await grant(busy)
    for worker in (second, third):
        assert isinstance(await worker.reserve("e.test", 0, "lease", 1), Busy)
        await asyncio.sleep(0.002)  # turns are told apart by the millisecond
    for turn, ahead in ((second, (busy, third)), (third, (second, busy)), (busy, ())):
        for worker in (busy, second, third):
            worker.release(held)
            await worker.flush()
        for worker in ahead:
            assert isinstance(await worker.reserve("e.test", 0, "lease", 1), Busy)
            await asyncio.sleep(0.002)
        held = await grant(turn)


async def test_one_that_wants_a_place_at_once_or_not_at_all_waits_in_no_line(workers: Workers) -> None:
    """It does not push in, and nobody waits for it to come back."""
    busy, waiting, hasty = workers(), workers(), workers()
    held = await grant(busy)
    assert isinstance(await hasty.reserve("e.test", 0, "lease", 1, max_wait_ms=0), Busy)
    await asyncio.sleep(0.002)
    assert isinstance(await waiting.reserve("e.test", 0, "lease", 1), Busy)
    busy.release(held)
    await busy.flush()
    assert isinstance(await hasty.reserve("e.test", 0, "lease", 1, max_wait_ms=0), Busy)
    await grant(waiting)


async def test_a_turn_of_one_that_never_comes_back_is_lost(workers: Workers) -> None:
    """A worker that died while it waited holds a domain up for seconds, not for good."""
    busy, dead = workers(), workers()
    held = await grant(busy)
    assert isinstance(await dead.reserve("e.test", 0, "lease", 1), Busy)
    busy.release(held)
    await busy.flush()
    assert isinstance(await busy.reserve("e.test", 0, "lease", 1), Busy)
    async with asyncio.timeout(4):
        while isinstance(await busy.reserve("e.test", 0, "lease", 1), Busy):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_a_place_is_given_back_once(workers: Workers, server: redis.Redis) -> None:
    """Releasing twice does not free another's place."""
    worker = workers()
    first = await grant(worker, cap=2)
    await grant(worker, cap=2)
    worker.release(first)
    worker.release(first)
    await worker.flush()
    assert server.zcard(IN_FLIGHT) == 1
    assert server.hget(KEY, "in_flight_count") == b"1"


async def test_a_start_too_far_away_is_refused_and_costs_nothing(
    workers: Workers, server: redis.Redis
) -> None:
    """With a longest wait the answer is how long it would be, and nothing is reserved."""
    worker = workers()
    first = await grant(worker, 2000, cap=5)
    busy = await worker.reserve("e.test", 2000, "lease", 5, max_wait_ms=100)
    assert isinstance(busy, Busy)
    assert 1500 < busy.retry_ms <= 2001
    assert server.hget(KEY, "last_request_at") == str(first.start_ms).encode()
    assert server.zcard(IN_FLIGHT) == 1


async def test_a_start_that_was_not_used_is_given_back(workers: Workers) -> None:
    """Nobody waits for a request that was cancelled before it went out."""
    worker = workers()
    first = await gone(worker, 1000, cap=5)
    second = await grant(worker, 1000, cap=5)
    worker.release(second, unused=True)
    third = await grant(worker, 1000, cap=5)
    assert third.start_ms == first.start_ms + 1000


async def test_a_start_is_not_given_back_once_another_follows(workers: Workers, server: redis.Redis) -> None:
    """One that came too late for the others to wait: the next keeps its distance from those."""
    worker = workers()
    late = await grant(worker, 1000, cap=5, latest_ms=0)
    await asyncio.sleep(0.002)
    second = await gone(worker, 1000, cap=5)
    worker.release(late, unused=True)
    third = await grant(worker, 1000, cap=5)
    assert third.start_ms == second.start_ms + 1000


@pytest.mark.parametrize("way", ["started", "released"])
async def test_no_start_is_reserved_before_the_last_one_is_known(
    workers: Workers, server: redis.Redis, way: str
) -> None:
    """By the news that it went out, or that it came back; the next one is behind the time it really had."""
    worker, other = workers(), workers()
    first = await grant(worker, 1000, cap=2)
    refused = await other.reserve("e.test", 1000, "lease", 2)
    assert isinstance(refused, Busy)
    assert refused.known
    assert 200 < refused.retry_ms <= 251
    await asyncio.sleep(0.06)
    if way == "started":
        worker.started(first, 50)
    else:
        worker.release(first, late_ms=50)
    await worker.flush()
    assert server.zcard(IN_FLIGHT) == (way == "started")
    assert (await grant(other, 1000, cap=2)).start_ms == first.start_ms + 1050 - LATE_FREE_MS


async def test_a_start_nobody_hears_of_counts_as_late_as_it_may_be(workers: Workers) -> None:
    """Its worker may have died before or after it."""
    dead, other = workers(), workers()
    first = await grant(dead, 100, cap=2, latest_ms=300)
    while isinstance(answer := await other.reserve("e.test", 100, "lease", 2), Busy):  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    assert answer.start_ms == first.start_ms + 300 + 100


async def test_the_next_start_keeps_its_distance_from_a_late_one(
    workers: Workers, server: redis.Redis
) -> None:
    """What counts is when a request really went out, if that is later than was reserved."""
    worker = workers()
    first = await grant(worker, 1000)
    await asyncio.sleep(0.12)
    worker.release(first, late_ms=100)
    assert (await grant(worker, 1000)).start_ms == first.start_ms + 1100 - LATE_FREE_MS


async def test_what_no_event_loop_can_keep_counts_as_in_time(workers: Workers) -> None:
    """Else it would be added to every interval."""
    worker = workers()
    first = await grant(worker, 1000)
    await asyncio.sleep(0.005)
    worker.release(first, late_ms=LATE_FREE_MS)
    assert (await grant(worker, 1000)).start_ms == first.start_ms + 1000


async def test_lateness_is_never_more_than_the_time_that_has_passed(
    workers: Workers, server: redis.Redis
) -> None:
    """An upper bound that is far too high does not push the next start into the future."""
    worker = workers()
    first = await grant(worker, 1000)
    worker.release(first, late_ms=3_000)
    second = await grant(worker, 1000)
    assert second.start_ms <= now_ms(server) + 1001


async def test_a_cancelled_reservation_leaks_no_place(workers: Workers, server: redis.Redis) -> None:
    """Whoever stops waiting for the answer does not hold the place it may have got."""
    worker = workers()
    for ticks in range(6):
        task = asyncio.create_task(worker.reserve("e.test", 0, "lease", 1))
        for _ in range(ticks):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            worker.release(task.result())
    await worker.flush()
    assert server.zcard(IN_FLIGHT) == 0
    await grant(worker)


HOLDER = """
import asyncio, sys
from crawlproj.connections import open_redis
from crawlproj.politeness.pace import LATE_FREE_MS
from crawlproj.politeness.runtime import DomainRuntime
from crawlproj.scripts import Scripts

async def main():
    runtime = DomainRuntime(Scripts(open_redis(sys.argv[1]), "test"), hold_ms=600)
    await runtime.reserve("e.test", 0, "lease", 1)
    print("held", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_a_place_is_held_while_its_worker_lives_and_free_soon_after_it_died(
    workers: Workers, redis_url: str
) -> None:
    """A live holder is renewed beyond the time a member counts; a killed one is forgotten after it."""
    process = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", HOLDER, redis_url], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert await asyncio.to_thread(process.stdout.readline) == "held\n"
        worker = workers()
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            answer = await worker.reserve("e.test", 0, "lease", 1)
            assert isinstance(answer, Busy)
            await asyncio.sleep(0.1)
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        killed = time.monotonic()
        assert isinstance(answer := await worker.reserve("e.test", 0, "lease", 1), Busy)
        assert answer.retry_ms <= 600
        while isinstance(await worker.reserve("e.test", 0, "lease", 1), Busy):
            assert time.monotonic() - killed < 1
            await asyncio.sleep(0.02)
        state = await worker.read("e.test")
        assert state is not None
        assert state.in_flight_count == 1
    finally:
        process.kill()
        process.stdout.close()
        process.wait(10)


async def test_reading_does_not_count_the_dead(workers: Workers, server: redis.Redis) -> None:
    """Members that nobody renews are not shown, even before anybody takes them out."""
    worker = workers()
    await grant(worker, 800, cap=2)
    server.zadd(IN_FLIGHT, {"dead": now_ms(server) - 1})
    state = await worker.read("e.test")
    assert state is not None
    assert (state.in_flight_count, state.min_interval_ms, state.min_interval_source) == (1, 800, "lease")
    assert await worker.read("unknown.test") is None


async def test_forgetting_a_domain_never_lets_a_request_out_early(
    workers: Workers, server: redis.Redis
) -> None:
    """The state is there until the interval has passed, also one that waits for its start."""
    worker = workers(keep_ms=0, hold_ms=60)
    worker.release(await grant(worker, 150, cap=2))
    second = await grant(worker, 150, cap=2)
    worker.release(second)
    await worker.flush()
    while server.exists(KEY):  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    assert now_ms(server) >= second.start_ms + 150


async def test_a_longer_interval_still_knows_the_last_start(workers: Workers) -> None:
    """A domain is remembered for `keep_ms` at least, so a new interval counts from the last start."""
    worker = workers(keep_ms=60_000)
    first = await grant(worker, 1)
    worker.release(first)
    await asyncio.sleep(0.05)
    assert (await grant(worker, 30_000)).start_ms == first.start_ms + 30_000


async def test_a_domain_that_rests_is_left_alone_by_everybody(workers: Workers, server: redis.Redis) -> None:
    """Nobody waits in a line for it; when it is over, the interval counts as ever."""
    worker, other = workers(), workers()
    first = await grant(worker, 50)
    worker.rest("e.test", 400)
    worker.release(first)
    await worker.flush()
    for each in (worker, other):
        answer = await each.reserve("e.test", 50, "lease", 1)
        assert isinstance(answer, Busy)
        assert answer.rests
        assert 0 < answer.retry_ms <= 401
    assert not server.exists(f"{{{KEY}}}:waiting")
    assert isinstance(await other.reserve("another.test", 50, "lease", 1), Grant)
    while isinstance(answer := await other.reserve("e.test", 50, "lease", 1), Busy):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert answer.start_ms >= first.start_ms + 400


async def test_a_shorter_rest_takes_no_longer_one_back_and_none_is_forgotten(
    workers: Workers, server: redis.Redis
) -> None:
    """Not even by a domain that nobody else knows, or whose other state ends before."""
    worker = workers(keep_ms=0, hold_ms=10)
    for domain in ("e.test", "new.test"):
        if domain == "e.test":
            worker.release(await grant(worker, 1))
        worker.rest(domain, 5000)
        worker.rest(domain, 100)
        await worker.flush()
        assert server.pttl(keys_of(domain)[0]) > 4000
        answer = await worker.reserve(domain, 0, "lease", 1)
        assert isinstance(answer, Busy)
        assert answer.retry_ms > 4000


async def test_idle_domains_leave_nothing_behind(workers: Workers, server: redis.Redis) -> None:
    """Neither in Redis nor in the worker, released late or not at all."""
    worker = workers(keep_ms=0, hold_ms=200)
    for n in range(300):
        answer = await worker.reserve(f"{n}.test", 20, "lease", 1)
        assert isinstance(answer, Grant)
        if n == 0:
            await asyncio.sleep(0.25)  # this one is released when its domain has been forgotten
        worker.release(answer)
    await worker.flush()
    server.zadd(keys_of("dead.test")[1], {"dead": now_ms(server)})
    server.pexpire(keys_of("dead.test")[1], 200)
    until = time.monotonic() + 3
    while server.dbsize():
        assert time.monotonic() < until
        await asyncio.sleep(0.02)
    assert not worker._held


async def test_a_release_that_comes_after_the_domain_was_forgotten_brings_nothing_back(
    workers: Workers, server: redis.Redis
) -> None:
    """It is answered like any other and leaves no key without an end."""
    worker = workers(keep_ms=0, hold_ms=20)
    late = await grant(worker)
    worker.abandon()  # it is renewed no more
    while server.dbsize():  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    arguments = (late.member, late.start_ms, late.interval_ms)
    for late_ms, under_way in ((5, 0), (5, 1), (-1, 0)):
        told = (*arguments, late_ms, under_way)
        assert await worker._scripts.call(worker._release, _keys("e.test"), *told) == 0
    assert server.dbsize() == 0


async def test_a_server_clock_that_was_set_back_does_not_stop_a_domain(
    workers: Workers, server: redis.Redis
) -> None:
    """A last start further in the future than any reservation reaches is not believed."""
    server.hset(KEY, mapping={"last_request_at": int(now_ms(server)) + 3_600_000, "min_interval_ms": 1000})
    answer = await grant(workers(), 1000)
    assert 0 < wait_ms(answer) <= 1001


async def test_a_key_that_is_something_else_fails_loudly(workers: Workers, server: redis.Redis) -> None:
    """The request fails with Redis' own words; it does not go out."""
    server.set(KEY, "x")
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        await workers().reserve("e.test", 0, "lease", 1)


async def test_scripts_that_the_server_forgot_are_loaded_again(workers: Workers, server: redis.Redis) -> None:
    """In the middle of work, without an error."""
    worker = workers()
    first = await grant(worker, cap=9)
    server.script_flush()
    worker.release(first)
    await grant(worker, cap=9)
    assert server.zcard(IN_FLIGHT) == 1


async def test_an_outage_lets_nobody_out_early(
    workers: Workers, own_valkey: OwnValkey, caplog: pytest.LogCaptureFixture
) -> None:
    """Requests wait for Redis; one that has forgotten the last start is not taken at its word."""
    worker, other = workers(own_valkey.url), workers(own_valkey.url)

    async def gone_in_turn(each) -> Grant:
        while isinstance(answer := await each.reserve("e.test", 5000, "lease", 5), Busy):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        each.started(answer, 0)
        return answer

    first = await grant(worker, 5000)
    went_out = time.monotonic()
    worker.release(first)
    await worker.flush()
    with caplog.at_level(logging.INFO):
        own_valkey.stop()
        waiting = [asyncio.create_task(gone_in_turn(each)) for each in (worker, worker, other)]
        await noticed(worker, other)
        own_valkey.start()
        grants = [(each, time.monotonic()) for each in await asyncio.gather(*waiting)]
    for each, handed_out in grants:
        assert max(handed_out, each.sure) >= went_out + 5
    starts = sorted(each.start_ms for each, _ in grants)
    assert min(after - before for before, after in pairwise(starts)) >= 5000
    assert len([each for each in caplog.records if each.levelno >= logging.WARNING]) == 2  # one a worker


async def test_a_reservation_under_way_when_redis_goes_is_not_believed_either(
    workers: Workers, own_valkey: OwnValkey
) -> None:
    """It was asked before the outage and answered after it, by a server that knows nothing."""
    worker = workers(own_valkey.url)
    first = await grant(worker, 1500, cap=3)
    went_out = time.monotonic()
    own_valkey.stop()
    waiting = asyncio.create_task(grant(worker, 1500, cap=3))
    await noticed(worker)
    assert not waiting.done()
    own_valkey.start()
    second = await waiting
    assert max(time.monotonic(), second.sure) >= went_out + 1.5
    assert first.start_ms < second.start_ms


async def test_releases_outlast_an_outage(workers: Workers, own_valkey: OwnValkey) -> None:
    """A place given back while Redis is away is given back when it returns."""
    worker = workers(own_valkey.url)
    first = await grant(worker)
    own_valkey.stop()
    worker.release(first)
    flushed = asyncio.create_task(worker.flush())
    await asyncio.sleep(0.05)
    assert not flushed.done()
    own_valkey.start()
    await flushed


async def test_flush_gives_up_when_a_place_has_expired_anyway(
    workers: Workers, own_valkey: OwnValkey
) -> None:
    """A worker that closes does not wait for a Redis that stays away."""
    worker = workers(own_valkey.url, hold_ms=300)
    first = await grant(worker)
    own_valkey.stop()
    worker.release(first)
    began = time.monotonic()
    await worker.flush()
    assert 0.2 < time.monotonic() - began < 1.5


async def test_a_full_server_takes_places_back_and_hands_none_out(
    workers: Workers, own_valkey: OwnValkey
) -> None:
    """Reservations wait until it has room again; releases free memory and are served."""
    worker = workers(own_valkey.url)
    operator = redis.Redis.from_url(own_valkey.url)
    first = await grant(worker)
    operator.config_set("maxmemory", "1")
    worker.release(first)
    await worker.flush()
    assert operator.zcard(IN_FLIGHT) == 0
    waiting = asyncio.create_task(grant(worker))
    await asyncio.wait([waiting], timeout=0.3)
    assert not waiting.done()
    operator.config_set("maxmemory", "0")
    await waiting
    operator.close()
