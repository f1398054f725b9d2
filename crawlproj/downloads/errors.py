"""What libcurl's errors are called in Scrapy."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pycurl  # type: ignore[import-untyped]
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    UnsupportedURLSchemeError,
)

if TYPE_CHECKING:
    from scrapy import Request

#: After the headers: the body ended before its end, or came to pieces.
CUT_SHORT = frozenset({pycurl.E_PARTIAL_FILE, pycurl.E_RECV_ERROR, pycurl.E_GOT_NOTHING})

SCRAPYS = "scrapy.core.downloader.handlers.http11"  #: the module of Scrapy's own handler

_WEIRD_SERVER_REPLY = 8
_TOO_LARGE = 100  # a header of more than 100 KB, headers of more than 300 KB, more than 5000 of them
_LENGTH = "Content-Length"
_LEGACY_TLS = "legacy renegotiation"
_FIRST_REFUSAL = 300


class BadAnswer(DownloadFailedError):
    """What came is no HTTP, though libcurl lets it pass."""


def is_refusal(error: pycurl.error) -> bool:
    """Return whether libcurl is stricter here than Scrapy's own handler, and browsers."""
    code, words = error.args
    if code == _WEIRD_SERVER_REPLY:
        return _LENGTH not in words  # where the body ends nobody can know
    return bool(code == pycurl.E_SSL_CONNECT_ERROR and _LEGACY_TLS in words)


def is_of_scrapys(curl: pycurl.Curl, error: pycurl.error) -> bool:
    """Return whether Scrapy's own handler is asked next, or has the name for what went wrong."""
    return is_refusal(error) or _is_closed_tunnel(curl)


def note_status(error: Exception, status: int) -> None:
    """Keep with an error which status the answer had."""
    error.http_status = status  # type: ignore[attr-defined]


def status_of(error: BaseException) -> int | None:
    """Return the status of the answer that ended in *error*, if it had come so far."""
    status = getattr(error, "http_status", None)
    return status if isinstance(status, int) else None


def explained(curl: pycurl.Curl, request: Request, error: pycurl.error) -> Exception:
    """Return what Scrapy's handler would have raised."""
    code = error.args[0]
    words = f"{request.url}: {error.args[1]}"
    if code == pycurl.E_OPERATION_TIMEDOUT:
        return DownloadTimeoutError(words)
    if _is_closed_tunnel(curl):
        from scrapy.core.downloader.handlers.http11 import TunnelError  # noqa: PLC0415

        return TunnelError(words)
    if code in {pycurl.E_COULDNT_RESOLVE_HOST, pycurl.E_COULDNT_RESOLVE_PROXY}:
        return CannotResolveHostError(words)
    if code in {pycurl.E_URL_MALFORMAT, pycurl.E_UNSUPPORTED_PROTOCOL} and not _has_answered(curl):
        return UnsupportedURLSchemeError(words)
    if code == _TOO_LARGE:
        return DownloadCancelledError(words)
    if code == pycurl.E_COULDNT_CONNECT:
        return _unconnected(curl.getinfo(pycurl.OS_ERRNO), words)
    return DownloadFailedError(words)


def _is_closed_tunnel(curl: pycurl.Curl) -> bool:
    return bool(curl.getinfo(pycurl.HTTP_CONNECTCODE) >= _FIRST_REFUSAL)


def _has_answered(curl: pycurl.Curl) -> bool:
    """Return whether there has been a connection: then it is the answer that is no HTTP."""
    return bool(curl.getinfo(pycurl.NUM_CONNECTS) or curl.getinfo(pycurl.PRIMARY_IP))


def _unconnected(number: int, words: str) -> Exception:
    if number == errno.ETIMEDOUT:
        return DownloadTimeoutError(words)
    if number in {0, errno.ECONNREFUSED}:
        return DownloadConnectionRefusedError(words)
    failed = DownloadFailedError(words)
    failed.__cause__ = OSError(number, os.strerror(number))
    return failed
