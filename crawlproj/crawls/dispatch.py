"""Which run a supervisor starts a worker for next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crawlproj.clean import as_jsonb, clean
from crawlproj.crawls.statements import query_sync

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from psycopg import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A run that somebody starts a worker for."""

    id: int
    name: str
    run: int
    spider: str
    held_until: datetime  #: nobody else takes it before


def take(
    connection: Connection[Any],
    *,
    hold_seconds: float,
    name: str | None = None,
    at: datetime | None = None,
) -> Taken | None:
    """Take the run that has waited longest for a worker; nobody else gets it for *hold_seconds*.

    A worker that has claimed it by then has a lease of its own. *name*: only a run of that crawl. *at* is
    what counts as now.
    """
    row = query_sync(connection, "take", hold_seconds=hold_seconds, name=name, at=at)
    return None if row is None else Taken(**row)


def put_back(connection: Connection[Any], taken: Taken) -> bool:
    """Make a run due at once again; False when a worker has claimed it, or anything else has changed it."""
    row = query_sync(connection, "put_back", crawl_id=taken.id, held_until=taken.held_until)
    return row is not None


def put_off(
    connection: Connection[Any],
    crawl_id: int,
    *,
    seconds: float,
    message: str | None = None,
    fields: Mapping[str, Any] | None = None,
    within_seconds: float = 0.0,
) -> bool:
    """Let a run wait before anybody starts another worker for it; False when it is paused or sealed.

    *message* is noted (RUN_FAILED), unless a worker has noted a failure in the last *within_seconds*.
    """
    row = query_sync(
        connection,
        "put_off",
        crawl_id=crawl_id,
        seconds=seconds,
        message=None if message is None else clean(message),
        fields=as_jsonb(dict(fields or {})),
        within_seconds=within_seconds,
    )
    return row is not None
