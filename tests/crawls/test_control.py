from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from crawlproj.connections import connect_database
from crawlproj.crawls import control, lifecycle
from crawlproj.exceptions import NotFound, Refused

if TYPE_CHECKING:
    from psycopg import Connection

    from crawlproj.connections import Database
    from crawlproj.crawls.lifecycle import Crawl

LATER = datetime(2100, 1, 1, tzinfo=UTC)


async def claim(database: Database) -> Crawl:
    return await lifecycle.claim(
        database, name="news", spider="site", worker="w1", lease_seconds=60, config={}
    )


def create(sql: Connection, **more: Any) -> int:
    return control.create(sql, **{"name": "news", "spider": "site", "config": {"seeds": "s"}, **more})


def state(sql: Connection) -> tuple[Any, ...]:
    return sql.execute("SELECT status, retry_at <= now(), stop_reason FROM crawl ORDER BY id").fetchall()[-1]


async def test_created_run_is_due_and_joined(sql, database):
    """A run that was added is worked by the next worker of its name, with what it was added with."""
    crawl_id = create(sql)
    assert state(sql) == ("queued", True, None)
    crawl = await claim(database)
    assert (crawl.id, crawl.config) == (crawl_id, {"seeds": "s"})


def test_created_with_what_people_call_it(sql):
    """Label, tags and the interval of a series are kept; it may be due later."""
    crawl_id = create(sql, label="The news\0", tags=["news", "tw"], repeat_seconds=86_400, at=LATER)
    row = sql.execute(
        "SELECT label, tags, repeat_seconds, scheduled_at, retry_at, status FROM crawl"
    ).fetchone()
    assert row == ("The news\ufffd", ["news", "tw"], 86_400, LATER, LATER, "queued")
    control.pause(sql, crawl_id)
    control.resume(sql, crawl_id)
    assert sql.execute("SELECT status, retry_at FROM crawl").fetchone() == ("queued", LATER)


def test_concurrent_creation_loses_nothing(sql, database_url):
    """Eight people add crawls at once, under names of their own and under one: each is there, once."""

    def add(who: int) -> int:
        refused = 0
        with connect_database(database_url) as connection:
            for n in range(10):
                create(connection, name=f"{who}-{n}")
                try:
                    create(connection, name=f"all-{n}")
                except Refused:
                    refused += 1
        return refused

    with ThreadPoolExecutor(8) as threads:
        refused = sum(threads.map(add, range(8)))
    assert refused == 70
    assert sql.execute("SELECT count(*), count(DISTINCT name) FROM crawl").fetchone() == (90, 90)


async def test_created_paused(sql, database):
    """A run can be added paused; it is never due before a person says so."""
    create(sql, paused=True)
    assert state(sql) == ("paused", False, None)
    with pytest.raises(Refused, match="paused"):
        await claim(database)


def test_second_open_run_is_refused(sql):
    """A name has one open run; an attempt at a second one changes nothing."""
    create(sql)
    with pytest.raises(Refused, match="has an open run"):
        create(sql)
    assert sql.execute("SELECT count(*) FROM crawl").fetchone() == (1,)


async def test_pause_and_resume(sql, database):
    """A paused run without workers is never due; resumed it is due at once."""
    crawl = await claim(database)
    control.pause(sql, crawl.id)
    control.pause(sql, crawl.id)
    await lifecycle.release(database, crawl, "w1")
    assert state(sql) == ("paused", False, None)
    assert await lifecycle.due(database) == []
    control.resume(sql, crawl.id)
    control.resume(sql, crawl.id)
    assert [due.id for due in await lifecycle.due(database)] == [crawl.id]
    again = await claim(database)
    assert (again.id, again.status.value, again.started_at) == (crawl.id, "started", crawl.started_at)


async def test_workers_stay_on_a_paused_run(sql, database):
    """They renew and are told; resumed the run is theirs again, and nobody else is called for."""
    crawl = await claim(database)
    control.pause(sql, crawl.id)
    renewed = await lifecycle.renew(database, crawl, "w1", lease_seconds=60)
    assert renewed is lifecycle.CrawlStatus.PAUSED
    control.resume(sql, crawl.id)
    assert state(sql) == ("started", False, None)
    assert await lifecycle.due(database) == []
    renewed = await lifecycle.renew(database, crawl, "w1", lease_seconds=60)
    assert renewed is lifecycle.CrawlStatus.STARTED


async def test_worker_that_drains_does_not_end_a_pause(sql, database):
    """What a worker says after the pause changes nothing: the run stays paused and is not sealed."""
    crawl = await claim(database)
    control.pause(sql, crawl.id)
    assert not await lifecycle.seal(database, crawl, stop_reason="done", counts={})
    await lifecycle.release(database, crawl, "w1")
    assert state(sql) == ("paused", False, None)


@pytest.mark.parametrize("before", ["queued", "started", "paused"])
async def test_cancel(sql, database, before):
    """A run can be ended from every state but sealed; figures stay, workers go."""
    crawl_id = create(sql, paused=before == "paused")
    if before == "started":
        await claim(database)
    control.cancel(sql, crawl_id, counts={"queued": 7})
    assert state(sql) == ("sealed", None, "cancelled")
    assert sql.execute("SELECT counts->'queued' FROM crawl").fetchone() == (7,)
    assert sql.execute("SELECT count(*) FROM worker_lease").fetchone() == (0,)
    with pytest.raises(Refused, match="'news', run 1, is sealed and cannot be cancelled"):
        control.cancel(sql, crawl_id, counts={})


async def test_cancelled_run_stays_sealed(sql, database):
    """A worker that still holds a cancelled run can do nothing to it."""
    crawl = await claim(database)
    control.cancel(sql, crawl.id, counts={})
    assert not await lifecycle.renew(database, crawl, "w1", lease_seconds=60)
    await lifecycle.release(database, crawl, "w1")
    assert state(sql) == ("sealed", None, "cancelled")
    assert (await claim(database)).run == 2


def notes(sql: Connection) -> list[tuple[Any, ...]]:
    return sql.execute("SELECT namespace, message, fields FROM note ORDER BY id").fetchall()


def test_notes_say_who(sql):
    """Whoever pauses, resumes or cancels a run is noted, once, and not when nothing changed."""
    crawl_id = create(sql)
    for _ in range(2):
        control.pause(sql, crawl_id, by="ann@vm-1")
    for _ in range(2):
        control.resume(sql, crawl_id, by="bob@vm-2")
    control.cancel(sql, crawl_id, counts={}, by="ann@vm-1")
    with pytest.raises(Refused):
        control.pause(sql, crawl_id, by="bob@vm-2")
    assert notes(sql) == [
        ("PAUSED", "paused by ann@vm-1", {"by": "ann@vm-1"}),
        ("RESUMED", "resumed by bob@vm-2", {"by": "bob@vm-2"}),
        ("CANCELLED", "cancelled by ann@vm-1", {"by": "ann@vm-1"}),
    ]


def test_sealed_run_is_neither_paused_nor_resumed(sql):
    """What is over stays over."""
    crawl_id = create(sql)
    control.cancel(sql, crawl_id, counts={})
    with pytest.raises(Refused, match="is sealed and cannot be paused"):
        control.pause(sql, crawl_id)
    with pytest.raises(Refused, match="is sealed and cannot be resumed"):
        control.resume(sql, crawl_id)
    with pytest.raises(NotFound):
        control.pause(sql, crawl_id + 1)
