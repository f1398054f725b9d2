"""Another attempt follows later, from the frontier."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadTimeoutError,
    IgnoreRequest,
    ResponseDataLossError,
)
from scrapy.http import Response
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from crawlproj.exceptions import Disregarded, RetryLater
from crawlproj.items import Lease
from middlewares.compression import TRUNCATED
from middlewares.retry import RetryMiddleware
from tests.middlewares.answers import answering

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


def crawler(**changes: Any) -> Crawler:
    settings = Settings()
    settings.setmodule("crawlproj.settings")
    settings.update({"TWISTED_REACTOR_ENABLED": False, "MAX_ATTEMPTS": 3, **changes})
    made = get_crawler(settings_dict=settings.copy_to_dict())
    made.crawling = True
    return made


def request(attempts: int | None = 0, **meta: Any) -> Request:
    if attempts is not None:
        meta["lease"] = Lease(
            token=1, host="e.test", attempts=attempts, min_interval_ms=None, max_attempts=3, expires_at=0
        )
    return Request("http://e.test/", meta=meta)


def answer(status: int, **headers: str) -> Response:
    return Response("http://e.test/", status=status, headers=headers)


@pytest.fixture
def retry() -> RetryMiddleware:
    """The middleware of a crawl with three attempts."""
    return RetryMiddleware.from_crawler(crawler())


@pytest.mark.parametrize(
    ("status", "host"), [(429, True), (503, True), (500, False), (502, False), (504, False), (408, False)]
)
def test_status_to_be_retried_goes_back(retry: RetryMiddleware, status: int, host: bool) -> None:
    """Its reason is its number; 429 and 503 are said of the host as a whole."""
    with pytest.raises(RetryLater) as caught:
        retry.process_response(request(), answer(status))
    assert (caught.value.reason, caught.value.host_incident) == (f"http_{status}", host)
    assert caught.value.retry_after_ms is None


@pytest.mark.parametrize("status", [200, 204, 301, 304, 403, 404])
def test_other_statuses_pass(retry: RetryMiddleware, status: int) -> None:
    """They will not be better later."""
    response = answer(status)
    assert retry.process_response(request(), response) is response


def test_retry_after_is_handed_on(retry: RetryMiddleware) -> None:
    """The server knows best when to come again; rubbish is no wait."""
    with pytest.raises(RetryLater) as caught:
        retry.process_response(request(), Response("http://e.test/", 503, headers={"Retry-After": "7"}))
    assert caught.value.retry_after_ms == 7000
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 100))
    with pytest.raises(RetryLater) as caught:
        retry.process_response(request(), Response("http://e.test/", 429, headers={"Retry-After": date}))
    assert caught.value.retry_after_ms is not None
    assert 95_000 < caught.value.retry_after_ms <= 100_000
    with pytest.raises(RetryLater) as caught:
        retry.process_response(request(), Response("http://e.test/", 429, headers={"Retry-After": "soon"}))
    assert caught.value.retry_after_ms is None


def test_last_attempt_passes(retry: RetryMiddleware) -> None:
    """What comes then is the outcome, and the spider sees it."""
    response = answer(503)
    with pytest.raises(RetryLater):
        retry.process_response(request(attempts=1), response)
    assert retry.process_response(request(attempts=2), response) is response
    assert retry.process_exception(request(attempts=2), DownloadTimeoutError("x")) is None


@pytest.mark.parametrize(
    ("attempts", "meta"),
    [(None, {}), (0, {"dont_retry": True}), (0, {"max_retry_times": 0}), (1, {"max_retry_times": 1})],
)
def test_request_that_wants_no_retry_passes(
    retry: RetryMiddleware, attempts: int | None, meta: dict[str, Any]
) -> None:
    """Requests through the engine and requests that say so are left alone."""
    response = answer(503)
    asked = request(attempts, **meta)
    assert retry.process_response(asked, response) is response
    assert retry.process_exception(asked, DownloadTimeoutError("x")) is None


def test_max_retry_times_counts_retries(retry: RetryMiddleware) -> None:
    """One retry is two fetches, and MAX_ATTEMPTS still holds."""
    with pytest.raises(RetryLater):
        retry.process_response(request(0, max_retry_times=1), answer(503))
    response = answer(503)
    assert retry.process_response(request(2, max_retry_times=99), response) is response


def test_handled_status_is_retried_all_the_same(retry: RetryMiddleware) -> None:
    """As in Scrapy: a spider sees the status it handles when the attempts are used up."""
    with pytest.raises(RetryLater):
        retry.process_response(request(handle_httpstatus_list=[503]), answer(503))


@pytest.mark.parametrize(
    ("error", "reason", "host"),
    [
        (DownloadTimeoutError("x"), "timeout", True),
        (CannotResolveHostError("x"), "dns", True),
        (ResponseDataLossError("x"), "truncated", False),
    ],
)
def test_failure_that_may_pass_goes_back(
    retry: RetryMiddleware, error: Exception, reason: str, host: bool
) -> None:
    """The original error stays its cause."""
    with pytest.raises(RetryLater) as caught:
        retry.process_exception(request(), error)
    assert (caught.value.reason, caught.value.host_incident) == (reason, host)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    "error", [IgnoreRequest("x"), Disregarded("robots"), RetryLater("x"), KeyError("x")], ids=repr
)
def test_failure_that_stays_passes(retry: RetryMiddleware, error: Exception) -> None:
    """A refusal, a request that already goes back, and a mistake in code."""
    assert retry.process_exception(request(), error) is None


def test_chosen_exceptions_are_the_ones(retry: RetryMiddleware) -> None:
    """RETRY_EXCEPTIONS, when set, means exactly those."""
    chosen = RetryMiddleware.from_crawler(crawler(RETRY_EXCEPTIONS=["builtins.KeyError"]))
    with pytest.raises(RetryLater):
        chosen.process_exception(request(), KeyError("x"))
    assert chosen.process_exception(request(), DownloadTimeoutError("x")) is None


def test_half_a_page_is_never_passed(retry: RetryMiddleware) -> None:
    """It is retried, and in the end it is a failure; also when retries are off."""
    cut = Response("http://e.test/", flags=[TRUNCATED])
    with pytest.raises(RetryLater, match="truncated"):
        retry.process_response(request(), cut)
    with pytest.raises(ResponseDataLossError):
        retry.process_response(request(attempts=2), cut)
    off = RetryMiddleware.from_crawler(crawler(RETRY_ENABLED=False))
    with pytest.raises(ResponseDataLossError):
        off.process_response(request(), cut)
    response = answer(503)
    assert off.process_response(request(), response) is response


def test_retries_are_counted() -> None:
    """Under the names that Scrapy's own retries have."""
    made = crawler()
    retry = RetryMiddleware.from_crawler(made)
    for attempts in (0, 1, 2):
        try:
            retry.process_response(request(attempts), answer(500))
        except RetryLater:
            continue
    stats = made.stats.get_stats()
    assert stats["retry/count"] == 2
    assert stats["retry/reason_count/http_500"] == 2
    assert stats["retry/max_reached"] == 1


def test_errback_gets_the_retry_with_a_real_engine() -> None:
    """RetryLater ends the request; the page is asked for once, and nothing is retried in this process."""
    with answering() as site:
        busy, gone, last = (
            site.add("/busy", 503, Retry_After="3"),
            site.add("/gone", 404),
            site.add("/last", 503),
        )
        told = site.crawl(busy, gone, {"url": last, "attempts": 4})
    assert [(each["outcome"], each["reason"], each["wait"], each["host"]) for each in told] == [
        ("RetryLater", "http_503", 3000, True),
        ("HttpError", None, None, None),
        ("HttpError", None, None, None),
    ]
    assert {path: len(asked) for path, asked in site.asked.items()} == {"/busy": 1, "/gone": 1, "/last": 1}
