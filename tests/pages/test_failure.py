"""Why a fetch brought no usable answer."""

from __future__ import annotations

import errno
import gzip
import json
import socket
import ssl
import struct
import subprocess
import sys
import threading
import zlib
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import brotli
import pytest
from scrapy import exceptions as scrapy
from scrapy.http import Response
from scrapy.spidermiddlewares.httperror import HttpError
from twisted.internet import error as tx
from twisted.python.failure import Failure as TwistedFailure
from twisted.web._newclient import ParseError, ResponseNeverReceived

from crawlproj.exceptions import RetryLater
from crawlproj.pages.failure import explain, explain_status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOST, PAGE = True, False
AGAIN, FINAL = True, False


def because(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


def never_received(cause: Exception) -> Exception:
    return because(scrapy.DownloadFailedError("x"), ResponseNeverReceived([TwistedFailure(cause)]))


def too_large() -> Exception:
    from scrapy.utils._compression import _DecompressionMaxSizeExceeded  # noqa: PLC0415

    return because(scrapy.IgnoreRequest("Ignored response"), _DecompressionMaxSizeExceeded(2, 1))


ERRORS = [
    (scrapy.CannotResolveHostError("x"), "dns", HOST, AGAIN),
    (socket.gaierror(-2, "Name or service not known"), "dns", HOST, AGAIN),
    (tx.DNSLookupError("x"), "dns", HOST, AGAIN),
    (tx.UnknownHostError("x"), "dns", HOST, AGAIN),
    (scrapy.DownloadConnectionRefusedError("x"), "refused", HOST, AGAIN),
    (ConnectionRefusedError("x"), "refused", HOST, AGAIN),
    (OSError(errno.EHOSTUNREACH, "x"), "unreachable", HOST, AGAIN),
    (
        because(scrapy.DownloadConnectionRefusedError("x"), OSError(errno.ENETUNREACH, "x")),
        "unreachable",
        HOST,
        AGAIN,
    ),
    (tx.NoRouteError("x"), "unreachable", HOST, AGAIN),
    (tx.ConnectError("x"), "unreachable", HOST, AGAIN),
    (scrapy.DownloadTimeoutError("x"), "timeout", HOST, AGAIN),
    (TimeoutError("x"), "timeout", HOST, AGAIN),
    (tx.TCPTimedOutError("x"), "timeout", HOST, AGAIN),
    (OSError(errno.ETIMEDOUT, "x"), "timeout", HOST, AGAIN),
    (tx.ConnectionLost("x"), "connection_lost", HOST, AGAIN),
    (ConnectionResetError("x"), "connection_lost", HOST, AGAIN),
    (scrapy.DownloadFailedError("x"), "connection_lost", HOST, AGAIN),
    (never_received(tx.ConnectionDone("x")), "connection_lost", HOST, AGAIN),
    (ssl.SSLError("x"), "tls", HOST, AGAIN),
    (ssl.SSLCertVerificationError("x"), "tls", HOST, AGAIN),
    (because(scrapy.DownloadConnectionRefusedError("x"), ssl.SSLError("x")), "tls", HOST, AGAIN),
    (never_received(tx.SSLError("x")), "tls", HOST, AGAIN),
    (never_received(ParseError("x", b"rubbish")), "bad_http", PAGE, AGAIN),
    (scrapy.ResponseDataLossError("x"), "truncated", PAGE, AGAIN),
    (because(scrapy.ResponseDataLossError("x"), tx.ConnectionLost("x")), "truncated", PAGE, AGAIN),
    (EOFError("x"), "truncated", PAGE, AGAIN),
    (OSError(errno.EMFILE, "x"), "network_error", PAGE, AGAIN),
    (gzip.BadGzipFile("x"), "bad_content_encoding", PAGE, FINAL),
    (zlib.error("x"), "bad_content_encoding", PAGE, FINAL),
    (brotli.error("x"), "bad_content_encoding", PAGE, FINAL),
    (struct.error("x"), "bad_content_encoding", PAGE, FINAL),
    (scrapy.DownloadCancelledError("x"), "too_large", PAGE, FINAL),
    (too_large(), "too_large", PAGE, FINAL),
    (scrapy.IgnoreRequest("max redirections reached"), "too_many_redirects", PAGE, FINAL),
    (scrapy.IgnoreRequest("x"), "filtered", PAGE, FINAL),
    (RetryLater("x"), "filtered", PAGE, FINAL),
    (scrapy.UnsupportedURLSchemeError("x"), "unsupported_scheme", PAGE, FINAL),
    (scrapy.NotSupported("x"), "unsupported_scheme", PAGE, FINAL),
    (scrapy.StopDownload(), "stopped", PAGE, FINAL),
    (KeyError("x"), "download_error", PAGE, FINAL),
]


@pytest.mark.parametrize(
    ("error", "reason", "host", "again"), ERRORS, ids=[f"{row[1]}-{type(row[0]).__name__}" for row in ERRORS]
)
def test_errors_have_one_word_each(error: Exception, reason: str, host: bool, again: bool) -> None:
    """The innermost cause says why; whether the host is ill and whether to try again follow from it."""
    why = explain(error)
    assert (why.reason, why.host_incident, why.retryable) == (reason, host, again)


@pytest.mark.parametrize("status", [429, 503])
def test_status_that_says_the_host_is_ill(status: int) -> None:
    """A host that asks for a pause gets one as a whole."""
    assert explain_status(status).host_incident


@pytest.mark.parametrize("status", [404, 408, 500, 502, 504])
def test_status_that_says_nothing_of_the_host(status: int) -> None:
    """Other pages of the host may be well."""
    why = explain_status(status)
    assert (why.reason, why.host_incident) == (f"http_{status}", False)


def test_error_of_an_answer_is_its_status() -> None:
    """What Scrapy refuses to show the spider failed for its status."""
    assert explain(HttpError(Response("http://e.test/", status=403))).reason == "http_403"


def test_error_over_an_answer_says_nothing_of_the_host() -> None:
    """Whoever answers is there, whatever a middleware met afterwards."""
    assert not explain(ConnectionRefusedError("x"), 200).host_incident
    assert explain(ConnectionRefusedError("x"), None).host_incident


def test_detail_is_one_line_without_secrets() -> None:
    """It is for people and for logs: no line breaks, no password, no novel."""
    why = explain(scrapy.DownloadTimeoutError("Getting http://u:secret@e.test/ took\nlonger " + "x" * 999))
    assert why.detail is not None
    assert why.detail.startswith("DownloadTimeoutError: Getting http://e.test/ took longer xx")
    assert len(why.detail) == 300


def test_errors_in_a_ring_end() -> None:
    """A cause may lead back to where it began."""
    error = ValueError("x")
    assert explain(because(error, because(KeyError("y"), error))).reason == "download_error"


# --- what Scrapy's own handlers raise, on a real server -----------------------------------------

BODY = b"x" * 100


def _hang(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.recv(1)


def _reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


ANSWERS: dict[str, tuple[bytes, Callable[[socket.socket], None] | None, str]] = {
    "close": (b"", None, "connection_lost"),
    "reset": (b"", _reset, "connection_lost"),
    "hang": (b"", _hang, "timeout"),
    "hang_in_body": (b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + BODY, _hang, "timeout"),
    "short": (b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + BODY, None, "truncated"),
    "chunked": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n" + BODY, None, "truncated"),
    "no_http": (b"this is no HTTP at all\r\n\r\n", None, "bad_http"),
    "large": (b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + BODY * 50, None, "too_large"),
    "grows": (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + BODY * 50, None, "too_large"),
    "bomb": (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n"
        + gzip.compress(bytes(9999)),
        None,
        "too_large",
    ),
    "no_gzip": (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 100\r\n\r\n" + BODY,
        None,
        "bad_content_encoding",
    ),
    "no_zstd": (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: zstd\r\nContent-Length: 100\r\n\r\n" + BODY,
        None,
        "bad_content_encoding",
    ),
    "loop": (
        b"HTTP/1.1 302 Found\r\nLocation: /loop\r\nContent-Length: 0\r\n\r\n",
        None,
        "too_many_redirects",
    ),
}


def _answer(connection: socket.socket) -> None:
    with connection, suppress(OSError):
        data = b""
        while b"\r\n\r\n" not in data and not data.startswith(b"\x16"):
            piece = connection.recv(4096)
            if not piece:
                return
            data += piece
        if data.startswith(b"\x16"):  # a TLS handshake
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            return
        words, after, _ = ANSWERS[data.split()[1].decode()[1:]]
        connection.sendall(words)
        if after is not None:
            after(connection)


@contextmanager
def server() -> Iterator[int]:
    """Answer on a port in every way there is to be wrong."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=_answer, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("handler", ["http11", "aiohttp", "curl"])
def test_what_the_download_handlers_raise(handler: str) -> None:
    """Ours and both of Scrapy's come to the same words for the same trouble."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        refused = closed.getsockname()[1]
    with server() as port:
        want = {f"http://127.0.0.1:{port}/{name}": row[2] for name, row in ANSWERS.items()}
        want[f"http://127.0.0.1:{refused}/"] = "refused"
        want["http://no-such-host.invalid/"] = "dns"
        want[f"https://127.0.0.1:{port}/"] = "tls"
        run = subprocess.run(
            [sys.executable, "-m", "tests.pages.failing_crawl", handler, *want],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    assert run.returncode == 0, run.stderr
    assert dict(json.loads(line) for line in run.stdout.splitlines()) == want
