"""A web site that a test makes up as it goes, on loopback."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeAlias

from aiohttp import web

if TYPE_CHECKING:
    from crawlproj.demo import LoopThread

Content: TypeAlias = str | bytes
Answer: TypeAlias = Content | web.StreamResponse
Handler: TypeAlias = Callable[[web.Request], Answer | Awaitable[Answer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One request that has come in."""

    path: str  #: with its query
    host: str  #: the Host header, with the port
    method: str
    headers: Mapping[str, str]
    at: float  #: arrival, by `time.monotonic`


class Hits(dict[str, list[float]]):
    """Arrival times by path and query; a path that was never asked for has none."""

    def __missing__(self, path: str) -> list[float]:
        """Return no times, without adding the path."""
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    body: Content | Handler
    status: int
    headers: Mapping[str, str]
    delay: float


class Site:
    """A site on loopback: `add` pages, crawl `url`, look at `hits`.

    A path that was not added is answered with 404, robots.txt included.
    """

    def __init__(self, loop: LoopThread) -> None:
        self.hits = Hits()
        self.requests: list[Hit] = []
        self._pages: dict[tuple[str | None, str], _Page] = {}
        self._loop = loop
        self._runner: web.ServerRunner | None = None
        self._addresses: set[str] = set()
        self.port = 0

    def __enter__(self) -> Self:
        """Listen on 127.0.0.1, on a port that is free."""
        self._listen("127.0.0.1")
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening and cut what is open."""
        assert self._runner is not None
        self._loop.run(self._runner.cleanup())

    @property
    def url(self) -> str:
        """The site's address, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    def host(self, number: int) -> str:
        """Return the address of the same site on another host, 127.0.0.*number*."""
        address = f"127.0.{number // 250}.{number % 250}"
        if address not in self._addresses:
            self._listen(address)
        return f"http://{address}:{self.port}"

    def add(
        self,
        path: str,
        body: Content | Handler = "",
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        delay: float = 0,
        host: str | None = None,
    ) -> str:
        """Answer *path* from now on, and return its URL.

        A path with a query is answered only with that query; one that ends in `*` stands for all
        that begin so. Text and bytes are sent as HTML in UTF-8, unless *headers* say otherwise.
        A function is called with the `aiohttp.web.Request` and returns text, bytes or a response;
        it may be async. *delay* is in seconds. With *host* (an address) the page is there only.
        """
        page = _Page(body=body, status=status, headers=dict(headers or {}), delay=delay)
        self._pages[host, path] = page
        return (self.url if host is None else f"http://{host}:{self.port}") + path

    def add_raw(self, path: str, answer: bytes, *, delay: float = 0) -> str:
        """Answer *path* with these bytes, status line and all, and close the connection."""

        async def send(request: web.Request) -> web.Response:
            assert isinstance(request.transport, asyncio.Transport)
            request.transport.write(answer)
            request.transport.close()
            return web.Response()  # goes nowhere: the connection is closed

        return self.add(path, send, delay=delay)

    def _listen(self, address: str) -> None:
        self._loop.run(self._start(address))
        self._addresses.add(address)

    async def _start(self, address: str) -> None:
        if self._runner is None:
            self._runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=0.1)
            await self._runner.setup()
        await web.TCPSite(self._runner, address, self.port).start()
        self.port = self._runner.addresses[0][1]

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        hit = Hit(
            path=request.path_qs,
            host=request.host,
            method=request.method,
            headers=request.headers,
            at=time.monotonic(),
        )
        self.requests.append(hit)
        self.hits.setdefault(hit.path, []).append(hit.at)
        page = self._page(request)
        if page is None:
            return web.Response(status=404, text="there is no such page")
        if page.delay:
            await asyncio.sleep(page.delay)
        answer = page.body(request) if callable(page.body) else page.body  # type: ignore[arg-type]
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, web.StreamResponse):
            return answer
        body = answer.encode() if isinstance(answer, str) else answer
        headers = {"Content-Type": "text/html; charset=utf-8", **page.headers}
        return web.Response(status=page.status, body=body, headers=headers)

    def _page(self, request: web.BaseRequest) -> _Page | None:
        host = request.host.rpartition(":")[0]
        for path in (request.path_qs, request.path):
            page = self._pages.get((host, path)) or self._pages.get((None, path))
            if page is not None:
                return page
        starts = [
            (path, page)
            for (where, path), page in self._pages.items()
            if path.endswith("*") and where in (None, host) and request.path_qs.startswith(path[:-1])
        ]
        return max(starts, key=lambda each: len(each[0]))[1] if starts else None
