"""Pages that are visited again: what each of four runs sends, is answered, and has to say."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.crawl.mock.behaviour import (
    Answer,
    Behaviour,
    Row,
    behaviour,
    done,
    empty,
    failed,
    html,
    not_modified,
    page,
)

if TYPE_CHECKING:
    from tests.crawl.mock.server import Peer

DATE = "Wed, 21 Oct 2015 07:28:00 GMT"
OTHER_DATE = "Thu, 22 Oct 2015 07:28:00 GMT"
OTHER = html("Another text that is long enough to be one, with as many words as a page of its kind may have.")
RUNS = 4


async def never(peer: Peer) -> None:
    """Take the request and say nothing."""
    await asyncio.sleep(60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One run's visit of a page."""

    answer: Answer
    row: Row
    etag: str | None = None  #: If-None-Match that it has to send
    date: str | None = None  #: If-Modified-Since


def same(*headers: str, etag: str | None = None, date: str | None = None) -> Visit:
    """Say that nothing has changed."""
    head = "".join(f"{line}\r\n" for line in headers)
    answer = f"HTTP/1.1 304 Not Modified\r\n{head}\r\n".encode()
    return Visit(answer=answer, row=not_modified(), etag=etag, date=date)


def fresh(*headers: str, body: str | None = None, etag: str | None = None, date: str | None = None) -> Visit:
    """Send the page as it is now."""
    length = (50, 300)
    return Visit(answer=page(body, *headers), row=done(length, raw=length), etag=etag, date=date)


def kept(etag: str) -> tuple[Visit, ...]:
    """Send a tag that has to come back byte for byte."""
    sent = etag.encode().decode("latin-1")
    return (fresh(f"ETag: {etag}"), *(same(etag=sent) for _ in range(3)))


#: By name: four visits each.
VISITS: dict[str, tuple[Visit, ...]] = {
    "etag": kept('"a"'),
    "etag-weak": kept('W/"x"'),
    "etag-gzip": kept('"x-gzip"'),
    "etag-with-comma": kept('"a,b"'),
    "etag-unquoted": kept("plain"),
    "etag-not-ascii": kept('"é"'),
    "etag-long": kept('"' + "x" * 4000 + '"'),
    "done-same-done": (
        fresh('ETag: "a"'),
        same(etag='"a"'),
        fresh('ETag: "b"', body=OTHER, etag='"a"'),
        same(etag='"b"'),
    ),
    "etag-in-304": (
        fresh('ETag: "x"'),
        same('ETag: "y"', etag='"x"'),
        same(etag='"y"'),
        same(etag='"y"'),
    ),
    "etag-gone": (fresh('ETag: "a"'), fresh(etag='"a"'), fresh(), fresh()),
    "etag-gone-with-new-text": (
        fresh('ETag: "a"'),
        fresh(body=OTHER, etag='"a"'),
        fresh(body=OTHER),
        fresh(),
    ),
    "date": (fresh(f"Last-Modified: {DATE}"), *(same(date=DATE) for _ in range(3))),
    "date-in-304": (
        fresh(f"Last-Modified: {DATE}"),
        same(f"Last-Modified: {OTHER_DATE}", date=DATE),
        same(date=OTHER_DATE),
        same(date=OTHER_DATE),
    ),
    "both": (fresh('ETag: "a"', f"Last-Modified: {DATE}"), *(same(etag='"a"', date=DATE) for _ in range(3))),
    "neither": tuple(fresh() for _ in range(4)),
    # A bad day destroys nothing: after it the page is asked for with what stands.
    "bad-days": (
        fresh('ETag: "a"'),
        Visit(answer=never, row=failed("timeout"), etag='"a"'),
        Visit(
            answer=page(OTHER, 'ETag: "error"', status="500 Broken"), row=failed("http_500", 500), etag='"a"'
        ),
        Visit(answer=page("", 'ETag: "empty"'), row=empty(), etag='"a"'),
    ),
    "empty-in-between": (
        fresh('ETag: "a"'),
        Visit(answer=page("", 'ETag: "empty"'), row=empty(), etag='"a"'),
        same(etag='"a"'),
        same(etag='"a"'),
    ),
    "gone": (
        fresh('ETag: "a"'),
        Visit(answer=page("", status="404 Not Found"), row=failed("http_404", 404), etag='"a"'),
        same(etag='"a"'),
        same(etag='"a"'),
    ),
    "empty-at-first": (
        Visit(answer=page("", 'ETag: "a"'), row=empty()),
        Visit(answer=page("", 'ETag: "a"'), row=empty()),
        fresh('ETag: "b"'),
        same(etag='"b"'),
    ),
    "failed-at-first": (
        Visit(answer=page("", 'ETag: "a"', status="404 Not Found"), row=failed("http_404", 404)),
        fresh('ETag: "a"'),
        same(etag='"a"'),
        same(etag='"a"'),
    ),
}


REVISITS: tuple[Behaviour, ...] = tuple(
    behaviour(f"again-{name}", visits[0].row, *(visit.answer for visit in visits))
    for name, visits in VISITS.items()
)
