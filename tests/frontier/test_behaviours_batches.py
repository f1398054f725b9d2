"""What users of Frontera count on when they ask for a batch, as it is here."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from crawlproj.frontier.records import Outcome
from crawlproj.frontier.seen_cache import SeenCache
from tests.frontier.conftest import crawl, lease, lease_one, link, links, name_of, succeed

LONG = 600  # seconds: a lease that the test's own pace does not end
HALF = LONG * 500  # milliseconds


async def test_a_good_score_does_not_make_what_is_not_due_due(fleet):
    """Pages of the best priority that wait for another try let the last one pass; so do hosts."""
    frontier = await fleet(host_max_in_flight=40, retry_delay_ms=HALF)
    await frontier.schedule([link(f"a.test/{n}", priority=9) for n in range(40)])
    await frontier.schedule([link("a.test/low", priority=-9)])
    for grant in await lease(frontier, 40):
        await frontier.finish(grant.token, Outcome.RETRY)
    assert [name_of(grant) for grant in await lease(frontier)] == ["a.test/low"]


async def test_a_host_before_all_others_waits_for_its_time(fleet):
    """Hosts of the first precedence that are not due yet let one of the last have its turn."""
    frontier = await fleet(min_interval_ms=HALF)
    names = [f"h{n}.test" for n in range(30)]
    for name in names:
        await frontier.set_host(name, precedence=0)
    await frontier.schedule([entry for name in names for entry in links(name, 2)])
    await succeed(frontier, *await lease(frontier, seconds=LONG))
    await frontier.set_host("last.test", precedence=200)
    await frontier.schedule(links("last.test", 1))
    assert [name_of(grant) for grant in await lease(frontier)] == ["last.test/0"]


@pytest.mark.parametrize("n", [1, 7, 25])
async def test_a_batch_has_as_many_as_were_asked_for(frontier, n):
    """And so many fewer are queued."""
    await frontier.schedule([link(f"h{number}.test/") for number in range(30)])
    assert len(await lease(frontier, n)) == n
    assert (frontier.figures.queued, frontier.figures.leased) == (30 - n, n)


async def test_a_batch_has_the_best_of_a_host_and_leaves_the_rest(fleet):
    """As many of a host as may be in flight, by priority; what is left stays in its order."""
    frontier = await fleet(host_max_in_flight=2)
    await frontier.schedule([link(f"{host}.test/{n}", priority=n) for n in (1, 4, 2, 3) for host in "ab"])
    grants = await lease(frontier)
    assert sorted(name_of(grant) for grant in grants) == ["a.test/3", "a.test/4", "b.test/3", "b.test/4"]
    await succeed(frontier, *grants)
    assert [name for name in await crawl(frontier) if name[0] == "a"] == ["a.test/2", "a.test/1"]


async def test_a_batch_spreads_over_hosts_as_far_as_there_are_any(fleet):
    """Ten are of ten hosts while ten are due; more than there is to have is no endless search."""
    frontier = await fleet(ready_backlog=3)
    await frontier.schedule([entry for n in range(12) for entry in links(f"h{n}.test", 3)])
    assert len({grant.host for grant in await lease(frontier, 10)}) == 10
    assert len(await lease(frontier, 1000)) == 2
    assert await lease(frontier, 1000) == []


async def test_a_worker_is_never_given_what_is_not_its_crawls(fleet):
    """Two crawls on one server, a worker on each: what one has queued the other never sees."""
    one, two = await fleet("one"), await fleet("two")
    await one.schedule(links("a.test", 10))
    await two.schedule(links("b.test", 10))
    served = await asyncio.gather(crawl(one), crawl(two))
    assert [{name[0] for name in names} for names in served] == [{"a"}, {"b"}]
    assert [len(names) for names in served] == [10, 10]


async def test_at_the_limit_on_all_targets_a_batch_is_empty_and_the_run_over(fleet):
    """The limit cuts the batch that reaches it; from then on nothing is served and nothing will be."""
    frontier = await fleet(max_target=7)
    await frontier.schedule([link(f"h{n}.test/") for n in range(20)])
    grants = await lease(frontier, 5) + await lease(frontier, 5)
    assert len(grants) == 7
    await succeed(frontier, *grants)
    assert await lease(frontier, 5) == []
    await frontier.stop("targets")
    assert await frontier.seal()


async def test_an_overused_host_is_kept_back_and_let_go_when_it_is_free(fleet):
    """It never has more in flight than allowed, others are served meanwhile, and in the end all of it is."""
    frontier = await fleet(host_max_in_flight=2)
    await frontier.schedule([*links("busy.test", 20), *links("a.test", 3)])
    held, done = [], Counter()
    while not frontier.figures.idle:
        grants = await lease(frontier, 10)
        held += grants
        in_flight = Counter(grant.host for grant in held)
        assert max(in_flight.values()) <= 2
        assert in_flight["busy.test"] == min(2, 20 - done["busy.test"])
        ended = held.pop(0)
        done[ended.host] += 1
        await succeed(frontier, ended)
    assert done == {"busy.test": 20, "a.test": 3}


async def test_what_a_worker_has_forgotten_the_frontier_knows(fleet):
    """Its memory of seen links, its scripts and its process gone: what was seen is seen, the rest is new."""
    before = await fleet()
    await before.schedule(links("a.test", 3))
    memory = SeenCache(2)
    for entry in links("a.test", 3):
        memory.add(entry.fingerprint)
    assert links("a.test", 1)[0].fingerprint not in memory  # it has forgotten, and so has a new worker
    await fleet.redis.script_flush()
    after = await fleet()
    assert await after.schedule(links("a.test", 5)) == 2
    assert await before.schedule(links("a.test", 5)) == 0


@pytest.mark.parametrize("end", ["queued", "leased", *Outcome])
async def test_a_link_is_not_queued_again_whatever_has_become_of_it(fleet, end):
    """Waiting, in process, done, failed, tried again later, disregarded or put aside."""
    frontier = await fleet(retry_delay_ms=HALF)
    await frontier.schedule(links("a.test", 1))
    if end != "queued":
        grant = await lease_one(frontier)
        if end != "leased":
            await frontier.finish(grant.token, end)
    before = await frontier.refresh()
    assert await frontier.schedule(links("a.test", 1)) == 0
    assert await frontier.refresh() == before
