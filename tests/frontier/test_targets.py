"""What has started when a limit on targets stops a run is finished, whoever began with it."""

from __future__ import annotations

import asyncio

import pytest

from crawlproj.crawls.notes import TARGETS as STOP
from crawlproj.frontier.records import Outcome
from tests.frontier.conftest import lease, link, succeed


async def stopped(frontier, n, *, seconds=60):
    """Lease as many targets as may be, and stop the run for them; return the leases."""
    await frontier.set_crawl(max_target=n)
    await frontier.schedule([link(f"http://{host}.test/{path}") for host in "abcd" for path in (1, 2)])
    leases = await lease(frontier, 100, seconds)
    assert len(leases) == n
    await frontier.stop(STOP)
    return leases


async def test_targets_of_a_worker_that_died_are_handed_on(fleet):
    """The limit has stopped the run, which is not over without what has started: others finish just that."""
    frontier = await fleet(interval_ms=0)
    dead = await stopped(frontier, 3, seconds=0.01)
    await asyncio.sleep(0.02)
    assert not await frontier.seal()
    assert await frontier.reclaim() == 0
    again = [*await lease(frontier, 2), *await lease(frontier)]
    while len(again) < 3:  # one that there was no room for is looked at again
        await asyncio.sleep(0.05)
        again += await lease(frontier)
    assert sorted(grant.entry for grant in again) == sorted(grant.entry for grant in dead)
    assert frontier.figures.started == 3
    assert await lease(frontier) == []
    assert not await frontier.seal()
    await succeed(frontier, *again)
    assert await frontier.finish(dead[0].token, Outcome.SUCCEEDED) == (False, 0)
    assert (frontier.figures.queued, frontier.figures.started, await frontier.seal()) == (5, 3, True)


async def test_what_cannot_be_handed_on_now(fleet):
    """A host that is not due waits for its time, a blocked one has back what it had; nobody polls."""
    frontier = await fleet(interval_ms=0)
    dead = await stopped(frontier, 3, seconds=0.01)
    late, blocked, free = sorted(grant.host for grant in dead)
    await frontier.rest(late, 5_000)
    await frontier.block(blocked)
    await asyncio.sleep(0.02)
    (again,) = await lease(frontier)
    assert again.host == free
    await succeed(frontier, again)
    granted = await frontier.next("w", 9, 60)
    assert (granted.grants, granted.wait_ms > 4_000) == ([], True)
    assert (frontier.figures.leased, frontier.figures.held) == (1, 2)


async def test_nothing_is_handed_on_in_a_pause(fleet):
    """It is looked at a second later again, and goes out when the run goes on."""
    frontier = await fleet(interval_ms=0)
    await stopped(frontier, 1, seconds=0.01)
    await frontier.pause()
    await asyncio.sleep(0.02)
    granted = await frontier.next("w", 9, 60)
    assert (granted.grants, 500 < granted.wait_ms <= 1_000) == ([], True)
    await frontier.resume()
    assert (frontier.figures.leased, frontier.figures.stop) == (1, STOP)


async def test_a_target_that_kills_its_workers(fleet):
    """It is handed on as often as it would be leased, and ends among the dead letters."""
    frontier = await fleet(interval_ms=0, max_kills=2)
    await stopped(frontier, 1, seconds=0.01)
    await asyncio.sleep(0.02)
    assert len(await lease(frontier, seconds=0.01)) == 1
    await asyncio.sleep(0.02)
    assert await lease(frontier) == []
    assert (frontier.figures.dead, frontier.figures.leased, await frontier.seal()) == (1, 0, True)


@pytest.mark.parametrize("again", [True, False])
async def test_targets_that_are_given_back_after_the_stop(fleet, again):
    """As many start in their place, these first; or, if they had their time, the run ends without them."""
    frontier = await fleet(interval_ms=0)
    first, *others = await stopped(frontier, 3)
    await frontier.release("w", [first.token], again=again)
    await succeed(frontier, *others)
    assert bool((await frontier.refresh()).stop) is not again
    assert [grant.entry for grant in await lease(frontier)] == ([first.entry] if again else [])
    assert frontier.figures.started == (3 if again else 2)
    assert await frontier.seal() is not again
