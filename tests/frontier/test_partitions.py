"""A frontier of several partitions is one frontier.

`test_cluster_partitions.py` runs these tests once more, on a Redis Cluster.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from itertools import count
from zlib import crc32

import pytest

from crawlproj.exceptions import BadSetting, Refused
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.partition import CHUNK
from crawlproj.frontier.records import Figures, Outcome
from tests.frontier.conftest import (
    ONE_SERVER,
    crawl,
    lease,
    lease_one,
    link,
    links,
    name_of,
    pending,
    succeed,
)

PARTS = 3
LONG = 600  # seconds: a lease that the test's own pace does not end
HOLD_MS = 5000  # as lua/seal.lua has it


def hosts_in(number: int, n: int) -> list[str]:
    """Return hosts of one partition."""
    found: list[str] = []
    for name in (f"h{each}.test" for each in count()):
        if crc32(name.encode()) % PARTS == number:
            found.append(name)
        if len(found) == n:
            return found
    raise AssertionError


A, B, C = (hosts_in(number, 1)[0] for number in range(PARTS))


@pytest.fixture
def make(fleet):
    """Return a function that makes or joins a frontier of three partitions."""

    async def made(name="crawl", **knobs):
        return await fleet(name, partitions=PARTS, **knobs)

    return made


@pytest.fixture
async def frontier(make):
    """One frontier of three partitions, without waits."""
    return await make()


async def lease_all(frontier, seconds=LONG):
    """Return all that is due, of all partitions."""
    found = []
    while grants := await lease(frontier, 100, seconds):
        found += grants
    return found


def by_part(frontier, what) -> list[int]:
    """Return one figure of each partition."""
    return [getattr(part.figures, what) for part in frontier.parts]


# --- in and out -----------------------------------------------------------------------------------


async def test_hosts_are_spread_and_each_url_enters_once(make):
    """Every partition has hosts; a host is in one of them, for every worker; sums are of all of them."""
    frontier, other = await make(), await make()
    entries = [entry for n in range(60) for entry in links(f"h{n}.test", 3)]
    added = await asyncio.gather(frontier.schedule(entries), other.schedule(entries))
    assert sum(added) == 180
    assert (await frontier.refresh()) == (await other.refresh())
    assert frontier.figures[:12] == (180, 0, 0, 0, 0, 180, 0, 0, 180, 180, 0, 0)
    assert min(by_part(frontier, "queued")) > 20
    assert sum(by_part(frontier, "queued")) == 180
    assert [view.host for view in await frontier.hosts()] == sorted(f"h{n}.test" for n in range(60))
    found = await crawl(other)
    assert Counter(found) == Counter(f"h{n}.test/{m}" for n in range(60) for m in range(3))
    assert other.figures.started == 180
    assert other.figures.idle


async def test_the_order_of_a_host(frontier):
    """As in one partition: by priority, then as they came."""
    for host in (A, B, C):
        await frontier.schedule(
            [*links(host, 4), link(f"{host}/p", priority=2), link(f"{host}/n", priority=-1)]
        )
    found = await crawl(frontier)
    for host in (A, B, C):
        own = [name.partition("/")[2] for name in found if name.startswith(host)]
        assert own == ["p", "0", "1", "2", "3", "n"]


async def test_a_token_tells_its_partition(frontier):
    """None is given twice, and each is good for what it was given for."""
    await frontier.schedule([link(f"h{n}.test/") for n in range(60)])
    grants = await lease(frontier, 30) + await lease(frontier, 60)
    assert len({grant.token for grant in grants}) == len(grants) == 60
    assert {grant.token % PARTS == crc32(grant.host.encode()) % PARTS for grant in grants} == {True}
    await succeed(frontier, *grants)
    assert frontier.figures.leased == 0


async def test_what_is_wanted_is_given_from_whatever_partition(frontier):
    """Work that is all in one partition is found; whoever got less than there is, is told to ask at once."""
    calls = Counter()
    for n, number in enumerate((0, 0, 1, 1, 2, 2, 0)):
        await frontier.schedule([link(f"{host}/{n}") for host in hosts_in(number, 12)])
        found = []
        while len(found) < 12:
            granted = await frontier.next("w", 12 - len(found), LONG)
            calls["made"] += 1
            found += granted.grants
            assert granted.wait_ms == 0 or len(found) == 12
        await succeed(frontier, *found)
    assert 7 < calls["made"] < 30


async def test_outlinks_enter_before_the_report(make):
    """Whoever sees the page ended sees its links, in whatever partition, in shares of any size."""
    frontier, other = await make(host_max_in_flight=2), await make()
    await frontier.schedule(links(A, 1))
    outlinks = [entry for host in (B, A, C) for entry in links(host, 2 * CHUNK + 50, start=1)]
    call = asyncio.create_task(
        frontier.finish((await lease_one(frontier)).token, Outcome.SUCCEEDED, outlinks=outlinks)
    )
    seen = []
    while not call.done():
        # The page's own partition is asked first: what the others have may only be more by then.
        await asyncio.gather(*(part.control("") for part in other.parts))
        seen.append((other.parts[0].figures.leased, sum(by_part(other, "seen"))))
    assert await call == (True, 6 * CHUNK + 150)
    assert any(leased for leased, _ in seen)
    assert {known for leased, known in seen if not leased} <= {6 * CHUNK + 151}
    assert (await other.refresh()).queued == 6 * CHUNK + 150


async def test_a_stale_report_ends_nothing(make, fleet):
    """Whichever partition it is of; the host's own links stay out."""
    frontier, other = await make(), await make()
    await frontier.schedule([link(f"{host}/") for host in (A, B, C)])
    late = await lease(frontier, seconds=LONG)
    await fleet.forward(LONG * 1000)
    assert len(await lease(other, worker="other", seconds=LONG)) == 3
    for grant in late:
        answer = await frontier.finish(grant.token, Outcome.SUCCEEDED, outlinks=links(grant.host, 300))
        assert answer == (False, 0)
    assert (await frontier.refresh()).late == 3
    assert (frontier.figures.leased, frontier.figures.queued) == (3, 0)


async def test_leases_of_all_partitions_are_renewed_given_back_and_reclaimed(make, fleet):
    """Each by its token; another's and stale ones are named."""
    frontier = await make()
    await frontier.schedule([link(f"h{n}.test/") for n in range(30)])
    grants = await lease_all(frontier)
    assert 0 not in by_part(frontier, "leased")
    tokens = [grant.token for grant in grants]
    assert sorted(await frontier.renew("other", tokens, LONG)) == sorted(tokens)
    await fleet.forward(LONG * 900)
    kept, given, lost = tokens[::3], tokens[1::3], tokens[2::3]
    assert await frontier.renew("w", kept, LONG) == []
    assert await frontier.release("other", given) == 0
    assert await frontier.release("w", given) == len(given)
    assert (await frontier.refresh()).started == 20
    await fleet.forward(LONG * 200)
    assert await frontier.reclaim() == len(lost)
    assert sorted(await frontier.renew("w", tokens, LONG)) == sorted(given + lost)
    assert (await frontier.refresh())[:3] == (20, 0, 10)
    assert len(await crawl(frontier)) == 20


async def test_results_and_endings_are_summed(frontier):
    """What ended how, wherever it was."""
    await frontier.schedule([link(f"{host}/{n}") for host in (A, B, C) for n in range(2)])
    for number, grant in enumerate(await lease(frontier)):
        await frontier.finish(grant.token, Outcome.SUCCEEDED, results=[number, 100 + number])
    for grant in await lease(frontier):
        await frontier.finish(grant.token, Outcome.UNREADABLE)
    figures = await frontier.refresh()
    assert (figures.results, figures.dead, figures.started, figures.seen) == (6, 3, 6, 6)


def test_sums():
    """Counts are added; paused if any is, closed if all are, stopped for the first reason there is.

    And filled as far as the one that has come least far.
    """
    one = Figures(*range(1, 13), paused=True, stop="", closed=True, version=3, filling=2)
    two = Figures(*range(10, 130, 10), paused=False, stop="why", closed=False, version=5)
    both = Figures.sum([one, two])
    assert both == (11, 22, 33, 44, 55, 66, 77, 88, 99, 110, 121, 132, True, "why", False, 5, 2)
    assert Figures.sum([one, two._replace(closed=True)]).closed
    assert Figures.sum([one, two._replace(filling=1)]).filling == 1


# --- limits ---------------------------------------------------------------------------------------


async def test_one_worker_starts_as_many_targets_as_allowed(make):
    """Exactly; raised, as many more, and what goes on a target that counted goes on."""
    frontier = await make(max_target=7, retry_delay_ms=0)
    await frontier.schedule([entry for n in range(20) for entry in links(f"h{n}.test", 2)])
    grants = await lease(frontier, 50)
    assert len(grants) == 7
    await frontier.finish(grants[0].token, Outcome.RETRY)
    await succeed(frontier, *grants[1:])
    assert len(await crawl(frontier)) == 1
    await frontier.set_crawl(max_target=9)
    assert len(await crawl(frontier)) == 2
    await frontier.set_crawl(max_target=0)
    assert len(await crawl(frontier)) == 31


async def test_several_workers_pass_the_limit_by_no_more_than_a_call_each(make):
    """By what they lease at the same moment; then nothing starts any more, whoever asks."""
    workers, n, most = [await make(max_target=20) for _ in range(4)], 5, 20
    await workers[0].schedule([link(f"h{number}.test/") for number in range(200)])

    async def work(worker):
        while grants := await lease(worker, n):
            await succeed(worker, *grants)

    await asyncio.gather(*(work(worker) for worker in workers))
    started = (await workers[0].refresh()).started
    assert most <= started <= most + len(workers) * n
    assert [await lease(worker) for worker in workers] == [[]] * 4
    assert (await workers[0].refresh()).started == started


async def test_the_bandwidth_of_all_hosts_is_that_of_all_partitions_together(make, fleet):
    """Three partitions take no more in a while than one would."""
    one, several = await fleet("one", total_bandwidth_kb=100), await make(total_bandwidth_kb=100)
    times = []
    for frontier in (one, several):
        await frontier.schedule([entry for host in (A, B, C) for entry in links(host, 10)])
        passed = 0
        while not frontier.figures.idle:
            granted = await frontier.next("w", 1, LONG)
            for grant in granted.grants:
                await frontier.finish(grant.token, Outcome.SUCCEEDED, size=102_400, duration_ms=0)
            if not granted.grants and granted.wait_ms:
                passed += granted.wait_ms
                await fleet.forward(granted.wait_ms)
        times.append(passed)
    assert 24_000 < times[0] <= 30_000
    assert 24_000 < times[1] <= 30_000


# --- the operator ---------------------------------------------------------------------------------


async def test_pause_stop_and_knobs_reach_every_partition(make):
    """At once, for every worker."""
    frontier, other = await make(), await make()
    await frontier.schedule([entry for host in (A, B, C) for entry in links(host, 3)])
    await frontier.pause()
    assert (await other.refresh()).paused
    assert await lease(other) == []
    await frontier.resume()
    await frontier.set_crawl(interval_ms=60_000)
    grants = await lease(other)
    assert sorted(grant.host for grant in grants) == sorted((A, B, C))
    assert other.knobs["interval_ms"] == 60_000
    await succeed(other, *grants)
    assert {view.state for view in await frontier.hosts()} == {"snoozed"}
    assert await lease(other) == []
    await frontier.stop("why")
    assert (await other.refresh()).stop == "why"
    await frontier.set_crawl(interval_ms=0)
    assert await lease(other) == []
    assert await other.seal()


async def test_a_host_is_its_partitions(frontier):
    """Its view and its knobs, a block, a priority; deleted, nothing of it is left, and the others are."""
    await frontier.schedule([entry for host in (A, B, C) for entry in links(host, 3)])
    for host in (A, B, C):
        await frontier.set_host(host, precedence=7, blocked=True)
        assert await frontier.host_knobs(host) == {"precedence": 7, "blocked": 1}
        view = await frontier.host(host)
        assert (view.host, view.state, view.queued) == (host, "retired", 3)
    assert (await frontier.refresh())[:2] == (9, 9)
    await frontier.set_host(B, blocked=False)
    assert await frontier.reprioritise(B, 5, lambda entry: entry.startswith(b"h1/2")) == 1
    (late,) = await lease(frontier)
    assert name_of(late) == f"{B}/2"
    assert await frontier.delete_host(B) == 2
    assert await frontier.host(B) is None
    assert await frontier.finish(late.token, Outcome.SUCCEEDED) == (False, 0)
    assert [view.host for view in await frontier.hosts()] == sorted((A, C))
    assert (await frontier.refresh())[:3] == (6, 6, 0)


async def test_what_is_pending_is_listed_once(make):
    """Queued or waiting for another attempt, of one host or all."""
    frontier = await make(retry_delay_ms=60_000)
    await frontier.schedule([entry for n in range(20) for entry in links(f"h{n}.test", 2)])
    for grant in await lease_all(frontier):
        await frontier.finish(grant.token, Outcome.RETRY)
    found = await pending(frontier)
    assert len(found) == 40
    assert len({(each.host, each.entry) for each in found}) == 40
    assert sum(each.delayed for each in found) == 20
    for host in (A, B, C):
        assert [each async for each in frontier.dump_pending(host)] == [
            each for each in found if each.host == host
        ]


async def test_dead_letters_of_all_partitions_are_queued_again(frontier):
    """By their ids, which tell the partition; the others stay."""
    await frontier.schedule([entry for host in (A, B, C) for entry in links(host, 2)])
    for _ in range(2):
        for grant in await lease(frontier):
            await frontier.finish(grant.token, Outcome.UNREADABLE)
    letters = [letter async for letter in frontier.dead_letters()]
    assert len({letter.id for letter in letters}) == len(letters) == frontier.figures.dead == 6
    again = [letter.id for letter in letters[::2]]
    assert await frontier.requeue(again) == 3
    assert await frontier.requeue(again) == 0
    left = [letter.id async for letter in frontier.dead_letters()]
    assert left == [letter.id for letter in letters[1::2]]
    assert len(await crawl(frontier)) == 3


async def test_faults_of_every_partition_are_found_and_mended(frontier, fleet):
    """`inspect` and `check` name them, `repair` puts hosts back."""
    await frontier.schedule([entry for host in (A, B, C) for entry in links(host, 2)])
    for part, host in zip(frontier.parts, (A, B, C), strict=True):
        await fleet.redis.zrem(part.prefix + "ready", host)
        assert host in " ".join(await frontier.check())
    assert sorted(await frontier.repair()) == sorted((A, B, C))
    assert await frontier.check() == await frontier.inspect() == []
    for part, host in zip(frontier.parts, (A, B, C), strict=True):
        await fleet.redis.zadd(part.prefix + "inactive", {host: 1})
        assert host in " ".join(await frontier.inspect())
        await fleet.redis.zrem(part.prefix + "inactive", host)
    assert len(await crawl(frontier)) == 6


async def test_a_stray_host_is_found_by_whoever_has_nothing_else(frontier, fleet):
    """In the middle of a crawl, in any partition."""
    await frontier.schedule(links(C, 2))
    await fleet.redis.delete(frontier.parts[2].prefix + "ready")
    assert await crawl(frontier) == [f"{C}/0", f"{C}/1"]


async def test_drop_takes_every_key(make, fleet):
    """Of all partitions, and nothing of another crawl whose name goes on like them."""
    frontier, other = await make("crawl"), await fleet("crawl:11")
    await other.schedule(links(A, 3))
    before = await fleet.snapshot()
    kept = {key for key in before if b"crawl:11" in key}
    await frontier.schedule([entry for n in range(30) for entry in links(f"h{n}.test", 2)])
    assert await frontier.exists()
    await frontier.drop()
    assert not await frontier.exists()
    assert set(await fleet.snapshot()) == kept
    with pytest.raises(Refused):
        await frontier.schedule(links(A, 1))


async def test_what_was_known_is_restored_where_it_belongs(make):
    """Seen is seen, in the partition that is asked."""
    frontier = await make(max_target=5)
    entries = [entry for n in range(20) for entry in links(f"h{n}.test", 2)]
    seen: dict[str, list[int]] = {}
    for entry in entries:
        seen.setdefault(entry.host, []).append(entry.fingerprint)
    await frontier.mark_seen(seen, results=[1, 2, 3], started=4)
    assert (await frontier.refresh())[:10] == (0, 0, 0, 4, 3, 40, 0, 0, 0, 4)
    assert await frontier.schedule(entries) == 0
    await frontier.schedule([link("new.test/"), link("newer.test/")])
    assert len(await crawl(frontier)) == 1


async def test_a_start_url_key_feeds_every_partition(frontier, fleet):
    """Taken once, with the requests of all hosts in it."""
    key = f"{{{frontier.prefix.partition('{')[2].partition('}')[0]}}}:start"
    await fleet.redis.rpush(key, "x")
    entries = [link(f"{host}/") for host in (A, B, C)]
    assert await frontier.peek(key, 5) == [b"x"]
    assert await frontier.take_from(key, b"x", entries)
    assert not await frontier.take_from(key, b"x", entries)
    assert sorted(await crawl(frontier)) == sorted(f"{host}/" for host in (A, B, C))


@pytest.mark.parametrize("there", [1, 2, 5])
async def test_another_number_of_partitions_is_refused(fleet, there):
    """More or fewer; nothing is changed, and it says which setting."""
    frontier = await fleet(partitions=there)
    await frontier.schedule(links(A, 2))
    before = await fleet.snapshot()
    for other in {1, 2, 3, 5} - {there}:
        with pytest.raises(BadSetting, match=f"FRONTIER_PARTITIONS must be {there}, as this crawl has it"):
            await fleet(partitions=other, interval_ms=7)
    assert await fleet.snapshot() == before


async def test_one_partition_is_where_a_frontier_without_them_is(fleet):
    """So that a command which does not know how many there are finds it."""
    frontier = await fleet(partitions=PARTS)
    assert frontier.prefix == Frontier(fleet.redis, None, "crawl").prefix


# --- the end --------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", [A, B, C])
async def test_a_run_ends_when_no_partition_has_anything_left(make, fleet, host):
    """Queued, leased or waiting for another attempt; then it takes no more, in any of them."""
    frontier, other = await make(retry_delay_ms=60_000, retry_delay_max_ms=60_000), await make()
    await frontier.schedule(links(host, 1))
    assert not await other.seal()
    grant = await lease_one(frontier)
    assert not await other.seal()
    await frontier.finish(grant.token, Outcome.RETRY)
    assert not await other.seal()
    await fleet.forward(60_000)
    await succeed(frontier, await lease_one(frontier))
    assert not (await other.refresh()).closed
    assert await other.seal()
    assert await frontier.seal()
    assert (await frontier.refresh()).closed
    for each in (A, B, C):
        with pytest.raises(Refused):
            await frontier.schedule(links(each, 1, start=9))
    assert await frontier.finish(grant.token, Outcome.SUCCEEDED, outlinks=links(A, 1, start=8)) == (False, 0)


@ONE_SERVER
async def test_no_link_is_lost_to_a_seal(make):
    """One URL at a time hops from partition to partition, while two others try to seal."""
    worker, *sealers = [await make() for _ in range(3)]
    chance = random.Random(3)
    hosts = [name for number in range(PARTS) for name in hosts_in(number, 4)]
    chain = [link(f"{chance.choice(hosts)}/{n}") for n in range(40)]
    await worker.schedule(chain[:1])
    done, tries = [], Counter()

    async def work():
        for after in range(1, len(chain) + 1):
            grants = []
            while not grants:
                grants = await lease(worker, 1)
            done.append(name_of(grants[0]))
            answer = await worker.finish(
                grants[0].token, Outcome.SUCCEEDED, outlinks=chain[after : after + 1]
            )
            assert answer == (True, len(chain[after : after + 1]))

    async def seal(sealer):
        while not await sealer.seal():
            tries["refused"] += 1
            for _ in range(chance.randrange(4)):
                await sealer.parts[0].control("")  # let others have their turn
        tries["sealed"] += 1
        assert len(done) == len(chain)

    async with asyncio.timeout(100):
        await asyncio.gather(work(), *(seal(sealer) for sealer in sealers))
    assert done == [entry.url.removeprefix("http://") for entry in chain]
    assert tries["refused"] > len(chain)
    assert tries["sealed"] == 2


@ONE_SERVER
async def test_a_start_that_meets_a_seal_is_in_or_refused(make):
    """Whoever comes first wins, in all partitions: never is one of them closed and another at work."""
    won = set()
    for n in range(25):
        one, other, third = [await make(f"race{n}") for _ in range(3)]

        async def start(one=one, n=n):
            for _ in range(2 * n):  # so many round trips later than the sealers
                await one.parts[0].control("")
            return await one.schedule([link(f"{(A, B, C)[n % 3]}/")])

        added, *sealed = await asyncio.gather(start(), other.seal(), third.seal(), return_exceptions=True)
        closed = {part.closed for part in [await closed_of(part) for part in one.parts]}
        assert len(closed) == 1
        figures = await one.refresh()
        assert any(sealed) is figures.closed is isinstance(added, Refused)
        assert figures.queued == (0 if figures.closed else 1)
        won.add(figures.closed)
    assert won == {True, False}


async def closed_of(part):
    """Return a partition's figures as they are now."""
    await part.control("")
    return part.figures


async def dies(*_):
    """Stand in for the next call of a worker that is killed."""
    raise ConnectionAbortedError


async def test_a_sealer_that_dies_holds_nothing_up_for_long(make, fleet, monkeypatch):
    """What wants to enter waits for the time of a hold, and then does; so do leases."""
    frontier, dead = await make(), await make()
    await frontier.schedule(links(C, 1))
    grant = await lease_one(frontier, seconds=LONG)
    monkeypatch.setattr(dead.parts[2], "seal", dies)
    with pytest.raises(ConnectionAbortedError):
        await dead.seal()
    call = asyncio.create_task(frontier.finish(grant.token, Outcome.SUCCEEDED, outlinks=links(A, 2)))
    await fleet.forward(HOLD_MS - 1000)
    _, waiting = await asyncio.wait([call], timeout=0.3)
    assert waiting
    await fleet.forward(1000)
    assert await call == (True, 2)
    assert await crawl(frontier) == [f"{A}/0", f"{A}/1"]
    assert await frontier.seal()


async def test_a_run_whose_sealer_died_is_sealed_by_the_next(make, fleet, monkeypatch):
    """Before, during or after it has closed the first partition; not at once, if it may be alive."""
    for calls, name in enumerate(["first", "second", "close1", "close2", "close3"]):
        dead = await make(name)
        left = [3 * min(calls, 2) + max(calls - 2, 0)]
        real = dead.parts[0].seal.__func__

        async def seal(part, *given, real=real, left=left):
            left[0] -= 1
            return await (real(part, *given) if left[0] >= 0 else dies())

        for part in dead.parts:
            monkeypatch.setattr(part, "seal", seal.__get__(part))
        with pytest.raises(ConnectionAbortedError):
            await dead.seal()
        frontier = await make(name)
        if calls:
            assert not await frontier.seal()
        await fleet.forward(HOLD_MS)
        if calls > 2:  # joining is enough
            frontier = await make(name)
            assert (await frontier.refresh()).closed
        assert await frontier.seal()
        with pytest.raises(Refused):
            await frontier.schedule([link(f"{host}/") for host in (A, B, C)])


@pytest.mark.parametrize("number", range(PARTS))
async def test_a_sealer_that_was_slow_closes_nothing(make, fleet, monkeypatch, number):
    """What has entered since its hold ran out is crawled, in all partitions, those closed before as well."""
    frontier, slow = await make(), await make()
    real = slow.parts[number].seal

    async def seal(what, sealer):
        if what == "close":
            await fleet.forward(HOLD_MS)
            await frontier.schedule([link(f"{(A, B, C)[number]}/")])
        return await real(what, sealer)

    monkeypatch.setattr(slow.parts[number], "seal", seal)
    assert not await slow.seal()
    grant = await lease_one(frontier)
    outlinks = [link(f"{host}/2") for host in (A, B, C)]
    assert await frontier.finish(grant.token, Outcome.SUCCEEDED, outlinks=outlinks) == (True, 3)
    assert len(await crawl(frontier)) == 3
    assert await frontier.seal()


async def test_a_sealer_does_not_take_anothers_hold_away(make):
    """While one looks twice, another that gives up leaves its hold as it is."""
    frontier, one, other = [await make() for _ in range(3)]
    assert [await part.seal("hold", "one") for part in one.parts] == [(1, 0, 1)] * 3
    assert not await other.seal()
    call = asyncio.create_task(frontier.schedule(links(A, 1)))
    _, waiting = await asyncio.wait([call], timeout=0.2)
    assert waiting
    for part in one.parts:
        await part.seal("let_go", "one")
    assert await call == 1


async def test_a_crawl_that_is_to_pause_at_its_finish_does_when_all_of_it_is_through(make):
    """No partition pauses while another has work; resumed once, it may end; something new, and it pauses."""
    frontier = await make(pause_at_finish=1)
    assert await lease(frontier) == []
    assert not frontier.figures.paused  # it has not begun
    await frontier.schedule(links(A, 1))
    grant = await lease_one(frontier)
    for n, host in enumerate((B, C, A, B)):
        assert await lease(frontier) == []
        outlinks = [link(f"{host}/next{n}")]
        assert await frontier.finish(grant.token, Outcome.SUCCEEDED, outlinks=outlinks) == (True, 1)
        assert not await frontier.seal()
        grant = await lease_one(frontier)
        assert not frontier.figures.paused
    await succeed(frontier, grant)
    assert await lease(frontier) == []
    assert frontier.figures.paused
    assert not await frontier.seal()
    await frontier.resume()
    assert await lease(frontier) == []
    assert not frontier.figures.paused
    await frontier.schedule(links(C, 1))
    assert await crawl(frontier) == [f"{C}/0"]
    assert frontier.figures.paused
    await frontier.resume()
    assert await frontier.seal()


async def test_a_crawl_that_is_to_pause_at_its_finish_is_not_sealed_instead(make):
    """Also by a worker that comes to seal it before anybody has asked for more; a stop does not wait."""
    frontier = await make(pause_at_finish=1)
    await frontier.schedule([link(f"{host}/") for host in (A, B, C)])
    await succeed(frontier, *await lease(frontier))
    assert not await frontier.seal()
    assert (await frontier.refresh()).paused
    await frontier.stop("why")
    assert await frontier.seal()


async def test_hosts_that_have_something_to_do_are_counted(fleet):
    """Over all partitions: those that wait for their turn or their time, and those in process."""
    frontier = await fleet(partitions=3, interval_ms=60_000)
    await frontier.schedule([entry for n in range(9) for entry in links(f"h{n}.test", 2)])
    assert await frontier.busy_hosts() == 9
    grants = await lease(frontier)
    assert (len(grants), await frontier.busy_hosts()) == (9, 9)
    await succeed(frontier, *grants[:5])
    assert await frontier.busy_hosts() == 9
