from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.errors import CheckViolation

from crawlproj.crawls import lifecycle
from crawlproj.crawls.lifecycle import Crawl, CrawlStatus
from crawlproj.crawls.statements import statement
from crawlproj.exceptions import BadArgument, NotFound, Refused, WrongUsage

if TYPE_CHECKING:
    from psycopg import Connection

    from crawlproj.connections import Database

PAUSED = "9999-01-01 00:00:00+00"


async def claim(database: Database, name: str | None = "news", worker: str = "w1", **more: Any) -> Crawl:
    wanted = {"spider": "site", "lease_seconds": 60.0, "config": {}, **more}
    return await lifecycle.claim(database, name=name, worker=worker, **wanted)


async def seal(database: Database, crawl: Crawl, reason: str = "done") -> bool:
    return await lifecycle.seal(database, crawl, stop_reason=reason, counts={"results": 3})


async def renew(
    database: Database, crawl: Crawl, worker: str = "w1", seconds: float = 60.0
) -> CrawlStatus | None:
    return await lifecycle.renew(database, crawl, worker, lease_seconds=seconds)


def pause(sql: Connection) -> None:
    sql.execute("UPDATE crawl SET status = 'paused', retry_at = %s", [PAUSED])


def one(sql: Connection, query: str) -> Any:
    row = sql.execute(query).fetchone()
    return None if row is None else row[0]


def seconds_until_due(sql: Connection) -> float:
    return float(one(sql, "SELECT extract(epoch FROM retry_at - now()) FROM crawl"))


# --- claim --------------------------------------------------------------------------------------


async def test_unnamed_crawl_is_named_after_spider_and_time(database):
    """Without a name every crawl is a new one: <spider>-<time>."""
    crawl = await claim(database, None)
    assert re.fullmatch(r"site-\d{8}T\d{6}", crawl.name)
    assert (crawl.run, crawl.status) == (1, CrawlStatus.STARTED)


async def test_unnamed_crawls_of_one_second_are_different_crawls(databases):
    """Two crawls started at the same moment never become one, nor two runs of one name."""
    crawls = await asyncio.gather(*[claim(databases(), None) for _ in range(5)])
    assert len({crawl.name for crawl in crawls}) == 5
    assert {crawl.run for crawl in crawls} == {1}


async def test_eight_concurrent_claims_of_one_name_are_one_run(databases, sql):
    """A name has one open run, however many workers start at the same moment."""
    crawls = await asyncio.gather(*[claim(databases(), worker=f"w{n}") for n in range(8)])
    assert {(crawl.id, crawl.run, crawl.frontier) for crawl in crawls} == {
        (crawls[0].id, 1, crawls[0].frontier)
    }
    assert sorted(crawl.epoch for crawl in crawls) == list(range(1, 9))
    assert one(sql, "SELECT count(*) FROM worker_lease") == 8


async def test_next_run_has_its_own_frontier(database):
    """A sealed run is never joined: the name goes on with its next run, with keys of its own."""
    first = await claim(database)
    assert await seal(database, first)
    second = await claim(database)
    assert second.run == 2
    assert second.frontier != first.frontier


async def test_eight_claims_after_a_seal_are_one_next_run(databases):
    """The step from one run to the next happens once."""
    database = databases()
    await seal(database, await claim(database))
    crawls = await asyncio.gather(*[claim(databases(), worker=f"w{n}") for n in range(8)])
    assert {crawl.run for crawl in crawls} == {2}


async def test_joining_keeps_the_config_of_the_run(database):
    """A run is what it was created as; who joins it does not change it."""
    await claim(database, config={"seeds": "https://a.example/"})
    joined = await claim(database, worker="w2", config={"seeds": "https://b.example/"})
    assert joined.config == {"seeds": "https://a.example/"}


async def test_a_run_that_was_added_is_begun_as_it_was_asked_for(database, sql):
    """Whoever wants another seed does not take its place; once it has begun they may bring what they want."""
    config = {"arguments": {"seeds": "https://a.example/"}}
    await claim(database, config=config)
    sql.execute("UPDATE crawl SET status = 'queued', started_at = NULL")
    other = {"arguments": {"seeds": "https://b.example/"}}
    with pytest.raises(Refused, match=r"with other arguments \(seeds\): `scrapy run news` works"):
        await claim(database, worker="w2", config=other)
    await claim(database, worker="w2", config=config)
    assert (await claim(database, worker="w3", config=other)).config == config


async def test_join_only_finds_nothing(database, sql):
    """CRAWL_JOIN never makes a run, be the name unknown or its runs all sealed."""
    with pytest.raises(NotFound, match="no open run"):
        await claim(database, join_only=True)
    await seal(database, await claim(database))
    with pytest.raises(NotFound, match="no open run"):
        await claim(database, join_only=True)
    assert one(sql, "SELECT count(*) FROM crawl") == 1


async def test_join_only_joins(database):
    """CRAWL_JOIN joins what is open."""
    crawl = await claim(database)
    assert (await claim(database, worker="w2", join_only=True)).id == crawl.id


async def test_join_only_needs_a_name(database):
    """Nothing can be joined without a name."""
    with pytest.raises(WrongUsage, match="CRAWL_NAME"):
        await claim(database, None, join_only=True)


async def test_paused_run_is_refused(database, sql):
    """A restart never lets a paused crawl go on; only a person does."""
    await claim(database)
    pause(sql)
    with pytest.raises(Refused, match=r"crawl 'news' is paused: `scrapy resume news`"):
        await claim(database, worker="w2")
    assert one(sql, "SELECT status FROM crawl") == "paused"
    assert one(sql, "SELECT count(*) FROM worker_lease") == 1


async def test_name_of_another_spider_is_refused(database):
    """Two spiders never share a frontier by accident."""
    await claim(database)
    with pytest.raises(Refused, match="spider 'site', not of 'shop'"):
        await claim(database, spider="shop")


async def test_queued_run_becomes_started(database, sql):
    """The first claim of a queued run starts its clock; a later one does not start it anew."""
    sql.execute("INSERT INTO crawl (name, run, spider, frontier) VALUES ('news', 1, 'site', 'f')")
    first = await claim(database)
    again = await claim(database, worker="w2")
    assert first.status is CrawlStatus.STARTED
    assert again.started_at == first.started_at is not None


async def test_claim_rolls_back_as_a_whole(database, sql):
    """A refused claim leaves nothing behind."""
    with pytest.raises(BadArgument):
        await claim(database, "bad\0name")
    assert one(sql, "SELECT count(*) FROM crawl") == 0
    assert (await claim(database)).run == 1


async def test_config_holds_anything(database):
    """Arguments with characters that PostgreSQL refuses do not keep a crawl from starting."""
    crawl = await claim(database, config={"allow": "a\0b\ud800", "depth": float("nan")})
    assert crawl.config == {"allow": "a\ufffdb\ufffd", "depth": None}


# --- leases -------------------------------------------------------------------------------------


async def test_renewal_keeps_the_run_from_being_due(database, sql):
    """As long as a worker renews, nobody else is called for."""
    crawl = await claim(database, lease_seconds=1)
    assert await renew(database, crawl, seconds=60)
    assert 55 < seconds_until_due(sql) <= 60
    assert await lifecycle.due(database) == []


async def test_renewal_does_not_shorten_what_others_hold(database, sql):
    """A run is due when the last of its leases ends, not the one renewed last."""
    await claim(database, worker="slow", lease_seconds=600)
    quick = await claim(database, worker="quick")
    assert await renew(database, quick, "quick")
    assert seconds_until_due(sql) > 500


async def test_same_worker_name_twice(database, sql):
    """A second process of the same name takes the lease over; the first learns it at its renewal."""
    first = await claim(database)
    second = await claim(database)
    assert not await renew(database, first, seconds=600)
    assert seconds_until_due(sql) <= 60
    assert await renew(database, second)
    await lifecycle.release(database, first, "w1")
    assert await renew(database, second)


@pytest.mark.parametrize("status", ["paused", "sealed"])
async def test_late_writes_change_nothing(database, sql, status):
    """Paused and sealed rows are never overwritten by whatever a worker still had to say."""
    crawl = await claim(database)
    due = PAUSED if status == "paused" else None
    sql.execute("UPDATE crawl SET status = %s, retry_at = %s", [status, due])
    before = sql.execute("SELECT * FROM crawl").fetchone()
    assert await renew(database, crawl) is (CrawlStatus.PAUSED if status == "paused" else None)
    assert not await seal(database, crawl)
    await lifecycle.release(database, crawl, "w1")
    assert sql.execute("SELECT * FROM crawl").fetchone() == before


async def test_release_of_the_last_worker_makes_the_run_due(database, sql):
    """A worker that leaves does not leave the crawl waiting for a lease to run out."""
    crawl = await claim(database)
    await lifecycle.release(database, crawl, "w1")
    assert [due.id for due in await lifecycle.due(database)] == [crawl.id]
    assert one(sql, "SELECT status FROM crawl") == "started"
    assert one(sql, "SELECT count(*) FROM worker_lease") == 0


async def test_release_of_one_of_two_leaves_the_other_at_work(database, sql):
    """A run that somebody works on is not due."""
    first = await claim(database, lease_seconds=600)
    await claim(database, worker="w2", lease_seconds=60)
    await lifecycle.release(database, first, "w1")
    assert 55 < seconds_until_due(sql) <= 60


async def test_both_release_at_once(databases):
    """Two workers that leave at the same moment do not each take the other for the one that stays."""
    one_, two = databases(), databases()
    for _ in range(20):
        first, second = await claim(one_), await claim(two, worker="w2")
        await asyncio.gather(lifecycle.release(one_, first, "w1"), lifecycle.release(two, second, "w2"))
        assert [due.id for due in await lifecycle.due(one_)] == [first.id]


async def test_dead_workers_are_taken_off(database, sql):
    """A lease that ran out is reported once, and its run is due; one that holds is left alone."""
    crawl = await claim(database, worker="dead")
    sql.execute("UPDATE worker_lease SET expires_at = now() - interval '1s'")
    sql.execute("UPDATE crawl SET retry_at = now() - interval '1s'")
    alive = await claim(database, "other", worker="alive")
    assert await lifecycle.reclaim(database) == [(crawl.id, "dead")]
    assert await lifecycle.reclaim(database) == []
    assert [due.id for due in await lifecycle.due(database)] == [crawl.id]
    assert not await renew(database, crawl, "dead")
    assert await renew(database, alive, "alive")


async def test_renewals_and_seals_do_not_deadlock(databases):
    """Everybody locks the run before its leases."""
    workers = [(databases(), f"w{n}") for n in range(4)]
    for _ in range(10):
        crawls = [await claim(database, worker=worker) for database, worker in workers]
        pairs = list(zip(workers, crawls, strict=True))
        results = await asyncio.gather(
            *[renew(database, crawl, worker) for (database, worker), crawl in pairs],
            *[seal(database, crawl) for (database, _), crawl in pairs],
            *[lifecycle.release(database, crawl, worker) for (database, worker), crawl in pairs],
        )
        assert results[4:8].count(True) == 1


# --- the end ------------------------------------------------------------------------------------


async def test_seal(database, sql):
    """A sealed run is due for nothing, has no workers, and keeps its figures."""
    crawl = await claim(database)
    await claim(database, worker="w2")
    assert await seal(database, crawl, reason="limit")
    sealed = await lifecycle.read(database, crawl)
    assert (sealed.status, sealed.retry_at, sealed.stop_reason) == (CrawlStatus.SEALED, None, "limit")
    assert sealed.finished_at is not None
    assert one(sql, "SELECT count(*) FROM worker_lease") == 0
    assert one(sql, "SELECT counts FROM crawl") == {"results": 3, "fetch_status": {}, "schedule_status": {}}


async def test_seal_keeps_the_counts_by_status(database, sql):
    """The next run takes the pages over, so the counts of this one are written down with its seal."""
    crawl = await claim(database)
    for n, (fetch, schedule) in enumerate(
        [("done", "succeeded"), ("done", "succeeded"), ("empty", "succeeded"), (None, "disregarded")]
    ):
        sql.execute(
            "INSERT INTO page (crawl_name, url_key, crawl_id, first_crawl_id, url, canonical_url, host,"
            " depth, fetch_status, schedule_status, attempts, reported_at)"
            " VALUES ('news', %s, %s, %s, 'u', 'u', 'h', 0, %s, %s, 1, now())",
            [bytes([n]) * 16, crawl.id, crawl.id, fetch, schedule],
        )
    await seal(database, crawl)
    counts = one(sql, "SELECT counts FROM crawl")
    assert counts["fetch_status"] == {"done": 2, "empty": 1}
    assert counts["schedule_status"] == {"succeeded": 3, "disregarded": 1}


async def test_seal_race_has_one_winner(databases, sql):
    """Of many workers that find the frontier closed, one seals; the reason is the winner's."""
    crawls = await asyncio.gather(*[claim(databases(), worker=f"w{n}") for n in range(8)])
    sealed = await asyncio.gather(
        *[seal(databases(), crawl, f"reason {n}") for n, crawl in enumerate(crawls)]
    )
    assert sealed.count(True) == 1
    assert one(sql, "SELECT stop_reason FROM crawl") == f"reason {sealed.index(True)}"


async def test_seal_against_claim(databases):
    """A claim that meets a seal joins the run before it, or starts the next one after it: never both."""
    database = databases()
    other = databases()
    for _ in range(20):
        crawl = await claim(database)
        sealed, joined = await asyncio.gather(seal(database, crawl), claim(other, worker="w2"))
        assert sealed
        now = await lifecycle.read(other, joined)
        if joined.id == crawl.id:
            assert now.status is CrawlStatus.SEALED
            assert not await renew(other, joined, "w2")
        else:
            assert (joined.run, now.status) == (crawl.run + 1, CrawlStatus.STARTED)
            assert await renew(other, joined, "w2")


async def test_elapsed_is_the_databases_time(database, sql):
    """Running time counts from the run's first start, whichever worker asks."""
    crawl = await claim(database)
    sql.execute("UPDATE crawl SET started_at = now() - interval '70 seconds'")
    assert 70 <= await lifecycle.elapsed(database, crawl) < 80
    later = await claim(database, worker="w2")
    assert 70 <= await lifecycle.elapsed(database, later) < 80


async def test_read_of_a_crawl_that_is_gone(database, sql):
    """A crawl that somebody deleted is reported in a sentence."""
    crawl = await claim(database)
    sql.execute("DELETE FROM crawl")
    with pytest.raises(NotFound, match="news"):
        await lifecycle.read(database, crawl)


# --- what the tables themselves hold --------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "retry_at"),
    [("queued", None), ("started", None), ("paused", None), ("paused", "2024-01-01"), ("odd", "2024-01-01")],
)
async def test_impossible_states_are_refused(database, sql, status, retry_at):
    """No writer can leave a run that nobody would ever pick up, or a paused one that is due."""
    await claim(database)
    with pytest.raises(CheckViolation):
        sql.execute("UPDATE crawl SET status = %s, retry_at = %s", [status, retry_at])


async def test_crawl_is_a_value(database):
    """What a worker holds of its crawl does not change below it."""
    crawl = await claim(database)
    assert replace(crawl, run=2).run == 2
    with pytest.raises(AttributeError):
        crawl.run = 2


def test_every_query_says_what_it_is() -> None:
    """A statement is read more often than written: each begins with what it does."""
    for package in ("crawlproj.crawls", "crawlproj.pages"):
        for entry in files(package).joinpath("sql").iterdir():
            assert entry.read_text().startswith("-- "), entry.name


# --- a frontier that is kept for the next run ------------------------------------------------------


async def keep(database: Database, crawl: Crawl) -> None:
    """Seal a run that leaves URLs in its frontier."""

    async def work(connection: Any) -> None:
        await lifecycle.lock(connection, crawl.id)
        await lifecycle.seal_locked(connection, crawl.id, stop_reason="limit", counts={}, kept=True)

    await database.run(work)


async def test_next_run_goes_on_with_what_was_kept(databases, sql):
    """Of eight that ask for the next run none makes two of it: one run has the frontier, and nobody else."""
    database = databases()
    first = await claim(database)
    await keep(database, first)
    assert await lifecycle.sealed_frontiers(database, 10) == []
    crawls = await asyncio.gather(*[claim(databases(), worker=f"w{n}") for n in range(8)])
    assert {(crawl.run, crawl.frontier, crawl.continues) for crawl in crawls} == {(2, first.frontier, True)}
    left = await lifecycle.sealed_frontiers(database, 10)
    assert len(left) == 1
    assert first.frontier not in left
    assert await seal(database, crawls[0])
    third = await claim(database)
    assert (third.continues, third.frontier not in {first.frontier, *left}) == (False, True)


async def test_another_spider_does_not_go_on_with_it(database):
    """What one spider has left is nothing that another one can read; its keys may go then."""
    first = await claim(database)
    await keep(database, first)
    assert await lifecycle.sealed_frontiers(database, 10) == []
    second = await claim(database, spider="shop")
    assert (second.run, second.continues) == (2, False)
    assert second.frontier != first.frontier
    assert await lifecycle.sealed_frontiers(database, 10) == [first.frontier]


async def test_a_dead_worker_is_taken_off_a_run_that_somebody_decides_about(database, sql):
    """Its note refers to the run and changes nothing of it: with a lease nobody waits for its lock."""
    crawl = await claim(database)
    sql.execute("UPDATE worker_lease SET expires_at = now() - interval '1 s'")
    with sql.transaction():
        sql.execute(statement("lock"), {"crawl_id": crawl.id})
        async with asyncio.timeout(10):
            assert await lifecycle.reclaim(database) == [(crawl.id, "w1")]
    assert one(sql, "SELECT namespace FROM note") == "WORKER_LOST"
