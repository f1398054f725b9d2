"""What a run's row does in the life of a crawl, whatever happens to it and in whatever order."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from crawlproj.crawls import control, dispatch, lifecycle
from crawlproj.crawls.service import CrawlService
from crawlproj.exceptions import CrawlError, Refused
from crawlproj.signals import CrawlEvent

if TYPE_CHECKING:
    from psycopg import Connection

    from crawlproj.connections import Database
    from crawlproj.crawls.lifecycle import Crawl

LEASE_SECONDS = 60


async def claim(database: Database, worker: str = "w1", name: str = "news") -> Crawl:
    return await lifecycle.claim(
        database, name=name, spider="site", worker=worker, lease_seconds=LEASE_SECONDS, config={}
    )


def event(kind: str, crawl: Crawl, worker: str, **more: Any) -> CrawlEvent:
    names = {"crawl_id": crawl.id, "crawl": crawl.name, "run": crawl.run, "spider": crawl.spider}
    return CrawlEvent(kind=kind, worker=worker, epoch=crawl.epoch, **names, **more)


async def tell(database: Database, told: CrawlEvent) -> None:
    await getattr(CrawlService(database, lease_seconds=LEASE_SECONDS), told.kind)(told)


def rows(sql: Connection, query: str, *values: Any) -> list[tuple[Any, ...]]:
    return sql.execute(query, values).fetchall()


def pass_time(sql: Connection, seconds: float) -> None:
    """Move all that is dated back, as if so much time had passed."""
    back = timedelta(seconds=seconds)
    sql.execute(
        "UPDATE worker_lease SET expires_at = expires_at - %s, claimed_at = claimed_at - %s", [back, back]
    )
    sql.execute("UPDATE crawl SET retry_at = retry_at - %s WHERE status IN ('queued', 'started')", [back])


# --- by name ------------------------------------------------------------------------------------


async def test_a_resumed_run_is_anybodys_at_once(database, sql):
    """Nobody waits for a lease that the pause has outlived: it is due, is claimed, and shows that it runs."""
    crawl = await claim(database)
    control.pause(sql, crawl.id)
    pass_time(sql, LEASE_SECONDS + 1)
    assert await lifecycle.due(database) == []
    control.resume(sql, crawl.id)
    assert [each.id for each in await lifecycle.due(database)] == [crawl.id]
    again = await claim(database, "w2")
    assert (again.id, again.status.value) == (crawl.id, "started")


async def test_a_paused_run_stays_so_when_its_worker_is_lost(database, sql):
    """Whoever takes the dead off does not let it go on; nor does the time, be it years."""
    crawl = await claim(database)
    control.pause(sql, crawl.id)
    before = rows(sql, "SELECT status, retry_at, modified_at FROM crawl")
    pass_time(sql, LEASE_SECONDS + 1)
    assert await lifecycle.reclaim(database) == [(crawl.id, "w1")]
    assert rows(sql, "SELECT status, retry_at, modified_at FROM crawl") == before
    assert await lifecycle.due(database, at=datetime.now(UTC) + timedelta(days=3650)) == []
    assert dispatch.take(sql, hold_seconds=1) is None


async def test_a_sealed_run_is_never_due(database, sql):
    """Whatever anybody still says of it, and however long it lies there."""
    crawl = await claim(database)
    await lifecycle.seal(database, crawl, stop_reason="done", counts={})
    await tell(database, event("crawl_completed", crawl, "w1"))
    await lifecycle.release(database, crawl, "w1")
    assert await lifecycle.due(database, at=datetime.now(UTC) + timedelta(days=3650)) == []


async def test_a_cancel_is_of_one_run(database, sql):
    """Others keep row, lease and time; a second cancel is refused, and changes nothing either."""
    crawl = await claim(database)
    await claim(database, "w2", "shop")
    others = "SELECT * FROM crawl WHERE name = 'shop'"
    leases = "SELECT * FROM worker_lease WHERE worker = 'w2'"
    before = rows(sql, others), rows(sql, leases)
    control.cancel(sql, crawl.id, counts={})
    after = rows(sql, "SELECT * FROM crawl WHERE name = 'news'")
    with pytest.raises(Refused, match="sealed"):
        control.cancel(sql, crawl.id, counts={})
    assert rows(sql, "SELECT * FROM crawl WHERE name = 'news'") == after
    assert (rows(sql, others), rows(sql, leases)) == before


async def test_machines_do_not_know_each_others_processes(database, sql):
    """The same number on two machines is two workers; one that dies does not take the other along."""
    first, second = await claim(database, "a-4711"), await claim(database, "b-4711")
    assert first.id == second.id
    pass_time(sql, LEASE_SECONDS - 1)
    await lifecycle.renew(database, second, "b-4711", lease_seconds=LEASE_SECONDS)
    pass_time(sql, 2)
    assert await lifecycle.reclaim(database) == [(first.id, "a-4711")]
    assert rows(sql, "SELECT worker FROM worker_lease") == [("b-4711",)]
    assert await lifecycle.due(database) == []


async def test_after_a_power_cut_every_run_goes_on(databases, sql):
    """No worker has said goodbye: when the leases have run out all that was under way is due, and claimed."""
    for name in ("news", "shop"):
        await claim(databases(), f"of {name}", name)
    paused = await claim(databases(), "of blog", "blog")
    control.pause(sql, paused.id)
    pass_time(sql, LEASE_SECONDS + 1)
    fresh = databases()  # connections of processes that have just begun
    assert sorted(each.name for each in await lifecycle.due(fresh)) == ["news", "shop"]
    assert {(await claim(fresh, "new", name)).run for name in ("news", "shop")} == {1}
    with pytest.raises(Refused, match="paused"):
        await claim(fresh, "new", "blog")


async def test_a_second_run_three_days_later(database, sql):
    """Nothing of the first run is due then; the second begins with a clock and a frontier of its own."""
    first = await claim(database)
    await lifecycle.seal(database, first, stop_reason="done", counts={})
    sql.execute(
        "UPDATE crawl SET started_at = now() - interval '3 days', finished_at = now() - interval '3 days'"
    )
    assert await lifecycle.due(database, at=datetime.now(UTC) + timedelta(days=3)) == []
    second = await claim(database)
    assert (second.run, second.frontier != first.frontier) == (2, True)
    assert await lifecycle.elapsed(database, second) < 60
    assert await lifecycle.elapsed(database, first) < 60


async def test_a_stale_worker_holds_nothing(database, sql):
    """A process of an older stint renews nothing: the run is due when the one that has its place dies."""
    stale = await claim(database)
    now = await claim(database)
    assert now.epoch > stale.epoch
    before = rows(sql, "SELECT epoch, expires_at FROM worker_lease"), rows(sql, "SELECT retry_at FROM crawl")
    assert await lifecycle.renew(database, stale, "w1", lease_seconds=600) is None
    for kind in ("crawl_setup", "crawl_start", "crawl_cleanup"):
        await tell(database, event(kind, stale, "w1"))
    assert (
        rows(sql, "SELECT epoch, expires_at FROM worker_lease"),
        rows(sql, "SELECT retry_at FROM crawl"),
    ) == before


# --- by chance ----------------------------------------------------------------------------------


class Chance:
    """People and workers do what they may, in any order, and late; after each step the rows are looked at."""

    def __init__(self, database: Database, sql: Connection, seed: int) -> None:
        self._database = database
        self._sql = sql
        self._random = random.Random(seed)
        self._stints: list[tuple[Crawl, str]] = []  # of all workers that ever were
        self._sealed: dict[int, tuple[Any, ...]] = {}
        self.done: list[str] = []

    async def step(self) -> None:
        """Do something and look."""
        before = dict(rows(self._sql, "SELECT id, status FROM crawl"))
        workers = (self._claim, self._renew, self._event, self._event, self._release, self._reclaim)
        people = (self._pause, self._resume, self._cancel)
        what = self._random.choice((*workers, *people, self._claim, self._time, self._stale_epoch))
        self.done.append(what.__name__)
        try:
            await what()
        except CrawlError:
            self.done[-1] += " (refused)"
        self._look(before, what.__name__)

    async def _claim(self) -> None:
        worker = self._random.choice("abc")
        self._stints.append((await claim(self._database, worker), worker))

    async def _renew(self) -> None:
        if self._stints:
            crawl, worker = self._random.choice(self._stints)
            await lifecycle.renew(self._database, crawl, worker, lease_seconds=LEASE_SECONDS)

    async def _event(self) -> None:
        if self._stints:
            crawl, worker = self._random.choice(self._stints)
            kind = self._random.choice(list(lifecycle.PHASES) + ["crawl_completed"] * 2)
            self.done[-1] += f" {kind}"
            await tell(self._database, event(kind, crawl, worker, through=self._random.random() < 0.3))

    async def _release(self) -> None:
        if self._stints:
            await lifecycle.release(self._database, *self._random.choice(self._stints))

    async def _stale_epoch(self) -> None:
        if self._stints:
            crawl, worker = self._random.choice(self._stints)
            await lifecycle.renew(
                self._database, replace(crawl, epoch=crawl.epoch + 1000), worker, lease_seconds=LEASE_SECONDS
            )

    async def _reclaim(self) -> None:
        await lifecycle.reclaim(self._database)

    async def _pause(self) -> None:
        control.pause(self._sql, self._any_run())

    async def _resume(self) -> None:
        control.resume(self._sql, self._any_run())

    async def _cancel(self) -> None:
        if self._random.random() < 0.3:
            control.cancel(self._sql, self._any_run(), counts={})

    async def _time(self) -> None:
        pass_time(self._sql, self._random.choice([5, 30, 61]))

    def _any_run(self) -> int:
        runs = [number for (number,) in rows(self._sql, "SELECT id FROM crawl")]
        return self._random.choice(runs or [0])

    def _look(self, before: dict[int, str], what: str) -> None:
        now = dict(rows(self._sql, "SELECT id, status FROM crawl"))
        assert sum(status != "sealed" for status in now.values()) <= 1
        for number, status in before.items():
            if status == "paused" and now[number] != "paused":
                assert what in {"_resume", "_cancel"}
            if status == "started":
                assert now[number] != "queued"
        columns = "id, status, retry_at, modified_at, started_at, finished_at, stop_reason"
        for number, *row in rows(self._sql, f"SELECT {columns} FROM crawl WHERE status = 'sealed'"):
            assert self._sealed.setdefault(number, tuple(row)) == tuple(row)
        assert rows(
            self._sql,
            "SELECT worker FROM worker_lease JOIN crawl ON crawl.id = crawl_id WHERE status = 'sealed'"
        ) == []  # fmt: skip
        held = rows(
            self._sql,
            "SELECT retry_at > now(), count(worker) FILTER (WHERE expires_at > now() AND phase <> 'cleanup'),"
            " count(worker) FROM crawl LEFT JOIN worker_lease ON crawl.id = crawl_id"
            " WHERE status IN ('queued', 'started') GROUP BY crawl.id",
        )  # fmt: skip
        for waits, at_work, on_it in held:
            assert waits or not at_work, "a run that somebody works on is nobody else's"
            assert on_it or not waits, "a run that nobody is on is due"


@pytest.mark.parametrize("seed", range(5))
async def test_whatever_happens_no_rule_is_broken(database, sql, seed):
    """One open run a name; sealed is for ever; a person alone ends a pause; due is what nobody works on."""
    chance = Chance(database, sql, seed)
    for _ in range(150):
        try:
            await chance.step()
        except AssertionError as error:
            raise AssertionError(f"{error} after {chance.done}") from error
    assert {"_claim", "_renew", "_time", "_reclaim", "_pause", "_resume", "_cancel"} <= set(chance.done)
