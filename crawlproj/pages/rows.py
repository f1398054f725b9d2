"""What people ask of pages, read from PostgreSQL by one connection that does not change anything."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import zstandard
from psycopg.rows import dict_row

from crawlproj.exceptions import WrongUsage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from psycopg import Connection

ID_DIGITS = 32  #: of a page's or an object's id, in hexadecimal
_CHUNK = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What is inside a page object."""

    text: str | None  #: None for binary bodies
    outlinks: tuple[str, ...]
    body: bytes | None  #: None when it is not in the database
    body_at: str | None  #: where it is instead; `crawlproj.pages.bodies.read_body` gets it
    body_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link of the recovery log."""

    url: str
    extra: str | None  #: the second line of its queue entry, of a link that is more than a plain GET
    depth: int | None = None  #: None: behind its page, as links are


def list_pages(
    connection: Connection[Any],
    *,
    crawl_name: str | None = None,
    crawl_id: int | None = None,
    status: str | None = None,
    host: str | None = None,
    limit: int | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield pages as they are now, in the order they were reported in, without holding them all.

    *status* is a fetch_status or a schedule_status; *crawl_id* leaves out what its run has not touched.
    """
    yield from _stream(
        connection,
        "list_pages",
        crawl_name=crawl_name,
        crawl_id=crawl_id,
        status=status,
        host=host,
        limit=limit,
    )


def has_host(connection: Connection[Any], crawl_name: str, host: str) -> bool:
    """Say whether a crawl has a page of a host, whatever became of it."""
    return bool(_fetch(connection, "has_host", crawl_name=crawl_name, host=host))


def find_pages(
    connection: Connection[Any], digits: str, *, crawl_name: str | None = None, limit: int = 20
) -> list[dict[str, Any]]:
    """Return the pages that an id means, the one touched last first; there is one per crawl name.

    *digits* are hexadecimal, all or the first ones, of a page's key or of one of its objects.
    Raises WrongUsage when they are no digits.
    """
    low, high = id_range(digits)
    return _fetch(connection, "find_pages", low=low, high=high, crawl_name=crawl_name, limit=limit)


def id_range(digits: str) -> tuple[bytes, bytes]:
    """Return the lowest and the highest id that begins with *digits*. Raises WrongUsage."""
    if not 0 < len(digits) <= ID_DIGITS or not set(digits) <= set("0123456789abcdefABCDEF"):
        raise WrongUsage(f"{digits[:ID_DIGITS]!r} is no id: ids have {ID_DIGITS} hexadecimal digits")
    return bytes.fromhex(digits.ljust(ID_DIGITS, "0")), bytes.fromhex(digits.ljust(ID_DIGITS, "f"))


def page_objects(connection: Connection[Any], crawl_name: str, url_key: bytes) -> list[dict[str, Any]]:
    """Return what every content that the page has had is like, the last one first."""
    return _fetch(connection, "page_objects", crawl_name=crawl_name, url_key=url_key)


def page_fetches(connection: Connection[Any], crawl_name: str, url_key: bytes) -> list[dict[str, Any]]:
    """Return every attempt at the page, over all runs, the first one first."""
    return _fetch(connection, "page_fetches", crawl_name=crawl_name, url_key=url_key)


def page_items(connection: Connection[Any], crawl_name: str, url_key: bytes) -> list[Any]:
    """Return what the spider yielded besides the page, in the last run that it did."""
    return [row["data"] for row in _fetch(connection, "page_items", crawl_name=crawl_name, url_key=url_key)]


def page_content(connection: Connection[Any], object_id: bytes) -> Content | None:
    """Return what is inside a page object, or None if there is no such object."""
    rows = _fetch(connection, "page_content", object_id=object_id)
    if not rows:
        return None
    text, body = unpack(rows[0]["text"]), unpack(rows[0]["body"])
    return Content(
        text=None if text is None else text.decode(),
        outlinks=tuple(link.url for link in links(rows[0]["outlinks"])),
        body=body,
        body_at=rows[0]["body_at"],
        body_hash=rows[0]["body_hash"],
    )


def diff(connection: Connection[Any], crawl_name: str, before: int, after: int) -> Iterator[dict[str, Any]]:
    """Yield what has become of pages from one run to another; the last row counts those left as they were."""
    yield from _stream(connection, "diff", crawl_name=crawl_name, before=before, after=after)


def next_due(connection: Connection[Any], crawl_name: str, crawl_id: int, most: float) -> datetime | None:
    """Return when the first of the pages is due that a run has not touched; None if there is none.

    No page waits for longer than *most* seconds.
    """
    (row,) = _fetch(connection, "next_due", crawl_name=crawl_name, crawl_id=crawl_id, most=most)
    found: datetime | None = row["next_due"]
    return found


def has_fetches(connection: Connection[Any], crawl_id: int) -> bool:
    """Say whether the log of a run's fetches is there."""
    return bool(_fetch(connection, "any_fetch", crawl_id=crawl_id))


def recovery_log(connection: Connection[Any], crawl_id: int) -> Iterator[dict[str, Any]]:
    """Yield what refills a run's frontier: its pages, each with the list of its `links`."""
    for row in _stream(connection, "recovery_log", crawl_id=crawl_id):
        yield {**row, "links": [*links(row.pop("own_links")), *links(row.pop("outlinks"))]}


def links(packed: bytes | None) -> list[Link]:
    """Return the links that `crawlproj.pages.record.recovery_log` packed."""
    lines = (unpack(packed) or b"").decode().split("\n")
    return [_link(line) for line in lines if line]


def _link(line: str) -> Link:
    url, _, rest = line.partition("\t")
    extra, _, depth = rest.partition("\t")
    return Link(url=url, extra=extra or None, depth=int(depth) if depth else None)


def unpack(packed: bytes | None) -> bytes | None:
    """Return what was compressed; None stays None."""
    return None if packed is None else zstandard.ZstdDecompressor().decompress(packed)


def _fetch(connection: Connection[Any], query: str, **values: Any) -> list[dict[str, Any]]:
    with connection.transaction(), connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_sql(query), values).fetchall()


def _stream(connection: Connection[Any], query: str, **values: Any) -> Iterator[dict[str, Any]]:
    with connection.transaction(), connection.cursor(name=query, row_factory=dict_row) as cursor:
        cursor.itersize = _CHUNK
        yield from cursor.execute(_sql(query), values)


@cache
def _sql(query: str) -> bytes:
    return files(__package__).joinpath("sql", f"{query}.sql").read_bytes()
