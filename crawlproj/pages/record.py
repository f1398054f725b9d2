"""One page as the row that the store's statement takes."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from itertools import chain, takewhile
from typing import TYPE_CHECKING, Any

import zstandard

from crawlproj.clean import utf8
from crawlproj.items import FetchStatus, PageObject, ScheduleStatus
from crawlproj.pages.bodies import Body, body_hash
from crawlproj.pages.columns import NULL, bytea, int4, int8, jsonb, text, timestamptz
from crawlproj.pages.revisit import learns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crawlproj.items import PageText

#: The arrays of sql/store.sql that have one element per page, in the order of a row.
COLUMNS = (
    ("url_key", "bytea"),
    ("url", "text"),
    ("canonical_url", "text"),
    ("host", "text"),
    ("depth", "int4"),
    ("source_tag", "text"),
    ("page_status", "text"),
    ("fetch_status", "text"),
    ("schedule_status", "text"),
    ("http_status", "int4"),
    ("reason", "text"),
    ("detail", "text"),
    ("attempts", "int4"),
    ("reported_at", "timestamptz"),
    ("fetched_at", "timestamptz"),
    ("duration_ms", "int4"),
    ("bytes", "int8"),
    ("redirect_to", "text"),
    ("health_signal", "jsonb"),
    ("items", "int4"),
    ("page_outlinks", "bytea"),
    ("request", "text"),
    ("learned", "int4"),
    ("object_id", "bytea"),
    ("content_status", "text"),
    ("body_hash", "bytea"),
    ("body_size", "int8"),
    ("content_type", "text"),
    ("encoding", "text"),
    ("title", "text"),
    ("language", "text"),
    ("text_length", "int4"),
    ("raw_text_length", "int4"),
    ("headers", "jsonb"),
    ("etag", "text"),
    ("last_modified", "text"),
    ("text", "bytea"),
    ("outlinks", "bytea"),
)
#: Those that have one element per item.
ITEM_COLUMNS = (("item_key", "bytea"), ("item_n", "int4"), ("item_data", "jsonb"))

STORE_ERROR = "store_error"
_LEVEL = 3
_CONTENT = (FetchStatus.DONE, FetchStatus.EMPTY)
_NO_OBJECT = (NULL,) * 15
_DETAIL_LENGTH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one page becomes in the database, packed."""

    key: bytes
    cells: tuple[bytes, ...]  #: as in COLUMNS
    body: Body | None
    items: tuple[tuple[bytes, ...], ...]  #: as in ITEM_COLUMNS
    object_id: bytes | None
    size: int  #: bytes on the wire, about


class Packer:
    """Turns pages into rows; one per thread, because it reuses its compressor.

    Without *keeps_links* what refills a lost frontier is left out.
    """

    def __init__(self, crawl_name: str, *, keeps_links: bool = True) -> None:
        self._keeps_links = keeps_links
        self._prefix = utf8(crawl_name) + b"\0"
        self._compress = zstandard.ZstdCompressor(level=_LEVEL).compress

    def row(self, page: PageObject) -> Row:
        """Return the row of *page*. What it raises says that the page is made of impossible values."""
        object_id, cells, body = self._object(page) if page.stores else (None, _no_object(page), None)
        cells = _state(page) + self._recovery(page) + cells
        items = tuple(_item(page.key, n, item) for n, item in enumerate(page.items))
        size = sum(map(len, cells)) + (len(body.data) if body else 0) + sum(len(item[2]) for item in items)
        return Row(key=page.key, cells=cells, body=body, items=items, object_id=object_id, size=size)

    def _recovery(self, page: PageObject) -> tuple[bytes, bytes, bytes]:
        """Pack what a lost frontier or the next run needs of a page besides its row and its object."""
        # After a 304 they are those of the content that stands.
        own = not page.stores and page.fetch_status is not FetchStatus.NOT_MODIFIED
        return self._links(page) if own else NULL, _request(page), int4(learns(page) or None)

    def _links(self, page: PageObject) -> bytes:
        if not self._keeps_links or not (page.outlinks or page.known_links):
            return NULL
        return bytea(self._compress(recovery_log(page.outlinks, page.known_links, depth=page.depth + 1)))

    def _object(self, page: PageObject) -> tuple[bytes, tuple[bytes, ...], Body]:
        name = body_hash(page.body)
        object_id = blake2b(self._prefix + page.key + name, digest_size=16).digest()
        words = page.text
        main = None if words is None else words.main
        cells = (
            bytea(object_id),
            _word(page.fetch_status),
            bytea(name),
            int8(len(page.body)),
            text(page.content_type),
            text(None if words is None else words.encoding),
            text(None if words is None else words.title),
            text(None if words is None else words.language),
            int4(_length(words)),
            int4(None if words is None else words.visible_length),
            jsonb(page.headers),
            text(_validator(page, "etag")),
            text(_validator(page, "last-modified")),
            NULL if main is None else bytea(self._compress(utf8(main))),
            self._links(page),
        )
        return object_id, cells, Body(hash=name, size=len(page.body), data=self._compress(page.body))


def _no_object(page: PageObject) -> tuple[bytes, ...]:
    """Pack what a page says that stores no object: a 304 may bring newer validators of what is stored."""
    if page.fetch_status is not FetchStatus.NOT_MODIFIED:
        return _NO_OBJECT
    return (
        *(NULL,) * 11,
        text(_validator(page, "etag")),
        text(_validator(page, "last-modified")),
        *(NULL,) * 2,
    )


def recovery_log(*groups: Iterable[Any], depth: int) -> bytes:
    """Return the links of a page, one per line: what the frontier is refilled from.

    A line is a URL; a link that is more than a plain GET has a tab and the rest of its queue entry; one that
    is not at *depth*, behind its page, has another tab and its own.
    """
    usual = (f"h{depth}/", f"s{depth}/", f"u{depth} ")
    lines: list[str] = []
    for link in chain.from_iterable(groups):
        if isinstance(link, str):
            lines.append(link)
            continue
        line, _, extra = link.data.partition("\n")
        if not line.startswith(usual):
            lines.append(f"{link.url}\t{extra}\t{_depth(line)}")
        else:
            lines.append(f"{link.url}\t{extra}" if extra else link.url)
    return utf8("\n".join(lines))


def _depth(line: str) -> int:
    """Return the depth in the first line of a queue entry."""
    return int("".join(takewhile(str.isdigit, line[1:])) or 0)


def minimal(page: PageObject, why: str) -> PageObject:
    """Return what is left of a page that cannot be stored: that it failed, and why."""
    return replace(
        page,
        fetch_status=FetchStatus.FAILED,
        schedule_status=ScheduleStatus.FAILED,
        reason=STORE_ERROR,
        detail=why[:_DETAIL_LENGTH],
        final=True,
        stores=False,
        health_signal=None,
        object_id=None,
    )


def bare(page: PageObject) -> PageObject:
    """Return *page* without everything that may be what PostgreSQL refuses."""
    return replace(page, items=(), headers=(), source_tag=None, redirect_to=None, duration_ms=None)


def _state(page: PageObject) -> tuple[bytes, ...]:
    """Pack what becomes of the URL, whether or not something is stored."""
    disregarded = page.schedule_status is ScheduleStatus.DISREGARDED
    schedule_status = page.schedule_status or (None if page.final else ScheduleStatus.RETRY)
    reported_at = timestamptz(page.fetched_at)
    replaces_items = page.items or page.fetch_status in _CONTENT
    return (
        bytea(page.key),
        text(page.url),
        text(page.canonical_url),
        text(page.lease.host),
        int4(page.depth),
        text(page.source_tag),
        _word(page.fetch_status if page.final else None),
        _word(page.fetch_status),
        _word(schedule_status),
        int4(page.http_status),
        text(page.reason),
        text(page.detail),
        int4(page.lease.attempts + (0 if disregarded else 1)),
        reported_at,
        NULL if disregarded else reported_at,
        int4(page.duration_ms),
        int8(None if page.http_status is None else len(page.body)),
        text(page.redirect_to),
        jsonb(None if page.health_signal is None else page.health_signal.as_dict()),
        int4(len(page.items)) if replaces_items else NULL,
    )


def _request(page: PageObject) -> bytes:
    """Pack the second line of the queue entry, where the URL alone does not lead back to the request.

    Without the login: the start requests of the next run bring it.
    """
    said = {key: value for key, value in page.extra.items() if key != "a"}
    return text(json.dumps(said, separators=(",", ":"))) if said else NULL


def _item(key: bytes, n: int, item: object) -> tuple[bytes, ...]:
    return bytea(key), int4(n), jsonb(item)


def _length(words: PageText | None) -> int | None:
    """Return the characters of the main text, as its health signal counts them."""
    if words is None or words.main is None:
        return None
    return len(words.main) if words.main_length is None else words.main_length


def _validator(page: PageObject, name: str) -> str | None:
    """Return the header as it came, or None when it would not come back byte for byte."""
    for header, value in page.headers:
        if len(header) == len(name) and header.lower() == name:
            return value if value.isprintable() else None
    return None


@lru_cache(64)
def _word(value: str | None) -> bytes:
    return text(value)
