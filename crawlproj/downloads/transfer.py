"""One answer while it comes in."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from pydispatch import dispatcher  # type: ignore[import-untyped]
from scrapy import signals
from scrapy.exceptions import DownloadCancelledError, ResponseDataLossError, StopDownload
from scrapy.http import Headers
from twisted.python.failure import Failure

from crawlproj.downloads.errors import BadAnswer

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

#: They speak of the connection, not of what is handed on.
_HOP_BY_HOP = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
)
_FIRST_FINAL = 200
_DIGITS = 3  # of a status; libcurl reads so many, and does not mind if there are more
_NO_BODY = frozenset({204, 304})


class Transfer:
    """Takes an answer from libcurl piece by piece, tells who listens and minds the sizes.

    libcurl calls it in the middle of its own work, so it raises nothing: what goes wrong is kept, ends
    the transfer and is raised by `end`.
    """

    __slots__ = (
        "_chunked",
        "_chunks",
        "_crawler",
        "_error",
        "_heard",
        "_lines",
        "_maxsize",
        "_size",
        "_started",
        "_warned",
        "_warnsize",
        "begun",
        "body",
        "flags",
        "headers",
        "is_tls",
        "may_tunnel",
        "request",
        "status",
        "stop",
    )  # fmt: skip

    def __init__(self, crawler: Crawler, request: Request, sizes: tuple[int, int]) -> None:
        self.request = request
        self.status = 0
        self.headers: Headers = Headers()
        self.body = b""
        self.flags: list[str] = []
        self.begun = False  #: the answer's headers are all there
        self.is_tls = request.url.startswith("https:")
        self.stop: StopDownload | None = None
        self._crawler = crawler
        self._maxsize: int = request.meta.get("download_maxsize", sizes[0])
        self._warnsize: int = request.meta.get("download_warnsize", sizes[1])
        self._error: Exception | None = None
        self._lines: list[bytes] = []
        self._chunks: list[bytes] = []
        self._chunked = False
        self._heard = False
        self._size = 0
        self._warned = False
        self._started = time.monotonic()

    def take_line(self, line: bytes) -> int | None:
        """Take a line of the head, the empty one at its end included. -1 ends the transfer."""
        if self.begun:
            return None  # a trailer
        if line[:5].upper() == b"HTTP/":
            self._lines = [line]
        elif line.strip():
            self._lines.append(line)
        elif not self._is_interim():
            return self._step(None)
        return None

    def take_data(self, data: bytes) -> int | None:
        """Take a piece of the body. -1 ends the transfer."""
        return self._step(data)

    def end(self, *, whole: bool) -> None:
        """Make what has come in the answer's body. *whole*: libcurl has no complaints.

        Raises DownloadCancelledError for a body that is too large, ResponseDataLossError for a head without
        its end, BadAnswer for what is no HTTP, and what a listener broke on.
        """
        if whole and not self.begun:
            self._step(None)
            if self._error is None and self.status >= _FIRST_FINAL:
                self._error = ResponseDataLossError(f"{self.request.url}: the headers end early")
        if self._error is not None:
            raise self._error
        self.body = b"".join(self._chunks)
        if self.stop is not None:
            self.flags.append("download_stopped")
        elif whole and self._ends_with_connection():
            self.flags.append("partial")

    def _is_interim(self) -> bool:
        try:
            return _status(self._lines) < _FIRST_FINAL
        except BadAnswer:
            return False  # the next step says so

    def _step(self, data: bytes | None) -> int | None:
        try:
            if not self.begun:
                self._begin()
            if data is not None and self.stop is None:
                self._add(data)
        except Exception as exc:  # noqa: BLE001  # the answer is no HTTP, or a listener is broken
            self._error = exc
        return None if self._error is None and self.stop is None else -1

    def _begin(self) -> None:
        self.begun = True
        self.request.meta["download_latency"] = time.monotonic() - self._started
        self.status = _status(self._lines)
        self.headers, self._chunked = _headers(self._lines)
        length = self._length()
        self._tell(signals.headers_received, headers=self.headers, body_length=length)
        self._heard = self._is_heard(signals.bytes_received)
        if length is not None and self.stop is None and self.request.method != "HEAD":
            self._check_size(length, "Expected to receive")

    def _add(self, data: bytes) -> None:
        self._chunks.append(data)
        self._size += len(data)
        if self._heard:
            self._tell(signals.bytes_received, data=data)
        if self.stop is None:
            self._check_size(self._size, "Received")

    def _check_size(self, size: int, begin: str) -> None:
        if self._maxsize and size > self._maxsize:
            words = f"{begin} {size} bytes of {self.request}, more than DOWNLOAD_MAXSIZE ({self._maxsize})"
            logger.warning("%s", words)
            self._chunks.clear()
            raise DownloadCancelledError(words)
        if self._warnsize and size > self._warnsize and not self._warned:
            self._warned = True
            about = (begin, size, self.request, self._warnsize)
            logger.warning("%s %d bytes of %s, more than DOWNLOAD_WARNSIZE (%d)", *about)

    def _is_heard(self, signal: object) -> bool:
        return any(True for _ in dispatcher.getAllReceivers(self._crawler.signals.sender, signal))

    def _tell(self, signal: object, **given: Any) -> None:
        if not self._is_heard(signal):
            return
        answers = self._crawler.signals.send_catch_log(
            signal, request=self.request, spider=self._crawler.spider, **given
        )
        for _, answer in answers:
            if isinstance(answer, Failure) and isinstance(answer.value, StopDownload):
                self.stop = answer.value
                return

    def _length(self) -> int | None:
        value = self.headers.get(b"Content-Length")
        return int(value) if value and value.isdigit() else None

    def _ends_with_connection(self) -> bool:
        """Return whether nothing has said where the body ends."""
        has_body = self.request.method != "HEAD" and self.status not in _NO_BODY
        return has_body and not self._chunked and self._length() is None


def _status(lines: list[bytes]) -> int:
    """Return the status of an answer. Raises BadAnswer where it is none."""
    words = lines[0].split(None, 2) if lines else []
    if len(words) < 2 or len(words[1]) != _DIGITS or not words[1].isdigit():  # noqa: PLR2004
        raise BadAnswer(f"{lines[0][:100] if lines else b''!r} is no status line")
    return int(words[1])


def _headers(lines: list[bytes]) -> tuple[Headers, bool]:
    """Return the headers to hand on, and whether the body comes in chunks."""
    found: dict[bytes, list[bytes]] = {}
    chunked = False
    for line in _unfolded(lines[1:]):
        name, _, value = line.partition(b":")
        lower = name.lower()
        if lower in _HOP_BY_HOP:
            chunked = chunked or (lower == b"transfer-encoding" and b"chunked" in value.lower())
            continue
        found.setdefault(name, []).append(value.strip())
    return Headers(found), chunked


def _unfolded(lines: list[bytes]) -> list[bytes]:
    """Return header lines with those that begin with white space put behind the one before them."""
    if not any(line[0] in b" \t" for line in lines):
        return lines
    found: list[bytes] = []
    for line in lines:
        if line[0] in b" \t" and found:
            found[-1] = found[-1].rstrip() + b" " + line.strip()
        else:
            found.append(line)
    return found
