"""What a site asks for and what it is sent: robots.txt, cookies, passwords, and callbacks that break."""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING

from tests.crawl.mock.behaviour import (
    NOT_FOUND,
    Behaviour,
    behaviour,
    disregarded,
    done,
    failed,
    html,
    links,
    moved,
    page,
    redirected,
    robots,
    status_failed,
)
from tests.crawl.mock.bodies import PNG
from tests.crawl.mock.packed import MAXSIZE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.crawl.mock.server import Peer

DENIED = b"User-agent: *\nDisallow: /\n"
ALLOWED = b"User-agent: *\nDisallow: /private\n"
LOGIN = "Basic bWU6czNjcjN0"  # me:s3cr3t


async def never(peer: Peer) -> None:
    """Take the request and say nothing."""
    await asyncio.sleep(60)


def refused(name: str, answer: bytes | Callable[[Peer], Awaitable[bytes | None]]) -> Behaviour:
    """Return a page that its robots.txt forbids."""
    return behaviour(name, disregarded("robots"), page(), robots=answer, requests=0)


def allowed(name: str, answer: bytes | Callable[[Peer], Awaitable[bytes | None]]) -> Behaviour:
    """Return a page that its robots.txt does not forbid."""
    return behaviour(name, done(), page(), robots=answer)


def unknown(name: str, answer: bytes | Callable[[Peer], Awaitable[bytes | None]]) -> Behaviour:
    """Return a page whose robots.txt cannot be had."""
    return behaviour(name, disregarded("robots_unavailable"), page(), robots=answer, requests=0)


async def elsewhere(peer: Peer) -> bytes:
    """Send the first request for robots.txt to another path of the host."""
    return moved("/rules")


async def busy_once(peer: Peer) -> bytes:
    """Have no robots.txt at first."""
    return page(status="503 Busy") if peer.visits == 0 else robots(DENIED)


ROBOTS = (
    refused("robots-no", robots(DENIED)),
    refused(
        "robots-for-us-alone", robots(b"User-agent: crawlproj\nDisallow: /\n\nUser-agent: *\nAllow: /\n")
    ),
    refused("robots-with-mark", robots(b"\xef\xbb\xbf" + DENIED)),
    refused("robots-in-gzip", page(gzip.compress(DENIED), "Content-Encoding: gzip", kind="text/plain")),
    refused("robots-with-old-line-ends", robots(DENIED.replace(b"\n", b"\r"))),
    refused("robots-with-nul", robots(DENIED + b"Disallow: /\0\n")),
    refused("robots-as-html", page(DENIED)),
    refused("robots-at-another-status", page(DENIED, status="203 Fine", kind="text/plain")),
    behaviour(
        "robots-moved",
        disregarded("robots"),
        page(),
        robots=elsewhere,
        requests=0,
        others={"/rules": (robots(DENIED), None)},
    ),
    refused("robots-later", busy_once),
    allowed("robots-yes", robots(ALLOWED)),
    allowed("robots-none", NOT_FOUND),
    allowed("robots-empty", robots(b"")),
    allowed("robots-401", page(DENIED, status="401 Unauthorized")),
    allowed("robots-403", page(DENIED, status="403 Forbidden")),
    allowed("robots-410", page(DENIED, status="410 Gone")),
    allowed("robots-for-another", robots(b"User-agent: other\nDisallow: /\n")),
    allowed("robots-is-a-picture", page(PNG, kind="image/png")),
    allowed("robots-is-a-page", page(html("Disallow: /"))),
    allowed("robots-in-circles", moved("/robots.txt")),
    allowed("robots-moved-to-mail", moved("mailto:me@example.org")),
    allowed("robots-of-700-kb", robots(b"# comment\n" * 70_000 + DENIED)),
    allowed("robots-in-bad-gzip", page(DENIED, "Content-Encoding: gzip", kind="text/plain")),
    allowed("robots-long-delay", robots(ALLOWED + b"Crawl-delay: 0.01\n")),
    unknown("robots-500", page(ALLOWED, status="500 Broken")),
    unknown("robots-503", page(ALLOWED, status="503 Busy")),
    unknown("robots-429", page(ALLOWED, status="429 Slow")),
    unknown("robots-hangs", never),
    unknown("robots-cut", page(ALLOWED, "Content-Length: 5000", kind="text/plain")),
    unknown("robots-too-large", robots(b"# comment\n" * (MAXSIZE // 9))),
    behaviour("robots-garbage", failed("connection_lost"), page(), robots=b"", requests=0),
)


def with_cookie(right: Callable[[str], bool]) -> Callable[[Peer], Awaitable[bytes]]:
    """Return an answer that is a page if the Cookie header is right, else 400."""

    async def answer(peer: Peer) -> bytes:
        sent = peer.headers.get("cookie", "")
        return page() if right(sent) else page(sent[:100], status="400 Bad")

    return answer


def sets(name: str, right: Callable[[str], bool], *cookies: str | bytes) -> Behaviour:
    """Return a page that sets cookies and leads to one that wants to see them."""
    head = [b"Set-Cookie: " + (each.encode() if isinstance(each, str) else each) for each in cookies]
    first = page(html(tail="<a href='/next'></a>"), *head)
    return behaviour(name, done(), first, others={"/next": (with_cookie(right), done())})


COOKIES = (
    sets("cookie", lambda sent: sent == "a=1", "a=1"),
    sets(
        "cookies",
        lambda sent: set(sent.split("; ")) == {"a=1", "b=2"},
        "a=1; Path=/",
        "b=2; HttpOnly; SameSite=Lax",
    ),
    sets("cookie-expired", lambda sent: not sent, "a=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT"),
    sets("cookie-of-no-age", lambda sent: not sent, "a=1; Max-Age=0"),
    sets("cookie-with-bad-date", lambda sent: sent == "a=1", "a=1; Expires=whenever"),
    sets("cookie-said-twice", lambda sent: sent == "a=2", "a=1", "a=; Max-Age=0", "a=2"),
    sets("cookie-of-another-domain", lambda sent: not sent, "a=1; Domain=example.org"),
    sets("cookie-of-another-path", lambda sent: not sent, "a=1; Path=/elsewhere"),
    sets("cookie-for-tls", lambda sent: not sent, "a=1; Secure"),
    sets("cookie-without-name", lambda sent: len(sent) < 10, "=1", "", ";;;"),
    sets("cookie-not-latin", lambda sent: "a=" in sent, "a=灯台".encode()),
    sets("cookie-of-20-kb", lambda sent: sent == "b=2", "a=" + "x" * 20_000, "b=2"),
    sets(
        "twenty-cookies-of-4-kb",
        lambda sent: sent.count("=") == 20,
        *(f"c{n}=" + "x" * 4000 for n in range(20)),
    ),
    sets("a-thousand-cookies", lambda sent: sent.count("=") > 100, *(f"c{n}=1" for n in range(1000))),
    # An address is no domain that its neighbours could share.
    behaviour(
        "cookie-stays-here",
        redirected(),
        moved("@cookie-never-comes@", "Set-Cookie: a=1; Domain=127.9.0.1", "Set-Cookie: b=2"),
    ),
    behaviour("cookie-never-comes", done(), with_cookie(lambda sent: not sent), seed=False),
)


async def for_members(peer: Peer) -> bytes:
    """Let in who has the password."""
    if peer.headers.get("authorization") != LOGIN:
        return page(status="401 Unauthorized")
    return links("/inside", "/leads-out", "@no-password@linked")


async def for_strangers(peer: Peer) -> bytes:
    """Refuse a password that is not meant for us, whoever sends it."""
    told = str(peer.headers)
    return page(status="400 Bad") if "authorization" in told or "s3cr3t" in told else page()


LOGINS = (
    behaviour(
        "password",
        done(),
        for_members,
        login="me:s3cr3t@",
        others={
            "/inside": (for_members, done()),
            "/leads-out": (moved("@no-password@moved"), redirected()),
        },
    ),
    behaviour("password-wrong", status_failed(401), for_members, login="me:wrong@"),
    behaviour(
        "no-password",
        done(),
        for_strangers,
        others={
            "/moved": (for_strangers, done()),
            "/linked": (for_strangers, done()),
        },
    ),
)

#: Their paths tell the spider how to break.
CALLBACKS = (
    behaviour("callback-raises", done(reason="callback_error"), page(), path="/raises"),
    behaviour(
        "callback-raises-late",
        done(reason="callback_error"),
        links("/next"),
        path="/raises-late",
        others={"/next": (page(), done())},
    ),
    behaviour("callback-yields-rubbish", done(), page(), path="/yields-rubbish"),
    behaviour("callback-returns-nothing", done(), page(), path="/returns-nothing"),
    behaviour("callback-is-slow", done(), page(), path="/slow"),
)

MANNERS = (*ROBOTS, *COOKIES, *LOGINS, *CALLBACKS)
