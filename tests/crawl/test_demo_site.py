"""A crawl of the built-in site finds what its table says, and a second one finds it unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from crawlproj.demo import EXPECTED, SETTINGS
from crawlproj.items import FetchStatus

if TYPE_CHECKING:
    from crawlproj.demo import DemoSite, Expected
    from crawlproj.testing.plugin import Crawl
    from crawlproj.testing.project import Crawled

FAST = {**SETTINGS, "MIN_INTERVAL_MS": 0, "FRONTIER_RETRY_DELAY_MS": 10}


def found(crawled: Crawled, site: DemoSite) -> dict[str, dict[str, Any]]:
    """Return the rows of the site's pages, by path."""
    return {
        row["url"].removeprefix(site.url): row for row in crawled.pages if row["url"].startswith(site.url)
    }


def outcome(row: dict[str, Any]) -> dict[str, Any]:
    """Return what EXPECTED says of a path, as the crawl found it."""
    health = row["health_signal"]
    length = health["text_length"] if health else None
    return {
        "schedule_status": row["schedule_status"],
        "fetch_status": row["fetch_status"],
        "http_status": row["http_status"],
        "reason": row["reason"],
        "text": None if length is None else length > 0,
    }


def wanted(expected: Expected) -> dict[str, Any]:
    """Return the first run's outcome of a path, as the table has it."""
    return {
        "schedule_status": expected.schedule_status,
        "fetch_status": expected.fetch_status,
        "http_status": expected.http_status,
        "reason": expected.reason,
        "text": expected.text,
    }


@pytest.mark.timeout(180)
def test_every_path_ends_as_the_table_says(demo_site: DemoSite, crawl: Crawl) -> None:
    """One run over the whole site: each path once, with its four statuses and its reason."""
    first = crawl("site", FAST, seeds=demo_site.url + "/")

    assert first.returncode == 0, first.stderr
    rows = found(first, demo_site)
    outcomes = {path: outcome(row) for path, row in rows.items()}
    assert outcomes == {path: wanted(expected) for path, expected in EXPECTED.items()}
    assert first.status["status"] == "sealed"
    assert demo_site.hits["/members/"] == 0
    assert demo_site.hits["/robots.txt"] == 1
    assert demo_site.hits["/weather"] == SETTINGS["MAX_ATTEMPTS"]
    assert demo_site.hits["/welcome"] == 2
    once = set(EXPECTED) - {"/members/", "/weather", "/welcome"}
    assert {path: demo_site.hits[path] for path in once} == dict.fromkeys(once, 1)


@pytest.mark.timeout(180)
def test_a_second_run_asks_only_whether_pages_have_changed(demo_site: DemoSite, crawl: Crawl) -> None:
    """Pages with validators are `not_modified`, without a health signal; the others are fetched again."""
    crawl("site", FAST, seeds=demo_site.url + "/")
    second = crawl("site", FAST, seeds=demo_site.url + "/")

    assert second.returncode == 0, second.stderr
    assert second.status["run"] == 2
    rows = found(second, demo_site)
    statuses = {path: row["fetch_status"] for path, row in rows.items()}
    assert statuses == {path: expected.second for path, expected in EXPECTED.items()}
    unchanged = [row for row in rows.values() if row["fetch_status"] == FetchStatus.NOT_MODIFIED]
    assert {row["http_status"] for row in unchanged} == {304}
    assert [row["health_signal"] for row in unchanged if row["health_signal"] is not None] == []
