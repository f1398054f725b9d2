"""What people do to a crawl: create a run, pause it, let it go on, end it.

Each is one conditional step in PostgreSQL, and its note says who took it. What the frontier has to do about
it is the caller's, and comes after it: a worker looks at the row once its frontier is made, so that one of
the two is seen by it. Whoever misses both learns of it at the next renewal.
"""

from __future__ import annotations

import secrets
import shlex
from typing import TYPE_CHECKING, Any

from crawlproj.clean import as_jsonb, clean
from crawlproj.crawls.lifecycle import CrawlStatus
from crawlproj.crawls.statements import query_sync
from crawlproj.exceptions import NotFound, Refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from psycopg import Connection

_OPEN = [status.value for status in CrawlStatus if status is not CrawlStatus.SEALED]


def create(
    connection: Connection[Any],
    *,
    name: str,
    spider: str,
    config: Mapping[str, Any],
    paused: bool = False,
    label: str | None = None,
    tags: Iterable[str] = (),
    repeat_seconds: int | None = None,
    at: datetime | None = None,
) -> int:
    """Make the next run of *name*, queued or paused; return its number. Raises Refused if one is open.

    It is due now, or *at* a time. With *repeat_seconds* its next run is queued when a worker has sealed it.
    """
    with connection.transaction():
        row = query_sync(
            connection,
            "claim_create",
            name=name,
            spider=spider,
            frontier=secrets.token_hex(8),
            config=as_jsonb(dict(config)),
            first=False,
        )
        if row is None:
            called = shlex.quote(name)
            raise Refused(
                f"crawl {name!r} has an open run: `scrapy run {called}` works it, `scrapy cancel {called}`"
                " ends it"
            )
        query_sync(
            connection,
            "describe",
            crawl_id=row["id"],
            label=None if label is None else clean(label),
            tags=[clean(tag) for tag in tags],
            repeat_seconds=repeat_seconds,
            at=at,
        )
        if paused:
            query_sync(connection, "pause", crawl_id=row["id"])
    return int(row["id"])


def pause(connection: Connection[Any], crawl_id: int, *, by: str | None = None) -> None:
    """Stop a run until a person resumes it. Raises Refused when it is sealed; twice is once."""
    with connection.transaction():
        if query_sync(connection, "pause", crawl_id=crawl_id) is None:
            _expect(connection, crawl_id, CrawlStatus.PAUSED, "paused")
        else:
            _note(connection, crawl_id, "PAUSED", "paused", by)


def resume(connection: Connection[Any], crawl_id: int, *, by: str | None = None) -> None:
    """Let a paused run go on, with the workers that stayed on it, else due at once, or at its time.

    Raises Refused when it is sealed; twice is once.
    """
    with connection.transaction():
        if query_sync(connection, "resume", crawl_id=crawl_id) is None:
            _expect(connection, crawl_id, CrawlStatus.QUEUED, "resumed", CrawlStatus.STARTED)
        else:
            _note(connection, crawl_id, "RESUMED", "resumed", by)


def cancel(
    connection: Connection[Any], crawl_id: int, *, counts: Mapping[str, Any], by: str | None = None
) -> None:
    """End a run for good, with its last figures, and its series; what is stored stays.

    Raises Refused when it is sealed.
    """
    with connection.transaction():
        query_sync(connection, "lock", crawl_id=crawl_id)
        row = query_sync(
            connection,
            "seal",
            crawl_id=crawl_id,
            stop_reason="cancelled",
            counts=as_jsonb(dict(counts)),
            states=_OPEN,
            kept=False,
        )
        if row is None:
            _expect(connection, crawl_id, None, "cancelled")
        query_sync(connection, "seal_leases", crawl_id=crawl_id)
        _note(connection, crawl_id, "CANCELLED", "cancelled", by)


def note(
    connection: Connection[Any], crawl_id: int, namespace: str, message: str, fields: Mapping[str, Any]
) -> None:
    """Write a note on a run."""
    query_sync(
        connection,
        "write_note",
        crawl_id=crawl_id,
        namespace=namespace,
        message=clean(message),
        fields=as_jsonb(dict(fields)),
    )


def _note(connection: Connection[Any], crawl_id: int, namespace: str, message: str, by: str | None) -> None:
    note(connection, crawl_id, namespace, f"{message} by {by}" if by else message, {"by": by} if by else {})


def _expect(
    connection: Connection[Any], crawl_id: int, wanted: CrawlStatus | None, done: str, *also: CrawlStatus
) -> None:
    """Raise what is wrong with a run on which a step changed nothing, unless it had been taken before."""
    row = query_sync(connection, "read", crawl_id=crawl_id, epoch=0)
    if row is None:
        raise NotFound(f"there is no crawl number {crawl_id} any more")
    if row["status"] not in (wanted, *also):
        raise Refused(f"crawl {row['name']!r}, run {row['run']}, is {row['status']} and cannot be {done}")
