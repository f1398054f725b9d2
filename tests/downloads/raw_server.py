"""A server that answers with exactly these bytes, and tells what it was asked with."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

ECHO = b"/echo"


class _Listener:
    """Takes connections on a port of its own while the block runs."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        raise NotImplementedError


class RawServer(_Listener):
    """Answers a path with the bytes in `answers`, then closes unless they say how long the body is.

    Under /echo it answers with what it got: the whole head and body, and the client's address. `connections`
    counts those that it took.
    """

    def __init__(self, answers: dict[str, bytes], context: ssl.SSLContext | None = None) -> None:
        super().__init__()
        self.answers = answers
        self.connections = 0
        self._context = context

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, peer = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection, peer[0]), daemon=True).start()

    def _serve(self, connection: socket.socket, peer: str) -> None:
        with suppress(OSError), connection:
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
            while head := _head(connection):
                self.heads.append(head[0])
                target = head[0].split()[1]
                if ECHO in target:
                    body = json.dumps(
                        {
                            "head": head[0].decode("latin-1").split("\r\n")[:-2],
                            "body": head[1].decode("latin-1"),
                            "peer": peer,
                        }
                    ).encode()
                    connection.sendall(
                        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n"
                        % len(body)
                        + body
                    )
                    continue
                answer = self.answers[target.decode()]
                connection.sendall(answer)
                if b"X-Keep" not in answer:
                    break
                if b"X-Keep: never" in answer:
                    break
            if self._context is not None:
                connection.close()


def _head(connection: socket.socket) -> tuple[bytes, bytes] | None:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n", body


@contextmanager
def raw_server(answers: dict[str, bytes], context: ssl.SSLContext | None = None) -> Iterator[RawServer]:
    """Serve while the block runs."""
    with RawServer(answers, context) as server:
        yield server


class TunnelProxy(_Listener):
    """Opens tunnels to one port of this machine, whatever it is asked for; `heads` is what it was told."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._target = port

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self._listener.accept()[0],), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client, socket.create_connection(("127.0.0.1", self._target)) as server:
            head = _head(client)
            assert head is not None
            self.heads.append(head[0])
            client.sendall(b"HTTP/1.1 200 Connected\r\nX-Proxy: yes\r\n\r\n")
            threading.Thread(target=_pour, args=(server, client), daemon=True).start()
            _pour(client, server)


def _pour(source: socket.socket, into: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            into.sendall(data)
