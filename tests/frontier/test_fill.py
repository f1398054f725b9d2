"""A frontier that is filled with what earlier runs know."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from crawlproj.exceptions import Refused
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.records import MARKING, QUEUING
from crawlproj.revisit import Revisit
from crawlproj.scripts import Scripts
from tests.frontier.conftest import CODEC, config, lease, link, links, succeed


class Crawl:
    """What is asked of a crawl."""

    id, name, run = 2, "second", 2


@pytest.fixture(params=[1, 3], ids=["one partition", "three"])
async def make(fleet, request):
    """A function that makes or joins a frontier of the second run of a crawl."""
    async with AsyncExitStack() as stack:

        async def another(**knobs):
            wanted = config(partitions=request.param, **knobs)
            scripts = Scripts(fleet.redis, "test")
            stack.push_async_callback(scripts.close)
            frontier = Frontier(fleet.redis, scripts, "second", wanted.partitions)
            await frontier.create(wanted, fills=True)
            return frontier

        yield another


async def test_steps(make):
    """First what is not due is marked, then what is due is queued; a step that was done is not done again."""
    frontier = await make()
    assert (await frontier.refresh()).filling == MARKING
    assert (await frontier.fill(QUEUING)).filling == MARKING
    assert (await frontier.fill(MARKING)).filling == QUEUING
    assert (await frontier.fill(MARKING)).filling == QUEUING
    joined = await make()
    assert (await joined.refresh()).filling == QUEUING
    assert (await joined.fill(QUEUING)).filling == 0
    assert (await frontier.fill(MARKING)).filling == 0


async def test_one_that_is_being_filled_is_not_over(make):
    """It is neither idle nor sealed, whatever step it is in."""
    frontier = await make()
    for step in (MARKING, QUEUING):
        assert not (await frontier.refresh()).idle
        assert not await frontier.seal()
        await frontier.fill(step)
    assert (await frontier.refresh()).idle
    assert await frontier.seal()


async def test_one_that_was_stopped_is(make):
    """A limit that was reached ends the run, filled or not."""
    frontier = await make()
    await frontier.stop("a limit")
    assert await frontier.seal()


async def test_it_does_not_pause_at_its_finish(make):
    """With nothing left to do but to be filled it waits for that, and pauses then."""
    frontier = await make(pause_at_finish=1)
    await frontier.fill(MARKING)
    await frontier.schedule([link("a/")])
    await succeed(frontier, *await lease(frontier))
    assert await lease(frontier) == []
    assert not (await frontier.refresh()).paused
    await frontier.schedule([link("b/")])
    await frontier.fill(QUEUING)
    await succeed(frontier, *await lease(frontier))
    assert await lease(frontier) == []
    assert (await frontier.refresh()).paused


async def test_it_takes_and_hands_out_meanwhile(make):
    """Filling holds nothing up: who may begin is the workers' affair."""
    frontier = await make()
    await frontier.mark_seen({"a": [link("a/1").fingerprint]})
    assert await frontier.schedule(links("a", 3)) == 2
    assert len(await lease(frontier, 1)) == 1


async def test_whoever_waits_for_one_that_is_gone_leaves(make):
    """Another worker has been stopped by a limit and has sealed the run: there is nothing to fill."""
    frontier = await make()
    other = await make()
    await other.stop("a limit")
    assert await other.seal()
    await other.drop()
    revisit = Revisit(
        None, frontier, CODEC, Crawl(), most=0, wants=lambda _: True, starts=lambda: None, seen_cache=0
    )
    await revisit.run()
    assert revisit.marked.is_set()


async def test_only_a_new_one_is_filled(fleet, make):
    """A worker that joins a frontier of a first run, or one that has been filled, begins nothing anew."""
    frontier = await make()
    for step in (MARKING, QUEUING):
        await frontier.fill(step)
    assert (await (await make()).refresh()).filling == 0
    first = await fleet("first")
    assert (await first.refresh()).filling == 0
    assert await first.seal()
    with pytest.raises(Refused):
        await first.schedule([link("a/")])
