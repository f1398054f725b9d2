"""What people ask of crawls, read from PostgreSQL by one connection that does not change anything."""

from __future__ import annotations

from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from crawlproj.crawls.statements import query_all_sync, query_sync
from crawlproj.exceptions import NotFound
from crawlproj.items import FetchStatus, ScheduleStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from psycopg import Connection

PACE_SECONDS = 30.0  # a worker says it every five; one that has not for so long has no pace
_MOST_DIGITS = 18  # of a crawl's number: they fit a bigint


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlRow:
    """One run of a crawl."""

    id: int
    name: str
    run: int
    spider: str
    status: str
    retry_at: datetime | None
    created_at: datetime
    label: str | None
    tags: list[str]  #: in lower case
    repeat_seconds: int | None
    started_at: datetime | None
    finished_at: datetime | None
    stop_reason: str | None
    kept: bool  #: a limit has left URLs in its frontier, for the next run
    frontier: str
    config: dict[str, Any]
    counts: dict[str, Any] | None  #: last known figures, there once it is sealed


def list_crawls(
    connection: Connection[Any],
    *,
    statuses: Sequence[str] | None = None,
    tag: str | None = None,
    limit: int | None = None,
) -> list[dict[str, Any]]:
    """Return runs, the latest first, each with its counts by fetch_status and by schedule_status."""
    status = list(statuses) if statuses else None
    rows = query_all_sync(connection, "list_crawls", status=status, tag=tag and tag.lower(), limit=limit)
    counted = count_pages(connection, [row["id"] for row in rows if not is_counted(row["counts"])])
    for row in rows:
        row["counts"] = counted[row["id"]] if row["id"] in counted else by_status(row["counts"])
    return rows


def find_crawl(connection: Connection[Any], name: str | None, *, waiting: bool = False) -> CrawlRow:
    """Return the run that *name* means: a name, a number, or None for the latest. Raises NotFound.

    Of a crawl that repeats it is the run that began last; with *waiting*, the one that waits for its time.
    """
    digits = name if name and name.isascii() and name.isdigit() else ""
    number = int(digits) if 0 < len(digits) <= _MOST_DIGITS else None
    row = query_sync(connection, "find_crawl", name=name, id=number, waiting=waiting)
    if row is None:
        raise NotFound(_no_crawl(name, [row["name"] for row in query_all_sync(connection, "crawl_names")]))
    return _crawl(row)


def crawl(connection: Connection[Any], crawl_id: int) -> CrawlRow:
    """Return one run as it is now. Raises NotFound."""
    row = query_sync(connection, "crawl", crawl_id=crawl_id)
    if row is None:
        raise NotFound(f"there is no crawl number {crawl_id} any more")
    return _crawl(row)


def find_run(connection: Connection[Any], name: str, run: int) -> CrawlRow:
    """Return a run of a crawl by its number within the name. Raises NotFound."""
    row = query_sync(connection, "find_run", name=name, run=run)
    if row is None:
        raise NotFound(f"crawl {name!r} has no run {run}; `scrapy crawls` lists what there is")
    return _crawl(row)


def open_run(connection: Connection[Any], name: str) -> CrawlRow | None:
    """Return the run of a name that is not sealed, if there is one."""
    row = query_sync(connection, "open_run", name=name)
    return None if row is None else _crawl(row)


def workers(connection: Connection[Any], crawl_id: int) -> list[dict[str, Any]]:
    """Return who works on a run."""
    return query_all_sync(connection, "workers", crawl_id=crawl_id)


def paces(connection: Connection[Any], crawl_id: int) -> list[dict[str, Any]]:
    """Return what the workers of a run have said of their pace in the last half minute."""
    return [
        row["pace"] for row in query_all_sync(connection, "paces", crawl_id=crawl_id, seconds=PACE_SECONDS)
    ]


def elapsed(connection: Connection[Any], crawl_id: int) -> float | None:
    """Return for how many seconds a run has been running; None before its first worker."""
    (row,) = query_all_sync(connection, "elapsed", crawl_id=crawl_id)
    return next(iter(row.values()))  # type: ignore[no-any-return]


def notes(connection: Connection[Any], crawl_id: int, *, after: int = 0) -> list[dict[str, Any]]:
    """Return the notes of a run whose id is above *after*, the oldest first."""
    return query_all_sync(connection, "notes", crawl_id=crawl_id, after=after)


def last_note(
    connection: Connection[Any], crawl_id: int, namespace: str | None = None
) -> dict[str, Any] | None:
    """Return the last note of a run, of one kind or of any."""
    return query_sync(connection, "last_note", crawl_id=crawl_id, namespace=namespace)


def hosts(connection: Connection[Any], crawl_id: int) -> list[dict[str, Any]]:
    """Return host, pages and errors of every host that pages of this run are from."""
    return query_all_sync(connection, "hosts", crawl_id=crawl_id)


def open_runs(connection: Connection[Any]) -> list[tuple[CrawlRow, bool]]:
    """Return every run that is not sealed, and whether it has pages."""
    return [(_crawl(row), row["has_pages"]) for row in query_all_sync(connection, "open_runs")]


def sealed_frontiers(connection: Connection[Any]) -> list[str]:
    """Return the ids of the frontiers of all sealed runs."""
    return [row["frontier"] for row in query_all_sync(connection, "sealed_frontiers", limit=None)]


def example_page(connection: Connection[Any], crawl_id: int) -> str | None:
    """Return the URL of some page of a run that has been stored, None if there is none."""
    row = query_sync(connection, "example_page", crawl_id=crawl_id)
    return None if row is None else row["url"]


def count_pages(
    connection: Connection[Any], crawl_ids: Sequence[int]
) -> dict[int, dict[str, dict[str, int]]]:
    """Return for each run its counts by fetch_status and by schedule_status, zeros included."""
    found = {crawl_id: by_status({}) for crawl_id in crawl_ids}
    for row in query_all_sync(connection, "count_pages", crawl_ids=list(crawl_ids)) if crawl_ids else ():
        counts = found[row["crawl_id"]]
        if row["fetch_status"] is not None:
            counts["fetch_status"][row["fetch_status"]] += row["pages"]
        counts["schedule_status"][row["schedule_status"]] += row["pages"]
    return found


def is_counted(counts: dict[str, Any] | None) -> bool:
    """Say whether the last known figures of a run include its pages by status."""
    return counts is not None and "fetch_status" in counts


def by_status(counts: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Return *counts* with every status there is, zero where it has none.

    What was given up as dead no page knows, but the figures with which a run is sealed do.
    """
    found = {
        "fetch_status": _filled(FetchStatus, counts.get("fetch_status")),
        "schedule_status": _filled(ScheduleStatus, counts.get("schedule_status")),
    }
    found["schedule_status"][ScheduleStatus.DEAD] += int(counts.get("dead", 0))
    return found


def _crawl(row: dict[str, Any]) -> CrawlRow:
    return CrawlRow(**{field.name: row[field.name] for field in fields(CrawlRow)})


def _filled(statuses: Iterable[str], counts: dict[str, int] | None) -> dict[str, int]:
    return {str(status): int((counts or {}).get(str(status), 0)) for status in statuses}


def _no_crawl(name: str | None, names: Sequence[str]) -> str:
    if not names:
        return "there is no crawl yet" if name is None else f"there is no crawl {name!r}, nor any other yet"
    if close := get_close_matches(name or "", names, 1):
        return f"there is no crawl {name!r}; the nearest name is {close[0]!r}"
    return f"there is no crawl {name!r}; `scrapy crawls` lists what there is"
