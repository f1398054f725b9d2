"""How long an answer asks to be left alone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy.http.headers import Headers

from crawlproj.pages.retry_after import LONGEST_MS, asked_wait_ms, retry_after_ms

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp()
IN_5 = round(NOW) + 5


@pytest.mark.parametrize(
    ("value", "want"),
    [
        # seconds
        (b"120", 120_000),
        ("5", 5_000),
        (b" 5 ", 5_000),
        (b"+5", 5_000),
        (b"005", 5_000),
        (b"1.5", 1_500),
        (b"0.529", 529),
        (b"2.", 2_000),
        (b"5s", 5_000),
        (b"5 seconds", 5_000),
        (b"2 minutes", 120_000),
        (b"1h", 3_600_000),
        (b"250ms", 250),
        # no wait
        (b"0", None),
        (b"0.0", None),
        (b"0.0001", None),
        (b"-5", None),
        (b"-0", None),
        # very long
        (b"99999999", LONGEST_MS),
        (b"999999999999999999", LONGEST_MS),
        (b"9" * 400, LONGEST_MS),
        # rubbish
        (b"", None),
        (b" ", None),
        (b"soon", None),
        (b"5 apples", None),
        (b"1e3", None),
        (b"0x10", None),
        (b"nan", None),
        (b"inf", None),
        (b"\xb2", None),
        ("\u0665", None),
        (b"\xff\xfe", None),
        (b"2026", 2_026_000),
        # dates: as it should be, as it was, as C prints it
        (b"Thu, 01 Jan 2026 12:00:05 GMT", 5_000),
        (b"Thursday, 01-Jan-26 12:00:05 GMT", 5_000),
        (b"Thu Jan  1 12:00:05 2026", 5_000),
        # without a zone, or with another one
        (b"Thu, 01 Jan 2026 12:00:05", 5_000),
        (b"Thursday, 01-Jan-26 12:00:05", 5_000),
        (b"Thu Jan  1 12:00:05 2026 GMT", 5_000),
        (b"Thu, 01 Jan 2026 12:00:05 UTC", 5_000),
        (b"Thu, 01 Jan 2026 12:00:05 +0000", 5_000),
        (b"Thu, 01 Jan 2026 12:00:05 -0000", 5_000),
        (b"Thu, 01 Jan 2026 14:00:05 +0200", 5_000),
        (b"Thu, 01 Jan 2026 07:00:05 EST", 5_000),
        # careless
        (b"thu, 01 jan 2026 12:00:05 gmt", 5_000),
        (b"01 Jan 2026 12:00:05 GMT", 5_000),
        (b"Fri, 01 Jan 2026 12:00:05 GMT", 5_000),
        (b"Thu, 1 Jan 2026 12:00:05 GMT", 5_000),
        (b"2026-01-01T12:00:05Z", 5_000),
        (b"2026-01-01T12:00:05.500+00:00", 5_500),
        (b"2026-01-01 12:00:05", 5_000),
        # past, impossible, far away
        (b"Thu, 01 Jan 2026 12:00:00 GMT", None),
        (b"Wed, 31 Dec 2025 12:00:00 GMT", None),
        (b"Thu, 41 Jan 2026 12:00:05 GMT", None),
        (b"Thu, 01 Jan 2026 25:00:05 GMT", None),
        (b"Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_MS),
        (b"Thu, 01 Jan 2026 12:00:05 -9999", None),
        # a time since 1970
        (f"{IN_5}", 5_000),
        (f"{IN_5}.25", 5_250),
        (f"{IN_5}000", 5_000),
        (f"{IN_5 - 10}", None),
        # two headers that have become one
        (b"120, 3600", 3_600_000),
        (b"soon, 7", 7_000),
        (b"0, 0", None),
    ],
)
def test_one_value(value: bytes | str, want: int | None) -> None:
    """Seconds or a date, however it is written; rubbish and a time that has passed are no wait."""
    assert retry_after_ms(value, NOW) == want


@given(value=st.one_of(st.binary(), st.text(), st.from_regex(r"\w{3}, \d+ \w{3} \d+ \d+:\d+:\d+ \S+")))
def test_it_takes_anything(value: bytes | str) -> None:
    """A header may hold anything; what comes out is a wait."""
    wait = retry_after_ms(value, NOW)
    assert wait is None or 0 < wait <= LONGEST_MS


AT_1205 = b"Thu, 01 Jan 2026 12:05:00 GMT"


@pytest.mark.parametrize(
    ("status", "headers", "want"),
    [
        (429, {}, None),
        (429, {"Retry-After": "7"}, 7_000),
        (429, {"retry-after": "7"}, 7_000),
        (500, {"Retry-After": "7"}, 7_000),
        (503, {"Retry-After": ["7", "30", "9"]}, 30_000),
        (503, {"Retry-After": ["soon", "3"]}, 3_000),
        # the clock is the server's, where it says what time it thinks it is
        (503, {"Retry-After": AT_1205}, 300_000),
        (503, {"Retry-After": AT_1205, "Date": "Thu, 01 Jan 2026 12:04:50 GMT"}, 10_000),
        (503, {"Retry-After": AT_1205, "Date": "Thu, 01 Jan 2026 12:06:00 GMT"}, None),
        (503, {"Retry-After": AT_1205, "Date": "yesterday"}, 300_000),
        # limits of calls: of answers that speak of them, and below Retry-After
        (429, {"RateLimit-Reset": "30"}, 30_000),
        (429, {"X-RateLimit-Reset": str(IN_5)}, 5_000),
        (429, {"X-Rate-Limit-Reset": f"{IN_5}000"}, 5_000),
        (429, {"X-RateLimit-Reset-After": "0.64"}, 640),
        (429, {"RateLimit": "limit=100, remaining=0, reset=50"}, 50_000),
        (429, {"RateLimit": '"burst";r=0;t=2, "day";r=10;t=60'}, 60_000),
        (429, {"RateLimit": '"default";r=0'}, None),
        (503, {"X-RateLimit-Reset": "20"}, 20_000),
        (500, {"X-RateLimit-Reset": "20"}, None),
        (404, {"RateLimit-Reset": "20"}, None),
        (429, {"Retry-After": "2", "RateLimit-Reset": "3600"}, 2_000),
        (429, {"Retry-After": "soon", "RateLimit-Reset": "9"}, 9_000),
    ],
)
def test_a_whole_answer(status: int, headers: dict[str, str | list[str]], want: int | None) -> None:
    """Of several values the longest; Retry-After before the limits of calls; dates by the server's clock."""
    assert asked_wait_ms(status, Headers(headers), NOW) == want
