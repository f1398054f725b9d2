"""Soft limits: nothing new starts, what runs finishes, and one note says why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.crawl.support import linking

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from crawlproj.testing.plugin import Crawl
    from crawlproj.testing.site import Site


def star(site: Site, leaves: int, *, delay: float = 0) -> None:
    """Make a page that links to *leaves* others."""
    site.add("/", linking(*(f"/{n}" for n in range(leaves))))
    for n in range(leaves):
        site.add(f"/{n}", linking(), delay=delay)


@pytest.mark.parametrize(("concurrent", "delay"), [(32, 0), (3, 0.4)])
def test_targets_are_exact(concurrent: int, delay: float, site: Site, crawl: Crawl) -> None:
    """MAX_TARGET targets are started, neither more nor fewer, and the run is sealed with its note."""
    star(site, 40, delay=delay)
    settings = {"MAX_TARGET": 10, "HOST_MAX_IN_FLIGHT": 8, "MAX_CONCURRENT_COUNT": concurrent}
    result = crawl("site", settings, seeds=site.url + "/")
    assert result.returncode == 0, result.stderr
    assert len(result.pages) == 10
    assert sum(len(times) for path, times in site.hits.items() if path != "/robots.txt") == 10
    (note,) = result.notes
    assert note["namespace"] == "STOP_EARLY_REASON"
    assert note["message"] == "targets count 10 exceeds limit 10"
    assert note["fields"] == {
        "r": "ExceedTargetsCountLimit",
        "limitTargets": "10",
        "currentStartedTargets": "10",
    }
    assert result.status["status"] == "sealed"
    assert result.status["stop_reason"] == "ExceedTargetsCountLimit"


def test_a_run_that_just_fits_has_no_note(site: Site, crawl: Crawl) -> None:
    """As many pages as the limit allows are no early stop."""
    star(site, 4)
    result = crawl("site", {"MAX_TARGET": 5}, seeds=site.url + "/")
    assert result.returncode == 0, result.stderr
    assert (len(result.pages), result.notes) == (5, [])


def test_retries_and_redirects_are_one_target(site: Site, crawl: Crawl) -> None:
    """A target counts once for all its attempts and its chain of redirects."""
    site.add("/", linking("/r", "/500", "/0"))
    site.add("/r", "", status=302, headers={"Location": "/target"})
    site.add("/target", linking())
    site.add("/500", "", status=500)
    site.add("/0", linking())
    result = crawl("site", {"MAX_TARGET": 4, "MAX_ATTEMPTS": 3}, seeds=site.url + "/")
    assert result.returncode == 0, result.stderr
    assert result.status["started_targets"] == 4
    assert len(site.hits["/500"]) == 3
    assert len(site.hits["/target"]) == 1
    assert result.notes == []


def test_results_count_items_by_their_url(
    site: Site, crawl: Crawl, spider_source: Callable[[str], None]
) -> None:
    """MAX_RESULT counts distinct canonical URLs of pages and items, and is passed by what was in flight."""
    star(site, 40)
    spider_source("""
from scrapy import Request, Spider

class Fruitful(Spider):
    name = "fruitful"

    async def start(self):
        for n in range(40):
            yield Request(f"{self.url}/{n}")

    def parse(self, response):
        for n in range(4):
            yield {"url": f"{response.url}?a=1&n={n}"}
        yield {"url": f"{response.url}?n=0&a=1"}
        yield {"url": response.url}
""")
    result = crawl("fruitful", {"MAX_RESULT": 12, "HOST_MAX_IN_FLIGHT": 2}, url=site.url)
    assert result.returncode == 0, result.stderr
    assert result.status["results"] == 5 * len(result.pages)
    assert 15 <= result.status["results"] <= 25
    (note,) = result.notes
    assert note["fields"]["r"] == "ExceedResultsCountLimit"
    assert int(note["fields"]["currentResults"]) >= 12


def test_time_ends_a_crawl_that_trickles(site: Site, crawl: Crawl) -> None:
    """MAX_TIME_SECONDS stops new targets; what runs may finish."""
    star(site, 30, delay=0.5)
    result = crawl("site", {"MAX_TIME_SECONDS": 2}, seeds=site.url + "/")
    assert result.returncode == 0, result.stderr
    assert 2 <= len(result.pages) <= 8
    (note,) = result.notes
    assert note["fields"]["r"] == "ExceedRunningTime"
    assert note["fields"]["mostSeconds"] == "2"
    assert result.status["status"] == "sealed"


@pytest.mark.parametrize("value", ["0", "", "0.0"])
def test_unlimited(site: Site, crawl: Crawl, value: str) -> None:
    """Unset, empty and 0 are one and the same: no limit."""
    star(site, 2)
    result = crawl(
        "site", {"MAX_TARGET": value, "MAX_RESULT": value, "MAX_TIME_SECONDS": value}, seeds=site.url + "/"
    )
    assert result.returncode == 0, result.stderr
    assert (len(result.pages), result.notes) == (3, [])


def test_a_limit_is_per_run(site: Site, crawl: Crawl) -> None:
    """The next run of the same name has the whole limit again."""
    star(site, 30)
    runs = [crawl("site", {"MAX_TARGET": 4}, seeds=site.url + "/") for _ in range(2)]
    assert [result.status["started_targets"] for result in runs][-1] == 4
    assert runs[-1].status["run"] == 2


@pytest.mark.parametrize("dump", [True, False])
def test_what_is_left_when_a_run_is_sealed_can_be_kept(
    dump: bool, site: Site, crawl: Crawl, tmp_path: Path
) -> None:
    """One JSON line for each URL that was still queued, in a file that names crawl and run."""
    star(site, 40)
    settings = {
        "CRAWL_NAME": "a/b",
        "MAX_TARGET": 10,
        "FRONTIER_DUMP_PENDING_AT_CLOSE": dump,
        "CRAWLPROJ_HOME": str(tmp_path),
    }
    result = crawl("site", settings, seeds=site.url + "/")
    assert result.returncode == 0, result.stderr
    assert len(result.pages) == 10
    files = list(tmp_path.glob("pending/*"))
    assert [file.name for file in files] == (["a%2Fb-1.jsonl"] if dump else [])
    left = {json.loads(line)["url"] for file in files for line in file.read_text().splitlines()}
    fetched = {page["url"] for page in result.pages}
    everything = {site.url + "/", *(f"{site.url}/{n}" for n in range(40))}
    assert left == (everything - fetched if dump else set())
