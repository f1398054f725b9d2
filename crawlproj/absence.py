"""Why a crawl has no page of a URL, as far as its pages, its arguments and its frontier tell."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from crawlproj.crawls.admission import Admission
from crawlproj.exceptions import BadUrl
from crawlproj.frontier.canonical import normalise
from crawlproj.output import duration, number
from crawlproj.pages.links import LinkScope
from crawlproj.pages.rows import recovery_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg import Connection

    from crawlproj.crawls.rows import CrawlRow
    from crawlproj.frontier.frontier import Frontier

PATIENCE = 5.0  # seconds that a person waits for a search through all links


async def why_absent(
    connection: Connection[Any],
    crawl: CrawlRow,
    wire: str,
    host: str,
    frontier: Frontier | None,
    clock: Callable[[], float] = time.monotonic,
) -> str:
    """Return half a sentence: what is known of a URL that was never fetched."""
    seeds, outside = _seeds(crawl), _outside(crawl, wire)
    if wire in seeds or wire in crawl.config.get("seeds", ()):
        return f"it is a seed, and {await _waits(crawl, host, frontier)}"
    if outside:
        return f"it is out of the crawl's scope: {outside}"
    source, looked_at_all = _linked_from(connection, crawl.id, wire, clock)
    if source:
        return f"it is linked from {source}, and {await _waits(crawl, host, frontier)}"
    return "no page of the run links to it" if looked_at_all else "no link to it was found in a few seconds"


def _arguments(crawl: CrawlRow) -> dict[str, str]:
    return dict(crawl.config.get("arguments") or {}) if crawl.spider == "site" else {}


def _seeds(crawl: CrawlRow) -> tuple[str, ...]:
    """Return the seeds in their wire form; those of a file too large to be kept are not known here."""
    given = str(_arguments(crawl).get("seeds", ""))
    found = []
    for seed in () if given.startswith("@") else given.split():
        with suppress(BadUrl):
            found.append(normalise(seed))
    return tuple(found)


def _outside(crawl: CrawlRow, wire: str) -> str | None:
    """Return which rule or argument keeps a URL out; of arguments only the site spider's are known here."""
    if (why := Admission.from_config(crawl.config).refusal(wire, 0)) is not None:
        return why
    arguments, seeds = _arguments(crawl), _seeds(crawl)
    for name, says in (("deny", True), ("allow", False)):
        pattern = arguments.get(name)
        if pattern and bool(re.search(pattern, wire)) is says:
            return f"{name} {pattern} {'matches' if says else 'does not match'}"
    scope = arguments.get("scope", "host")
    if seeds and wire not in LinkScope(scope=scope, seeds=seeds):
        return f"its {'domain' if scope == 'domain' else 'host'} is none of the seeds'"
    return None


def _linked_from(
    connection: Connection[Any], crawl_id: int, wire: str, clock: Callable[[], float]
) -> tuple[str | None, bool]:
    """Return a page that links to a URL, and whether all pages have been looked at."""
    until = clock() + PATIENCE
    for page in recovery_log(connection, crawl_id):
        if any(link.url == wire for link in page["links"]):
            return str(page["url"]), True
        if clock() > until:
            return None, False
    return None, True


async def _waits(crawl: CrawlRow, host: str, frontier: Frontier | None) -> str:
    if crawl.status == "sealed":
        return f"the run ended before its turn ({crawl.stop_reason or 'sealed'})"
    view = await frontier.host(host) if frontier else None
    if view is None or not view.queued:
        return "it is not in the queue of its host"
    due = f", for another {duration(view.next_due_ms / 1000)}" if view.next_due_ms else ""
    return f"it waits: {host} has {number(view.queued)} queued and is {view.state}{due}"
