"""What a crawl of the built-in site has to find, path by path."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from crawlproj.items import FetchStatus, ScheduleStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

SETTINGS = MappingProxyType(
    {
        "MIN_INTERVAL_MS": 20,  # the site is this machine's own
        "MAX_ATTEMPTS": 3,
        "FRONTIER_RETRY_DELAY_MS": 200,
    }
)  #: with these a crawl of the site takes seconds, and nobody is hurt by it


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The outcome of one path, as `scrapy pages --json` shows it."""

    schedule_status: ScheduleStatus
    fetch_status: FetchStatus | None
    http_status: int | None
    reason: str | None = None
    text: bool | None = True  #: whether text_length is above zero, or zero; None: it is null
    second: FetchStatus | None = None  #: fetch_status of the next run
    rendered: FetchStatus | None = None  #: fetch_status in a browser, where it differs


def _done(*, second: FetchStatus = FetchStatus.NOT_MODIFIED, text: bool | None = True) -> Expected:
    return Expected(
        schedule_status=ScheduleStatus.SUCCEEDED,
        fetch_status=FetchStatus.DONE,
        http_status=200,
        text=text,
        second=second,
    )


def _empty(*, rendered: FetchStatus) -> Expected:
    return Expected(
        schedule_status=ScheduleStatus.SUCCEEDED,
        fetch_status=FetchStatus.EMPTY,
        http_status=200,
        reason="unrendered_shell",
        text=False,
        second=FetchStatus.EMPTY,
        rendered=rendered,
    )


def _redirected() -> Expected:
    return Expected(
        schedule_status=ScheduleStatus.SUCCEEDED,
        fetch_status=None,
        http_status=None,
        reason="redirected",
        text=None,
    )


def _failed(http_status: int) -> Expected:
    return Expected(
        schedule_status=ScheduleStatus.FAILED,
        fetch_status=FetchStatus.FAILED,
        http_status=http_status,
        reason=f"http_{http_status}",
        text=None,
        second=FetchStatus.FAILED,
    )


_ARTICLES = (
    "/", "/about", "/contact", "/data", "/history", "/letters", "/slow", "/fr", "/ja", "/zh", "/forum/",
    "/news/", "/news/bakery", "/news/bridge", "/news/clock", "/news/ferry", "/news/library",
    "/news/lighthouse", "/news/seals", "/news/storm",
    "/sport/", "/sport/chess", "/sport/regatta",
    "/recipes/", "/recipes/fish-soup", "/recipes/saffron-buns",
    "/shop/", "/shop/?colour=blue&size=large", "/shop/almanac", "/shop/lamp", "/shop/mug", "/shop/print",
    "/shop/rope",
    "/archive/?page=1", "/archive/?page=2", "/archive/?page=3",
    "/api/tides.json", "/press.txt", "/sitemap.xml",
)  # fmt: skip

EXPECTED: Mapping[str, Expected] = MappingProxyType(
    {
        **{path: _done() for path in _ARTICLES},
        "/live": _done(second=FetchStatus.DONE),
        "/welcome": _done(second=FetchStatus.DONE),
        "/harbour": _done(text=None),
        "/price-list": _done(text=None),
        "/app/": _empty(rendered=FetchStatus.EMPTY),
        "/app/tides": _empty(rendered=FetchStatus.DONE),
        "/lighthouse": _redirected(),
        "/1998/history": _redirected(),
        "/2006/history": _redirected(),
        "/old/history": _redirected(),
        "/news/lost-dog": _failed(404),
        "/weather": _failed(500),
        "/members/": Expected(
            schedule_status=ScheduleStatus.DISREGARDED,
            fetch_status=None,
            http_status=None,
            reason="robots",
            text=None,
        ),
    }
)
