"""A run from its first URL to its end, and what servers and operators do to it meanwhile."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import AsyncExitStack

import pytest
import redis

from crawlproj.exceptions import Refused
from crawlproj.frontier.partition import CHUNK
from crawlproj.frontier.records import Outcome
from tests.frontier.conftest import ONE_SERVER, Fleet, crawl, lease, lease_one, link, links, name_of, succeed

# --- switches -------------------------------------------------------------------------------------


async def test_nothing_starts_after_a_stop(frontier):
    """What is leased goes on to its end; the first reason stands."""
    await frontier.schedule(links("a.test", 2))
    grant = await lease_one(frontier)
    await frontier.stop("ExceedRunningTime")
    await frontier.stop("later")
    await succeed(frontier, grant)
    assert await lease(frontier) == []
    assert frontier.figures.stop == "ExceedRunningTime"
    assert await frontier.schedule(links("b.test", 1)) == 1


@pytest.mark.parametrize("reason", ["", "0", "5", "nan", "inf", "1e999", "a b\nc", "ü"])
async def test_any_reason_stops(fleet, reason):
    """Also one that looks like a number, or like nothing."""
    frontier, other = await fleet(), await fleet()
    await frontier.schedule(links("a.test", 1))
    await frontier.stop(reason)
    assert await lease(other) == []
    assert other.figures.stop == (reason or "stopped")


async def test_a_pause_holds_for_every_worker(fleet):
    """Also for those that come later; leases end as usual; it goes on where it was."""
    frontier = await fleet()
    await frontier.schedule([*links("a.test", 2), *links("b.test", 1)])
    grant = await lease_one(frontier)
    await frontier.pause()
    other = await fleet()
    assert await lease(other) == []
    assert other.figures.paused
    await succeed(frontier, grant)
    assert await lease(frontier) == []
    await other.resume()
    assert sorted(await crawl(frontier)) == ["a.test/1", "b.test/0"]


async def test_targets_are_limited_exactly(fleet):
    """Eight workers at once start as many as allowed, not one more; tries do not count."""
    workers = [await fleet(max_target=37, retry_delay_ms=0) for _ in range(8)]
    await workers[0].schedule([link(f"h{n}.test/") for n in range(100)])
    started = []

    async def work(frontier, name):
        chance = random.Random(name)
        for _ in range(20):
            for grant in await lease(frontier, 5, worker=name):
                if chance.random() < 0.2 and await frontier.release(name, [grant.token]):
                    continue
                if grant.attempts == 0:
                    started.append(name_of(grant))
                await frontier.finish(grant.token, chance.choice([Outcome.SUCCEEDED, Outcome.RETRY]))

    await asyncio.gather(*(work(worker, str(n)) for n, worker in enumerate(workers)))
    assert len(started) == len(set(started)) == 37
    assert (await workers[0].refresh()).started == 37


async def test_a_target_that_has_to_wait_keeps_its_place(fleet):
    """What was looked at and not given is the host's next all the same."""
    frontier = await fleet(max_target=1, host_max_in_flight=2)
    await frontier.schedule([*links("a.test", 3), link("a.test/p", priority=1)])
    grant = await lease_one(frontier)
    assert name_of(grant) == "a.test/p"
    for _ in range(2):
        assert await lease(frontier) == []
    await frontier.release("w", [grant.token])
    frontier = await fleet(max_target=4, host_max_in_flight=2)
    assert await crawl(frontier) == ["a.test/p", "a.test/0", "a.test/1", "a.test/2"]


# --- seal -----------------------------------------------------------------------------------------


async def test_a_run_is_sealed_when_nothing_is_left(fleet):
    """Not while something is queued, leased, or waits for another try."""
    frontier = await fleet(retry_delay_ms=30)
    await frontier.schedule(links("a.test", 1))
    assert not await frontier.seal()
    grant = await lease_one(frontier)
    assert not await frontier.seal()
    await frontier.finish(grant.token, Outcome.RETRY)
    assert not await frontier.seal()
    await asyncio.sleep((await frontier.next("w", 0, 60)).wait_ms / 1000)
    assert not await frontier.seal()
    await succeed(frontier, await lease_one(frontier))
    assert await frontier.seal()
    assert frontier.figures.closed
    assert await frontier.seal()


async def test_a_stopped_run_is_sealed_when_nothing_runs(frontier):
    """What is still queued is not to be done."""
    await frontier.schedule(links("a.test", 2))
    grant = await lease_one(frontier)
    await frontier.stop("enough")
    assert not await frontier.seal()
    await succeed(frontier, grant)
    assert await frontier.seal()


async def test_what_a_retired_host_holds_keeps_no_run_open(fleet):
    """Blocked or out of budget: that is a decision, not work."""
    frontier = await fleet(total_budget=1)
    await frontier.schedule([*links("a.test", 2), *links("b.test", 1)])
    await frontier.set_host("b.test", blocked=True)
    assert await crawl(frontier) == ["a.test/0"]
    assert await frontier.seal()


async def test_a_sealed_run_takes_nothing(frontier, fleet):
    """It says so in one sentence, and what was refused is not seen."""
    assert await frontier.seal()
    before = await fleet.snapshot()
    with pytest.raises(Refused, match="sealed"):
        await frontier.schedule(links("a.test", 1))
    await fleet.redis.lpush("start", "http://a.test/")
    with pytest.raises(Refused, match="sealed"):
        await frontier.take_from("start", b"http://a.test/", links("a.test", 1))
    assert await fleet.redis.llen("start") == 1
    await fleet.redis.delete("start")
    assert await fleet.snapshot() == before
    assert (await frontier.next("w", 1, 60)).grants == []
    assert not (await frontier.finish(1, Outcome.SUCCEEDED, outlinks=links("a.test", CHUNK + 1)))[0]


async def test_a_dropped_run_is_over_for_everybody(fleet):
    """A worker that comes too late hears that there is nothing to do, not an error."""
    frontier, other = await fleet(), await fleet()
    await frontier.schedule(links("a.test", 1))
    grant = await lease_one(other)
    await frontier.drop()
    assert not await frontier.exists()
    assert await other.finish(grant.token, Outcome.SUCCEEDED, outlinks=links("a.test", CHUNK + 1)) == (
        False,
        0,
    )
    assert await other.renew("w", [grant.token], 60) == [grant.token]
    assert await other.release("w", [grant.token]) == 0
    assert await other.next("w", 1, 60) == (None, [], True)
    assert not await other.seal()
    assert other.figures.closed
    with pytest.raises(Refused):
        await other.schedule(links("a.test", 1))
    assert await fleet.snapshot() == {}


@ONE_SERVER
async def test_sealing_and_scheduling_exclude_each_other(fleet):
    """Whoever comes first wins: either the URL is queued and the run open, or it is refused and unseen."""
    won = set()
    for n in range(60):
        one, other = await fleet(f"race{n}"), await fleet(f"race{n}")
        calls = [one.schedule(links("a.test", 1)), other.seal()]
        if n % 2:
            added, sealed = await asyncio.gather(*calls, return_exceptions=True)
        else:
            sealed, added = await asyncio.gather(*calls[::-1], return_exceptions=True)
        won.add(sealed)
        figures = await one.refresh()
        assert sealed is figures.closed is isinstance(added, Refused)
        assert figures.queued == figures.seen == (0 if sealed else 1)
    assert won == {True, False}


async def test_drop_leaves_no_key(fleet):
    """Whatever the run has grown."""
    frontier = await fleet(max_kills=1, total_budget=2)
    before = await fleet.snapshot()
    await frontier.schedule([link(f"h{n}.test/{m}", priority=m - 2) for n in range(20) for m in range(5)])
    await frontier.set_host("h1.test", blocked=True)
    await frontier.set_host("unknown.test", interval_ms=5)
    for n, grant in enumerate(await lease(frontier, 15)):
        outcome = list(Outcome)[n % len(Outcome)]
        await frontier.finish(
            grant.token, outcome, host_incident=n % 2 == 0, results=[n], outlinks=links("x.test", 2)
        )
    await lease(frontier, 3, seconds=0.001)
    await asyncio.sleep(0.003)
    await frontier.reclaim()
    await lease(frontier, 2)
    assert len(await fleet.snapshot()) > 80
    await frontier.drop()
    assert await fleet.snapshot() == {}
    assert len(before) == 1


# --- an operator's view ---------------------------------------------------------------------------


async def test_hosts_as_an_operator_sees_them(fleet):
    """Every host once, in each of the six states."""
    frontier = await fleet(ready_backlog=1)
    for host in ("done", "waits", "busy", "blocked", "later"):
        await frontier.schedule(links(host, 1 if host == "done" else 2))
    await frontier.set_host("waits", interval_ms=60_000)
    await frontier.set_host("blocked", blocked=True)
    grants = {grant.host: grant for grant in await lease(frontier, 3)}
    assert set(grants) == {"done", "waits", "busy"}
    await succeed(frontier, grants["done"], grants["waits"])
    await frontier.schedule(links("ready", 2))
    views = {view.host: view for view in await frontier.hosts()}
    assert {host: view.state for host, view in views.items()} == {
        "done": "exhausted",
        "waits": "snoozed",
        "busy": "in-process",
        "blocked": "retired",
        "ready": "ready",
        "later": "inactive",
    }
    assert list(views) == sorted(views)
    busy = views["busy"]
    assert (busy.queued, busy.in_flight, busy.spent, busy.budget) == (1, 1, 0, -1)
    assert 0 < views["waits"].next_due_ms <= 60_000
    assert await frontier.host("nobody") is None


async def test_many_hosts_are_listed(frontier):
    """More of them than one round trip asks for."""
    names = [f"h{n:03}.test" for n in range(2 * CHUNK + 30)]
    await frontier.schedule([link(f"{name}/") for name in names])
    assert [view.host for view in await frontier.hosts()] == names


# --- a server in trouble --------------------------------------------------------------------------


LOSE = """
for _, name in ipairs({ 'ready', 'inactive', 'snoozed' }) do
  redis.call('ZREM', KEYS[1] .. name, ARGV[1])
end
redis.call('SREM', KEYS[1] .. 'inprocess', ARGV[1])
redis.call('SREM', KEYS[1] .. 'retired', ARGV[1])
"""


async def lose(fleet, frontier, host):
    """Take a host out of whatever leads to it."""
    await fleet.redis.eval(LOSE, 1, frontier.prefix, host)
    faults = await frontier.check()
    assert f"{host} has keys and is nowhere" in faults


@pytest.mark.parametrize("structure", ["ready", "inactive", "snoozed"])
async def test_a_host_that_is_nowhere_is_named_and_found(fleet, structure, caplog):
    """Its URLs are crawled, and the run does not end without them."""
    frontier = await fleet(ready_backlog=1 if structure == "inactive" else 50)
    await frontier.schedule([*links("b.test", 1), *links("a.test", 3)])
    if structure == "snoozed":
        await succeed(frontier, *await lease(frontier))
        await frontier.set_host("a.test", interval_ms=50)
        await succeed(frontier, await lease_one(frontier))
        await asyncio.sleep(0.06)
    assert (await frontier.host("a.test")).state == structure
    await lose(fleet, frontier, "a.test")
    await frontier.set_host("unrelated.test", interval_ms=5)
    assert not frontier.figures.idle
    done = await crawl(frontier)
    while not frontier.figures.idle:
        await asyncio.sleep(0.01)
        done += await crawl(frontier)
    assert done[-1] == "a.test/2"
    assert [record.levelname for record in caplog.records] == ["ERROR"]


@pytest.mark.parametrize("state", ["retired", "without its fields"])
async def test_a_host_that_is_nowhere_is_put_back_where_it_was(fleet, state):
    """With what it has queued and leased, counted anew."""
    frontier = await fleet()
    await frontier.schedule([*links("a.test", 3), *links("b.test", 1), link("a.test/p", priority=-1)])
    if state == "retired":
        await frontier.set_host("a.test", blocked=True)
    grants = await lease(frontier)
    before = await frontier.host("a.test")
    assert before.state == (state if state == "retired" else "in-process")
    if state == "without its fields":
        await fleet.redis.delete(frontier.prefix + "h:a.test")
    await lose(fleet, frontier, "a.test")
    assert await frontier.repair() == ["a.test"]
    assert await frontier.host("a.test") == before
    assert await frontier.check() == []
    await succeed(frontier, *grants)


async def test_a_run_whose_hosts_are_whole_is_not_repaired(frontier, fleet):
    """There is nothing to put back, and nothing changes."""
    await frontier.schedule([link(f"h{n}.test/") for n in range(10)])
    before = await fleet.snapshot()
    assert await frontier.repair() == []
    assert await fleet.snapshot() == before


async def test_a_name_like_a_pattern_is_a_name(fleet):
    """What is nowhere in one crawl is not looked for in another."""
    others = [await fleet(name) for name in ("cr?wl", "*", "[c]rawl", "\\crawl")]
    frontier = await fleet("crawl")
    await frontier.schedule(links("a.test", 2))
    await lose(fleet, frontier, "a.test")
    for other in others:
        assert await other.check() == []
        assert await other.repair() == []
        await other.schedule(links("b.test", 1))
        await lose(fleet, other, "b.test")
        assert await other.repair() == ["b.test"]
    assert await frontier.repair() == ["a.test"]


async def test_a_queue_that_the_server_threw_away(frontier, fleet):
    """A server that evicts keys loses URLs; the others are crawled all the same."""
    await frontier.schedule([*links("a.test", 3), *links("b.test", 2), link("a.test/p", priority=2)])
    await frontier.schedule([link(f"c.test/{n}", priority=n) for n in range(-1, 3)])
    for key in ("q:a.test", "l:2:a.test", "l:2:c.test", "q:c.test"):
        assert await fleet.redis.delete(frontier.prefix + key)
    assert sorted(await crawl(frontier)) == ["b.test/0", "b.test/1", "c.test/-1", "c.test/1"]
    assert frontier.figures.idle


async def test_a_full_server_loses_nothing(own_server, caplog):
    """What ends work goes through, what adds to it waits; no URL is seen without being queued."""
    caplog.set_level(logging.WARNING)
    async with AsyncExitStack() as stack:
        fleet = Fleet(own_server.url, stack)
        frontier = await fleet()
        await frontier.schedule([link(f"h{n}.test/") for n in range(40)])
        await fleet.redis.config_set("maxmemory", 1)
        waiting = [asyncio.create_task(frontier.schedule(links(f"x{n}.test", 250))) for n in range(4)]
        for grant in await lease(frontier, 20):
            assert (
                await frontier.finish(grant.token, Outcome.SUCCEEDED, outlinks=links("y.test", 3)) is not None
            )
        grants = await lease(frontier, 20)
        assert await frontier.renew("w", [grant.token for grant in grants], 60) == []
        assert await frontier.release("w", [grant.token for grant in grants]) == 20
        assert not any(task.done() for task in waiting)
        assert await frontier.check() == []
        assert (await frontier.refresh()).seen == 43
        await fleet.redis.config_set("maxmemory", 0)
        assert await asyncio.wait_for(asyncio.gather(*waiting), 20) == [250] * 4
        assert await frontier.check() == []
        assert (frontier.figures.seen, frontier.figures.queued) == (1043, 1023)
    assert len(caplog.records) == 1


async def test_a_server_that_dies_loses_nothing(own_server):
    """Killed twice under eight workers: every URL is finished, and all is consistent."""
    done = []

    async def work(frontier, name):
        while not frontier.figures.idle:
            granted = await frontier.next(name, 4, 1)
            for grant in granted.grants:
                number = int(name_of(grant).partition("/")[2])
                found = links(f"h{number % 7}.test", 1, start=number + 1) if number < 400 else []
                if (await frontier.finish(grant.token, Outcome.SUCCEEDED, outlinks=found))[0]:
                    done.append(number)
            if not granted.grants:
                await asyncio.sleep(min(granted.wait_ms or 20, 20) / 1000)

    async def trouble():
        for share in (100, 250):
            while len(done) < share:  # noqa: ASYNC110  # the work is what is waited for
                await asyncio.sleep(0.001)
            own_server.kill()
            await asyncio.to_thread(own_server.start)

    async with AsyncExitStack() as stack:
        fleet = Fleet(own_server.url, stack)
        workers = [await fleet(host_max_in_flight=4) for _ in range(8)]
        await workers[0].schedule(links("h0.test", 1))
        for worker in workers:
            await worker.refresh()
        work_all = (work(worker, str(n)) for n, worker in enumerate(workers))
        await asyncio.wait_for(asyncio.gather(trouble(), *work_all), 30)
        figures = await workers[0].refresh()
        assert (figures.queued, figures.leased, figures.seen) == (0, 0, 401)
        assert await workers[0].check() == []
    assert len(done) == len(set(done))
    # A report whose answer died with the server is found late when it is sent again.
    assert 401 - figures.late <= len(done) <= 401


def test_the_server_is_new_enough(redis_url):
    """Scripts with flags came with version 7."""
    with redis.Redis.from_url(redis_url) as client:
        assert int(client.info("server")["redis_version"].split(".")[0]) >= 7


OTHER_FORMAT = """
local ctl = cmsgpack.unpack(redis.call('GET', KEYS[1] .. 'ctl'))
ctl.format = nil
redis.call('SET', KEYS[1] .. 'ctl', cmsgpack.pack(ctl))
"""


async def test_a_frontier_of_another_version_is_refused_in_one_sentence(frontier, fleet):
    """Neither joined nor touched: what it holds would be read as something else."""
    await frontier.schedule(links("a.test", 3))
    await fleet.redis.eval(OTHER_FORMAT, 1, frontier.prefix)
    before = await fleet.snapshot()
    with pytest.raises(Refused, match="another version"):
        await fleet()
    with pytest.raises(Refused, match="another version"):
        await frontier.schedule(links("b.test", 1))
    assert await fleet.snapshot() == before
    fleet.made.clear()


async def test_a_run_that_is_dropped_before_a_worker_has_asked(fleet):
    """It has only just joined, and knows of no figures yet: there is nothing for it, and no error."""
    frontier, other = await fleet(), await fleet()
    await frontier.set_crawl(max_target=7)  # the knobs are not the first ones
    late = await fleet()
    await frontier.drop()
    for worker in (other, late):
        assert await worker.next("w", 1, 60) == (None, [], True)
