"""What we need of Scrapy's engine and it has no word for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


def is_closing(crawler: Crawler) -> bool:
    """Return whether the crawler's engine has begun to close, for whatever reason."""
    # Scrapy has no signal for the begin of closing: it sends them when everything has come back.
    slot = crawler.engine._slot
    return not crawler.crawling or slot is None or slot.closing is not None


def signal_is_lost(crawler: Crawler) -> bool:
    """Return whether a signal came while the engine was starting, which it has not noticed since."""
    engine, slot = crawler.engine, crawler.engine._slot
    return not crawler.crawling and engine.running and slot is not None and slot.closing is None


def wait_no_longer(crawler: Crawler) -> int:
    """Let an engine that closes go on as if all that is under way had come back; return how much there was.

    Its own way would be to wait for a callback that never ends. What ends after all is lost on it.
    """
    slot, scraper = crawler.engine._slot, crawler.engine.scraper
    dropped = 0
    if slot is not None and slot.closing is not None and slot.inprogress:
        dropped = len(slot.inprogress)
        slot.inprogress = _Forgiving(slot.inprogress)
        slot.inprogress.clear()
        slot._maybe_fire_closing()
    if scraper.slot is not None and not scraper.slot.is_idle():
        scraper.slot.active = _Forgiving(scraper.slot.active)
        scraper.slot.active.clear()
        scraper.slot.queue.clear()
        scraper.slot.itemproc_size = 0
        if scraper.slot.closing is not None:
            scraper._check_if_closing()
    return dropped


class _Forgiving(set):  # type: ignore[type-arg]
    """A set that does not mind when something is taken out twice."""

    def remove(self, element: object) -> None:
        self.discard(element)
