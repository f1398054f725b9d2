"""Why a fetch brought no usable answer, in one word, and what it says of the host.

| reason               | host as a whole | another attempt |                                              |
|----------------------|-----------------|-----------------|----------------------------------------------|
| dns                  | yes             | yes             | the name has no address                      |
| refused, unreachable | yes             | yes             | no connection to the host                    |
| connection_lost      | yes             | yes             | closed before an answer came                 |
| timeout              | yes             | yes             | no answer, or not all of it, in time         |
| tls                  | yes             | yes             | no agreement, or a bad certificate           |
| proxy                | yes             | yes             | the proxy opened no tunnel                   |
| http_429, _503       | yes             | if asked to     | also 521, 522 and 523, which say the same    |
| http_NNN             | no              | if asked to     | any other status                             |
| truncated            | no              | yes             | the body ended early                         |
| bad_http             | no              | yes             | the answer is no HTTP                        |
| browser_crash        | no              | yes             | the browser went away                        |
| network_error        | no              | yes             | any other error of the operating system      |
| bad_content_encoding | no              | no              | the body is not what its header says         |
| too_large            | no              | no              | DOWNLOAD_MAXSIZE, also after decompression   |
| too_many_redirects   | no              | no              | REDIRECT_MAX_TIMES                           |
| unsupported_scheme   | no              | no              | neither http nor https                       |
| stopped              | no              | no              | a signal handler stopped the download        |
| filtered             | no              | no              | a middleware refused the answer              |
| download_error       | no              | no              | an error of ours, or of another component    |
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy import exceptions as scrapy
from scrapy.spidermiddlewares.httperror import HttpError

from crawlproj.redaction import without_login

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST_STATUSES = frozenset({429, 503, 521, 522, 523})  #: said of the host as a whole
_HOST = frozenset({"dns", "refused", "unreachable", "connection_lost", "timeout", "tls", "proxy"})
_AGAIN = _HOST | {"truncated", "bad_http", "browser_crash", "network_error"}

# By name, because the libraries that raise them are not all installed, and their errors wrap each
# other: what a handler calls "refused" may hold a failed handshake. The first line that fits counts.
_NAMES: tuple[tuple[str, frozenset[str]], ...] = (
    ("too_large", frozenset({"_DecompressionMaxSizeExceeded", "TooMuch"})),
    ("bad_content_encoding", frozenset({"NotAsSaid", "BadGzipFile", "zlib.error", "brotli.error",
                                        "ZstdError", "struct.error"})),
    ("tls", frozenset({"SSLError", "CertificateError", "OpenSSL.SSL.Error", "VerificationError",
                       "ClientSSLError"})),
    ("dns", frozenset({"DNSLookupError", "UnknownHostError", "gaierror", "ClientConnectorDNSError"})),
    ("proxy", frozenset({"TunnelError", "ClientProxyConnectionError", "ClientHttpProxyError"})),
    ("browser_crash", frozenset({"TargetClosedError"})),
    ("timeout", frozenset({"TimeoutError", "TCPTimedOutError", "ServerTimeoutError"})),
    ("bad_http", frozenset({"BadAnswer", "ParseError", "BadHttpMessage", "ClientResponseError"})),
    ("connection_lost", frozenset({"ConnectionDone", "ConnectionLost", "ConnectionAborted",
                                   "ConnectionResetError", "BrokenPipeError", "ServerDisconnectedError"})),
    ("refused", frozenset({"ConnectionRefusedError"})),
    ("unreachable", frozenset({"NoRouteError", "ConnectError"})),
)  # fmt: skip
_TYPES: tuple[tuple[type[BaseException], str], ...] = (
    (scrapy.ResponseDataLossError, "truncated"),
    (EOFError, "truncated"),
    (scrapy.DownloadTimeoutError, "timeout"),
    (scrapy.CannotResolveHostError, "dns"),
    (scrapy.DownloadConnectionRefusedError, "refused"),
    (scrapy.DownloadCancelledError, "too_large"),
    (scrapy.DownloadFailedError, "connection_lost"),
    (scrapy.UnsupportedURLSchemeError, "unsupported_scheme"),
    (scrapy.NotSupported, "unsupported_scheme"),
    (scrapy.StopDownload, "stopped"),
    (scrapy.IgnoreRequest, "filtered"),
    (OSError, "network_error"),
)
_FINAL_TYPES = (scrapy.ResponseDataLossError, scrapy.DownloadTimeoutError, scrapy.CannotResolveHostError)
_ERRNO = {
    errno.ECONNREFUSED: "refused",
    errno.ECONNRESET: "connection_lost",
    errno.EPIPE: "connection_lost",
    errno.ETIMEDOUT: "timeout",
    errno.EHOSTUNREACH: "unreachable",
    errno.ENETUNREACH: "unreachable",
    errno.EHOSTDOWN: "unreachable",
}
# Numbers of libcurl, whose errors all have one class; what is not here Scrapy's own exception says.
_CURL = {
    1: "bad_http",  # an answer without a status line
    8: "bad_http",
    61: "bad_http",  # a transfer encoding that nobody knows
    97: "proxy",
    **dict.fromkeys((35, 53, 54, 58, 59, 60, 64, 66, 77, 80, 82, 83, 90, 91, 98), "tls"),
}
_BROWSER = (
    ("net::ERR_NAME_NOT_RESOLVED", "dns"),
    ("net::ERR_CONNECTION_REFUSED", "refused"),
    ("net::ERR_ADDRESS_UNREACHABLE", "unreachable"),
    ("net::ERR_CONNECTION_TIMED_OUT", "timeout"),
    ("net::ERR_TIMED_OUT", "timeout"),
    ("net::ERR_CERT_", "tls"),
    ("net::ERR_SSL_", "tls"),
    ("net::ERR_TOO_MANY_REDIRECTS", "too_many_redirects"),
    ("net::ERR_CONTENT_DECODING_FAILED", "bad_content_encoding"),
    ("net::ERR_CONTENT_LENGTH_MISMATCH", "truncated"),
    ("net::ERR_INCOMPLETE_CHUNKED_ENCODING", "truncated"),
    ("net::ERR_INVALID_HTTP_RESPONSE", "bad_http"),
    ("net::ERR_", "connection_lost"),
    ("crashed", "browser_crash"),
)
_MAX_DETAIL = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why there is no usable answer."""

    reason: str
    host_incident: bool  #: the host as a whole is ill, not only this page
    retryable: bool  #: another attempt may bring an answer
    detail: str | None = None  #: one line for people


def explain(error: BaseException, http_status: int | None = None) -> Failure:
    """Return why *error* came instead of a usable answer.

    *http_status* is that of the last answer seen, if there was one: an error that a middleware raised
    over an answer says nothing against the host.
    """
    if isinstance(error, HttpError):
        return explain_status(error.response.status)
    reason = _reason(error)
    return Failure(
        reason=reason,
        host_incident=reason in _HOST and (http_status is None or reason in {"timeout", "connection_lost"}),
        retryable=reason in _AGAIN,
        detail=_detail(error),
    )


def explain_status(status: int) -> Failure:
    """Return what an answer with *status* says; whether it is tried again is the settings' matter."""
    return Failure(reason=f"http_{status}", host_incident=status in HOST_STATUSES, retryable=True)


def _reason(error: BaseException) -> str:
    if isinstance(error, scrapy.IgnoreRequest) and str(error) == "max redirections reached":
        return "too_many_redirects"
    if not isinstance(error, _FINAL_TYPES):
        for cause in _chain(error):
            names = _names(cause)
            for reason, known in _NAMES:
                if not known.isdisjoint(names):
                    return reason
            if isinstance(cause, OSError) and cause.errno in _ERRNO:
                return _ERRNO[cause.errno]
            if "pycurl.error" in names and cause.args[0] in _CURL:
                return _CURL[cause.args[0]]
    for kind, reason in _TYPES:
        if isinstance(error, kind):
            return reason
    if type(error).__module__.startswith("playwright"):
        return next((reason for words, reason in _BROWSER if words in str(error)), "download_error")
    return "download_error"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield *error* and what it came from, the innermost causes first: they say most."""
    found: list[BaseException] = []
    todo: list[BaseException] = [error]
    while todo and len(found) < 16:  # noqa: PLR2004  # a chain may lead back to its start
        each = todo.pop()
        found.append(each)
        if each.__cause__ is not None:
            todo.append(each.__cause__)
        reasons = getattr(each, "reasons", None)  # Twisted's ResponseFailed
        if isinstance(reasons, list):
            todo.extend(r.value for r in reasons if isinstance(getattr(r, "value", None), BaseException))
    return reversed(found)


def _names(error: BaseException) -> set[str]:
    names: set[str] = set()
    for kind in type(error).__mro__:
        names.add(kind.__name__)
        names.add(f"{kind.__module__}.{kind.__name__}")
    return names


def _detail(error: BaseException) -> str:
    words = " ".join(f"{type(error).__name__}: {error}".split())
    return without_login(words)[:_MAX_DETAIL].rstrip(": ")
