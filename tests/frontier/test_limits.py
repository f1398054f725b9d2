"""Limits of a run: where they come from, what counts for them, and how a later run goes on behind one."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from scrapy.settings import Settings

import crawlproj.settings
from crawlproj.config import Config
from crawlproj.exceptions import BadSetting, Refused
from crawlproj.frontier.partition import Partition
from crawlproj.frontier.records import Outcome
from crawlproj.frontier.seen_cache import SeenCache
from crawlproj.intake import Intake
from crawlproj.knobs import KNOBS
from tests.frontier.conftest import CODEC, config, crawl, lease, lease_one, link, links, name_of, succeed

LIMITS = ("max_time_seconds", "max_target", "max_result", "max_urls", "max_bytes")
HOUR = 3_600_000
ALWAYS = 600  # seconds: a lease that the test's own pace does not end
A, B, C = "a.test", "b.test", "c.test"


# --- where they come from -------------------------------------------------------------------------


def settings(**given):
    """Return the project's settings and some from a command line."""
    found = Settings()
    found.setmodule(crawlproj.settings)
    found.setdict(given, priority="cmdline")
    return found


@pytest.mark.parametrize("name", LIMITS)
def test_values(name):
    """Unset, nothing and 0 are no limit; all else that is no number from 0 on is refused, by its name."""
    setting = KNOBS[name].setting
    for text, value in ((None, 0), ("", 0), (0, 0), ("0", 0), ("10", 10), (1e3, 1000), ("1e3", 1000)):
        config = Config.from_settings(settings(**{setting: text}))
        assert config.knobs[name] == getattr(config, name) == value
    for wrong in ("none", -1, "-1", "abc", "nan", "inf", float("nan"), float("inf"), True, False, [1], "1 h"):
        with pytest.raises(BadSetting, match=f"{setting} must be a .*number, at least 0"):
            Config.from_settings(settings(**{setting: wrong}))


def test_only_time_need_not_be_whole():
    """Half a second is one; half a page is none. Days of them are shown in all their digits."""
    assert Config.from_settings(settings(MAX_TIME_SECONDS="0.5")).max_time_seconds == 0.5
    assert KNOBS["max_time_seconds"].shown(12_345_678.5) == "12345678.5"
    for name in LIMITS[1:]:
        with pytest.raises(BadSetting, match="a whole number"):
            Config.from_settings(settings(**{KNOBS[name].setting: 0.5}))


async def test_of_several_workers(fleet):
    """Who joins changes those that it was told, 0 among them, and leaves the others."""
    frontier = await fleet(**dict.fromkeys(LIMITS, 9))
    await fleet(interval_ms=0)
    assert [(await frontier.crawl_knobs())[name] for name in LIMITS] == [9] * 5
    await fleet(max_target=0, max_bytes=0, max_result=12)
    assert [(await frontier.crawl_knobs())[name] for name in LIMITS] == [9, 0, 12, 9, 0]


# --- URLs that may be let in ----------------------------------------------------------------------


@pytest.mark.parametrize("seen_filter", ["exact", "bloom"])
async def test_as_many_urls_as_may_are_let_in(fleet, seen_filter):
    """The first of them; one that is turned away has not been seen, and comes in when there is room."""
    frontier = await fleet(seen_filter=seen_filter, bloom_capacity=10_000, max_urls=5)
    assert await frontier.schedule(links(A, 3)) == 3
    assert await frontier.schedule([*links(A, 4), *links(B, 3)]) == 2
    assert await frontier.schedule([*links(A, 4), *links(B, 3)]) == 0
    figures = frontier.figures
    assert (figures.admitted, figures.seen, figures.over) == (5, 5, 4)
    await frontier.set_crawl(max_urls=6)
    assert await frontier.schedule([link(f"{B}/2", priority=5), link(f"{B}/1")]) == 1
    await frontier.set_crawl(max_urls=0)
    assert await frontier.schedule([*links(A, 4), *links(B, 3)]) == 1
    assert sorted(await crawl(frontier)) == sorted(
        [f"{A}/0", f"{A}/1", f"{A}/2", f"{A}/3", f"{B}/0", f"{B}/1", f"{B}/2"]
    )


async def test_what_takes_no_room(fleet):
    """A redirect's end, another attempt, a seen URL that is wanted again; a new one does, forced or not."""
    frontier = await fleet(max_urls=2, retry_delay_ms=0)
    await frontier.schedule([link(f"{A}/0", forced=True), link(f"{A}/1")])
    grant = await lease_one(frontier)
    assert await frontier.finish(
        grant.token, Outcome.SUCCEEDED, outlinks=[link(f"{B}/end", head=True)], counted=True
    ) == (True, 1)
    grant = await lease_one(frontier)
    await frontier.finish(grant.token, Outcome.RETRY)
    assert await frontier.schedule([link(f"{A}/0", forced=True)]) == 1
    assert await frontier.schedule([link(f"{A}/2", forced=True)]) == 0
    assert (frontier.figures.admitted, frontier.figures.over) == (2, 1)
    assert sorted(await crawl(frontier)) == [f"{A}/0", f"{A}/1", f"{B}/end"]


async def test_outlinks_beyond_the_limit_are_left_and_the_page_is_reported(fleet):
    """The lease ends as ever; a limit that is lowered below what is in lets nothing more in."""
    frontier = await fleet(max_urls=4)
    await frontier.schedule(links(A, 1))
    grant = await lease_one(frontier)
    assert await frontier.finish(grant.token, Outcome.SUCCEEDED, outlinks=links(B, 250)) == (True, 3)
    assert frontier.figures.over == 247
    await frontier.set_crawl(max_urls=1)
    assert await frontier.schedule(links(C, 1)) == 0
    assert len(await crawl(frontier)) == 3
    assert await frontier.seal()


async def test_after_a_loss_targets_count_and_what_is_only_known_does_not(fleet):
    """What earlier runs have left to be marked takes no room; what was started had been let in."""
    frontier = await fleet(max_urls=5)
    known = links(A, 20)
    await frontier.mark_seen({A: [entry.fingerprint for entry in known]})
    assert frontier.figures.admitted == 0
    await frontier.mark_seen({}, started=3, size=700)
    assert (frontier.figures.started, frontier.figures.admitted, frontier.figures.bytes) == (3, 3, 700)
    assert await frontier.schedule([*known, *links(B, 9)]) == 2


async def test_each_partition_has_its_share(fleet):
    """Never more than the limit in all, whichever hosts come; also after a loss."""
    frontier = await fleet(partitions=3, max_urls=11)
    entries = [link(f"h{n}.test/") for n in range(60)]
    assert await frontier.schedule(entries) == frontier.figures.admitted == 11
    assert [part.figures.admitted for part in frontier.parts] == [4, 4, 3]
    await frontier.set_crawl(max_urls=13)
    assert await frontier.schedule(entries) == 2
    await frontier.drop()
    again = await fleet(partitions=3, max_urls=11)
    await again.mark_seen({}, started=7, size=100)
    assert (again.figures.started, again.figures.bytes) == (7, 100)
    assert await again.schedule(entries) == 4


@pytest.mark.parametrize("partitions", [1, 3])
async def test_a_start_url_for_which_no_room_is_left_stays_in_its_key(fleet, partitions):
    """The next run finds it there."""
    frontier = await fleet(partitions=partitions, max_urls=partitions)
    key = f"{{{frontier.prefix.partition('{')[2].partition('}')[0]}}}:start"
    await fleet.redis.rpush(key, "x", "y", "z")
    entries = {each: [link(f"{each}{n}.test/") for n in range(9)] for each in "xy"}
    await frontier.schedule(entries["x"])
    assert not await frontier.take_from(key, b"y", entries["y"])
    assert await fleet.redis.lrange(key, 0, -1) == [b"x", b"y", b"z"]
    assert await frontier.take_from(key, b"z", [])  # it asks for nothing
    await frontier.set_crawl(max_urls=0)
    assert await frontier.take_from(key, b"y", entries["y"])
    assert await fleet.redis.lrange(key, 0, -1) == [b"x"]


async def test_a_worker_does_not_take_for_seen_what_was_turned_away(fleet):
    """It sends it again when the spider asks for it again; what came in before it remembers."""
    frontier, seen = await fleet(max_urls=2), SeenCache(100)
    stats = SimpleNamespace(inc_value=lambda *_: None)
    worker = SimpleNamespace(seen=seen, frontier=frontier, codec=CODEC, config=None)
    intake = Intake(SimpleNamespace(stats=stats), worker, added=lambda: None)
    for first, taken in ((links(A, 1), 1), (links(A, 3), 1), (links(A, 3), 0)):
        before = frontier.figures.admitted
        intake.pending = list(first)
        await intake.send()
        assert frontier.figures.admitted - before == taken
    assert [entry.fingerprint in seen for entry in links(A, 3)] == [True, False, False]
    await frontier.set_crawl(max_urls=3)
    intake.pending = links(A, 3)
    await intake.send()
    assert all(entry.fingerprint in seen for entry in links(A, 3))


async def test_bytes_are_counted_once(fleet):
    """Those of every report that came in time, whatever came of it."""
    frontier, other = await fleet(retry_delay_ms=HOUR), await fleet()
    await frontier.schedule(links(A, 2))
    for outcome, size in ((Outcome.RETRY, 1000), (Outcome.SUCCEEDED, 2**40)):
        grant = await lease_one(frontier)
        for worker in (frontier, other):
            await worker.finish(grant.token, outcome, size=size)
    assert (await other.refresh()).bytes == 2**40 + 1000


# --- a later run goes on --------------------------------------------------------------------------


async def stopped(frontier):
    """Start two of five URLs, of which one is to be tried again, find one dead, and stop and close it."""
    await frontier.schedule([*links(A, 2), *links(B, 2), link(f"{C}/0")])
    done, again, dead = await lease(frontier, 3)
    await frontier.finish(
        done.token, Outcome.SUCCEEDED, results=[1, -1, 2**62], size=700, outlinks=links(A, 2)
    )
    await frontier.finish(again.token, Outcome.RETRY)
    await frontier.finish(dead.token, Outcome.UNREADABLE)
    assert not (await frontier.finish(dead.token, Outcome.FAILED))[0]
    await frontier.set_host(A, error_penalty=7)
    await frontier.pause()
    await frontier.stop("a limit")
    assert await frontier.seal()


@pytest.mark.parametrize("partitions", [1, 3])
async def test_what_a_later_run_finds(fleet, partitions):
    """Queues, hosts, knobs, dead letters and the mark of what was seen; no result, no stop, no pause."""
    # As many sets of results as need more than one step.
    given = {"partitions": partitions, "max_urls": 60, "retry_delay_ms": HOUR, "seen_shards": 5000}
    frontier = await fleet(**given)
    await stopped(frontier)
    before = frontier.figures
    assert (before.started, before.results, before.late, before.bytes) == (3, 3, 1, 700)
    with pytest.raises(Refused):
        await frontier.schedule(links(A, 1))
    assert await frontier.reopen(2)
    figures = await frontier.refresh()
    assert (figures.queued, figures.fresh, figures.seen, figures.dead) == (3, 3, before.seen, 1)
    assert (figures.started, figures.results, figures.late, figures.bytes) == (0, 0, 0, 0)
    assert (figures.admitted, figures.over) == (0, 0)
    assert (figures.stop, figures.closed, figures.paused) == ("", False, False)
    assert await frontier.schedule(links(A, 3)) == 1
    assert (await frontier.crawl_knobs())["max_urls"] == 60
    assert await frontier.host_knobs(A) == {"error_penalty": 7}
    await fleet.forward(HOUR * 2)
    assert len(await crawl(frontier)) + len([letter async for letter in frontier.dead_letters()]) == 5
    assert (frontier.figures.started, frontier.figures.fresh) == (4, 0)
    assert await frontier.check() == []
    assert await frontier.seal()


async def test_a_target_of_the_run_before_is_one_of_this(fleet):
    """Another attempt and a redirect's end count when they are leased, once; a limit is as exact as ever."""
    frontier = await fleet(max_target=2, retry_delay_ms=0)
    await frontier.schedule(links(A, 2))
    for _ in range(2):
        grant = await lease_one(frontier)
        outlinks = [link(f"{B}/end{grant.token}")]
        await frontier.finish(grant.token, Outcome.RETRY)
        await frontier.schedule(outlinks, counted=True)
    await frontier.stop("a limit")
    assert await frontier.seal()
    assert await frontier.reopen(2)
    assert frontier.figures.fresh == 4
    grants = await lease(frontier)
    assert (len(grants), frontier.figures.started) == (2, 2)
    assert sorted(grant.attempts for grant in grants) == [0, 2]  # what was tried has been
    for grant in grants:
        await frontier.finish(grant.token, Outcome.RETRY)
    assert (frontier.figures.started, frontier.figures.fresh) == (2, 2)
    assert len(await crawl(frontier)) == 2
    await frontier.stop("a limit")
    assert await frontier.seal()
    assert await frontier.reopen(5)  # runs between may have had another frontier
    assert len(await crawl(frontier)) == 2


async def test_a_host_that_is_deleted_takes_its_new_targets_along(fleet):
    """Those that wait for another attempt as well."""
    frontier = await fleet(retry_delay_ms=HOUR)
    await frontier.schedule([*links(A, 2), *links(B, 1)])
    for grant in await lease(frontier):
        await frontier.finish(grant.token, Outcome.RETRY)
    await frontier.stop("a limit")
    assert await frontier.seal()
    assert await frontier.reopen(2)
    assert await frontier.delete_host(A) == 2
    assert ((await frontier.refresh()).queued, frontier.figures.fresh) == (1, 1)


async def test_a_dead_letter_of_the_run_before_is_a_new_target(fleet):
    """One of this run is none."""
    frontier = await fleet()
    await stopped(frontier)
    await frontier.reopen(2)
    ids = [letter.id async for letter in frontier.dead_letters()]
    fresh = frontier.figures.fresh
    assert await frontier.requeue(ids) == 1
    assert (await frontier.refresh()).fresh == fresh + 1
    grant = next(grant for grant in await lease(frontier) if grant.host == B)
    await frontier.finish(grant.token, Outcome.UNREADABLE)
    fresh = frontier.figures.fresh
    assert await frontier.requeue([letter.id async for letter in frontier.dead_letters()]) == 1
    assert (await frontier.refresh()).fresh == fresh


async def test_a_run_begins_once(fleet):
    """However many workers open it, together or when it is over again; a new frontier is open as it is."""
    workers = [await fleet() for _ in range(4)]
    assert await workers[0].reopen(1)
    assert await workers[0].reopen(2)  # of another run's number, but nobody has closed it
    await stopped(workers[0])
    assert not await workers[1].reopen(1)
    assert await asyncio.gather(*(worker.reopen(2) for worker in workers)) == [True] * 4
    await succeed(workers[0], *await lease(workers[0]))
    assert await workers[2].reopen(2)
    assert (await workers[3].refresh()).started > 0
    await workers[0].stop("enough")
    assert await workers[0].seal()
    assert not await workers[1].reopen(2)
    assert (await workers[1].refresh()).closed
    new = await fleet("new")
    await new.drop()
    await new.create(config(), run=7)
    assert await new.reopen(7)
    await new.stop("enough")
    assert await new.seal()
    assert not await new.reopen(7)


async def test_new_runs_that_begin_paused(fleet):
    """So does one that goes on; somebody resumes it."""
    frontier = await fleet(pause_at_start=1)
    await stopped_at_once(frontier)
    assert await frontier.reopen(2)
    assert await lease(frontier) == []
    await frontier.resume()
    assert len(await crawl(frontier)) == 2


async def stopped_at_once(frontier):
    """Queue two URLs, stop and close it."""
    await frontier.schedule(links(A, 2))
    await frontier.stop("a limit")
    assert await frontier.seal()


@pytest.mark.parametrize("opened", [0, 1, 2])
async def test_a_worker_that_dies_while_it_opens_it(fleet, monkeypatch, opened):
    """The next one opens what is left of it, and takes none of it for the end of a run."""
    frontier = await fleet(partitions=3)
    await stopped_at_once(frontier)
    dead = await fleet(partitions=3)
    real = Partition.reopen

    async def dies(part, *run):
        if part is dead.parts[opened]:
            raise ConnectionAbortedError
        return await real(part, *run)

    monkeypatch.setattr(Partition, "reopen", dies)
    with pytest.raises(ConnectionAbortedError):
        await dead.reopen(2)
    late = await fleet(partitions=3)
    assert await late.reopen(2)
    assert not (await late.refresh()).closed
    assert len(await crawl(late)) == 2
    assert await late.seal()


async def test_a_worker_of_the_run_before_gets_nothing(fleet):
    """One that was frozen while its run was sealed and the next began: no lease, no say in the end."""
    frontier, frozen = await fleet(), await fleet()
    await frozen.create(config(), run=1)
    await stopped_at_once(frontier)
    assert await frontier.reopen(2)
    assert (await frozen.next("w", 5, ALWAYS)).grants == []
    assert frozen.figures.closed
    assert not await frozen.seal()
    assert sorted(name_of(grant) for grant in await lease(frontier)) == [f"{A}/0"]


@pytest.mark.parametrize("parts", [1, 3])
async def test_a_later_run_has_limits_of_its_own(fleet, parts):
    """They are turned as it is opened, once: whoever comes after turns back nothing that is tuned since."""
    frontier = await fleet(partitions=parts)
    await frontier.set_crawl(max_target=5, interval_ms=700)
    await stopped_at_once(frontier)
    await frontier.reopen(2, {"max_target": 0, "max_result": 9})
    await frontier.set_crawl(max_result=11)
    await frontier.reopen(2, {"max_target": 0, "max_result": 9})
    knobs = await frontier.crawl_knobs()
    assert (knobs["max_target"], knobs["max_result"], knobs["interval_ms"]) == (0, 11, 700)
