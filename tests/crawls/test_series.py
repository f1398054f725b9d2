"""Crawls that repeat."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from crawlproj.crawls import control, dispatch, lifecycle, rows, series

if TYPE_CHECKING:
    from psycopg import Connection

    from crawlproj.connections import Database

DAY = timedelta(days=1)
START = datetime(2026, 1, 1, 6, 0, tzinfo=UTC)
CONFIG = {"arguments": {"seeds": "https://a.example/"}, "deny": ["(x)"], "redacted": []}


def added(sql: Connection, **more: Any) -> int:
    return control.create(
        sql, name="news", spider="site", config=CONFIG, repeat_seconds=86_400, at=START, **more
    )


async def sealed_at(database: Database, sql: Connection, crawl_id: int, at: datetime | None) -> int | None:
    """Seal a run and queue its next one, as a worker does; return the next one."""
    sql.execute("UPDATE crawl SET status = 'sealed', retry_at = NULL WHERE id = %s", [crawl_id])
    return await database.run(lambda connection: series.queue_next(connection, crawl_id, at=at))


@pytest.mark.parametrize(
    ("took", "slot"),
    [
        (timedelta(minutes=5), START + DAY),
        (timedelta(hours=23, minutes=59), START + DAY),
        (DAY, START + 2 * DAY),
        (3 * DAY + timedelta(hours=1), START + 4 * DAY),
        (-timedelta(hours=1), START),
    ],
    ids=["quick", "almost a day", "just a day", "three days later", "started by hand before its time"],
)
async def test_next_slot(sql, database, took, slot):
    """The next run is due at the next time that lies ahead: what was missed is not made up for."""
    next_id = await sealed_at(database, sql, added(sql), START + took)
    row = sql.execute(
        "SELECT run, status, scheduled_at, retry_at, repeat_seconds FROM crawl WHERE id = %s", [next_id]
    ).fetchone()
    assert row == (2, "queued", slot, slot, 86_400)


async def test_what_goes_on_to_the_next_run(sql, database):
    """Spider, config, label and tags; a frontier of its own, and nothing of what became of the last run."""
    next_id = await sealed_at(database, sql, added(sql, label="News", tags=["a", "b"]), START)
    row = sql.execute(
        "SELECT name, spider, config, label, tags, started_at, counts, stop_reason, epochs"
        "  FROM crawl WHERE id = %s", [next_id]
    ).fetchone()  # fmt: skip
    assert row == ("news", "site", CONFIG, "News", ["a", "b"], None, None, None, 0)
    assert sql.execute("SELECT count(DISTINCT frontier) FROM crawl").fetchone() == (2,)


async def test_it_is_not_due_before_its_time(sql, database):
    """Nobody gets the next run before its slot; from then on it is got once, however long nobody came."""
    await sealed_at(database, sql, added(sql), START + timedelta(minutes=5))
    assert dispatch.take(sql, hold_seconds=15, at=START + DAY - timedelta(seconds=1)) is None
    late = START + 3 * DAY
    taken = dispatch.take(sql, hold_seconds=15, at=late)
    assert taken is not None
    assert (taken.name, taken.run) == ("news", 2)
    assert dispatch.take(sql, hold_seconds=15, at=late) is None
    await sealed_at(database, sql, taken.id, late + timedelta(minutes=5))
    assert dispatch.take(sql, hold_seconds=15, at=late + timedelta(minutes=5)) is None
    assert sql.execute("SELECT retry_at FROM crawl WHERE run = 3").fetchone() == (START + 4 * DAY,)


async def test_which_run_a_name_means(sql, database):
    """People look at what has begun, and end or begin what waits; once its time has come, it is that run."""
    first = added(sql)
    assert rows.find_crawl(sql, "news").id == first
    next_id = await sealed_at(database, sql, first, datetime.now(UTC))
    found = [
        rows.find_crawl(sql, name, waiting=waiting).id for name in ("news", None) for waiting in (False, True)
    ]
    assert found == [first, next_id, first, next_id]
    assert rows.find_crawl(sql, str(next_id)).id == next_id
    sql.execute("UPDATE crawl SET scheduled_at = now() WHERE id = %s", [next_id])
    assert rows.find_crawl(sql, "news").id == next_id


async def test_a_cancelled_run_ends_the_series(sql, database):
    """Whether it was at work or waited for its time."""
    next_id = await sealed_at(database, sql, added(sql), START)
    control.cancel(sql, next_id, counts={})
    assert sql.execute("SELECT count(*) FROM crawl WHERE status <> 'sealed'").fetchone() == (0,)


async def test_only_a_sealed_run_of_a_series_has_a_next_one(sql, database):
    """A run that goes on has none, nor has one that was to be the only one; twice is once."""
    crawl_id = added(sql)
    assert await database.run(lambda connection: series.queue_next(connection, crawl_id)) is None
    assert await sealed_at(database, sql, crawl_id, None) is not None
    assert await database.run(lambda connection: series.queue_next(connection, crawl_id)) is None
    single = control.create(sql, name="once", spider="site", config={})
    assert await sealed_at(database, sql, single, None) is None
    assert sql.execute("SELECT count(*) FROM crawl WHERE status <> 'sealed'").fetchone() == (1,)


async def test_worker_that_seals_a_run_queues_the_next(sql, database):
    """The same transaction does both; the next run is due in three days' time, and no minute before."""
    added(sql)
    crawl = await lifecycle.claim(
        database, name="news", spider="site", worker="w", lease_seconds=60, config=CONFIG
    )
    assert await lifecycle.seal(database, crawl, stop_reason="done", counts={})
    assert not await lifecycle.seal(database, crawl, stop_reason="done", counts={})
    assert await lifecycle.due(database) == []
    later = datetime.now(UTC) + 3 * DAY
    (due,) = await lifecycle.due(database, at=later)
    assert (due.name, due.run, due.config) == ("news", 2, CONFIG)
