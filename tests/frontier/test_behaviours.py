"""What users of URLFrontier count on, as it is here.

Those of Frontera are in `test_behaviours_batches.py`.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from scrapy.settings import Settings

import crawlproj.settings
from crawlproj.config import Config
from crawlproj.frontier.canonical import normalise
from crawlproj.frontier.records import Outcome
from tests.frontier.conftest import crawl, lease, lease_one, link, links, name_of, pending, succeed

LONG = 600  # seconds: a lease that the test's own pace does not end
HALF = LONG * 500  # milliseconds

# --- what is served, and when ---------------------------------------------------------------------


async def test_what_is_completed_is_served_again_only_if_asked_for(frontier):
    """A completed URL has no next turn; met again it is dropped; forced it has exactly one more."""
    await frontier.schedule(links("a.test", 2))
    assert await crawl(frontier) == ["a.test/0", "a.test/1"]
    assert await lease(frontier) == []
    assert await frontier.schedule(links("a.test", 2)) == 0
    assert await lease(frontier) == []
    assert await frontier.schedule([link("a.test/0", forced=True)]) == 1
    assert await crawl(frontier) == ["a.test/0"]


async def test_the_older_goes_first_and_who_waits_holds_nobody_up(fleet):
    """Of two due URLs the older; one in process or not due yet lets those behind it pass."""
    frontier = await fleet(host_max_in_flight=2, retry_delay_ms=HALF)
    await frontier.schedule([link("a.test/0")])
    await frontier.schedule(links("a.test", 4))
    held, waits = await lease(frontier, seconds=LONG)
    assert [name_of(held), name_of(waits)] == ["a.test/0", "a.test/1"]
    await frontier.finish(waits.token, Outcome.RETRY)
    assert await crawl(frontier) == ["a.test/2", "a.test/3"]
    await succeed(frontier, held)


async def test_the_same_url_twice_is_once(frontier):
    """In one batch or in two, the second is dropped and the rest is stored; an empty batch is none."""
    assert await frontier.schedule([]) == 0
    assert await frontier.schedule([link("a.test/1"), link("a.test/1"), link("a.test/2")]) == 2
    assert await frontier.schedule([link("a.test/2"), link("a.test/3"), link("a.test/3")]) == 1
    assert await crawl(frontier) == ["a.test/1", "a.test/2", "a.test/3"]


async def test_what_nobody_can_read_stops_nobody(frontier):
    """A malformed URL of a batch is put aside when it is met; those around it are served."""
    await frontier.schedule(links("a.test", 3))
    await succeed(frontier, await lease_one(frontier))
    await frontier.finish((await lease_one(frontier)).token, Outcome.UNREADABLE)
    assert await crawl(frontier) == ["a.test/2"]
    assert (frontier.figures.dead, frontier.figures.idle) == (1, True)


async def test_what_is_in_process_is_nobody_elses_until_its_lease_ends(fleet):
    """Then it is not in process any more, neither in the sum nor at its host, and is served again."""
    frontier = await fleet()
    await frontier.schedule(links("a.test", 1))
    first = await lease_one(frontier, seconds=LONG)
    for _ in range(2):
        assert await lease(frontier, worker="other") == []
        assert (frontier.figures.leased, (await frontier.host("a.test")).in_flight) == (1, 1)
        await fleet.forward(HALF)
    assert await frontier.reclaim() == 1
    assert ((await frontier.refresh()).leased, (await frontier.host("a.test")).in_flight) == (0, 0)
    again = await lease_one(frontier, worker="other")
    assert name_of(again) == name_of(first)
    await succeed(frontier, again)


async def test_a_host_with_a_hand_out_in_flight_is_closed(fleet):
    """Whoever asks and however much for, and long after its interval is over."""
    frontier, other = [await fleet(min_interval_ms=1000) for _ in range(2)]
    await frontier.schedule(links("a.test", 3))
    grant = await lease_one(frontier, seconds=LONG)
    for ms in (0, 1001, HALF // 2):
        await fleet.forward(ms)
        await other.set_host("a.test", interval_ms=0)  # who names the host has no way in either
        for n in (1, 100):
            assert await lease(frontier, n) == await lease(other, n, worker="other") == []
    await succeed(frontier, grant)
    assert [name_of(each) for each in await lease(other, worker="other")] == ["a.test/1"]


async def test_a_call_that_hands_out_nothing_leaves_the_host_as_it_was(fleet):
    """For want of appetite, in a pause, or at the limit on targets: the next call is served at once."""
    frontier = await fleet(min_interval_ms=HALF, max_target=1)
    await frontier.schedule(links("a.test", 3))
    await succeed(frontier, await lease_one(frontier, seconds=LONG))
    await fleet.forward(HALF)
    assert await lease(frontier) == []
    assert await lease(frontier, 0) == []
    await frontier.pause()
    assert await lease(frontier) == []
    await frontier.resume()
    view = await frontier.host("a.test")
    assert (view.state, view.queued, view.next_due_ms) == ("ready", 2, 0)
    await frontier.set_crawl(max_target=2)
    assert name_of(await lease_one(frontier)) == "a.test/1"


async def test_a_worker_that_breaks_off_has_its_lease_all_the_same(fleet):
    """A hand-out whose answer nobody reads is nobody else's until the lease ends, and is then served once."""
    frontier, other = await fleet(), await fleet()
    await frontier.schedule(links("a.test", 1))
    call = asyncio.create_task(frontier.next("w", 1, LONG))
    await asyncio.sleep(0)  # it is on its way
    call.cancel()
    while (await other.refresh()).leased == 0:  # noqa: ASYNC110  # the server's answer is waited for
        await asyncio.sleep(0)
    assert call.cancelled()
    assert await lease(other, worker="other") == []
    await fleet.forward(2 * HALF)
    await succeed(other, await lease_one(other, worker="other"))
    assert await lease(other, worker="other") == []


async def test_a_host_is_blocked_until_its_time_and_served_from_then_on(fleet):
    """A minute before it is not served, a moment after it is."""
    frontier = await fleet()
    await frontier.schedule(links("a.test", 2))
    grant = await lease_one(frontier)
    await frontier.finish(grant.token, Outcome.RETRY, host_incident=True, retry_after_ms=HALF)
    await fleet.forward(HALF - 60_000)
    granted = await frontier.next("w", 1, LONG)
    assert granted.grants == []
    assert 0 < granted.wait_ms <= 60_000
    await fleet.forward(granted.wait_ms)
    assert name_of(await lease_one(frontier)) == "a.test/0"


async def test_a_limit_may_be_set_before_its_queue_is_there(frontier):
    """It is no error, for the host may come; it holds from its first URL on. Zero is no wait."""
    assert await frontier.host("a.test") is None
    await frontier.set_host("a.test", in_flight=3, interval_ms=0)
    await frontier.schedule([*links("a.test", 5), *links("b.test", 5)])
    assert sorted(grant.host for grant in await lease(frontier)) == ["a.test"] * 3 + ["b.test"]


async def test_a_new_delay_counts_from_the_next_hand_out(fleet):
    """What is in flight keeps the time that was reserved for it."""
    frontier = await fleet(min_interval_ms=HALF)
    await frontier.schedule(links("a.test", 3))
    grant = await lease_one(frontier, seconds=LONG)
    await frontier.set_host("a.test", interval_ms=2 * HALF)
    await succeed(frontier, grant)
    assert HALF - 60_000 < (await frontier.host("a.test")).next_due_ms <= HALF
    await fleet.forward(HALF)
    await succeed(frontier, await lease_one(frontier, seconds=LONG))
    assert 2 * HALF - 60_000 < (await frontier.host("a.test")).next_due_ms <= 2 * HALF


# --- queues that come and go ----------------------------------------------------------------------


def traces(keys, host):
    """Return the keys that have to do with a host."""
    return [key for key in keys if host.encode() in key]


async def test_a_queue_deleted_in_the_middle_of_a_rotation(own_server, own_fleet):
    """The rotation goes on, what it held is counted, and nothing of it is left: not after a restart."""
    frontier, other = [await own_fleet(host_max_in_flight=2) for _ in range(2)]
    await frontier.schedule([*links("a.test", 40), link("a.test/p", priority=3), *links("b.test", 40)])
    late = await lease_one(frontier, seconds=LONG)
    assert late.host == "a.test"

    async def rotate():
        served = []
        while grants := await lease(other, 3):
            served += [name_of(grant) for grant in grants]
            replies = await asyncio.gather(*(other.finish(each.token, Outcome.SUCCEEDED) for each in grants))
            lost = {grant.host for grant, (in_time, _) in zip(grants, replies, strict=True) if not in_time}
            assert lost <= {"a.test"}
        return served

    async def delete():
        while (await frontier.host("a.test")).queued > 30:  # noqa: ASYNC110  # the rotation's work
            await asyncio.sleep(0)
        return await frontier.delete_host("a.test")

    served, removed = await asyncio.gather(rotate(), delete())
    assert len([name for name in served if name.startswith("a.test")]) + removed + 1 == 41
    assert len([name for name in served if name.startswith("b.test")]) == 40
    assert removed > 0
    assert await frontier.finish(late.token, Outcome.SUCCEEDED, outlinks=links("c.test", 1)) == (False, 0)
    own_server.kill()
    own_server.start()
    assert await frontier.host("a.test") is None
    assert "a.test" not in {view.host for view in await frontier.hosts()}
    assert traces(await own_fleet.snapshot(), "a.test") == []
    assert await frontier.check() == []
    await frontier.schedule(links("a.test", 1, start=99))
    assert await crawl(frontier) == ["a.test/99"]


async def test_a_url_without_a_key_goes_to_its_own_host(frontier):
    """Also when it has a query and no path."""
    await frontier.schedule(
        [*(link(normalise(f"http://{url}")) for url in ("h.test?x=1", "h.test/2", "H.test:80#f"))]
    )
    assert [view.host for view in await frontier.hosts()] == ["h.test"]
    assert (await frontier.host("h.test")).queued == 3


def test_an_empty_crawl_name_is_none():
    """It is the crawl that has no name of its own, and no crawl of the empty name."""
    settings = Settings({"CRAWL_NAME": ""})
    settings.setmodule(crawlproj.settings, priority="default")
    assert Config.from_settings(settings).crawl_name is None


async def test_the_same_url_in_two_crawls_is_two(fleet):
    """Each is served in its own; one crawl's end leaves the other as it is."""
    one, two = await fleet("one"), await fleet("two")
    assert await one.schedule(links("a.test", 2)) == await two.schedule(links("a.test", 2)) == 2
    assert name_of(await lease_one(one)) == name_of(await lease_one(two)) == "a.test/0"
    await one.delete_host("a.test")
    assert (await two.host("a.test")).queued == 1
    await one.drop()
    assert (await two.host("a.test")).in_flight == 1
    assert await two.check() == []


async def test_concurrent_puts_on_a_new_host_make_one_queue(fleet):
    """It holds what all of them brought, each URL once."""
    workers = [await fleet() for _ in range(8)]
    await asyncio.gather(*(worker.schedule(links("a.test", 2, start=n)) for n, worker in enumerate(workers)))
    assert [(view.host, view.queued) for view in await workers[0].hosts()] == [("a.test", 9)]
    assert sorted(await crawl(workers[0])) == [f"a.test/{n}" for n in range(9)]


async def test_a_url_that_is_let_in_while_its_host_is_deleted(fleet):
    """Gone with the host or there in full, and then as of a host that was never seen before."""
    frontier, other = await fleet(), await fleet()
    kept = set()

    async def refresh(later):
        for _ in range(later):
            await other.refresh()
        await other.schedule([link("a.test/", forced=True)])

    for n in range(30):
        await frontier.schedule([link(f"a.test/old{n}", priority=n % 3)])
        await frontier.set_host("a.test", interval_ms=5)
        await asyncio.gather(frontier.delete_host("a.test"), refresh((0, 1, 2, 3, 30)[n % 5]))
        view = await frontier.host("a.test")
        kept.add(view is not None)
        assert (await frontier.refresh()).queued == int(view is not None)
        assert await frontier.check() == []
        if view is not None:
            assert (view.state, view.queued, view.knobs) == ("ready", 1, {})
            await frontier.delete_host("a.test")
    assert kept == {True, False}


async def test_a_url_that_is_met_again_keeps_its_place(frontier):
    """And its depth: an update is no new arrival."""
    await frontier.schedule(links("a.test", 3))
    await frontier.schedule([link("a.test/0", head=True), link("a.test/2", priority=9)])
    assert await crawl(frontier) == ["a.test/0", "a.test/1", "a.test/2"]


async def test_queues_are_listed_once_each_while_crawls_go_on(fleet):
    """Two crawls interleave; a list of one has each of its queues once and none of the other's."""
    one, two, reader = await fleet("one"), await fleet("two"), await fleet("one")
    names = [f"h{n:03}.test" for n in range(250)]
    await one.schedule([entry for name in names for entry in links(name, 2)])
    await two.schedule([link(f"other{n}.test/") for n in range(100)])
    *_, listed, again = await asyncio.gather(crawl(one), crawl(two), reader.hosts(), reader.hosts())
    assert [view.host for view in listed] == [view.host for view in again] == names


# --- servers, backups -----------------------------------------------------------------------------


async def test_a_dump_brought_back_is_the_same_crawl(fleet):
    """What was done stays done, what was pending comes back in its order; other crawls stay as they are."""
    frontier, other = await fleet(), await fleet("other")
    given = [link(f"{host}.test/{n}", priority=n % 2) for n in range(4) for host in "ab"]
    await other.schedule(given)
    await frontier.schedule(given)
    await succeed(frontier, *await lease(frontier))
    dump = await pending(frontier)
    assert len(dump) == 6
    await frontier.drop()
    again = await fleet()
    for host in ("a.test", "b.test"):
        await again.mark_seen({host: [entry.fingerprint for entry in given if entry.host == host]}, started=1)
    assert await again.schedule(given) == 0
    entries = {(entry.host, entry.data.encode()): entry for entry in given}
    for each in dump:
        entry = replace(entries[each.host, each.entry], priority=each.priority, forced=True)
        await again.schedule([entry])
    assert await pending(again) == dump
    assert (again.figures.started, again.figures.seen) == (2, 8)
    assert [name for name in await crawl(again) if name[0] == "a"] == ["a.test/3", "a.test/0", "a.test/2"]
    assert (await other.refresh()).queued == 8


async def test_a_url_or_host_nobody_knows_is_not_made_up(frontier):
    """There is no such host, nothing of its own, and asking for it makes none."""
    assert await frontier.host("nobody.test") is None
    assert await frontier.host_knobs("nobody.test") == {}
    assert await frontier.hosts() == []
    assert await frontier.finish(12345, Outcome.SUCCEEDED) == (False, 0)
    assert await frontier.host("nobody.test") is None


async def test_a_host_with_all_its_places_taken_goes_on_with_the_next_report(fleet):
    """As many unanswered hand-outs as it may have, then nothing; each report makes room for one."""
    frontier = await fleet(host_max_in_flight=3)
    await frontier.schedule(links("a.test", 5))
    grants = await lease(frontier)
    assert len(grants) == 3
    for grant in grants[:2]:
        assert await lease(frontier) == []
        await succeed(frontier, grant)
        assert len(await lease(frontier)) == 1
    assert await lease(frontier) == []


@pytest.mark.parametrize("how", ["killed", "shut down"])
async def test_queues_survive_the_server(own_server, own_fleet, how):
    """Killed or shut down: the same hosts in the same states, with their waits, knobs and order."""
    frontier = await own_fleet(retry_delay_ms=HALF, ready_backlog=2)
    await frontier.schedule([link(f"h{n}.test/{m}", priority=m % 2) for n in range(9) for m in range(3)])
    await frontier.set_host("h3.test", blocked=True)
    await frontier.set_host("h4.test", interval_ms=HALF)
    await frontier.set_host("h5.test", in_flight=2, precedence=7)
    retried, failed, slow, held = await lease(frontier, 4, seconds=LONG)
    await frontier.finish(retried.token, Outcome.RETRY)
    await frontier.finish(failed.token, Outcome.FAILED, host_incident=True)
    await frontier.set_host(slow.host, interval_ms=HALF)
    await succeed(frontier, slow)
    before, figures = await frontier.hosts(), await frontier.refresh()
    assert len({view.state for view in before}) >= 4
    if how == "killed":
        own_server.kill()
    else:
        await own_fleet.redis.shutdown(save=True)
    own_server.start()
    after = await frontier.hosts()
    for one, other in zip(before, after, strict=True):
        assert 0 <= one.next_due_ms - other.next_due_ms < 60_000
        assert 0 <= one.backs_off_ms - other.backs_off_ms < 60_000
    assert [replace(view, next_due_ms=0, backs_off_ms=0) for view in before] == [
        replace(view, next_due_ms=0, backs_off_ms=0) for view in after
    ]
    assert await frontier.refresh() == figures
    assert await frontier.check() == []
    await succeed(frontier, held)


async def test_a_server_that_is_away_is_waited_for_and_nothing_is_made_up(own_server, own_fleet):
    """No call answers meanwhile and no figure changes; afterwards all of them are answered, once."""
    frontier, other = await own_fleet(), await own_fleet()
    await frontier.schedule(links("a.test", 3))
    grant = await lease_one(frontier)
    figures = await other.refresh()
    own_server.freeze()
    calls = [
        asyncio.create_task(call)
        for call in (frontier.refresh(), other.next("w", 1, 60), other.host("a.test"))
    ]
    _, waiting = await asyncio.wait(calls, timeout=0.3)
    assert len(waiting) == 3
    assert other.figures == figures
    own_server.thaw()
    now, granted, view = await asyncio.gather(*calls)
    assert (now, granted.grants) == (figures, [])
    assert (view.queued, view.in_flight) == (2, 1)
    await succeed(frontier, grant)


async def test_workers_of_one_name_are_answered_each(fleet):
    """The same name from two places: no URL twice, and every report is answered once as in time."""
    one, two = await fleet(), await fleet()
    await one.schedule([link(f"h{n}.test/") for n in range(20)])
    grants = [each for found in await asyncio.gather(lease(one, 10), lease(two, 10)) for each in found]
    assert len({grant.token for grant in grants}) == len({grant.host for grant in grants}) == 20
    reports = [worker.finish(grant.token, Outcome.SUCCEEDED) for grant in grants for worker in (one, two)]
    replies = await asyncio.gather(*reports)
    assert sorted(replies) == [(False, 0)] * 20 + [(True, 0)] * 20
    assert (await one.refresh()).late == 20
