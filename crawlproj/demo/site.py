"""The server of the built-in site."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from datetime import UTC, datetime
from hashlib import blake2b
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Self

from aiohttp import ETag, web

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from importlib.resources.abc import Traversable

HTML = "text/html"
PRINTED = datetime(2026, 3, 3, 17, 30, tzinfo=UTC)  #: Last-Modified of everything that has one
YEARS = (1889, 1920, 1962)
REDIRECTS = {
    "/lighthouse": "/news/lighthouse",
    "/1998/history": "/2006/history",
    "/2006/history": "/old/history",
    "/old/history": "/history",
}
FILES = {
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    "/api/tides.json": ("tides.json", "application/json"),
    "/press.txt": ("press.txt", "text/plain; charset=utf-8"),
    "/harbour": ("harbour.png", "image/png"),
    "/price-list": ("price-list.pdf", "application/pdf"),
}
#: Written in another encoding, and by what the reader is told: the header's charset, or nothing.
ENCODINGS = {"/fr": ("iso-8859-1", "; charset=iso-8859-1"), "/ja": ("shift_jis", "")}
LANGUAGES = {"/fr": "fr", "/ja": "ja", "/zh": "zh-Hans"}
SHELLS = {"/app/": "app.html", "/app/tides": "tides.html"}
UNLISTED = ("/forum/", "/live", "/members/", "/slow", "/welcome")


class DemoSite:
    """The built-in site, served on loopback while the context is open."""

    def __init__(self, *, host: str = "127.0.0.1", port: int = 0, slow_seconds: float = 1.0) -> None:
        self.host = host
        self.port = port
        self.slow_seconds = slow_seconds
        self.hits: Counter[str] = Counter()  #: requests so far, by path and query
        self._pages = dict(_pages())
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """The site's address, without a slash at the end."""
        return f"http://{self.host}:{self.port}"

    async def __aenter__(self) -> Self:
        """Listen; a port of 0 becomes one that is free."""
        self._runner = web.AppRunner(self._application(), access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, self.host, self.port).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening and close what is open."""
        assert self._runner is not None
        await self._runner.cleanup()

    def _application(self) -> web.Application:
        app = web.Application(middlewares=[self._counted])
        for path, name in SHELLS.items():
            app.router.add_get(path, _same(_read("pages", name), HTML))
        for path, (name, kind) in FILES.items():
            app.router.add_get(path, _same(_read("files", name), kind, dated=False))
        for path, target in REDIRECTS.items():
            app.router.add_get(path, _moved(target))
        for path, body in self._pages.items():
            if path not in ("/live", "/slow", "/welcome"):
                app.router.add_get(path, _page(path, body))
        app.router.add_get("/slow", self._slow)
        app.router.add_get("/welcome", self._welcome)
        app.router.add_get("/live", self._live)
        app.router.add_get("/archive/", self._archive)
        app.router.add_get("/weather", _broken)
        app.router.add_get("/robots.txt", self._robots)
        app.router.add_get("/sitemap.xml", self._sitemap)
        return app

    @web.middleware
    async def _counted(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        self.hits[request.path_qs] += 1
        return await handler(request)

    async def _slow(self, request: web.Request) -> web.Response:
        await asyncio.sleep(self.slow_seconds)
        return await _page("/slow", self._pages["/slow"])(request)

    async def _welcome(self, request: web.Request) -> web.Response:
        if "token" not in request.cookies:
            found = web.Response(status=302, headers={"Location": "/welcome"})
            found.set_cookie("token", "kettle")
            return found
        return _html("/welcome", self._pages["/welcome"])

    async def _live(self, request: web.Request) -> web.Response:
        text = Template(self._pages["/live"]).substitute(visits=sum(self.hits.values()))
        return _html("/live", text)

    async def _archive(self, request: web.Request) -> web.Response:
        number = request.query.get("page", "")
        if number not in [str(n) for n, _ in enumerate(YEARS, 1)]:
            raise web.HTTPNotFound
        return await _page("/archive/", _archive_text(int(number)))(request)

    async def _robots(self, request: web.Request) -> web.Response:
        text = Template(_read("files", "robots.txt").decode()).substitute(url=self.url)
        return web.Response(text=text)

    async def _sitemap(self, request: web.Request) -> web.Response:
        listed = "".join(
            f"<url><loc>{self.url}{path}</loc><lastmod>{PRINTED:%Y-%m-%d}</lastmod></url>\n"
            for path in self._pages
            if path not in UNLISTED
        )
        text = (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{listed}</urlset>\n'
        )
        return await _same(text.encode(), "application/xml")(request)


def _read(folder: str, name: str) -> bytes:
    return files(__package__).joinpath(folder, name).read_bytes()


def _pages() -> list[tuple[str, str]]:
    """Return the path and the text of every page that is a file."""
    special = {*SHELLS.values(), "archive.html"}
    pages = [
        (_path(name), text.read_text("utf-8"))
        for name, text in _below(files(__package__).joinpath("pages"), "")
        if name not in special
    ]
    return sorted(pages)


def _below(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found = []
    for each in folder.iterdir():
        if each.is_dir():
            found += _below(each, f"{prefix}{each.name}/")
        elif each.name.endswith(".html"):
            found.append((prefix + each.name, each))
    return found


def _path(name: str) -> str:
    path = "/" + name.removesuffix(".html")
    if path.endswith("/index"):
        return path.removesuffix("index")
    return path + "/" if path in ("/forum", "/members") else path


def _archive_text(number: int) -> str:
    links = " · ".join(
        f'<a href="/archive/?page={other}">Page {other}</a>'
        for other in (number - 1, number + 1)
        if 1 <= other <= len(YEARS)
    )
    return Template(_read("pages", "archive.html").decode()).substitute(
        number=number, total=len(YEARS), year=YEARS[number - 1], count=800 + 10 * number, links=links
    )


def _html(path: str, body: str) -> web.Response:
    title = re.search("<h1>(.*?)</h1>", body)
    text = Template(_read("", "layout.html").decode()).substitute(
        title=title[1] if title else "Tidewick", lang=LANGUAGES.get(path, "en"), body=body
    )
    if path == "/forum/":
        text = text.replace("</head>", '<meta name="robots" content="nofollow">\n</head>')
    encoding, said = ENCODINGS.get(path, ("utf-8", "; charset=utf-8"))
    text = text.replace('<meta charset="utf-8">', f'<meta charset="{encoding}">')
    return web.Response(
        body=text.encode(encoding, "xmlcharrefreplace"), headers={"Content-Type": HTML + said}
    )


def _page(path: str, body: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        whole = _html(path, body)
        assert isinstance(whole.body, bytes)
        return _conditional(request, whole.body, whole.headers["Content-Type"], dated=True)

    return answer


def _same(body: bytes, kind: str, *, dated: bool = True) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        return _conditional(request, body, kind, dated=dated)

    return answer


def _conditional(request: web.Request, body: bytes, kind: str, *, dated: bool) -> web.Response:
    """Return the body, or 304 to somebody who has it. What is for sale has a date and no tag."""
    tag = ETag(blake2b(body, digest_size=8).hexdigest())
    tagged = not request.path.startswith("/shop/")
    if _is_known(request, tag if tagged else None, dated=dated):
        answer = web.Response(status=304)
    else:
        answer = web.Response(body=body, headers={"Content-Type": kind})
    if tagged:
        answer.etag = tag
    if dated:
        answer.last_modified = PRINTED
    return answer


def _is_known(request: web.Request, tag: ETag | None, *, dated: bool) -> bool:
    if request.if_none_match is not None:  # RFC 9110, 13.1.3: it makes the date irrelevant
        return tag is not None and any(each.value in (tag.value, "*") for each in request.if_none_match)
    since = request.if_modified_since
    return dated and since is not None and since >= PRINTED


def _moved(target: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:  # noqa: ARG001
        return web.Response(status=301, headers={"Location": target})

    return answer


async def _broken(request: web.Request) -> web.Response:  # noqa: ARG001
    return web.Response(status=500, text="The weather page is down since the storm.")
