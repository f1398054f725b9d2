"""One robots.txt for the fleet, on a real server."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

import pytest

from crawlproj.politeness import fleet_robots
from crawlproj.politeness.fleet_robots import ENTRY_BYTES, FleetRobots, Memory, Verdict
from crawlproj.politeness.robots import Finding, RobotsFile, Rules, from_answer

if TYPE_CHECKING:
    import redis

    from tests.politeness.conftest import OwnValkey

SITE = "http://e.test"
KEY = "downloader:robots:http://e.test"
FORBIDDING = from_answer(200, b"User-agent: *\nDisallow: /no\n")


class Source:
    """Where robots.txt comes from in these tests."""

    def __init__(self, file: RobotsFile = FORBIDDING, delay: float = 0.0) -> None:
        self.file = file
        self.delay = delay
        self.asked = 0

    async def __call__(self) -> RobotsFile:
        self.asked += 1
        await asyncio.sleep(self.delay)
        return self.file


async def nothing(authority: str, rules: Rules) -> None:
    """Serve as a `found` that does nothing."""


@pytest.fixture
def worker(open_scripts):
    """Return the robots.txt of one more worker."""

    def one_more(*, found=nothing, url=None, **settings) -> FleetRobots:
        settings = {"keep_seconds": 60, "retry_seconds": 30, **settings}
        return FleetRobots(open_scripts(url), found, **settings)

    return one_more


async def test_everybody_waits_for_the_one_answer(worker) -> None:
    """Eight requests at once in each of three workers: one of them fetches, all have its rules."""
    fleet = [worker() for _ in range(3)]
    source = Source(delay=0.2)
    verdicts = await asyncio.gather(*(each.find(SITE, source) for each in fleet * 8))
    assert source.asked == 1
    assert not any(verdict.rules.allows(f"{SITE}/no", "x") for verdict in verdicts)


async def test_authorities_do_not_share_an_answer(worker) -> None:
    """Scheme and port are part of it."""
    robots, source = worker(), Source()
    for authority in ("http://e.test", "https://e.test", "http://e.test:8080", "http://f.test"):
        await robots.find(authority, source)
    assert source.asked == 4


async def test_what_is_known_costs_nothing(worker, server: redis.Redis) -> None:
    """After the first time neither the site nor Redis is asked."""
    robots, source = worker(), Source()
    assert robots.known(SITE) is None
    await robots.find(SITE, source)
    server.flushdb()
    verdict = robots.known(SITE)
    assert verdict is not None
    assert not verdict.rules.allows(f"{SITE}/no", "x")


async def test_an_answer_is_kept_for_its_time_in_redis_and_in_the_worker(worker, server: redis.Redis) -> None:
    """A worker that comes later does not keep it longer than the first one."""
    now = 1000.0
    source = Source()
    await worker(keep_seconds=60).find(SITE, source)
    assert 59_000 < server.pttl(KEY) <= 60_000
    server.pexpire(KEY, 5_000)
    later = worker(clock=lambda: now)
    verdict = await later.find(SITE, source)
    assert 4_000 < verdict.left_ms(now) <= 5_000
    now += 6
    assert later.known(SITE) is None


async def test_a_server_that_cannot_say_is_asked_again_later(worker, server: redis.Redis) -> None:
    """Not before the retry time, and not never."""
    now = 1000.0
    robots = worker(retry_seconds=30, clock=lambda: now)
    source = Source(from_answer(503, b""))
    assert (await robots.find(SITE, source)).rules.finding is Finding.UNREACHABLE
    assert 29_000 < server.pttl(KEY) <= 30_000
    now += 29
    assert robots.known(SITE) is not None
    now += 2
    assert robots.known(SITE) is None
    server.delete(KEY)  # its time has come there as well
    source.file = FORBIDDING
    assert (await robots.find(SITE, source)).rules.finding is Finding.RULES
    assert source.asked == 2


async def test_a_worker_that_dies_while_it_fetches_holds_the_others_up_for_the_lock_only(
    worker, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock runs out, and the next one fetches."""
    server.set(f"{{{KEY}}}:lock", "dead", px=300)
    source = Source()
    began = time.monotonic()
    await worker().find(SITE, source)
    assert 0.2 < time.monotonic() - began < 2
    assert source.asked == 1


async def test_a_fetch_that_takes_long_keeps_its_lock(worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others go on waiting, also beyond the time that a lock lasts."""
    monkeypatch.setattr(fleet_robots, "LOCK_SECONDS", 0.15)
    source = Source(delay=0.6)
    await asyncio.gather(*(worker().find(SITE, source) for _ in range(3)))
    assert source.asked == 1


async def test_the_lock_is_gone_afterwards(worker, server: redis.Redis) -> None:
    """Whether the fetch came to something or broke."""

    async def broken() -> RobotsFile:
        raise RuntimeError("a bug")

    robots = worker()
    with pytest.raises(RuntimeError):
        await robots.find(SITE, broken)
    await robots._scripts.flush()
    assert server.dbsize() == 0
    await robots.find(SITE, Source())
    assert server.keys("*") == [KEY.encode()]


async def test_whoever_gives_up_waiting_does_so_alone(worker) -> None:
    """The search goes on for the others."""
    robots, source = worker(), Source(delay=0.2)
    impatient = asyncio.create_task(robots.find(SITE, source))
    patient = asyncio.create_task(robots.find(SITE, source))
    await asyncio.sleep(0.05)
    impatient.cancel()
    assert (await patient).rules.finding is Finding.RULES
    assert source.asked == 1


async def test_closing_gives_up_searches_and_their_locks(worker, server: redis.Redis) -> None:
    """A worker that closes leaves the way free."""
    robots = worker()
    waiting = asyncio.create_task(robots.find(SITE, Source(delay=60)))
    await asyncio.sleep(0.05)
    await robots.close()
    await asyncio.wait([waiting])
    await robots._scripts.flush()
    assert waiting.cancelled()
    assert server.dbsize() == 0


async def test_what_is_none_of_ours_is_fetched_anew(
    worker, server: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """Rubbish under the key is reported once and replaced."""
    server.set(KEY, b"\x80\x04rubbish")
    source = Source()
    with caplog.at_level(logging.WARNING):
        await worker().find(SITE, source)
        await worker().find(SITE, source)
    assert source.asked == 1
    assert len(caplog.records) == 1


async def test_an_outage_of_redis_is_waited_for(worker, own_valkey: OwnValkey) -> None:
    """No request goes out on no rules because Redis is away."""
    robots, source = worker(url=own_valkey.url), Source()
    own_valkey.stop()
    waiting = asyncio.create_task(robots.find(SITE, source))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    own_valkey.start()
    assert (await waiting).rules.finding is Finding.RULES


async def test_everybody_is_told_what_was_found_before_anybody_goes_on(worker) -> None:
    """Once in each worker, whether it came from the site or from Redis."""
    told: list[tuple[str, Finding]] = []

    async def found(authority: str, rules: Rules) -> None:
        await asyncio.sleep(0.05)
        told.append((authority, rules.finding))

    for _ in range(2):
        robots = worker(found=found)
        waiting = [asyncio.create_task(robots.find(SITE, Source())) for _ in range(4)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert told
    assert told == [(SITE, Finding.RULES)] * 2


async def test_a_large_file_does_not_stop_the_event_loop(worker) -> None:
    """Half a megabyte of rules takes long to read, and others go on meanwhile."""
    body = b"User-agent: *\n" + b"".join(b"Disallow: /*a*%d*$\n" % n for n in range(22_000))
    longest = 0.0
    done = False

    async def tick() -> None:
        nonlocal longest
        while not done:
            before = time.monotonic()
            await asyncio.sleep(0.001)
            longest = max(longest, time.monotonic() - before)

    ticking = asyncio.create_task(tick())
    began = time.monotonic()
    await worker().find(SITE, Source(from_answer(200, body)))
    took = time.monotonic() - began
    done = True
    await ticking
    assert longest < took / 2


def test_the_memory_of_a_worker_is_bounded() -> None:
    """By bytes; what was not used for longest goes first."""
    memory = Memory(max_bytes=3 * ENTRY_BYTES)
    verdict = Verdict(Rules(RobotsFile(finding=Finding.ABSENT)), 10.0)
    for authority in ("a", "b", "c"):
        memory.put(authority, verdict)
    assert memory.get("a", 0) is verdict
    memory.put("d", verdict)
    assert [memory.get(each, 0) is not None for each in "abcd"] == [True, False, True, True]
    large = Verdict(Rules(from_answer(200, b"#" * 10 * ENTRY_BYTES)), 10.0)
    memory.put("large", large)
    assert len(memory) == 1
    assert memory.get("large", 0) is large
    memory.put("e", verdict)
    assert memory.get("large", 0) is None


def test_the_memory_does_not_outlive_its_time() -> None:
    """And putting it again counts it once."""
    memory = Memory(max_bytes=2 * ENTRY_BYTES)
    verdict = Verdict(Rules(RobotsFile(finding=Finding.ABSENT)), 10.0)
    for _ in range(5):
        memory.put("a", verdict)
    memory.put("b", verdict)
    assert memory.get("a", 9.9) is verdict
    assert memory.get("a", 10.0) is None
    assert len(memory) == 1
