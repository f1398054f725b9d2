"""The mock site's server: one address for each behaviour, and exactly its bytes on the wire."""

from __future__ import annotations

import asyncio
import re
import socket
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from crawlproj.demo import LoopThread
    from tests.crawl.mock.behaviour import Answer, Behaviour

_NAME = re.compile(rb"@(//)?([a-z0-9-]+)@")
_LENGTH = re.compile(rb"Content-Length: \d+")
_HEAD = 1024 * 1024  # a request's head may be as long as this


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One request and the connection it came over."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    target: str
    method: str
    headers: dict[str, str]  #: by their names in small letters
    visits: int  #: requests for this target before this one


class MockSite:
    """Serves behaviours while the block runs; `requests` counts what came, by name and target."""

    def __init__(self, loop: LoopThread, behaviours: Sequence[Behaviour], tls: ssl.SSLContext) -> None:
        self.requests: Counter[tuple[str, str]] = Counter()
        self.seen: list[tuple[str, Peer]] = []
        self._loop = loop
        self._tls = tls
        self._servers: list[asyncio.Server] = []
        self._open: set[asyncio.Task[None]] = set()
        self._by_address = {
            f"127.9.{number // 250}.{number % 250 + 1}": each for number, each in enumerate(behaviours)
        }
        self._addresses = {each.name: address for address, each in self._by_address.items()}
        self.port = self.tls_port = 0
        self.run: int | None = None  #: if set, the number of the answer to give

    def __enter__(self) -> Self:
        self._loop.run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run(self._stop())

    def url(self, name: str, path: str | None = None, *, login: bool = False) -> str:
        """Return the URL of a behaviour, or of another *path* on its host."""
        address = self._addresses[name]
        each = self._by_address[address]
        scheme, port = ("https", self.tls_port) if each.tls else ("http", self.port)
        who = each.login if login else ""
        return f"{scheme}://{who}{address}:{port}{each.path if path is None else path}"

    def name_of(self, line: str) -> str | None:
        """Return whose URL a line ends with."""
        address = line.rpartition("//")[2].partition(":")[0]
        return self._by_address[address].name if address in self._by_address else None

    async def _start(self) -> None:
        self.port, self.tls_port = _free_ports()
        for port, context in ((self.port, None), (self.tls_port, self._tls)):
            for address, each in self._by_address.items():
                if each.listens and each.tls is (port == self.tls_port):
                    speaks = context if each.speaks_tls else None
                    self._servers.append(
                        await asyncio.start_server(self._serve, address, port, ssl=speaks, limit=_HEAD)
                    )

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            with suppress(OSError, asyncio.CancelledError, asyncio.IncompleteReadError):
                await self._answer(self._by_address[writer.get_extra_info("sockname")[0]], reader, writer)
        finally:
            self._open.discard(task)
            writer.close()

    async def _answer(
        self, what: Behaviour, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if what.early:
            writer.write(await self._bytes(what.answers[0], None))
            await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ", 2)
        headers = {}
        for line in filter(None, head[1:]):
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        key = what.name, target
        peer = Peer(
            reader=reader,
            writer=writer,
            target=target,
            method=method,
            headers=headers,
            visits=self.requests[key],
        )
        self.requests[key] += 1
        self.seen.append((what.name, peer))
        if not what.early:
            writer.write(await self._bytes(self._chosen(what, peer), peer))
        await writer.drain()
        # With what is still unread the kernel would cut what has just been sent.
        writer.write_eof() if writer.can_write_eof() else None
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                while await reader.read(65536):
                    pass

    def _chosen(self, what: Behaviour, peer: Peer) -> Answer:
        if peer.target == "/robots.txt":
            return what.robots
        if peer.target in what.others:
            return what.others[peer.target][0]
        number = peer.visits if self.run is None else self.run
        return what.answers[min(number, len(what.answers) - 1)]

    async def _bytes(self, answer: Answer, peer: Peer | None) -> bytes:
        if not isinstance(answer, bytes):
            assert peer is not None
            answer = await answer(peer) or b""
        head, end, body = answer.partition(b"\r\n\r\n")
        named = _NAME.sub(self._named, body)
        if named != body:
            head = _LENGTH.sub(b"Content-Length: %d" % len(named), head)
        return _NAME.sub(self._named, head) + end + named

    def _named(self, found: re.Match[bytes]) -> bytes:
        url = self.url(found[2].decode()).encode()
        return url.partition(b":")[2] if found[1] else url


def _free_ports() -> tuple[int, int]:
    """Return two ports that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        return one.getsockname()[1], other.getsockname()[1]
