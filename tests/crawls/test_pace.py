"""What holds a worker up, its figures over time, and those of a fleet."""

from __future__ import annotations

import pytest

from crawlproj.crawls import lifecycle, pace, rows
from crawlproj.crawls.pace import Cause, Moment, Recent, Shares, cause, merged

IDLE = {"in_flight": 0, "on_the_wire": 0, "most": 8}


@pytest.mark.parametrize(
    ("what", "found"),
    [
        ({}, Cause.NOTHING),
        ({"queued": 5}, Cause.HOST_PACE),  # but none of it is due
        ({"queued": 5, "in_flight": 7, "on_the_wire": 7}, Cause.HOST_PACE),  # room for one, and none is due
        ({"in_flight": 3, "on_the_wire": 3}, Cause.HOST_PACE),  # it waits for answers
        ({"queued": 5, "in_flight": 8, "on_the_wire": 8}, Cause.WORKERS),
        ({"queued": 5, "in_flight": 8, "on_the_wire": 4}, Cause.WORKERS),
        ({"queued": 5, "in_flight": 8, "on_the_wire": 3}, Cause.HOST_PACE),  # most wait for their turn
        ({"queued": 5, "in_flight": 1, "on_the_wire": 1, "busy": 0.95}, Cause.WORKERS),
        ({"queued": 5, "in_flight": 1, "on_the_wire": 1, "busy": 0.85}, Cause.HOST_PACE),
        ({"queued": 5, "to_store": 4, "waited": 0.9}, Cause.HOST_PACE),  # a commit under way
        ({"queued": 5, "to_store": 4, "waited": 1.0}, Cause.DATABASE),
        ({"to_store": 1, "waited": 1.0}, Cause.DATABASE),
        ({"queued": 5, "to_store": 1, "waited": 9.0, "in_flight": 6, "on_the_wire": 6}, Cause.HOST_PACE),
        ({"queued": 5, "to_store": 8, "waited": 0.1, "in_flight": 8, "held_back": True}, Cause.DATABASE),
        ({"queued": 5, "to_store": 70, "waited": 2, "busy": 1.0}, Cause.DATABASE),
        ({"queued": 5, "to_store": 2, "in_flight": 3, "held_back": True}, Cause.WORKERS),  # it parses
    ],
)
def test_cause(what, found):
    """Each line of the table, and its edges."""
    assert cause(Moment(**IDLE | what)) is found


def test_shares_are_of_the_last_minute():
    """What was found before does not count, and the shares of all causes make up one."""
    shares = Shares()
    assert shares.as_dict() == {}
    for n in range(40):
        shares.add(n, Cause.WORKERS)
    for n in range(40, 80):
        shares.add(n, Cause.HOST_PACE if n % 2 else Cause.DATABASE)
    found = shares.as_dict()  # from 19 to 79
    assert found == {"database": 0.328, "workers": 0.344, "host pace": 0.328, "nothing": 0.0}
    for n in range(80, 141):
        shares.add(n, Cause.NOTHING)
    assert shares.as_dict() == {"database": 0, "workers": 0, "host pace": 0, "nothing": 1}


def test_recent_counts():
    """What counters have grown by in the last so many seconds, however seldom one looks."""
    recent = Recent(seconds=10)
    assert recent.add(0, {1: 5}) == {1: 5}
    assert recent.add(5, {1: 6, 2: 1}) == {1: 6, 2: 1}
    assert recent.add(10, {1: 7, 2: 1}) == {1: 2, 2: 1}
    assert recent.add(15, {1: 7, 2: 1}) == {1: 1}
    assert recent.add(40, {1: 8, 2: 1}) == {1: 1}
    assert recent.add(50, {1: 8, 2: 1}) == {}


def test_workers_together():
    """Rates and durations add up, shares are averaged over those who have said any."""
    found = merged(
        [
            {"pages": 10, "rate": 2.5, "durations": {"3": 1, "40": 2}, "in_flight": 2,
             "causes": {"workers": 1.0}},
            {"pages": 5, "rate": 0.5, "durations": {"40": 1}, "in_flight": 1,
             "causes": {"host pace": 0.6, "workers": 0.4}},
            {"pages": 0, "rate": None, "durations": {}, "in_flight": 0, "causes": {}},
            {},
        ]
    )  # fmt: skip
    assert (found.pages, found.rate, found.in_flight, found.workers) == (15, 3.0, 3, 4)
    assert found.durations == {3: 1, 40: 3}
    assert found.limit == (Cause.WORKERS, 0.7)


def test_nobody_has_said_anything():
    """No pace, no rate and no verdict: a crawl of which nothing is known is not one that stands still."""
    found = merged([])
    assert (found.rate, found.limit, found.workers) == (None, None, 0)


def test_of_equal_shares_the_first_line_counts():
    """As in the table of causes."""
    found = merged([{"causes": {"host pace": 0.5, "database": 0.5}}])
    assert found.limit == (Cause.DATABASE, 0.5)


async def claimed(database, worker):
    return await lifecycle.claim(
        database, name="news", spider="site", worker=worker, lease_seconds=60, config={}
    )


async def test_pace_is_written_beside_the_lease(database, sql):
    """It does not move the lease; a worker without one, or of another stint, writes nothing."""
    first = await claimed(database, "w1")
    crawl = await claimed(database, "w2")
    before = sql.execute("SELECT worker, expires_at FROM worker_lease ORDER BY worker").fetchall()
    for worker in ("w1", "w2"):  # w1's lease has the epoch before
        await pace.write(database, crawl, worker, {"rate": 1.5})
    assert rows.paces(sql, crawl.id) == [{"rate": 1.5}]
    await pace.write(database, first, "w1", {"rate": 2})
    assert rows.paces(sql, crawl.id) == [{"rate": 2}, {"rate": 1.5}]
    assert sql.execute("SELECT worker, expires_at FROM worker_lease ORDER BY worker").fetchall() == before
    await lifecycle.release(database, crawl, "w2")
    await pace.write(database, crawl, "w2", {"rate": 3})
    assert rows.paces(sql, crawl.id) == [{"rate": 2}]


@pytest.mark.parametrize("column", ["paced_at", "expires_at"])
async def test_an_old_pace_is_none(column, database, sql):
    """Neither of a worker that is gone nor of one that has said nothing for long."""
    crawl = await claimed(database, "w1")
    await pace.write(database, crawl, "w1", {"rate": 1.5})
    sql.execute(f"UPDATE worker_lease SET {column} = now() - interval '31 s'")
    assert rows.paces(sql, crawl.id) == []
