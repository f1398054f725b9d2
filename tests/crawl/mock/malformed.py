"""Answers that are no good HTTP, and connections that are none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.crawl.mock.behaviour import (
    TEXT,
    behaviour,
    chunked,
    done,
    failed,
    html,
    moved,
    page,
    redirected,
    status_failed,
)

if TYPE_CHECKING:
    from tests.crawl.mock.server import Peer

BODY = html().encode()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


async def never(peer: Peer) -> None:
    """Take the request and say nothing."""
    await asyncio.sleep(60)


async def trickle(peer: Peer) -> None:
    """Send a byte now and then, and come to no end."""
    peer.writer.write(HEAD + b"Content-Length: 5000\r\n\r\n")
    for _ in range(600):
        peer.writer.write(b"x")
        await peer.writer.drain()
        await asyncio.sleep(0.1)


async def trickle_head(peer: Peer) -> None:
    """The same with the headers."""
    peer.writer.write(HEAD)
    for number in range(600):
        peer.writer.write(b"X-%d: 1\r\n" % number)
        await peer.writer.drain()
        await asyncio.sleep(0.1)


async def interim_for_ever(peer: Peer) -> None:
    """Say that there will be an answer, again and again."""
    while True:
        peer.writer.write(b"HTTP/1.1 102 Processing\r\n\r\n")
        await peer.writer.drain()
        await asyncio.sleep(0.001)


async def endless(peer: Peer) -> None:
    """Send a body without an end, as fast as it is taken."""
    peer.writer.write(HEAD + CHUNKED)
    while True:
        peer.writer.write(chunked(bytes(65536), end=b""))
        await peer.writer.drain()


async def endless_trailer(peer: Peer) -> None:
    """Send a whole body, and then headers without an end."""
    peer.writer.write(HEAD + CHUNKED + chunked(BODY, end=b"0\r\n"))
    while True:
        peer.writer.write(b"X-Trailer: " + b"x" * 1000 + b"\r\n")
        await peer.writer.drain()


async def endless_head(peer: Peer) -> None:
    """Send one header without an end."""
    peer.writer.write(HEAD + b"X-Long: ")
    while True:
        peer.writer.write(b"x" * 65536)
        await peer.writer.drain()


async def reset(peer: Peer) -> None:
    """Cut the connection."""
    peer.writer.transport.abort()


async def reset_in_body(peer: Peer) -> None:
    """Cut the connection in the middle of the page."""
    peer.writer.write(HEAD + b"Content-Length: 5000\r\n\r\n<p>half")
    await peer.writer.drain()
    await asyncio.sleep(0.1)
    peer.writer.transport.abort()


async def slow(peer: Peer) -> bytes:
    """Send a page in small pieces, in time."""
    data = page()
    for start in range(0, len(data), 50):
        peer.writer.write(data[start : start + 50])
        await peer.writer.drain()
        await asyncio.sleep(0.01)
    return b""


MALFORMED = (
    # --- where the body ends ---
    behaviour(
        "short-of-its-length",
        failed("truncated", 200),
        HEAD + b"Content-Length: 5000\r\n\r\n<p>half",
        requests=2,
    ),
    behaviour("cut-chunk", failed("truncated", 200), HEAD + CHUNKED + b"64\r\n<p>half", requests=2),
    behaviour("no-last-chunk", failed("truncated", 200), HEAD + CHUNKED + chunked(BODY, end=b""), requests=2),
    behaviour(
        "bad-chunk", failed("truncated", 200), HEAD + CHUNKED + chunked(BODY, end=b"zz\r\n\r\n"), requests=2
    ),
    behaviour("reset-in-body", failed("truncated", 200), reset_in_body, requests=2),
    # What is no page anyhow is what its status says.
    behaviour("cut-404", status_failed(404), page(None, "Content-Length: 9999", status="404 Not Found")),
    behaviour(
        "cut-503", status_failed(503), page(None, "Content-Length: 9999", status="503 Busy"), requests=2
    ),
    behaviour(
        "cut-redirect",
        redirected(),
        moved("/new", "Content-Length: 9999"),
        path="/old",
        others={"/new": (page(), done())},
    ),
    behaviour("to-the-end", done(), HEAD + b"\r\n" + BODY),
    behaviour("http-1.0", done(), HEAD.replace(b"1.1", b"1.0") + b"\r\n" + BODY),
    behaviour(
        "longer-than-its-length", done(), HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY + b"rest"
    ),
    behaviour("rubbish-after-last-chunk", done(), HEAD + CHUNKED + chunked(BODY) + b"rubbish" * 100),
    behaviour("trailer", done(), HEAD + CHUNKED + chunked(BODY, end=b"0\r\nX-Sum: 1\r\n\r\n")),
    behaviour("chunk-extension", done(), HEAD + CHUNKED + b"%x;a=b\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)),
    behaviour("length-twice", done(), page(None, *(f"Content-Length: {len(BODY)}",) * 2)),
    behaviour("length-in-a-list", done(), page(None, f"Content-Length: {len(BODY)}, {len(BODY)}")),
    behaviour(
        "two-lengths",
        failed("bad_http"),
        page(None, f"Content-Length: {len(BODY)}", "Content-Length: 7"),
        requests=2,
    ),
    behaviour("negative-length", failed("bad_http"), page(None, "Content-Length: -5"), requests=2),
    behaviour("length-is-no-number", failed("bad_http"), page(None, "Content-Length: many"), requests=2),
    behaviour("enormous-length", failed("too_large", 200), page(None, "Content-Length: 99999999999")),
    behaviour("length-and-chunks", done(), HEAD + b"Content-Length: 7\r\n" + CHUNKED + chunked(BODY)),
    behaviour("chunked-http-1.0", done(), HEAD.replace(b"1.1", b"1.0") + CHUNKED + chunked(BODY)),
    behaviour(
        "unknown-transfer-encoding",
        failed("bad_http"),
        HEAD + b"Transfer-Encoding: rot13\r\n\r\n" + BODY,
        requests=2,
    ),
    behaviour("identity-transfer-encoding", done(), HEAD + b"Transfer-Encoding: identity\r\n\r\n" + BODY),
    # --- the head ---
    behaviour("bare-line-ends", done(), page().replace(b"\r\n", b"\n")),
    behaviour("no-headers", done(), b"HTTP/1.1 200 OK\r\n\r\n" + BODY),
    behaviour("no-words", done(), page().replace(b" OK", b"", 1)),
    behaviour("folded", done(), page(None, "X-Long: one", " two")),
    # libcurl refuses these; Scrapy's handler is asked in its place.
    behaviour("no-colon", done(), page(None, "this line is no header"), requests=2),
    behaviour("no-name", done(), page(None, ": nameless")),
    behaviour("space-before-colon", done(), page(None, "X-Odd : 1")),
    behaviour("nul-in-header", done(), page(None, b"X-Nul: a\0b"), requests=2),
    behaviour("not-latin-header", done(), page(None, "X-Name: 灯台".encode(), b"X-Bytes: \xff\xfe\x80")),
    behaviour("control-characters", done(), page(None, b"X-Bell: a\x07b\x1bc\x7f")),
    behaviour("header-of-60-kb", done(), page(None, "X-Long: " + "x" * 60_000)),
    behaviour("header-of-200-kb", failed("too_large"), page(None, "X-Long: " + "x" * 200_000)),
    behaviour("a-thousand-headers", done(), page(None, *(f"X-{n}: {n}" for n in range(1000)))),
    behaviour(
        "ten-thousand-headers",
        failed("too_large"),
        page(None, *(f"X-Header-Number-{n}: some value" for n in range(10_000))),
    ),
    behaviour(
        "headers-twice",
        done(),
        page(None, "X-A: 1", "x-a: 2", "Content-Type: text/html", "ETag: 1", "ETag: 2"),
    ),
    behaviour("head-without-end", failed("too_large"), endless_head),
    behaviour("garbage", failed("bad_http"), b"\x16\x03\x01 what is this\r\n\r\n", requests=2),
    behaviour("http-0.9", failed("bad_http"), BODY, requests=2),
    behaviour("no-status", failed("bad_http"), page().replace(b" 200 OK", b"", 1), requests=2),
    behaviour("status-in-words", failed("bad_http"), page().replace(b"200", b"okay", 1), requests=2),
    behaviour("status-of-two-digits", failed("bad_http"), page().replace(b"200", b"20", 1), requests=2),
    behaviour("status-of-four-digits", failed("bad_http"), page().replace(b"200", b"2000", 1), requests=2),
    behaviour("negative-status", failed("bad_http"), page().replace(b"200", b"-20", 1), requests=2),
    behaviour("status-zero", failed("bad_http"), page().replace(b"200", b"000", 1), requests=2),
    behaviour("switching-unasked", status_failed(101), page().replace(b"200", b"101", 1)),
    behaviour("http-3", failed("bad_http"), page().replace(b"HTTP/1.1", b"HTTP/7.3", 1), requests=2),
    behaviour("shoutcast", failed("bad_http"), page().replace(b"HTTP/1.1", b"ICY", 1), requests=2),
    behaviour(
        "head-without-last-line",
        failed("truncated", 200),
        page().partition(b"\r\n\r\n")[0] + b"\r\n",
        requests=2,
    ),
    behaviour(
        "enormous-status", failed("bad_http"), page().replace(b"200", b"99999999999999999999", 1), requests=2
    ),
    # --- the connection ---
    behaviour("closes-at-once", failed("connection_lost"), b"", requests=2),
    behaviour("resets", failed("connection_lost"), reset, requests=2),
    behaviour("never-answers", failed("timeout"), never, requests=2),
    behaviour("trickles", failed("timeout", 200), trickle, requests=2),
    behaviour("trickles-its-head", failed("timeout"), trickle_head, requests=2),
    behaviour("interim-for-ever", failed("timeout"), interim_for_ever, requests=2),
    behaviour("body-without-end", failed("too_large", 200), endless),
    behaviour("trailer-without-end", failed("truncated", 200), endless_trailer, requests=2),
    behaviour("slow", done(), slow),
    behaviour("answers-before-the-request", done(), page(), early=True, requests=1),
    behaviour("nobody-listens", failed("refused"), listens=False, requests=0),
    behaviour("no-tls", failed("tls"), page(), tls=True, speaks_tls=False, early=True, requests=0),
)

assert len(TEXT) < len(BODY)
