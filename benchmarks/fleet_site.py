"""A website of many hosts that writes down when each request came in and when its answer went out.

Protocols of our own instead of a web framework: a request begins with the arrival of its first byte and
ends right before the last byte of its answer is sent, or when its connection is gone; nothing lies between.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from benchmarks.website import WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from crawlproj.demo import LoopThread

BEAT = 0.002  #: seconds between two looks at the clock
TURNS = 5  #: of the loop, from the arrival of a connection to its first bytes; of bytes that follow it is two
GATE = "/gate"  #: this page, on a host of its own, is not answered before `open_gate`
_END = b"\r\n\r\n"


@dataclass(slots=True, eq=False)
class Served:
    """One request; times are of `time.monotonic`, in seconds."""

    host: str  #: the address
    path: str
    agent: str  #: User-Agent
    earliest: float  #: it cannot have arrived before: the loop has looked since, and saw nothing
    began: float
    fresh: bool  #: the first one on its connection
    ended: float | None = None
    answered: bool = False  #: False: its connection was gone first


@dataclass(slots=True)
class Host:
    """What one host has seen."""

    requests: list[Served] = field(default_factory=list)
    open: int = 0
    most_open: int = 0  #: at any one time


class FleetSite:
    """Serves `pages` pages, spread evenly over `hosts` addresses 127.0.1.*, and the gate; on one port.

    Page *n* links to the pages 2n+1 and 2n+2, so that all are found from page 0, and to a few others.
    An answer takes between *fastest* and *slowest* seconds.
    """

    def __init__(
        self, loop: LoopThread, *, hosts: int, pages: int, fastest: float, slowest: float, seed: int
    ) -> None:
        self._addresses = [f"127.0.1.{number + 1}" for number in range(hosts)]
        self._gate_address = f"127.0.1.{hosts + 1}"
        self.hosts = {address: Host() for address in (*self._addresses, self._gate_address)}
        self.pages = pages
        self.port = 0
        self._loop = loop
        self._delays = fastest, slowest
        self._chance = random.Random(seed)
        self._gate = threading.Event()
        self._held: list[_Connection] = []
        self._servers: list[asyncio.Server] = []
        self._connections: set[_Connection] = set()
        self._heart: asyncio.TimerHandle | None = None
        self.agents: set[str] = set()  #: who has asked for anything so far
        self.awake = 0.0  #: what is read now had not come then: the loop has looked since, and seen nothing

    def __enter__(self) -> FleetSite:
        """Begin to listen."""
        self._loop.run(self._listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening and cut what is open."""
        self._loop.run(self._close())

    @property
    def urls(self) -> set[str]:
        """Every URL there is."""
        return {self.url(number) for number in range(self.pages)} | {self._gate_url}

    @property
    def count(self) -> int:
        """How many requests there have been so far."""
        return sum(len(host.requests) for host in self.hosts.values())

    def url(self, number: int) -> str:
        """Return the address of a page."""
        return f"{self._origin(number)}/{number}"

    def open_gate(self) -> None:
        """Answer the last page, which has been held."""
        self._loop.run(self._open())

    def page(self, path: str) -> bytes | None:
        """Return what a path shows; None: there is no such page."""
        if path == GATE:
            return self._html("The gate", [])
        if not path[1:].isdecimal() or int(path[1:]) >= self.pages:
            return None
        number = int(path[1:])
        others = {(number * 2 + 1) % self.pages, (number * 2 + 2) % self.pages, (number * 7) % self.pages}
        links = [self.url(other) for other in sorted(others)]
        return self._html(f"Chapter {number}", links if number else [*links, self._gate_url])

    def reply(self, served: Served) -> bytes:
        """Return the whole answer to a request."""
        body = self.page(served.path)
        status = b"404 Not Found" if body is None else b"200 OK"
        return message(status, body or b"there is no such page")

    def delay(self) -> float:
        """Return how long the next answer takes, in seconds."""
        return self._chance.uniform(*self._delays)

    @property
    def _gate_url(self) -> str:
        return f"http://{self._gate_address}:{self.port}{GATE}"

    def _origin(self, number: int) -> str:
        return f"http://{self._addresses[number % len(self._addresses)]}:{self.port}"

    @staticmethod
    def _html(title: str, links: list[str]) -> bytes:
        items = "".join(f'<li><a href="{link}">{link}</a></li>' for link in links)
        text = f"<p>{' '.join(WORDS)}</p>"
        return f"<!doctype html><title>{title}</title><main><h1>{title}</h1>{text}</main>{items}".encode()

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        with suppress(
            OSError
        ):  # a clock that is late itself measures nothing: this thread goes first, if it may
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -10)
        for address in self.hosts:
            make = partial(_Connection, self, address)
            server = await loop.create_server(make, address, self.port, backlog=1024)
            self.port = server.sockets[0].getsockname()[1]
            self._servers.append(server)

        self._beat()

    def _beat(self) -> None:
        self._pass_on(time.monotonic(), TURNS)
        self._heart = asyncio.get_running_loop().call_later(BEAT, self._beat)

    def _pass_on(self, looked: float, turns: int) -> None:
        """Say so many *turns* later that it was awake then: it looks at its sockets once in each."""
        if turns:
            asyncio.get_running_loop().call_soon(self._pass_on, looked, turns - 1)
        else:
            self.awake = looked

    async def _close(self) -> None:
        if self._heart is not None:
            self._heart.cancel()
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            connection.cut()

    async def _open(self) -> None:
        self._gate.set()
        for connection in self._held:
            connection.answer()
        self._held.clear()

    # --- what connections tell --------------------------------------------------------------------

    def came(self, connection: _Connection) -> None:
        """Note a connection."""
        self._connections.add(connection)

    def gone(self, connection: _Connection) -> None:
        """Forget a connection, which has been closed."""
        self._connections.discard(connection)

    def holds(self, connection: _Connection, path: str) -> bool:
        """Say whether this request has to wait for the gate, and remember who waits."""
        if path != GATE or self._gate.is_set():
            return False
        self._held.append(connection)
        return True

    def begin(self, served: Served) -> Served:
        """Note that a request has come in."""
        self.agents.add(served.agent)
        host = self.hosts[served.host]
        host.requests.append(served)
        host.open += 1
        host.most_open = max(host.most_open, host.open)
        return served

    def end(self, served: Served, *, answered: bool) -> None:
        """Note that a request is over."""
        served.ended = time.monotonic()
        served.answered = answered
        self.hosts[served.host].open -= 1


class _Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self, site: FleetSite, address: str) -> None:
        self._site = site
        self._address = address
        self._transport: asyncio.Transport
        self._received = b""
        self._since = 0.0, 0.0  # when the first byte of a request arrived: not before, not after
        self._count = 0
        self._now: Served | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._site.came(self)

    def data_received(self, data: bytes) -> None:
        if not self._received:
            self._since = self._site.awake, time.monotonic()
        self._received += data
        head, end, rest = self._received.partition(_END)
        if not end:
            return
        self._received = rest
        path = head.split(b" ", 2)[1].decode()
        agent = head.lower().partition(b"user-agent: ")[2].partition(b"\r")[0].decode()
        self._count += 1
        fresh = self._count == 1
        self._now = self._site.begin(Served(self._address, path, agent, *self._since, fresh=fresh))
        if not self._site.holds(self, path):
            asyncio.get_running_loop().call_later(self._site.delay(), self.answer)

    def answer(self) -> None:
        """Answer the request under way, unless its connection is gone."""
        served = self._now
        if served is None:
            return
        self._now = None
        reply = self._site.reply(served)
        self._site.end(served, answered=True)  # before it is sent: its reader may be quick
        self._transport.write(reply)

    def cut(self) -> None:
        """Close it at once."""
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._site.gone(self)
        if self._now is not None:
            self._site.end(self._now, answered=False)
            self._now = None


def message(status: bytes, body: bytes, headers: bytes = b"") -> bytes:
    """Return an HTTP answer; *headers* are whole lines."""
    head = b"HTTP/1.1 %b\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\n%b\r\n"
    return head % (status, len(body), headers) + body


def pairs(host: Host) -> Iterator[tuple[Served, Served, float]]:
    """Return each two successive requests of a host, and the most seconds that may lie between them."""
    for before, after in pairwise(sorted(host.requests, key=lambda served: served.began)):
        yield before, after, after.began - before.earliest
