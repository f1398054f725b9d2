from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.signalmanager import SignalManager

from crawlproj.crawls import control, lifecycle
from crawlproj.crawls.service import CrawlService
from crawlproj.signals import EVENTS, CrawlEvent

if TYPE_CHECKING:
    from psycopg import Connection

    from crawlproj.connections import Database
    from crawlproj.crawls.lifecycle import Crawl


class Life:
    """One worker's part in a run, told by events as the worker tells it."""

    def __init__(self, database: Database, crawl: Crawl, worker: str) -> None:
        self.crawl = crawl
        self._worker = worker
        self._signals = SignalManager(self)
        self._service = CrawlService(database, lease_seconds=60)
        self._service.subscribe(self._signals)

    def event(self, kind: str, **more: Any) -> CrawlEvent:
        crawl = self.crawl
        return CrawlEvent(
            kind=kind,
            crawl_id=crawl.id,
            crawl=crawl.name,
            run=crawl.run,
            spider=crawl.spider,
            worker=self._worker,
            epoch=crawl.epoch,
            **more,
        )

    async def tell(self, kind: str, **more: Any) -> None:
        event = self.event(kind, **more)
        answers = await self._signals.send_catch_log_async(EVENTS[kind], event=event)
        assert [answer for _, answer in answers] == [None]


async def live(database: Database, worker: str = "w1") -> Life:
    crawl = await lifecycle.claim(
        database, name="news", spider="site", worker=worker, lease_seconds=60, config={}
    )
    return Life(database, crawl, worker)


def row(sql: Connection) -> tuple[Any, ...]:
    """Return status, whether it is due, and the reason of the last run."""
    query = "SELECT status, retry_at <= now(), stop_reason FROM crawl ORDER BY id DESC"
    return sql.execute(query).fetchone()


def phases(sql: Connection) -> list[str]:
    return [phase for (phase,) in sql.execute("SELECT phase FROM worker_lease ORDER BY worker")]


def kinds(sql: Connection) -> list[str]:
    return [kind for (kind,) in sql.execute("SELECT kind FROM event ORDER BY at, kind")]


async def test_a_whole_life(database, sql):
    """Setup and start lease the run, cleanup leaves it started and due, completion seals it."""
    life = await live(database)
    for kind, phase in (("crawl_setup", "setup"), ("crawl_start", "running")):
        await life.tell(kind)
        assert (row(sql), phases(sql)) == (("started", False, None), [phase])
    await life.tell("crawl_cleanup", reason="finished")
    assert (row(sql), phases(sql)) == (("started", True, None), ["cleanup"])
    await life.tell(
        "crawl_completed", reason="finished", through=True, stop_reason="done", counts={"results": 3}
    )
    assert (row(sql), phases(sql)) == (("sealed", None, "done"), [])
    assert sql.execute("SELECT counts->'results' FROM crawl").fetchone() == (3,)
    assert kinds(sql) == ["crawl_setup", "crawl_start", "crawl_cleanup", "crawl_completed"]


async def test_completion_with_something_left(database, sql):
    """A frontier that could not be closed has work: the run is started, due at once, and nobody's."""
    life = await live(database)
    await life.tell("crawl_cleanup", reason="shutdown")
    await life.tell("crawl_completed", reason="shutdown")
    assert (row(sql), phases(sql)) == (("started", True, None), [])


async def test_a_crash_between_cleanup_and_completion(database, sql):
    """Nothing is decided by the cleanup: the run is due, and whoever comes next decides."""
    await (await live(database)).tell("crawl_cleanup", reason="finished")
    assert row(sql) == ("started", True, None)
    other = await live(database, "w2")
    await other.tell("crawl_completed", reason="finished", through=True, stop_reason="done")
    assert row(sql) == ("sealed", None, "done")


@pytest.mark.parametrize("kind", list(EVENTS))
async def test_an_event_that_comes_twice_changes_nothing(database, sql, kind):
    """Neither the row, nor the lease, nor the log: it is told by one row, the first."""
    life = await live(database)
    await live(database, "w2")  # so that completion leaves the run open
    await life.tell(kind, reason="first")
    told = (
        sql.execute("SELECT * FROM crawl").fetchall(),
        sql.execute("SELECT * FROM worker_lease ORDER BY worker").fetchall(),
        sql.execute("SELECT * FROM event").fetchall(),
    )
    await life.tell(kind, reason="second", through=True, stop_reason="done")
    assert told == (
        sql.execute("SELECT * FROM crawl").fetchall(),
        sql.execute("SELECT * FROM worker_lease ORDER BY worker").fetchall(),
        sql.execute("SELECT * FROM event").fetchall(),
    )


@pytest.mark.parametrize("kind", list(EVENTS))
@pytest.mark.parametrize("state", ["paused", "sealed"])
async def test_a_late_event_changes_no_row_that_a_person_has_changed(database, sql, kind, state):
    """Paused stays paused, sealed stays sealed, to the microsecond of when it was changed last."""
    life = await live(database)
    if state == "paused":
        control.pause(sql, life.crawl.id)
    else:
        control.cancel(sql, life.crawl.id, counts={})
    before = sql.execute("SELECT * FROM crawl").fetchall()
    await life.tell(kind, reason="finished", through=True, stop_reason="done")
    assert sql.execute("SELECT * FROM crawl").fetchall() == before


@pytest.mark.parametrize("kind", ["crawl_setup", "crawl_start", "crawl_cleanup"])
async def test_an_event_of_an_older_stint_moves_no_lease(database, sql, kind):
    """A process that has lost its place to another of its name does not speak for that one."""
    old, new = await live(database), await live(database)
    await new.tell("crawl_start")
    before = sql.execute("SELECT * FROM worker_lease").fetchall()
    due = sql.execute("SELECT status, retry_at FROM crawl").fetchall()
    await old.tell(kind)
    assert sql.execute("SELECT * FROM worker_lease").fetchall() == before
    assert sql.execute("SELECT status, retry_at FROM crawl").fetchall() == due


async def test_cleanup_of_one_of_two(database, sql):
    """A run that another worker fetches for is not due, and is theirs when the one has left."""
    one, two = await live(database), await live(database, "w2")
    await one.tell("crawl_start")
    await two.tell("crawl_start")
    await one.tell("crawl_cleanup", reason="shutdown")
    assert (row(sql), phases(sql)) == (("started", False, None), ["cleanup", "running"])
    await one.tell("crawl_completed", reason="shutdown")
    assert (row(sql), phases(sql)) == (("started", False, None), ["running"])
    await two.tell("crawl_cleanup", reason="shutdown")
    assert row(sql) == ("started", True, None)


async def test_a_renewal_while_clearing_up(database, sql):
    """The lease of a worker that clears up goes on; its run stays due for others."""
    life = await live(database)
    await life.tell("crawl_cleanup", reason="shutdown")
    assert (
        await lifecycle.renew(database, life.crawl, "w1", lease_seconds=60) is lifecycle.CrawlStatus.STARTED
    )
    assert row(sql) == ("started", True, None)


async def test_eight_that_complete_at_once(databases, sql):
    """All of them found the frontier closed: the run is sealed once, with the reason of one of them."""
    lives = [await live(databases(), f"w{n}") for n in range(8)]
    await asyncio.gather(
        *[
            life.tell("crawl_completed", reason="finished", through=True, stop_reason=f"reason {n}")
            for n, life in enumerate(lives)
        ]
    )
    status, _, reason = row(sql)
    assert (status, reason.startswith("reason ")) == ("sealed", True)
    assert sql.execute("SELECT count(*) FROM worker_lease").fetchone() == (0,)


async def test_a_worker_that_fails_leaves_a_note_and_time(database, sql):
    """Whoever comes next had better wait a little, and a person should know why."""
    life = await live(database)
    await life.tell("crawl_completed", reason="start_error", error="no such file")
    assert row(sql)[:2] == ("started", False)
    wait = sql.execute("SELECT extract(epoch FROM retry_at - now()) FROM crawl").fetchone()[0]
    assert 50 < wait <= 60
    note = sql.execute("SELECT namespace, message, fields FROM note").fetchone()
    assert note == (
        "WORKER_FAILED",
        "worker w1 stops, start_error: no such file",
        {"worker": "w1", "reason": "start_error", "error": "no such file"},
    )


async def test_a_kept_frontier_is_the_next_runs(database, sql):
    """A limit has left URLs: the sealed run says so, for the next one to go on with them."""
    life = await live(database)
    await life.tell("crawl_completed", reason="stopped_early", through=True, stop_reason="limit", keeps=True)
    assert sql.execute("SELECT status, kept FROM crawl").fetchone() == ("sealed", True)


async def test_a_run_that_is_gone(database, sql):
    """Somebody has deleted the run: its late events are nobody's, and nothing breaks."""
    life = await live(database)
    sql.execute("DELETE FROM crawl")
    for kind in EVENTS:
        await life.tell(kind, reason="pipeline_failed")
    assert (kinds(sql), sql.execute("SELECT count(*) FROM note").fetchone()) == ([], (0,))
