"""URLs on their way into the frontier, and what its queues keep of them."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from crawlproj.frontier.canonical import authority, page_key


class Login(NamedTuple):
    """With what a page was asked for, and where else that may go."""

    origin: str  #: scheme, host and port, as they begin a wire URL
    words: str  #: `user:password`, escaped as in a URL


@dataclass(frozen=True, slots=True)
class Entry:
    """One URL on its way into the frontier.

    *data* is what the queue keeps; the rest says where and how it enters.
    """

    url: str  #: wire form, without login
    host: str
    fingerprint: int
    data: str
    priority: int = 0
    forced: bool = False  #: queued even if seen
    head: bool = False  #: before the others of its priority
    plain: bool = False  #: a link and nothing more: its URL says all
    attempts: int = 0  #: fetches before this entry, which it takes along
    repeats: bool = False  #: its URL has been let in before, under another fingerprint

    def forcibly(self) -> Entry:
        """Return it as one that is queued even if it was seen."""
        return replace(self, forced=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What a queue entry says."""

    url: str  #: as the spider asked for it, without login
    wire: str
    canonical: str  #: the form in which the crawl compares the URL
    depth: int
    tag: str | None
    extra: dict[str, Any]

    @property
    def method(self) -> str:
        """Return the HTTP method."""
        return str(self.extra.get("M", "GET"))

    @property
    def body(self) -> bytes:
        """Return the body of the request."""
        return b64decode(self.extra["b"]["$b"]) if "b" in self.extra else b""

    @property
    def priority(self) -> int:
        """Return the priority that the spider gave it."""
        return int(self.extra.get("p", 0))

    @property
    def queue(self) -> str | None:
        """Return the queue that the spider wants it in, if it does."""
        return self.extra.get("q")

    @property
    def embeds(self) -> int:
        """Return how many hops to it, counted from its end, were to what a page shows and not to a link."""
        return int(self.extra.get("i", 0))

    @property
    def login(self) -> Login | None:
        """Return with what the URL is asked for, if its site wants to know who asks."""
        words = self.extra.get("a")
        if not words:
            return None
        return Login(f"{self.wire.partition('//')[0]}//{authority(self.wire)}/", words)

    @property
    def key(self) -> bytes:
        """Return the 16 bytes under which the page is kept."""
        return page_key(self.canonical, self.method, self.body)


@dataclass(frozen=True, slots=True)
class Unplaced(Entry):
    """One whose queue is called by the address of its host, which has still to be looked up."""
