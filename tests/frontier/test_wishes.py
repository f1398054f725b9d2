"""What users of other frontiers have asked for, and what went wrong with theirs.

What needs whole workers is in `tests/crawl/test_wishes.py`.
"""

from __future__ import annotations

import asyncio

import pytest

from crawlproj.frontier.records import Outcome
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

LONG = 600  # seconds: a lease that the test's own pace does not end
HALF = LONG * 500  # milliseconds


# --- politeness and budgets -----------------------------------------------------------------------


async def test_fifty_calls_at_once_get_one_hand_out_a_window(fleet):
    """Nobody reads when a host was asked and writes it later: both are one step (URLFrontier)."""
    workers = [await fleet(min_interval_ms=100_000, host_max_in_flight=50) for _ in range(10)]
    await workers[0].schedule(links("a.test", 200))
    for _ in range(3):
        calls = [worker.next(str(n), 5, LONG) for n in range(5) for worker in workers]
        replies = await asyncio.gather(*calls)
        assert sum(len(reply.grants) for reply in replies) == 1
        await fleet.forward(100_000)


@pytest.fixture
async def spent(fleet):
    """A frontier with a host whose budget is spent, and what one could try with it."""
    frontier = await fleet(retry_delay_ms=0, host_max_in_flight=4)
    await frontier.set_host("a.test", total_budget=1)
    await frontier.schedule([*links("a.test", 4), *links("b.test", 1)])
    grants = {name_of(grant): grant for grant in await lease(frontier, seconds=LONG)}
    await succeed(frontier, grants["a.test/0"])
    assert await lease(frontier) == []
    return frontier, grants


async def test_every_way_in_refuses_a_host_over_its_budget(fleet, spent):
    """Retries, leases given back or run out, links of any kind: nothing is served (URLFrontier)."""
    frontier, grants = spent
    await frontier.finish(grants["a.test/1"].token, Outcome.RETRY)
    await frontier.release("w", [grants["a.test/2"].token])
    new = [link("a.test/h", head=True), link("a.test/f", forced=True), link("a.test/p", priority=9)]
    await frontier.finish(grants["b.test/0"].token, Outcome.SUCCEEDED, outlinks=new)
    await fleet.redis.rpush("start", "x")
    await frontier.take_from("start", b"x", links("a.test", 1, start=7))
    await fleet.forward(2 * HALF)  # and the lease of a.test/3 is over
    assert await lease(frontier) == []
    assert (frontier.figures.queued, frontier.figures.held, frontier.figures.leased) == (7, 7, 0)
    assert frontier.figures.idle
    await frontier.set_host("a.test", total_budget=100)
    assert len(await crawl(frontier)) == 7


async def test_a_host_over_its_budget_is_set_aside_whole_and_comes_back_whole(fleet):
    """Its URLs are not handed out one by one to be thrown away; more budget wakes it (UKWA)."""
    frontier = await fleet(total_budget=2)
    await frontier.schedule(links("a.test", 300))
    assert len(await crawl(frontier)) == 2
    assert (frontier.figures.queued, frontier.figures.held) == (298, 298)
    assert (frontier.figures.dead, frontier.figures.started) == (0, 2)
    await frontier.set_host("a.test", total_budget=5)
    assert await crawl(frontier) == ["a.test/2", "a.test/3", "a.test/4"]
    await frontier.set_host("a.test", total_budget=None)
    assert await crawl(frontier) == []
    await frontier.set_crawl(total_budget=7)
    assert await crawl(frontier) == ["a.test/5", "a.test/6"]


async def test_eight_refusals_are_one_step_and_zero_seconds_no_answer(fleet):
    """What was in flight together backs off once; `Retry-After: 0` is as good as none (Crawlee)."""
    frontier = await fleet(retry_delay_ms=1000, retry_delay_max_ms=HALF, host_max_in_flight=8)
    await frontier.schedule(links("a.test", 8))
    grants = await lease(frontier, seconds=LONG)
    assert len(grants) == 8
    for n, grant in enumerate(grants):
        asked = 0 if n % 2 else None
        await frontier.finish(grant.token, Outcome.RETRY, host_incident=True, retry_after_ms=asked)
    assert 0 < (await frontier.host("a.test")).next_due_ms <= 1250
    await fleet.forward(10_000)
    await frontier.finish((await lease_one_of(frontier)).token, Outcome.RETRY, host_incident=True)
    assert 1250 < (await frontier.host("a.test")).next_due_ms <= 2500


async def lease_one_of(frontier):
    """Return one lease, and give the others of the batch back."""
    first, *others = await lease(frontier, seconds=LONG)
    await frontier.release("w", [grant.token for grant in others])
    return first


# --- nothing is lost, nothing comes twice ---------------------------------------------------------


async def test_sums_that_do_not_agree_are_told(fleet):
    """Queued URLs that no queue leads to, or counts that are off, are named, not waited for (Heritrix)."""
    frontier = await fleet()
    await frontier.schedule([*links("a.test", 3), *links("b.test", 2)])
    assert await frontier.check() == []
    lost = await fleet.redis.lpop(frontier.prefix + "q:a.test")
    assert await frontier.check() != []
    await fleet.redis.lpush(frontier.prefix + "q:a.test", lost)
    assert await frontier.check() == []
    await fleet.redis.zrem(frontier.prefix + "ready", "b.test")
    assert "b.test" in " ".join(await frontier.check())
    assert await frontier.repair() == ["b.test"]
    assert await frontier.check() == []


@ONE_SERVER
async def test_an_injector_beside_25_workers_loses_nothing(fleet):
    """URLs are let in from outside while heads of queues are taken: each is served once (Heritrix)."""
    workers = [await fleet() for _ in range(25)]
    served, injected = [], asyncio.Event()

    async def work(frontier, name):
        while not (injected.is_set() and (await frontier.refresh()).idle):
            for grant in await lease(frontier, 2, worker=name):
                served.append(name_of(grant))
                await succeed(frontier, grant)

    async def inject(frontier):
        for n in range(40):
            await frontier.schedule([link(f"h{m}.test/{n}", head=n % 2 == 0) for m in range(5)])
            await fleet.redis.rpush("start", str(n))
            await frontier.take_from("start", str(n).encode(), links(f"h{n % 5}.test", 1, start=1000 + n))
        injected.set()

    await asyncio.gather(inject(await fleet()), *(work(each, str(n)) for n, each in enumerate(workers)))
    assert len(served) == len(set(served)) == 240


async def test_a_run_taken_up_twice_is_the_same_both_times(own_server, own_fleet):
    """Being taken up is no change: after each restart the same is pending (Heritrix)."""
    frontier = await own_fleet(retry_delay_ms=HALF)
    await frontier.schedule([link(f"h{n}.test/{m}", priority=m % 2) for n in range(5) for m in range(4)])
    retried, done = await lease(frontier, 2)
    await frontier.finish(retried.token, Outcome.RETRY)
    await succeed(frontier, done)
    before = await pending(frontier)
    assert len(before) == 19
    for _ in range(2):
        own_server.kill()
        own_server.start()
        again = await own_fleet(retry_delay_ms=HALF)
        assert await pending(again) == before
        await again.release("w", [grant.token for grant in await lease(again, 3)])
        assert await pending(again) == before


async def test_a_worker_killed_between_claim_and_report_holds_its_host_for_a_lease(fleet):
    """The host is not busy for ever: it is back with the lease's end, with all it has (UKWA)."""
    dead, frontier = await fleet(), await fleet()
    await frontier.schedule(links("a.test", 3))
    await lease_one(dead, seconds=LONG, worker="dead")
    await fleet.forward(HALF)
    granted = await frontier.next("w", 1, LONG)
    assert granted.grants == []
    assert 0 < granted.wait_ms <= HALF
    await fleet.forward(HALF)
    assert await crawl(frontier) == ["a.test/0", "a.test/1", "a.test/2"]


async def test_a_page_launched_again_takes_no_other_with_it(frontier):
    """The others of its host stay done, and so do the links that it leads to (UKWA)."""
    await frontier.schedule(links("a.test", 4))
    assert len(await crawl(frontier)) == 4
    await frontier.schedule([link("a.test/2", forced=True)])
    grant = await lease_one(frontier)
    assert name_of(grant) == "a.test/2"
    assert await frontier.finish(grant.token, Outcome.SUCCEEDED, outlinks=links("a.test", 4)) == (True, 0)
    assert await lease(frontier) == []
    assert frontier.figures.idle


async def test_reports_that_come_twice_count_once(fleet):
    """What is pending never falls below nothing, and the crawl ends (Crawlee)."""
    workers = [await fleet() for _ in range(6)]
    await workers[0].schedule([link(f"h{n}.test/") for n in range(10)])
    grants = await lease(workers[0])
    reports = [worker.finish(grant.token, Outcome.SUCCEEDED) for grant in grants for worker in workers]
    assert sum(in_time for in_time, _ in await asyncio.gather(*reports)) == 10
    figures = await workers[0].refresh()
    assert (figures.queued, figures.leased, figures.late) == (0, 0, 50)
    assert figures.idle
    assert await workers[0].seal()


async def test_leases_renewed_while_they_wait_are_nobody_elses(fleet):
    """25 fetched ahead and worked off one by one, for longer than a lease: none is given twice (Crawlee)."""
    frontier, other = await fleet(), await fleet()
    await frontier.schedule([link(f"h{n}.test/") for n in range(25)])
    waiting = await lease(frontier, 25, seconds=LONG)
    for _ in range(25):
        await fleet.forward(HALF)
        assert await frontier.renew("w", [grant.token for grant in waiting], LONG) == []
        assert await lease(other, worker="other") == []
        await succeed(frontier, waiting.pop())
    await frontier.schedule(links("last.test", 1))
    await lease_one(frontier, seconds=LONG)
    await fleet.forward(2 * HALF)  # and without that it is
    assert [name_of(grant) for grant in await lease(other, worker="other")] == ["last.test/0"]


async def test_a_restart_does_not_end_a_pause(own_server, own_fleet):
    """Neither a server's nor a worker's: nothing is served until somebody resumes (Browsertrix)."""
    frontier = await own_fleet()
    await frontier.schedule(links("a.test", 1))
    await frontier.pause()
    own_server.kill()
    own_server.start()
    again = await own_fleet()
    for each in (frontier, again):
        assert await lease(each) == []
        assert each.figures.paused
    await frontier.resume()
    assert len(await lease(again)) == 1


# --- what it costs --------------------------------------------------------------------------------


async def cost(redis, operation):
    """Return what a call costs the server, at least: its commands, those in scripts too, and microseconds."""
    counts, times = set(), []
    for _ in range(5):
        await redis.config_resetstat()
        await operation()
        stats = await redis.info("commandstats")
        stats = {name: each for name, each in stats.items() if name.split("|")[0] != "cmdstat_config"}
        counts.add(sum(each["calls"] for each in stats.values()))
        times.append(stats["cmdstat_evalsha"]["usec"])
    return min(counts), min(times)


def is_flat(few, many):
    """Say whether many things cost no more commands than few, and about as much time."""
    return many[0] <= few[0] + 5 and many[1] < 5 * few[1] + 100


async def test_hosts_that_are_not_due_cost_nothing(fleet):
    """A hand-out among thousands of snoozing hosts is as much work as among a few (URLFrontier)."""
    costs = []
    for n in (30, 3000):
        frontier = await fleet(f"crawl{n}", min_interval_ms=HALF)
        await frontier.schedule([link(f"h{number}.test/") for number in range(n)])
        grants = await lease(frontier, n, seconds=LONG)
        await asyncio.gather(*(frontier.finish(grant.token, Outcome.SUCCEEDED) for grant in grants))
        await frontier.schedule([link(f"h{number}.test/2") for number in range(n)])
        await frontier.set_crawl(interval_ms=0)
        await frontier.schedule([link(f"due{number}.test/") for number in range(10)])
        costs.append(await cost(fleet.redis, lambda frontier=frontier: lease_one(frontier)))
        assert (await frontier.refresh()).queued == n + 5
    assert is_flat(*costs), costs


async def test_a_restart_reads_no_queues(own_server, own_fleet):
    """After a kill the first URL is served with as little work as if there were no others (URLFrontier)."""
    sizes = {"few": 20, "many": 20_000}
    for name, n in sizes.items():
        frontier = await own_fleet(name)
        await frontier.schedule([link(f"h{number % 200}.test/{number}") for number in range(n)])
    own_server.kill()
    own_server.start()
    costs = []
    for name in sizes:
        await own_fleet.redis.script_flush()

        async def begin(name=name):
            frontier = await own_fleet(name)
            await succeed(frontier, await lease_one(frontier))

        costs.append(await cost(own_fleet.redis, begin))
    assert is_flat(*costs), costs


async def test_figures_cost_the_same_however_much_there_is(fleet):
    """They are kept, not counted (scrapy-cluster)."""
    costs = []
    for n in (10, 5000):
        frontier = await fleet(f"crawl{n}")
        await frontier.schedule([link(f"h{number}.test/") for number in range(n)])
        costs.append(await cost(fleet.redis, frontier.refresh))
        assert frontier.figures.queued == n
    assert is_flat(*costs), costs


async def test_a_url_takes_few_bytes(own_fleet):
    """In the queue and in the seen filter together less than twice its own length (scrapy-cluster)."""
    frontier = await own_fleet(seen_shards=256)
    path = "a-path-that-is-as-long-as-those-of-the-web-mostly-are"
    entries = [link(f"www.host-{n % 100}.test/{path}/{n}") for n in range(20_000)]
    await frontier.schedule(entries[:2000])
    before = (await own_fleet.redis.info("memory"))["used_memory"]
    await frontier.schedule(entries[2000:])
    used = ((await own_fleet.redis.info("memory"))["used_memory"] - before) / 18_000
    assert used < 2 * len(entries[-1].url)


async def test_a_host_that_is_done_leaves_no_key_of_its_own(fleet):
    """However many there were; and what is kept of it holds its interval."""
    frontier = await fleet(min_interval_ms=1000)
    counts = []
    for n in range(3):
        await frontier.schedule([link(f"h{n}-{number}.test/") for number in range(100)])
        await succeed(frontier, *await lease(frontier, seconds=LONG))
        await fleet.forward(1000)
        for _ in range(3):  # each wakes a few dozen
            await frontier.next("w", 0, LONG)
        counts.append(await fleet.redis.dbsize())
    assert counts[0] == counts[1] == counts[2] < 40, counts
    await frontier.schedule([link("h0-1.test/2")])
    await succeed(frontier, await lease_one(frontier, seconds=LONG))
    await frontier.schedule([link("h0-1.test/3")])
    assert await lease(frontier) == []


async def test_a_full_server_refuses_what_comes_and_takes_what_is_reported(own_fleet):
    """What would need memory waits, what frees it goes through; with room again nothing is missing."""
    frontier, other = await own_fleet(), await own_fleet()
    await frontier.schedule(links("a.test", 1))
    grant = await lease_one(frontier)
    await own_fleet.redis.config_set("maxmemory", 1)
    waiting = asyncio.create_task(other.schedule(links("b.test", 3)))
    await succeed(frontier, grant)
    assert (await frontier.refresh()).seen == 1
    assert not waiting.done()
    await own_fleet.redis.config_set("maxmemory", 0)
    assert await waiting == 3
    assert sorted(await crawl(frontier)) == ["b.test/0", "b.test/1", "b.test/2"]
