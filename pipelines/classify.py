"""Give every page its fetch status, its schedule status and its health signal."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from crawlproj.items import PageObject
from crawlproj.pages.classify import Attempt, classify
from crawlproj.pages.health import raw_signal
from crawlproj.worker import Worker

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class ClassifyPipeline:
    """Applies the one table of outcomes to a page. Items of the spider pass untouched.

    Settings: EMPTY_BELOW_CHARACTERS.
    """

    def __init__(self, empty_below: int) -> None:
        self._empty_below = empty_below

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build it with the crawl's rule for empty pages."""
        return cls(Worker.of(crawler).config.empty_below)

    def process_item(self, item: Any) -> Any:
        """Return a page with its verdict."""
        if not isinstance(item, PageObject):
            return item
        verdict = classify(attempt_of(item, self._empty_below))
        return replace(
            item,
            fetch_status=verdict.fetch_status,
            schedule_status=verdict.schedule_status,
            reason=verdict.reason or ("callback_error" if item.detail and verdict.stores else None),
            stores=verdict.stores,
            health_signal=raw_signal(item.text) if verdict.stores and item.text else None,
        )


def attempt_of(page: PageObject, empty_below: int) -> Attempt:
    """Return what the table looks at."""
    return Attempt(
        http_status=page.http_status,
        failure=page.failure,
        disregarded=page.disregarded,
        redirected=page.redirect_to is not None,
        main_text_length=None if page.text is None else page.text.main_length,
        empty_below=empty_below,
        is_shell=page.text is not None and page.text.is_shell,
        body_size=len(page.body),
        sent_validators=page.sent_validators,
        has_stored_content=page.has_content,
        attempts=page.lease.attempts,
        max_attempts=page.lease.max_attempts,
        final=page.final,
    )
