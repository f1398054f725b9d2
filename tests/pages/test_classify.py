"""The table of outcomes, row by row."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlproj.items import FetchStatus, ScheduleStatus
from crawlproj.pages.classify import Attempt, Verdict, classify

PAGE = Attempt(http_status=200, main_text_length=500, body_size=8000, max_attempts=5)
ERROR = replace(PAGE, main_text_length=1200)  # an error page with many words
NO_ANSWER = Attempt(max_attempts=5)
LAST = {"attempts": 4}
AGAIN = {"final": False}
OURS = {"http_status": 304, "sent_validators": True}
KNOWN = {"has_stored_content": True}

DONE = Verdict(fetch_status=FetchStatus.DONE, schedule_status=ScheduleStatus.SUCCEEDED, stores=True)
EMPTY = replace(DONE, fetch_status=FetchStatus.EMPTY)
SHELL = replace(EMPTY, reason="unrendered_shell")
NOT_MODIFIED = Verdict(fetch_status=FetchStatus.NOT_MODIFIED, schedule_status=ScheduleStatus.SUCCEEDED)
REDIRECTED = Verdict(fetch_status=None, schedule_status=ScheduleStatus.SUCCEEDED, reason="redirected")
REFETCH = Verdict(
    fetch_status=None,
    schedule_status=ScheduleStatus.RETRY,
    reason="unasked_304",
)


def failed(reason: str) -> Verdict:
    return Verdict(fetch_status=FetchStatus.FAILED, schedule_status=ScheduleStatus.FAILED, reason=reason)


def retried(reason: str) -> Verdict:
    return replace(failed(reason), schedule_status=ScheduleStatus.RETRY)


def disregarded(reason: str) -> Verdict:
    return Verdict(fetch_status=None, schedule_status=ScheduleStatus.DISREGARDED, reason=reason)


ROWS = [
    # 2xx with content
    (PAGE, {}, DONE),
    (PAGE, {"http_status": 201}, DONE),
    (PAGE, {"http_status": 203}, DONE),
    (PAGE, {"http_status": 206}, DONE),
    (PAGE, {"http_status": 299}, DONE),
    (PAGE, {"main_text_length": 1}, DONE),
    (PAGE, {"main_text_length": None}, DONE),
    (PAGE, {"main_text_length": None, "body_size": 1}, DONE),
    (PAGE, LAST, DONE),
    (PAGE, {"is_shell": True}, DONE),
    (PAGE, {"sent_validators": True, "has_stored_content": True}, DONE),
    (PAGE, AGAIN, DONE),
    # 2xx without
    (PAGE, {"main_text_length": 0}, EMPTY),
    (PAGE, {"main_text_length": 0, **LAST}, EMPTY),
    (PAGE, {"main_text_length": 0, "is_shell": True}, SHELL),
    (PAGE, {"body_size": 0, "main_text_length": 0}, EMPTY),
    (PAGE, {"body_size": 0, "main_text_length": None}, EMPTY),
    (PAGE, {"http_status": 204, "body_size": 0, "main_text_length": 0}, EMPTY),
    (PAGE, {"http_status": 204}, EMPTY),
    (PAGE, {"http_status": 205}, EMPTY),
    (PAGE, {"http_status": 201, "main_text_length": 0}, EMPTY),
    (PAGE, {"main_text_length": 0, "sent_validators": True, "has_stored_content": True}, EMPTY),
    # how much text is content
    (PAGE, {"main_text_length": 49, "empty_below": 50}, EMPTY),
    (PAGE, {"main_text_length": 50, "empty_below": 50}, DONE),
    (PAGE, {"main_text_length": 49, "empty_below": 50, "is_shell": True}, SHELL),
    (PAGE, {"main_text_length": 50, "empty_below": 50, "is_shell": True}, DONE),
    (PAGE, {"main_text_length": None, "empty_below": 50}, DONE),
    (PAGE, {"main_text_length": None, "empty_below": 50, "body_size": 0}, EMPTY),
    (PAGE, {"main_text_length": 0, "empty_below": 0}, DONE),
    (PAGE, {"main_text_length": 0, "empty_below": 0, "body_size": 0}, EMPTY),
    (PAGE, {"main_text_length": 0, "empty_below": 0, "http_status": 204}, EMPTY),
    (PAGE, {"main_text_length": 500, "empty_below": 10**9}, EMPTY),
    (ERROR, {"http_status": 404, "empty_below": 10**9}, failed("http_404")),
    (NO_ANSWER, {**OURS, **KNOWN, "empty_below": 50}, NOT_MODIFIED),
    # 304
    (NO_ANSWER, {**OURS, **KNOWN}, NOT_MODIFIED),
    (NO_ANSWER, {**OURS, **KNOWN, **LAST}, NOT_MODIFIED),
    (NO_ANSWER, {**OURS, **KNOWN, "main_text_length": 0}, NOT_MODIFIED),
    (NO_ANSWER, OURS, REFETCH),
    (NO_ANSWER, {**OURS, "attempts": 3}, REFETCH),
    (NO_ANSWER, {**OURS, **LAST}, failed("http_304")),
    (NO_ANSWER, {**OURS, "max_attempts": 1}, failed("http_304")),
    (NO_ANSWER, {"http_status": 304}, REFETCH),
    (NO_ANSWER, {"http_status": 304, **KNOWN}, REFETCH),
    (NO_ANSWER, {"http_status": 304, "attempts": 1}, failed("http_304")),
    (NO_ANSWER, {"http_status": 304, "max_attempts": 1}, failed("http_304")),
    (NO_ANSWER, {"http_status": 304, "failure": "unasked_304", **AGAIN}, REFETCH),
    (NO_ANSWER, {"http_status": 304, "failure": "unasked_304", **AGAIN, **LAST}, failed("unasked_304")),
    # any other status, however long its page
    (ERROR, {"http_status": 300}, failed("http_300")),
    (ERROR, {"http_status": 301}, failed("http_301")),
    (ERROR, {"http_status": 302}, failed("http_302")),
    (ERROR, {"http_status": 400}, failed("http_400")),
    (ERROR, {"http_status": 401}, failed("http_401")),
    (ERROR, {"http_status": 403}, failed("http_403")),
    (ERROR, {"http_status": 404}, failed("http_404")),
    (ERROR, {"http_status": 410}, failed("http_410")),
    (ERROR, {"http_status": 429}, failed("http_429")),
    (ERROR, {"http_status": 451}, failed("http_451")),
    (ERROR, {"http_status": 500}, failed("http_500")),
    (ERROR, {"http_status": 503}, failed("http_503")),
    (ERROR, {"http_status": 999}, failed("http_999")),
    (ERROR, {"http_status": 100}, failed("http_100")),
    (ERROR, {"http_status": 404, "main_text_length": 0}, failed("http_404")),
    (ERROR, {"http_status": 404, **KNOWN}, failed("http_404")),
    (ERROR, {"http_status": 404, **LAST}, failed("http_404")),
    # no usable answer
    (NO_ANSWER, {}, failed("no_response")),
    (NO_ANSWER, {"failure": "dns"}, failed("dns")),
    (NO_ANSWER, {"failure": "refused"}, failed("refused")),
    (NO_ANSWER, {"failure": "timeout", **KNOWN}, failed("timeout")),
    (NO_ANSWER, {"failure": "tls"}, failed("tls")),
    (NO_ANSWER, {"failure": "browser_crash"}, failed("browser_crash")),
    (PAGE, {"failure": "truncated"}, failed("truncated")),
    (PAGE, {"failure": "too_large"}, failed("too_large")),
    (PAGE, {"failure": "bad_content_encoding"}, failed("bad_content_encoding")),
    (PAGE, {"http_status": 302, "failure": "too_many_redirects"}, failed("too_many_redirects")),
    # another attempt was asked for
    (NO_ANSWER, {"failure": "timeout", **AGAIN}, retried("timeout")),
    (NO_ANSWER, {"failure": "dns", **AGAIN, "attempts": 3}, retried("dns")),
    (NO_ANSWER, {"failure": "dns", **AGAIN, **LAST}, failed("dns")),
    (NO_ANSWER, {"failure": "dns", **AGAIN, "attempts": 9}, failed("dns")),
    (NO_ANSWER, {"failure": "dns", **AGAIN, "max_attempts": 1}, failed("dns")),
    (PAGE, {"http_status": 503, "failure": "http_503", **AGAIN}, retried("http_503")),
    (PAGE, {"http_status": 429, "failure": "http_429", **AGAIN}, retried("http_429")),
    (PAGE, {"http_status": 429, "failure": "http_429", **AGAIN, **LAST}, failed("http_429")),
    (PAGE, {"failure": "truncated", **AGAIN}, retried("truncated")),
    # redirects that are followed
    (NO_ANSWER, {"http_status": 301, "redirected": True}, REDIRECTED),
    (NO_ANSWER, {"http_status": 308, "redirected": True, **LAST}, REDIRECTED),
    (PAGE, {"redirected": True}, REDIRECTED),
    # not fetched at all
    (NO_ANSWER, {"disregarded": "robots"}, disregarded("robots")),
    (NO_ANSWER, {"disregarded": "offsite"}, disregarded("offsite")),
    (NO_ANSWER, {"disregarded": "blocked"}, disregarded("blocked")),
    (NO_ANSWER, {"disregarded": "filtered", **LAST}, disregarded("filtered")),
    (NO_ANSWER, {"disregarded": "robots", "redirected": True}, disregarded("robots")),
    (NO_ANSWER, {"disregarded": "robots", "failure": "dns"}, disregarded("robots")),
]


@pytest.mark.parametrize(("attempt", "facts", "want"), ROWS, ids=lambda each: str(each)[:60])
def test_table_of_outcomes(attempt: Attempt, facts: dict[str, object], want: Verdict) -> None:
    """Every outcome has one verdict, and no two statuses are merged."""
    assert classify(replace(attempt, **facts)) == want


WORDS = st.one_of(st.none(), st.from_regex(r"[a-z_]{1,12}", fullmatch=True))


@given(
    attempt=st.builds(
        Attempt,
        http_status=st.one_of(st.none(), st.integers(100, 599)),
        failure=WORDS,
        disregarded=WORDS,
        redirected=st.booleans(),
        main_text_length=st.one_of(st.none(), st.integers(0, 9)),
        empty_below=st.integers(0, 9),
        body_size=st.integers(0, 9),
        is_shell=st.booleans(),
        sent_validators=st.booleans(),
        has_stored_content=st.booleans(),
        attempts=st.integers(0, 6),
        max_attempts=st.integers(1, 6),
        final=st.booleans(),
    )
)
def test_rules_that_hold_for_every_attempt(attempt: Attempt) -> None:
    """Done and empty are stored with a signal, nothing else is; failures have a reason; retries end."""
    verdict = classify(attempt)
    stored = verdict.fetch_status in {FetchStatus.DONE, FetchStatus.EMPTY}
    assert verdict.stores is stored
    if verdict.fetch_status is FetchStatus.FAILED:
        assert verdict.reason
    if verdict.schedule_status is ScheduleStatus.RETRY:
        assert attempt.attempts + 1 < attempt.max_attempts
    assert (verdict.schedule_status is ScheduleStatus.FAILED) <= (verdict.fetch_status is FetchStatus.FAILED)
    if verdict.reason:
        assert verdict.reason == verdict.reason.lower()
        assert " " not in verdict.reason
