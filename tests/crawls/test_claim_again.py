"""What comes of a claim, a renewal or a pause that meets another step in the wrong moment."""

from __future__ import annotations

from types import SimpleNamespace

import psycopg

from crawlproj.crawls import control, lifecycle
from crawlproj.crawls.lifecycle import CrawlStatus
from crawlproj.run_lease import RunLease


async def claim(database, name="news", worker="w1"):
    return await lifecycle.claim(
        database, name=name, spider="site", worker=worker, lease_seconds=60.0, config={}
    )


async def test_a_run_that_was_resumed_without_a_lease_is_started_by_the_worker_that_stayed(database, sql):
    """Its worker had stood still for longer than its lease: it goes on, and the row says so."""
    crawl = await claim(database)
    control.pause(sql, crawl.id)
    sql.execute("UPDATE worker_lease SET expires_at = now() - interval '1 s'")
    control.resume(sql, crawl.id)
    assert sql.execute("SELECT status FROM crawl").fetchone() == ("queued",)
    assert await lifecycle.renew(database, crawl, "w1", lease_seconds=60) is CrawlStatus.STARTED
    assert sql.execute("SELECT status, retry_at > now() FROM crawl").fetchone() == ("started", True)
    # One that only clears up lets the next one begin.
    sql.execute("UPDATE crawl SET status = 'queued', retry_at = now()")
    sql.execute("UPDATE worker_lease SET phase = 'cleanup'")
    assert await lifecycle.renew(database, crawl, "w1", lease_seconds=60) is CrawlStatus.QUEUED


async def test_a_claim_whose_answer_is_lost_makes_one_crawl(database, sql, monkeypatch):
    """The commit has come through and the connection has broken: the same claim finds what it has made."""
    once, broken = database._once, []

    async def breaking(work, **more):
        result = await once(work, **more)
        if not broken:
            broken.append(result)
            await database._connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return result

    monkeypatch.setattr(database, "_once", breaking)
    crawl = await claim(database, None)
    assert broken
    assert sql.execute("SELECT id, status FROM crawl").fetchall() == [(crawl.id, "started")]


async def test_a_lost_lease_is_taken_again_on_the_same_run_only(database, sql):
    """Not on the next run of the series, which has its own time; nor on one that is paused."""
    control.create(sql, name="news", spider="site", config={}, repeat_seconds=86_400)
    crawl = await claim(database)
    sql.execute("DELETE FROM worker_lease")
    again = await lifecycle.claim_again(database, crawl, "w1", lease_seconds=60)
    assert (again.id, again.epoch) == (crawl.id, crawl.epoch + 1)
    control.pause(sql, crawl.id)
    assert await lifecycle.claim_again(database, again, "w1", lease_seconds=60) is None
    control.resume(sql, crawl.id)
    assert await lifecycle.seal(database, again, stop_reason="done", counts={})
    assert await lifecycle.claim_again(database, again, "w1", lease_seconds=60) is None
    runs = sql.execute(
        "SELECT run, status, started_at IS NULL, retry_at > now() FROM crawl ORDER BY run"
    ).fetchall()
    assert runs[1] == (2, "queued", True, True)
    assert sql.execute("SELECT count(*) FROM worker_lease").fetchone() == (0,)


async def test_a_stint_of_a_worker_that_has_lost_its_lease_has_its_own_beginning(database, sql):
    """It is heard of as joined and at work, or its row would say for ever that it is being set up."""
    crawl = await claim(database)
    sql.execute("DELETE FROM worker_lease")
    worker = SimpleNamespace(
        life=database, crawl=crawl, id="w1", config=SimpleNamespace(lease_seconds=60, leave_when_paused=False)
    )
    begun = []

    async def taken_again():
        begun.append(worker.crawl.epoch)

    assert await RunLease(worker, taken_again=taken_again)._take_again()
    assert begun == [crawl.epoch + 1]
    await lifecycle.seal(database, worker.crawl, stop_reason="done", counts={})
    assert not await RunLease(worker, taken_again=taken_again)._take_again()
    assert len(begun) == 1


async def test_a_worker_pauses_a_run_that_goes_on(database, sql):
    """As a person does, with a note; what is paused or over stays as it is, without one."""
    crawl = await claim(database)
    for _ in range(2):
        await lifecycle.pause(database, crawl, why="it rests")
    assert (await lifecycle.read(database, crawl)).status is CrawlStatus.PAUSED
    control.cancel(sql, crawl.id, counts={})
    await lifecycle.pause(database, crawl, why="it rests")
    notes = sql.execute("SELECT namespace, message, fields FROM note ORDER BY id").fetchall()
    assert notes[0] == ("PAUSED", "paused: it rests", {"why": "it rests"})
    assert [each[0] for each in notes] == ["PAUSED", "CANCELLED"]
