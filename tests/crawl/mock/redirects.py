"""Redirects: each ends in one row, and its target in one of its own. No more than five in a chain."""

from __future__ import annotations

from tests.crawl.mock.behaviour import (
    TEXT,
    Answer,
    Behaviour,
    Row,
    behaviour,
    done,
    failed,
    html,
    moved,
    page,
    redirected,
    status_failed,
)

LIMIT = 5


def refresh(content: str, *headers: str, status: str = "200 OK", around: str = "{}") -> bytes:
    """Return a page with a refresh in its head."""
    meta = around.format(f'<meta http-equiv="refresh" content="{content}">')
    return page(html(head=meta), *headers, status=status)


def leads(
    name: str,
    location: str | bytes,
    target: str,
    *headers: str,
    status: str = "302 Found",
    shown: str | None = None,
    requests: int = 1,
) -> Behaviour:
    """Return a redirect that is followed to *target*, a path; *shown* is how its row names it."""
    others: dict[str, tuple[Answer, Row | None]] = {target: (page(), done())}
    if shown is not None:
        others = {target: (page(), None), shown: (page(), done())}
    answer = moved(location, *headers, status=status)
    return behaviour(name, redirected(), answer, path="/old", others=others, requests=requests)


def stays(name: str, location: str | bytes) -> Behaviour:
    """Return a redirect to what is no page: the answer is a failure."""
    return behaviour(name, status_failed(302), moved(location))


REDIRECTS = (
    *(
        leads(f"moved-{status}", "/new", "/new", status=f"{status} Moved")
        for status in (301, 302, 303, 307, 308)
    ),
    leads("moved-relative", "new?x=1", "/new?x=1"),
    leads("moved-up", "../new", "/new"),
    leads("moved-query-alone", "?x=1", "/old?x=1"),
    leads("moved-with-fragment", "/new#part", "/new", shown="/new#part"),
    leads("moved-with-spaces", " /new page ", "/new%20page"),
    leads("moved-utf-8", "/café", "/caf%C3%A9"),
    leads("moved-latin-1", b"/caf\xe9", "/caf%E9"),
    leads("moved-rubbish-body", "/new", "/new", "Content-Encoding: gzip"),
    # libcurl refuses a second one; Scrapy's handler, asked in its place, takes the last.
    leads("moved-twice-said", "/first", "/new", "Location: /new", requests=2),
    behaviour("moved-to-other-host", redirected(), moved("@target@"), path="/old"),
    behaviour("moved-without-scheme", redirected(), moved("@//target@other"), path="/old"),
    behaviour("target", done(), page(), path="/", seed=False, others={"/other": (page(), done())}),
    behaviour("moved-to-http", redirected(), moved("@plain@"), tls=True),
    behaviour("plain", done(), page(), seed=False),
    behaviour("moved-to-https", redirected(), moved("@secure@")),
    behaviour("secure", done(), page(), seed=False, tls=True),
    behaviour("moved-to-nobody", redirected(), moved("@nobody@")),
    behaviour("nobody", failed("refused"), seed=False, listens=False, requests=0),
    # --- to itself, and round and round ---
    behaviour("itself-with-cookie", done(), moved("/", "Set-Cookie: seen=1"), page(), requests=2),
    behaviour("itself-for-ever", failed("too_many_redirects", 302), moved("/"), requests=LIMIT + 1),
    behaviour(
        "two-in-a-circle",
        redirected(),
        moved("/b"),
        path="/a",
        requests=3,
        others={"/b": (moved("/a"), failed("too_many_redirects", 302))},
    ),
    behaviour(
        "chain-too-long",
        redirected(),
        moved("/1"),
        path="/0",
        others={
            **{f"/{n}": (moved(f"/{n + 1}"), redirected()) for n in range(1, LIMIT)},
            f"/{LIMIT}": (moved(f"/{LIMIT + 1}"), failed("too_many_redirects", 302)),
        },
    ),
    behaviour(
        "chain-just-right",
        redirected(),
        moved("/1"),
        path="/0",
        others={
            **{f"/{n}": (moved(f"/{n + 1}"), redirected()) for n in range(1, LIMIT)},
            f"/{LIMIT}": (page(), done()),
        },
    ),
    # --- to what is no page ---
    stays("moved-to-mailto", "mailto:me@example.org"),
    stays("moved-to-javascript", "javascript:alert(1)"),
    stays("moved-to-data", "data:text/html,hi"),
    stays("moved-to-ftp", "ftp://example.org/x"),
    stays("moved-to-file", "file:///etc/hostname"),
    stays("moved-nowhere", ""),
    stays("moved-to-bad-host", "http://[::1/"),
    stays("moved-to-bad-port", "http://127.0.0.1:99999/"),
    stays("moved-to-long-url", "/" + "x" * 40_000),
    behaviour("moved-to-20-mb", failed("too_large"), moved("/" + "x" * 20_000_000)),
    # --- by the page itself ---
    *(
        behaviour(
            f"refresh-{seconds}",
            redirected(),
            refresh(f"{seconds}; url=/new"),
            path="/old",
            others={"/new": (page(), done())},
        )
        for seconds in (0, 5)
    ),
    behaviour("refresh-500", done(), refresh("500; url=/new")),
    behaviour("refresh-in-noscript", done(), refresh("0; url=/new", around="<noscript>{}</noscript>")),
    behaviour("refresh-in-comment", done(), refresh("0; url=/new", around="<!-- {} -->")),
    behaviour("refresh-without-url", done(), refresh("30")),
    behaviour("refresh-to-itself", done(), refresh("30; url=/")),
    behaviour("refresh-to-itself-fast", done(), refresh("0; url=/#top")),
    behaviour("refresh-sets-cookie", done(), refresh("0; url=/", "Set-Cookie: seen=1"), page(), requests=2),
    behaviour("refresh-sets-cookies-for-ever", done(), refresh("0; url=/", "Set-Cookie: seen=1"), requests=2),
    behaviour("refresh-on-404", status_failed(404), refresh("5; url=/new", status="404 Not Found")),
    behaviour("refresh-on-503", status_failed(503), refresh("5; url=/", status="503 Busy"), requests=2),
    behaviour("refresh-to-mailto", done(), refresh("0; url=mailto:me@example.org")),
    behaviour("refresh-to-bad-host", done(), refresh("0; url=http://[::1/")),
    behaviour("refresh-header", done(), page(None, "Refresh: 0; url=/new")),
    behaviour(
        "refresh-circle",
        redirected(),
        refresh("0; url=/b"),
        path="/a",
        requests=3,
        others={"/b": (refresh("0; url=/a"), failed("too_many_redirects", 200))},
    ),
)

assert len(TEXT) > 100  # a page of one paragraph is a page
