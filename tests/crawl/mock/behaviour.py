"""What one host of the mock site does, and the row that a crawl of it has to bring."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from tests.crawl.mock.server import Peer

#: The bytes of an answer, status line and all; `@name@` in them is the URL of that behaviour, `@//name@`
#: the same without its scheme. Or what writes them itself.
Answer: TypeAlias = "bytes | Callable[[Peer], Awaitable[bytes | None]]"
#: A number of characters: exactly, or from and to. None: there is no text, the body is binary.
Length: TypeAlias = int | tuple[int, int] | None

TEXT = (
    "The keeper of the lighthouse wrote a letter every evening, and in the morning the ferry took it along. "
    "Nobody on the island had ever asked him to whom he wrote, and he had never told anybody about it."
)
LENGTH = len(TEXT)
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What `scrapy pages --json` has to say of one URL."""

    fetch_status: str | None
    schedule_status: str
    http_status: int | None = None
    reason: str | None = None
    stored: bool = False  #: whether there is a page object, and so a health signal
    text: Length = None  #: its text_length
    raw: Length = None  #: its raw_text_length; unset: as long as the text, or 0
    encoding: str | None = None  #: of the page object; unset: any


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """One host of the site, with an address of its own: what it does to a connection is its own affair."""

    name: str
    row: Row
    #: Of successive requests for the path; the last one stays.
    answers: tuple[Answer, ...]
    path: str = "/"
    requests: int = 1  #: how many reach the server for the path
    robots: Answer = NOT_FOUND
    #: Other paths of the host: what they answer, and their rows if they have any.
    others: Mapping[str, tuple[Answer, Row | None]] = field(default_factory=dict)
    seed: bool = True  #: False: only links and redirects lead here
    tls: bool = False
    speaks_tls: bool = True  #: False: its URL says https, and it answers in plain HTTP
    login: str = ""  #: `user:password@`, in the seed
    early: bool = False  #: it answers as soon as there is a connection, whatever is asked
    listens: bool = True  #: False: nobody takes its connections


def behaviour(name: str, row: Row, *answers: Answer, **more: object) -> Behaviour:
    """Return a behaviour; `more` are its other fields."""
    return Behaviour(name=name, row=row, answers=answers, **more)  # type: ignore[arg-type]


# --- what a row says ------------------------------------------------------------------------------


def done(text: Length = LENGTH, *, status: int = 200, raw: Length = None, **more: str | None) -> Row:
    """Answered with content, stored."""
    return _stored("done", text, raw, status, **more)


def empty(raw: Length = 0, *, text: int = 0, status: int = 200, **more: str | None) -> Row:
    """Answered without main text, stored."""
    return _stored("empty", text, raw, status, **more)


def failed(reason: str, status: int | None = None) -> Row:
    """No usable answer, nothing stored."""
    return Row(fetch_status="failed", schedule_status="failed", http_status=status, reason=reason)


def status_failed(status: int) -> Row:
    """A status that is no success says by itself why."""
    return failed(f"http_{status}", status)


def redirected() -> Row:
    """The target goes its own way."""
    return Row(fetch_status=None, schedule_status="succeeded", reason="redirected")


def disregarded(reason: str) -> Row:
    """Not fetched at all."""
    return Row(fetch_status=None, schedule_status="disregarded", reason=reason)


def not_modified() -> Row:
    """A 304 to our validators."""
    return Row(fetch_status="not_modified", schedule_status="succeeded", http_status=304)


def _stored(fetch_status: str, text: Length, raw: Length, status: int, **more: str | None) -> Row:
    return Row(
        fetch_status=fetch_status,
        schedule_status="succeeded",
        http_status=status,
        stored=True,
        text=text,
        raw=text or 0 if raw is None else raw,
        reason=more.get("reason"),
        encoding=more.get("encoding"),
    )


# --- what a host answers --------------------------------------------------------------------------


def html(text: str = TEXT, head: str = "", tail: str = "") -> str:
    """Return a page with one paragraph."""
    return f"<html><head><title>A page</title>{head}</head><body><p>{text}</p>{tail}</body></html>"


def page(
    body: str | bytes | None = None,
    *headers: str | bytes,
    status: str = "200 OK",
    kind: str | None = "text/html; charset=utf-8",
) -> bytes:
    """Return an answer; its length is said, unless one of *headers* says where the body ends."""
    content = html() if body is None else body
    data = content.encode() if isinstance(content, str) else content
    lines = [f"HTTP/1.1 {status}".encode()]
    if kind is not None:
        lines.append(f"Content-Type: {kind}".encode())
    lines += [line.encode() if isinstance(line, str) else line for line in headers]
    if not any(line.lower().startswith((b"content-length", b"transfer-encoding")) for line in lines):
        lines.append(b"Content-Length: %d" % len(data))
    return b"\r\n".join(lines) + b"\r\n\r\n" + data


def moved(location: str | bytes, *headers: str | bytes, status: str = "302 Found") -> bytes:
    """Return a redirect."""
    where = location.encode() if isinstance(location, str) else location
    return page(b"", b"Location: " + where, *headers, status=status)


def links(*paths: str) -> bytes:
    """Return a page that leads to others."""
    return page(html(tail="".join(f"<a href='{path}'></a>" for path in paths)))


def robots(rules: str | bytes) -> bytes:
    """Return a robots.txt."""
    return page(rules, kind="text/plain")


def chunked(*chunks: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    """Return a body in chunks."""
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + end
