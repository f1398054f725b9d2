"""The four events of a crawl's life, as Scrapy signals, and what goes with them.

Each is sent once per stint of a worker, with `event`, a `CrawlEvent`. Whoever wants to do something about a
crawl's life (an audit log, a webhook, a row somewhere) subscribes with
`crawler.signals.connect(handler, signal=crawl_start)` and changes nothing here. Handlers may be coroutines;
they run beside each other, each event waits CRAWL_PHASE_SECONDS for them at most, and an error of theirs is
logged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

crawl_setup = object()  #: this worker has joined the crawl; nothing has been fetched by it yet
crawl_start = object()  #: the engine runs; URLs are leased from now on
crawl_cleanup = object()  #: this worker has stopped fetching, for the event's `reason`
crawl_completed = object()  #: it is done with all it has to do; `through`: so is the run

#: What is under way is given up: download handlers end it. Sent without anything.
transfers_cut = object()

EVENTS = {
    "crawl_setup": crawl_setup,
    "crawl_start": crawl_start,
    "crawl_cleanup": crawl_cleanup,
    "crawl_completed": crawl_completed,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlEvent:
    """Something that happened to one worker's part in a run.

    `kind`, `crawl_id`, `worker` and `epoch` name it: an event that comes twice has the same.
    """

    kind: str  #: crawl_setup, crawl_start, crawl_cleanup or crawl_completed
    crawl_id: int
    crawl: str
    run: int
    spider: str
    worker: str
    epoch: int  #: of the worker's stint on the run
    reason: str | None = None  #: why the worker stops, as Scrapy says it: finished, shutdown, …
    error: str | None = None  #: what went wrong, if something did
    through: bool = False  #: the frontier is closed: nothing is left to do, for any worker
    stop_reason: str | None = None  #: why the run is over: done, or the limit it has reached
    keeps: bool = False  #: URLs are left in the frontier for the next run
    counts: Mapping[str, Any] = field(default_factory=dict)  #: last figures of the frontier
