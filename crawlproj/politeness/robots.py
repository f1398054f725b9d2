"""What a robots.txt says, and what its absence means (RFC 9309)."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from protego import Protego

MAX_BYTES = 500 * 1024  # RFC 9309, 2.5: what has to be read at least; we read no more
BRIEF_SECONDS = 1.0  # what is no answer of the server: long enough for those who waited for it


class Finding(StrEnum):
    """What asking for a robots.txt came to."""

    RULES = "rules"  #: there is one
    ABSENT = "absent"  #: the server has none for us: everything is allowed
    SKIPPED = "skipped"  #: our own rules kept us from asking; they keep us from its pages as well
    UNREACHABLE = "unreachable"  #: the server cannot say: nothing is allowed for a while
    UNRESOLVED = "unresolved"  #: no server: the name has no address
    REFUSED = "refused"  #: no server: it takes no connection
    BROKEN = "broken"  #: no server: the connection broke
    INSECURE = "insecure"  #: no server: it and we do not agree on TLS


#: Nobody answered, so nobody said no: a page of such a host fails the way its robots.txt did.
NO_SERVER = frozenset({Finding.UNRESOLVED, Finding.REFUSED, Finding.BROKEN, Finding.INSECURE})


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotsFile:
    """The answer of one authority, as it is kept for the fleet."""

    finding: Finding
    body: bytes = b""  #: only of RULES
    asks_seconds: float = 0.0  #: how long it wants to be left alone; not packed

    def pack(self) -> bytes:
        """Return it as bytes: the finding, a newline, the body compressed."""
        return self.finding.encode() + b"\n" + (zlib.compress(self.body, 1) if self.body else b"")

    @classmethod
    def unpack(cls, data: bytes) -> Self | None:
        """Return what `pack` packed, or None if *data* is not that."""
        word, newline, packed = data.partition(b"\n")
        try:
            finding = Finding(word.decode("ascii"))
            stream = zlib.decompressobj()
            body = stream.decompress(packed, MAX_BYTES) if packed else b""
        except (ValueError, zlib.error):
            return None
        return cls(finding=finding, body=body) if newline else None


def from_answer(status: int, body: bytes) -> RobotsFile:
    """Return what an HTTP answer means, once redirects have been followed.

    2xx: rules. 429 and 5xx: the server cannot say. All else, 4xx and redirects without end among it:
    there is no robots.txt.
    """
    if 200 <= status < 300:  # noqa: PLR2004
        return RobotsFile(finding=Finding.RULES, body=_whole_lines(body))
    if status == 429 or status >= 500:  # noqa: PLR2004  # too many requests is no invitation
        return RobotsFile(finding=Finding.UNREACHABLE)
    return RobotsFile(finding=Finding.ABSENT)


def lifetime(finding: Finding, *, keep_seconds: float, retry_seconds: float) -> float:
    """Return for how many seconds a finding is good."""
    if finding is Finding.SKIPPED or finding in NO_SERVER:
        return min(BRIEF_SECONDS, retry_seconds)
    return retry_seconds if finding is Finding.UNREACHABLE else keep_seconds


class Rules:
    """What one authority allows."""

    def __init__(self, file: RobotsFile) -> None:
        self.finding = file.finding
        self.size = len(file.body)
        self._parsed = Protego.parse(file.body.decode("utf-8-sig", "replace")) if file.body else None

    def allows(self, url: str, agent: str) -> bool:
        """Return whether *agent* may fetch *url*."""
        if self.finding is Finding.UNREACHABLE or self.finding in NO_SERVER:
            return False
        return self._parsed is None or self._parsed.can_fetch(url, agent)

    def crawl_delay(self, agent: str) -> float | None:
        """Return the seconds that *agent* is to keep between two requests, if it says so."""
        return self._parsed.crawl_delay(agent) if self._parsed else None


def _whole_lines(body: bytes) -> bytes:
    """Cut to what is read. A line cut in two would mean something else: `Disallow: /` for one."""
    if len(body) <= MAX_BYTES:
        return body
    end = max(body.rfind(b"\n", 0, MAX_BYTES), body.rfind(b"\r", 0, MAX_BYTES))
    return body[: end + 1]
