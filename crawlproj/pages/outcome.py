"""What a leased request came to, as one page object; the pipelines say the rest."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import IgnoreRequest

from crawlproj.exceptions import Disregarded, NotModified, RetryLater
from crawlproj.items import PageObject
from crawlproj.pages.failure import explain, explain_status
from crawlproj.pages.retry_after import asked_wait_ms
from crawlproj.redaction import without_login

if TYPE_CHECKING:
    from scrapy.http import Response

    from crawlproj.items import Visit

DETAIL = 500  # characters of what is said for people


def answered(visit: Visit, response: Response) -> PageObject:
    """Return the page of a response that has come as far as the spider."""
    content_type = response.headers.get("Content-Type")
    said: dict[str, Any] = {}
    if response.status >= 400:  # noqa: PLR2004  # also of an attempt that was the last: others wait in the queue
        said["host_incident"] = explain_status(response.status).host_incident
        said["retry_after_ms"] = asked_wait_ms(response.status, response.headers, time.time())
    return _page(
        visit,
        http_status=response.status,
        headers=_headers(response),
        body=response.body,
        content_type=content_type.decode("latin-1") if content_type else None,
        text=visit.text,
        **said,
    )


def redirected(visit: Visit, url: str) -> PageObject:
    """Return the page of a request that has been sent on to *url*."""
    return _page(visit, redirect_to=url)


def unanswered(visit: Visit, error: BaseException) -> PageObject:
    """Return the page of a request that ended in an error, ours that are none among them."""
    if isinstance(error, Disregarded):
        return _page(visit, disregarded=error.reason)
    if isinstance(error, NotModified):
        return _page(visit, http_status=304, headers=_headers(error.response))
    if isinstance(error, RetryLater):
        return _page(
            visit,
            http_status=visit.http_status,
            failure=error.reason,
            detail=without_login(str(error))[:DETAIL],
            retry_after_ms=error.retry_after_ms,
            host_incident=error.host_incident,
            final=False,
        )
    if isinstance(error, IgnoreRequest) and visit.http_status is None:
        why = "offsite" if "offsite" in str(error) else "filtered"
        return _page(visit, disregarded=why, detail=without_login(str(error))[:DETAIL])
    found = explain(error, visit.http_status)
    return _page(
        visit,
        http_status=visit.http_status,
        failure=found.reason,
        detail=found.detail,
        host_incident=found.host_incident,
    )


def _page(visit: Visit, **found: Any) -> PageObject:
    entry = visit.entry
    ended = visit.ended or time.monotonic()
    found.setdefault("http_status", None)
    found.setdefault("detail", visit.detail)
    return PageObject(
        url=entry.url,
        canonical_url=entry.canonical,
        key=entry.key,
        lease=visit.lease,
        depth=entry.depth,
        source_tag=entry.tag,
        extra=entry.extra,
        fetched_at=datetime.now(UTC),
        duration_ms=round((ended - visit.started) * 1000) if visit.started else None,
        sent_validators=visit.sent_validators,
        has_content=visit.has_content,
        **found,
    )


def _headers(response: Response) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, values in response.headers.items()
        for value in values
    )
