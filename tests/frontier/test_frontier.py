"""How URLs enter the frontier, and in which order and at what pace they leave it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise

import pytest

from crawlproj.exceptions import BadSetting
from crawlproj.frontier.entries import Entry
from crawlproj.frontier.partition import CHUNK, MAX_PRIORITY
from crawlproj.frontier.records import Outcome
from tests.frontier.conftest import config, crawl, lease, lease_one, link, links, name_of, succeed

# --- in -------------------------------------------------------------------------------------------


async def test_a_url_enters_once(frontier):
    """Within a batch, across batches, and after it was fetched."""
    assert await frontier.schedule([link("a.test/1"), link("a.test/1"), link("b.test/1")]) == 2
    assert await frontier.schedule([link("a.test/1"), link("a.test/2")]) == 1
    assert (frontier.figures.queued, frontier.figures.seen) == (3, 3)
    assert sorted(await crawl(frontier)) == ["a.test/1", "a.test/2", "b.test/1"]
    assert await frontier.schedule([link("a.test/1")]) == 0
    assert frontier.figures.idle


async def test_a_url_enters_once_whoever_brings_it(fleet):
    """Eight workers with the same links at the same time: each link is new to one of them."""
    workers = [await fleet() for _ in range(8)]
    batch = [link(f"h{n % 7}.test/{n}") for n in range(300)]
    added = await asyncio.gather(*(worker.schedule(batch) for worker in workers))
    assert sum(added) == 300
    assert (await workers[0].refresh()).queued == 300


async def test_nothing_to_schedule_is_nothing(frontier):
    """An empty batch is no call."""
    assert await frontier.schedule([]) == 0


async def test_a_batch_may_be_of_any_size(frontier):
    """It goes in shares that each stay short on the server."""
    assert await frontier.schedule(links("a.test", 2 * CHUNK + 50)) == 250
    assert frontier.figures.queued == 250


async def test_a_forced_url_is_queued_though_it_was_seen(frontier):
    """And it is seen from then on: the next plain one is dropped."""
    assert await frontier.schedule([link("a.test/1", forced=True)]) == 1
    assert await frontier.schedule([link("a.test/1", forced=True), link("a.test/1")]) == 1
    assert await crawl(frontier) == ["a.test/1", "a.test/1"]
    assert frontier.figures.seen == 1


async def test_order_within_a_host(frontier):
    """Higher priority first, negative ones last, first in first out within one."""
    for path, priority in (("c", 0), ("a", 0), ("y", -1), ("b", 0), ("z", 5), ("x", 5), ("w", -1)):
        await frontier.schedule([link(f"a.test/{path}", priority=priority)])
    assert await crawl(frontier) == [f"a.test/{path}" for path in "zxcabyw"]


async def test_a_url_at_the_head_goes_before_those_of_its_priority(frontier):
    """A redirect's target waits for no other, but for what is more urgent."""
    await frontier.schedule([*links("a.test", 2), link("a.test/high", priority=1)])
    await frontier.schedule([link("a.test/head", head=True), link("a.test/low", priority=-1, head=True)])
    assert await crawl(frontier) == ["a.test/high", "a.test/head", "a.test/0", "a.test/1", "a.test/low"]


async def test_priorities_of_any_size(frontier, fleet):
    """They keep their order as far as numbers go, and beyond that nothing breaks."""
    given = [
        10**15,
        10**15 + 1,
        123_456_789_012_345,
        MAX_PRIORITY,
        10**30,
        -(10**15),
        -(10**15) - 1,
        -(10**30),
    ]
    await frontier.schedule([link(f"a.test/{n}", priority=priority) for n, priority in enumerate(given)])
    assert await frontier.check() == []
    assert [int(name[-1]) for name in await crawl(frontier)] == [3, 4, 1, 0, 2, 5, 6, 7]
    await frontier.schedule([link(f"a.test/x{n}", priority=priority) for n, priority in enumerate(given)])
    await frontier.drop()
    assert await fleet.snapshot() == {}


async def test_a_long_queue_keeps_its_order(fleet):
    """Thousands of URLs of one host."""
    frontier = await fleet(host_max_in_flight=200)
    await frontier.schedule(links("a.test", 3000))
    done = []
    while grants := await lease(frontier, 200):
        done += [name_of(grant) for grant in grants]
        await asyncio.gather(*(frontier.finish(grant.token, Outcome.SUCCEEDED) for grant in grants))
    assert done == [f"a.test/{n}" for n in range(3000)]


@pytest.mark.parametrize(
    "host",
    [
        "a:b",
        "a*",
        "a?",
        "[a]",
        "a b",
        "bücher",
        "x" * 300,
        "a\nb",
        "{a}",
        "../../x",
        "a\\",
        "%s",
        "1:a",
        "\0",
    ],
)
async def test_a_host_name_is_a_name(fleet, host):
    """Whatever it is made of, its keys are its own."""
    frontier, other = await fleet(), await fleet("other")
    neighbours = ["a", "ab", "b", "a:b:c", "x", "x" * 299]
    given = [Entry(f"http://{host}/", host, 1, "h0/", priority=priority) for priority in (0, 1)]
    given[1] = replace(given[1], fingerprint=2)
    beside = [replace(given[0], host=name, fingerprint=n) for n, name in enumerate(neighbours, 10)]
    await other.schedule([*given, *beside])
    await frontier.schedule([*given, *beside])
    await frontier.set_host(host, interval_ms=5, blocked=True)
    assert (await frontier.host(host)).queued == 2
    views = {view.host: view for view in await frontier.hosts()}
    assert set(views) == {host, *neighbours}
    assert [name for name, view in views.items() if view.state == "retired"] == [host]
    assert {view.queued for name, view in views.items() if name != host} == {1}
    await frontier.drop()
    assert all(key.startswith(b"frontier:{other}:") for key in await fleet.snapshot())
    assert {view.queued for view in await other.hosts()} == {1, 2}


# --- out ------------------------------------------------------------------------------------------


async def test_a_host_is_asked_one_at_a_time(frontier):
    """However many leases are wanted, and by whomever."""
    await frontier.schedule([*links("a.test", 3), *links("b.test", 3)])
    grants = await lease(frontier)
    assert sorted(name_of(grant) for grant in grants) == ["a.test/0", "b.test/0"]
    assert await lease(frontier, worker="other") == []
    assert {view.state for view in await frontier.hosts()} == {"in-process"}
    await succeed(frontier, grants[0])
    (grant,) = await lease(frontier)
    assert grant.host == grants[0].host


async def test_several_leases_of_a_host_where_that_is_allowed(fleet):
    """For all hosts by the setting, for one host by its own."""
    frontier = await fleet(host_max_in_flight=2)
    await frontier.schedule([*links("a.test", 5), *links("b.test", 5)])
    await frontier.set_host("b.test", in_flight=3)
    grants = await lease(frontier)
    assert sorted(grant.host for grant in grants) == ["a.test"] * 2 + ["b.test"] * 3
    await frontier.set_host("a.test", in_flight=4)
    assert [grant.host for grant in await lease(frontier)] == ["a.test"] * 2


async def test_no_more_than_wanted(frontier):
    """A worker gets at most n; zero only asks how things are."""
    await frontier.schedule([link(f"h{n}.test/") for n in range(10)])
    assert len(await lease(frontier, 4)) == 4
    assert await lease(frontier, 0) == []
    assert (frontier.figures.queued, frontier.figures.leased) == (6, 4)


async def test_hosts_take_turns(frontier):
    """Who was served goes behind the others."""
    await frontier.schedule([entry for host in "abc" for entry in links(f"{host}.test", 3)])
    done = [name[0] for name in await crawl(frontier)]
    assert [sorted(done[n : n + 3]) for n in (0, 3, 6)] == [["a", "b", "c"]] * 3


async def test_the_interval_is_kept(fleet):
    """A host is not asked before it is due; `next` says how long that is."""
    frontier = await fleet(min_interval_ms=80)
    await frontier.schedule(links("a.test", 3))
    loop = asyncio.get_running_loop()
    starts: list[tuple[float, float]] = []  # not before, and not after
    while not frontier.figures.idle or not starts:
        asked = loop.time()
        granted = await frontier.next("w", 10, 60)
        starts += [(asked, loop.time()) for _ in granted.grants]
        await succeed(frontier, *granted.grants)
        if not granted.grants:
            assert 0 <= granted.wait_ms <= 80
            await asyncio.sleep(granted.wait_ms / 1000)
    assert len(starts) == 3
    # One that was due a moment ago keeps its beat, so that a gap may lack a quarter.
    assert min(after[1] - before[0] for before, after in pairwise(starts)) >= 0.06


async def test_a_host_has_its_own_interval(fleet):
    """It comes with the lease and holds at once; -1 takes it back."""
    frontier = await fleet(min_interval_ms=60_000)
    await frontier.schedule([*links("a.test", 2), *links("b.test", 2)])
    await frontier.set_host("a.test", interval_ms=0)
    grants = {grant.host: grant for grant in await lease(frontier)}
    assert (grants["a.test"].interval_ms, grants["b.test"].interval_ms) == (0, None)
    await succeed(frontier, *grants.values())
    assert [grant.host for grant in await lease(frontier)] == ["a.test"]
    view = await frontier.host("a.test")
    assert (view.min_interval_ms, view.interval_source) == (0, "host")
    await frontier.set_host("a.test", interval_ms=None)
    view = await frontier.host("a.test")
    assert (view.min_interval_ms, view.interval_source) == (60_000, "default")


async def test_an_emptied_host_keeps_its_snooze(fleet):
    """A link that comes in later waits as long as if it had been there."""
    frontier = await fleet(min_interval_ms=60_000)
    await frontier.schedule(links("a.test", 1))
    await succeed(frontier, await lease_one(frontier))
    assert (await frontier.host("a.test")).state == "snoozed"
    assert frontier.figures.idle
    await frontier.schedule(links("a.test", 1, start=1))
    granted = await frontier.next("w", 1, 60)
    assert granted.grants == []
    assert 59_000 < granted.wait_ms <= 60_000


async def test_an_exhausted_host_comes_back_as_it_was(fleet):
    """With what it has spent, its errors and its knobs."""
    frontier = await fleet(error_penalty=10)
    await frontier.schedule(links("a.test", 2))
    await frontier.set_host("a.test", interval_ms=1, total_budget=50)
    await frontier.finish((await lease_one(frontier)).token, Outcome.FAILED)
    while (await frontier.host("a.test")).state != "ready":
        await frontier.next("w", 0, 60)
    await succeed(frontier, await lease_one(frontier))
    while (await frontier.host("a.test")).state != "exhausted":
        await frontier.next("w", 0, 60)
    await frontier.schedule(links("a.test", 1, start=2))
    view = await frontier.host("a.test")
    assert (view.state, view.queued, view.spent, view.errors) == ("ready", 1, 12, 1)
    assert (view.min_interval_ms, view.budget) == (1, 50)


async def test_ready_hosts_are_few(fleet):
    """Beyond the backlog hosts wait inactive, and get their turn when it is empty."""
    frontier = await fleet(ready_backlog=2)
    await frontier.schedule([link(f"h{n}.test/") for n in range(5)])
    assert sorted(view.state for view in await frontier.hosts()) == ["inactive"] * 3 + ["ready"] * 2
    assert len(await lease(frontier)) == 5


@pytest.mark.parametrize(("balance", "runs"), [(0, [8, 8]), (2, [3, 3, 3, 3, 2, 2]), (100, [8, 8])])
async def test_a_session_ends(fleet, balance, runs):
    """A host that has spent more than the balance lets the inactive ones have a turn."""
    frontier = await fleet(ready_backlog=1, session_balance=balance)
    await frontier.schedule([*links("a.test", 8), *links("b.test", 8)])
    done = "".join(name[0] for name in await crawl(frontier))
    assert [len(run) for run in done.replace("ab", "a b").replace("ba", "b a").split()] == runs


async def test_precedence(frontier):
    """A host of lower precedence value goes first, at once; one at the floor never."""
    await frontier.schedule([link(f"{host}.test/") for host in "abcd"])
    await frontier.set_host("c.test", precedence=0)
    await frontier.set_host("a.test", precedence=2)
    await frontier.set_host("b.test", precedence=255)
    assert await crawl(frontier) == ["c.test/", "d.test/", "a.test/"]
    assert (await frontier.host("b.test")).state == "retired"
    assert frontier.figures.idle
    await frontier.set_host("b.test", precedence=254)
    assert await crawl(frontier) == ["b.test/"]


async def test_a_host_retires_when_its_budget_is_spent(fleet):
    """What it holds keeps no crawl open; more budget, for it or for all, wakes it."""
    frontier = await fleet(total_budget=2)
    await frontier.schedule([*links("a.test", 5), *links("b.test", 1)])
    assert len(await crawl(frontier)) == 3
    assert (await frontier.host("a.test")).state == "retired"
    assert (frontier.figures.queued, frontier.figures.held, frontier.figures.idle) == (3, 3, True)
    await frontier.set_host("a.test", total_budget=3)
    assert not (await frontier.refresh()).idle
    assert await crawl(frontier) == ["a.test/2"]
    again = await fleet(total_budget=2)
    assert (await again.refresh()).idle
    await again.set_host("a.test", total_budget=None)
    again = await fleet(total_budget=4)
    assert await crawl(again) == ["a.test/3"]
    await again.set_host("a.test", total_budget=-1)
    assert await crawl(again) == ["a.test/4"]
    assert again.figures.held == 0


async def test_a_budget_of_nothing_retires_at_once(fleet):
    """Zero is a budget."""
    frontier = await fleet(total_budget=0)
    await frontier.schedule(links("a.test", 2))
    assert await lease(frontier) == []
    assert frontier.figures.idle


async def test_a_failure_costs_more(fleet):
    """A final failure spends the penalty, too; a retry and a page that is not to be fetched nothing."""
    frontier = await fleet(error_penalty=10, retry_delay_ms=0)
    await frontier.schedule([link(f"{host}.test/") for host in "abcd"])
    outcomes = {"a": Outcome.SUCCEEDED, "b": Outcome.FAILED, "c": Outcome.RETRY, "d": Outcome.DISREGARDED}
    for grant in await lease(frontier):
        await frontier.finish(grant.token, outcomes[grant.host[0]])
    views = {view.host[0]: (view.spent, view.errors) for view in await frontier.hosts()}
    assert views == {"a": (1, 0), "b": (11, 1), "c": (0, 0), "d": (0, 0)}


async def test_a_blocked_host_is_not_asked(frontier):
    """Not even with what comes in later; unblocked, it goes on where it was."""
    await frontier.schedule([*links("a.test", 3), *links("b.test", 1)])
    await frontier.set_host("a.test", blocked=True)
    await frontier.schedule(links("a.test", 1, start=3))
    assert await crawl(frontier) == ["b.test/0"]
    assert frontier.figures.idle
    await frontier.set_host("a.test", blocked=False)
    assert not (await frontier.refresh()).idle
    assert await crawl(frontier) == [f"a.test/{n}" for n in range(4)]


async def test_a_host_is_blocked_before_it_is_known(frontier):
    """And while it has a lease: that one ends as it will."""
    await frontier.set_host("a.test", blocked=True)
    await frontier.schedule([*links("a.test", 2), *links("b.test", 2)])
    grant = await lease_one(frontier)
    await frontier.set_host("b.test", blocked=True)
    await frontier.finish(grant.token, Outcome.RETRY, host_incident=True)
    assert await lease(frontier) == []
    assert {view.state for view in await frontier.hosts()} == {"retired"}


async def test_what_waits_says_when(fleet):
    """`wait_ms` is the earliest of host, retry and expiring lease; None when only news can help."""
    frontier = await fleet(min_interval_ms=30_000, retry_delay_ms=10_000)
    assert await frontier.next("w", 1, 60) == (None, [], False)
    await frontier.schedule(links("a.test", 1))
    assert (await frontier.next("w", 0, 60)).wait_ms is None  # something is due, and was not wanted
    granted = await frontier.next("w", 1, 20)
    assert 19_000 < granted.wait_ms <= 20_000
    await frontier.finish(granted.grants[0].token, Outcome.RETRY)
    assert 7_000 < (await frontier.next("w", 1, 60)).wait_ms <= 12_500


async def test_creating_again_is_joining(fleet):
    """Knobs may change with every worker that joins; what is there stays."""
    frontier = await fleet(min_interval_ms=5)
    await frontier.schedule(links("a.test", 1))
    await fleet(min_interval_ms=70)
    assert (await frontier.host("a.test")).min_interval_ms == 70
    assert await frontier.schedule(links("a.test", 1)) == 0


async def test_another_number_of_shards_is_refused(fleet):
    """It would look for fingerprints where they are not; and whoever is refused has changed nothing."""
    await fleet(seen_shards=16, min_interval_ms=5)
    before = await fleet.snapshot()
    with pytest.raises(BadSetting, match="FRONTIER_SEEN_SHARDS"):
        await fleet(seen_shards=32, min_interval_ms=70)
    assert await fleet.snapshot() == before


@pytest.mark.parametrize("shards", [1, 2, 3, 1000])
async def test_any_number_of_shards_will_do(fleet, shards):
    """Fingerprints at both ends of their range find a shard, which is dropped with the others."""
    frontier = await fleet(seen_shards=shards)
    numbers = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 1, 2**63 - 2]
    batch = [replace(link(f"a.test/{n}"), fingerprint=number) for n, number in enumerate(numbers)]
    assert await frontier.schedule(batch) == len(numbers)
    assert await frontier.schedule(batch) == 0
    await frontier.drop()
    assert await fleet.snapshot() == {}


async def test_crawls_share_a_server_and_nothing_else(fleet):
    """The same URLs in two crawls are two URLs; what happens to one does not happen to the other."""
    one, other = await fleet("one"), await fleet("one:two", min_interval_ms=7)
    assert await one.schedule(links("a.test", 2)) == await other.schedule(links("a.test", 2)) == 2
    await one.set_host("a.test", blocked=True)
    await one.stop("enough")
    grant = await lease_one(other)
    assert not (await one.finish(grant.token, Outcome.SUCCEEDED))[0]
    await one.drop()
    assert not await one.exists()
    await succeed(other, grant)
    assert (await other.host("a.test")).queued == 1
    assert config().seen_shards == 16
