"""What spiders, middlewares and pipelines hand to each other."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime


class FetchStatus(StrEnum):
    """What the downloader says of a fetch; no two of these are ever merged."""

    DONE = "done"  #: answered with content, stored
    NOT_MODIFIED = "not_modified"  #: 304 to our validators; the stored content stands
    EMPTY = "empty"  #: answered without main text, stored
    FAILED = "failed"  #: no usable answer; nothing is stored


class ScheduleStatus(StrEnum):
    """Where the frontier has a URL; an enumeration of its own, apart from `FetchStatus`."""

    SCHEDULED = "scheduled"  #: waits in its host's queue
    LEASED = "leased"  #: a worker has it
    RETRY = "retry"  #: failed before, waits for another attempt
    SUCCEEDED = "succeeded"  #: ended with an answer (done, empty, not_modified, redirected)
    FAILED = "failed"  #: ended without one, attempts used up
    DISREGARDED = "disregarded"  #: robots, scope or an operator said no
    DEAD = "dead"  #: took its worker down too often, or cannot be read


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthSignal:
    """How healthy one page looked. Null is not zero: in raw mode the browser fields are None."""

    render_duration_ms: int | None = None
    raw_text_length: int  #: visible text of the raw response, in characters
    text_length: int | None  #: main text, in characters; None for binary bodies
    xhr_error_count: int | None = None
    xhr_total_count: int | None = None
    has_console_error: bool | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the six fields under their contract names."""
        return {
            "render_duration_ms": self.render_duration_ms,
            "raw_text_length": self.raw_text_length,
            "text_length": self.text_length,
            "xhr_error_count": self.xhr_error_count,
            "xhr_total_count": self.xhr_total_count,
            "has_console_error": self.has_console_error,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PageText:
    """What a person can read on a page, and how it was decoded."""

    main: str | None  #: main text; None for binary bodies
    main_length: int | None = None  #: its characters, every run of white space counted as one
    visible_length: int  #: characters of all visible text of the raw response
    title: str | None = None
    language: str | None = None
    encoding: str | None = None
    is_shell: bool = False  #: an app's page that only a browser fills
    flat: bool = False  #: too large or too oddly built for a parser to see all of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A URL handed to one worker, which nobody else is given before `expires_at`."""

    token: int  #: grows with every lease; a report under an old one comes too late
    host: str  #: host key, the name of the queue it came from
    attempts: int  #: fetches before this one
    min_interval_ms: int | None  #: for the throttle; None means the global default
    in_flight: int = 1  #: how many requests its host may have at once
    max_attempts: int = 5  #: fetches before it fails for good
    max_outlinks: int = 6000  #: links taken from its page
    embed_hops: int = 1  #: embeds within so many hops go before links
    expires_at: float  #: on this machine's monotonic clock, seconds


@dataclass(frozen=True, slots=True)
class Links:
    """A page's links as one item, for spiders that need no Request for each.

    Yielded beside or instead of Requests; the pages behind them come to the spider's `parse`.
    *urls* are absolute; *embeds* are what the page shows, its images and styles, which goes before links.
    """

    urls: tuple[str, ...]
    embeds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PageObject:
    """One URL's outcome on its way through the pipelines: classify, store, report.

    Everything up to `items` is there when the pipelines get it; `classify` fills the rest.
    """

    url: str
    canonical_url: str
    key: bytes  #: 16 bytes, of the canonical URL (and method and body where there are some)
    lease: Lease
    depth: int
    source_tag: str | None
    fetched_at: datetime
    duration_ms: int | None
    http_status: int | None
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    content_type: str | None = None
    text: PageText | None = None
    failure: str | None = None  #: why there is no usable answer, in one word
    disregarded: str | None = None  #: why it is not fetched: robots, offsite, …
    redirect_to: str | None = None
    detail: str | None = None  #: one line for people
    sent_validators: bool = False
    has_content: bool = False  #: an earlier run has stored content of it
    counted: bool = False  #: its outlinks go on a target that has been counted
    retry_after_ms: int | None = None
    host_incident: bool = False
    final: bool = True  #: False: another attempt follows
    outlinks: tuple[Any, ...] = ()  #: `crawlproj.frontier.entries.Entry`, to enter with the finish
    #: links that are in the frontier already: URLs, or entries; kept with the page all the same
    known_links: tuple[Any, ...] = ()
    items: tuple[Any, ...] = ()  #: what the spider yielded besides, committed with the page
    extra: Mapping[str, Any] = field(default_factory=dict)  #: of its queue entry: what a URL does not say
    # --- from here on: the verdict ---
    fetch_status: FetchStatus | None = None
    schedule_status: ScheduleStatus | None = None
    reason: str | None = None
    health_signal: HealthSignal | None = None
    stores: bool = False  #: whether body and text become a page object
    object_id: str | None = None  #: 32 hex digits, once stored


@dataclass(slots=True)
class Visit:
    """What one worker knows of one leased request while it is under way."""

    lease: Lease
    entry: Any  #: the `crawlproj.frontier.entries.Stored` it was leased as
    held_until: float = math.inf  #: monotonic; until then nobody else can have the lease
    errback: Callable[..., Any] | None = None  #: the spider's own
    redirects: int = 0  #: of the chain so far
    retries: int = 0  #: by Scrapy's own retries, under this one lease
    has_content: bool = False  #: whether an earlier run has stored content of it
    content_size: int = 0  #: of that, in bytes
    answered: bool = False  #: whether a response has come as far as the spider
    started: float = 0.0  #: monotonic, when it went on the wire
    ended: float = 0.0
    http_status: int | None = None  #: of the last answer seen nearest the wire
    text: PageText | None = None
    sent_validators: bool = False
    outlinks: list[Any] = field(default_factory=list)
    known_links: list[Any] = field(default_factory=list)
    known_since: int | None = None  #: epoch of the seen cache that knew the first of them
    items: list[Any] = field(default_factory=list)
    pending_items: int = 0  #: items of this page still in other pipelines
    waiter: asyncio.Future[None] | None = None
    detail: str | None = None
    done: bool = False  #: its outcome has been handed to the pipelines

    async def items_settled(self) -> None:
        """Wait until the spider's items of this page have left the other pipelines."""
        if self.pending_items > 0:
            self.waiter = asyncio.get_running_loop().create_future()
            await self.waiter
