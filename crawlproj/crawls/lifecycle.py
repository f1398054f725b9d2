"""The life of a crawl as rows in PostgreSQL: claimed, renewed, released, sealed.

    queued ──► started ──► sealed          paused beside, entered and left by people only

Every change is conditional on the state it leaves, so a paused or sealed run is never overwritten
by a worker that comes late. All times are the database's. What workers tell of a run is projected on its row
by `crawlproj/crawls/service.py`, with the functions here that take a connection.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import psycopg

from crawlproj.clean import as_jsonb
from crawlproj.crawls.config import differing
from crawlproj.crawls.series import queue_next
from crawlproj.crawls.statements import query, query_all
from crawlproj.exceptions import BadArgument, CrawlError, NotFound, Refused, WrongUsage

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from psycopg import AsyncConnection

    from crawlproj.connections import Database
    from crawlproj.signals import CrawlEvent

    Connection = AsyncConnection[Any]

_RACES = 20  # lost in a row, while others create or seal runs of the same name


class CrawlStatus(StrEnum):
    """Where a run is in its life."""

    QUEUED = "queued"  #: waits for its first worker
    STARTED = "started"  #: has been claimed; due again when nobody is on it
    PAUSED = "paused"  #: a person stopped it; only a person lets it go on
    SEALED = "sealed"  #: over; the name's next run is another row


@dataclass(frozen=True, slots=True, kw_only=True)
class Crawl:
    """One run of a crawl, as it was when it was read."""

    id: int
    name: str
    run: int  #: 1 for the first of its name
    spider: str
    status: CrawlStatus
    frontier: str  #: names its keys in Redis
    config: Mapping[str, Any]
    retry_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    stop_reason: str | None
    continues: bool  #: its frontier is that of the run before, with what a limit left in it
    kept: bool  #: a limit has left URLs in its frontier, for the next run
    epoch: int  #: of the worker that claimed it; 0 when it was only read


#: What an event says of the phase of the worker that sent it.
PHASES = {"crawl_setup": "setup", "crawl_start": "running", "crawl_cleanup": "cleanup"}


async def claim(
    database: Database,
    *,
    name: str | None,
    spider: str,
    worker: str,
    lease_seconds: float,
    config: Mapping[str, Any],
    join_only: bool = False,
) -> Crawl:
    """Put *worker* on a run and return it.

    Without a name it is a new crawl, named after the spider and the time. With one it is the open
    run of that name, or its next one. Raises NotFound when *join_only* and nothing is open, Refused
    when it is paused or another spider's.
    """
    if join_only and name is None:
        raise WrongUsage("CRAWL_JOIN needs a CRAWL_NAME: there is nothing to join without one")

    wanted = _Wanted(spider=spider, config=config, frontier=secrets.token_hex(8))

    async def work(connection: Connection) -> Crawl:
        if name is None:
            crawl_id = await _made_before(connection, wanted) or await _create_new(connection, wanted)
        else:
            crawl_id = await _join_or_create(connection, name, wanted, join_only=join_only)
        row = await query(
            connection, "claim_take", crawl_id=crawl_id, worker=worker, lease_seconds=lease_seconds
        )
        assert row is not None, "its row is locked"
        return _crawl(row)

    try:
        return await database.run(work)
    except psycopg.DataError as exc:
        raise BadArgument(
            f"the crawl cannot be stored as it is named: {exc.diag.message_primary or exc}"
        ) from exc


async def claim_again(database: Database, crawl: Crawl, worker: str, *, lease_seconds: float) -> Crawl | None:
    """Put a worker that has lost its lease back on the same run; None when that is paused or over."""

    async def work(connection: Connection) -> Crawl | None:
        await lock(connection, crawl.id)
        row = await query(
            connection, "claim_take", crawl_id=crawl.id, worker=worker, lease_seconds=lease_seconds
        )
        return None if row is None else _crawl(row)

    return await database.run(work)


async def pause(database: Database, crawl: Crawl, *, why: str) -> None:
    """Pause the run, as a person would, with a note; one that is paused or over stays as it is."""

    async def work(connection: Connection) -> None:
        if await query(connection, "pause", crawl_id=crawl.id) is not None:
            await query(
                connection,
                "write_note",
                crawl_id=crawl.id,
                namespace="PAUSED",
                message=f"paused: {why}",
                fields=as_jsonb({"why": why}),
            )

    await database.run(work)


async def renew(database: Database, crawl: Crawl, worker: str, *, lease_seconds: float) -> CrawlStatus | None:
    """Extend the worker's lease; return the run's status, None when the worker has no place on it any more.

    A worker stays on a paused run: it has nothing to do there until the run is resumed.
    """
    row = await _run(
        database, "renew", crawl_id=crawl.id, epoch=crawl.epoch, worker=worker, lease_seconds=lease_seconds
    )
    return None if row is None else CrawlStatus(row["status"])


async def release(database: Database, crawl: Crawl, worker: str, *, wait_seconds: float = 0.0) -> None:
    """Take the worker off the run, which is due if nobody else is on it: at once, or after a while."""

    async def work(connection: Connection) -> None:
        await lock(connection, crawl.id)
        await release_locked(connection, crawl.id, worker, crawl.epoch, wait_seconds=wait_seconds)

    await database.run(work)


async def seal(database: Database, crawl: Crawl, *, stop_reason: str, counts: Mapping[str, Any]) -> bool:
    """End the run and take every worker off it; False when it is paused or was sealed before.

    The frontier has been closed, empty, by then: nothing can be added to it any more.
    """

    async def work(connection: Connection) -> bool:
        await lock(connection, crawl.id)
        return await seal_locked(connection, crawl.id, stop_reason=stop_reason, counts=counts)

    return await database.run(work)


async def lock(connection: Connection, crawl_id: int) -> None:
    """Hold a run's row until the transaction ends, before anything is decided about it."""
    await query(connection, "lock", crawl_id=crawl_id)


async def seal_locked(
    connection: Connection, crawl_id: int, *, stop_reason: str, counts: Mapping[str, Any], kept: bool = False
) -> bool:
    """End a locked run, see `seal`; of a series, queue its next run. *kept*: URLs are left for that one."""
    sealed = await query(
        connection,
        "seal",
        crawl_id=crawl_id,
        stop_reason=stop_reason,
        counts=as_jsonb(dict(counts)),
        states=[CrawlStatus.QUEUED.value, CrawlStatus.STARTED.value],
        kept=kept,
    )
    if sealed is not None:
        await query(connection, "seal_leases", crawl_id=crawl_id)
        await queue_next(connection, crawl_id)
    return sealed is not None


async def release_locked(
    connection: Connection, crawl_id: int, worker: str, epoch: int, *, wait_seconds: float
) -> None:
    """Take a worker off a locked run, see `release`."""
    await query(connection, "release_lease", crawl_id=crawl_id, epoch=epoch, worker=worker)
    await query(connection, "release_crawl", crawl_id=crawl_id, wait_seconds=wait_seconds)


async def record(connection: Connection, event: CrawlEvent, told: Mapping[str, Any]) -> bool:
    """Write an event down, with what it has *told*; False when it has been before."""
    row = await query(
        connection,
        "record_event",
        crawl_id=event.crawl_id,
        epoch=event.epoch,
        worker=event.worker,
        kind=event.kind,
        fields=as_jsonb(dict(told)),
    )
    return row is not None


async def elapsed(database: Database, crawl: Crawl) -> float:
    """Return for how many seconds the run has been running, over all its workers."""
    row = await _run(database, "elapsed", crawl_id=crawl.id)
    return float(next(iter(row.values())) or 0.0) if row else 0.0


async def read(database: Database, crawl: Crawl) -> Crawl:
    """Return the run as it is now. Raises NotFound."""
    row = await _run(database, "read", crawl_id=crawl.id, epoch=crawl.epoch)
    if row is None:
        raise NotFound(f"there is no crawl {crawl.name!r} any more")
    return _crawl(row)


async def due(database: Database, *, at: datetime | None = None) -> list[Crawl]:
    """Return the runs that wait for a worker, longest wait first; *at* is what counts as now."""

    async def work(connection: Connection) -> list[Crawl]:
        return [_crawl(row) for row in await query_all(connection, "due", at=at)]

    return await database.run(work)


async def reclaim(database: Database) -> list[tuple[int, str]]:
    """Take dead workers off their runs; return crawl id and worker of each."""

    async def work(connection: Connection) -> list[tuple[int, str]]:
        return [(row["crawl_id"], row["worker"]) for row in await query_all(connection, "reclaim")]

    return await database.run(work)


async def has_pages(database: Database, crawl: Crawl) -> bool:
    """Say whether pages of the run are stored."""
    return await _run(database, "rebuild_any", crawl_id=crawl.id) is not None


async def sealed_frontiers(database: Database, limit: int) -> list[str]:
    """Return the ids of the frontiers of the runs that were sealed last."""

    async def work(connection: Connection) -> list[str]:
        return [row["frontier"] for row in await query_all(connection, "sealed_frontiers", limit=limit)]

    return await database.run(work)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What a run is made of that does not exist yet."""

    spider: str
    config: Mapping[str, Any]
    frontier: str  #: of a new run; nobody else's


async def _made_before(connection: Connection, wanted: _Wanted) -> int | None:
    """Return the run that this claim has made already, if its commit came through and the answer did not."""
    row = await query(connection, "claim_made", frontier=wanted.frontier)
    return None if row is None else int(row["id"])


async def _create_new(connection: Connection, wanted: _Wanted) -> int:
    row = await query(connection, "claim_stamp")
    assert row is not None
    base = name = f"{wanted.spider}-{next(iter(row.values()))}"
    for suffix in range(2, _RACES + 2):
        crawl_id = await _create(connection, name, wanted, first=True)
        if crawl_id is not None:
            return crawl_id
        name = f"{base}-{suffix}"
    raise CrawlError(f"{_RACES} crawls of spider {wanted.spider} have been started in this second: try again")


async def _join_or_create(connection: Connection, name: str, wanted: _Wanted, *, join_only: bool) -> int:
    for _ in range(_RACES):
        row = await query(connection, "claim_find", name=name)
        if row is not None:
            return _joinable(row, name, wanted)
        if join_only:
            raise NotFound(f"crawl {name!r} has no open run to join")
        crawl_id = await _create(connection, name, wanted, first=False)
        if crawl_id is not None:
            return crawl_id
    raise CrawlError(f"runs of crawl {name!r} are created and sealed faster than one can be joined")


def _joinable(row: Mapping[str, Any], name: str, wanted: _Wanted) -> int:
    if row["spider"] != wanted.spider:
        raise Refused(f"crawl {name!r} is a crawl of spider {row['spider']!r}, not of {wanted.spider!r}")
    if row["status"] == CrawlStatus.PAUSED:
        raise Refused(f"crawl {name!r} is paused: `scrapy resume {name}` lets it go on")
    if row["started_at"] is None and (others := differing(wanted.config, row["config"])):
        # Nobody has begun with what it was added for, and nobody would.
        raise Refused(
            f"crawl {name!r} was added with other arguments ({', '.join(others)}): `scrapy run {name}` works"
            " it as it was asked for"
        )
    return int(row["id"])


async def _create(connection: Connection, name: str, wanted: _Wanted, *, first: bool) -> int | None:
    row = await query(
        connection,
        "claim_create",
        name=name,
        spider=wanted.spider,
        frontier=wanted.frontier,
        config=as_jsonb(dict(wanted.config)),
        first=first,
    )
    return None if row is None else int(row["id"])


def _crawl(row: Mapping[str, Any]) -> Crawl:
    known = {field.name: row[field.name] for field in fields(Crawl)}
    return Crawl(**{**known, "status": CrawlStatus(row["status"])})


async def _run(database: Database, name: str, /, **values: Any) -> dict[str, Any] | None:
    async def work(connection: Connection) -> dict[str, Any] | None:
        return await query(connection, name, **values)

    return await database.run(work)
