"""Soft limits: nothing new starts, what runs finishes, and one note says why."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import threading
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from scrapy import Spider
from scrapy.settings import Settings

from crawlproj.config import Config
from crawlproj.exceptions import BadSetting
from crawlproj.testing.project import TIMEOUT
from tests.crawl.support import linking, poll, status

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from crawlproj.testing.plugin import Crawl
    from crawlproj.testing.project import Project
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
    star(site, 40, delay=0.3)
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
    result = crawl("fruitful", {"MAX_RESULT": 3, "HOST_MAX_IN_FLIGHT": 8}, url=site.url)
    assert result.returncode == 0, result.stderr
    assert result.status["results"] == 5 * len(result.pages)
    assert 5 <= result.status["results"] <= 5 * 2 * 8  # eight at once, and those that followed the first ones
    assert {len(times) for path, times in site.hits.items() if path != "/robots.txt"} == {1}
    (note,) = result.notes
    assert set(note) == {"time", "namespace", "message", "fields"}
    now = note["fields"]["currentResults"]
    assert int(now) >= 5
    assert note["namespace"] == "STOP_EARLY_REASON"
    assert note["message"] == f"results count {now} exceeds limit 3"
    assert note["fields"] == {"r": "ExceedResultsCountLimit", "limitResults": "3", "currentResults": now}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", note["time"])


def test_time_ends_a_crawl_that_trickles(site: Site, crawl: Crawl) -> None:
    """MAX_TIME_SECONDS stops new targets; what runs may finish."""
    star(site, 30, delay=0.5)
    result = crawl("site", {"MAX_TIME_SECONDS": 2}, seeds=site.url + "/")
    assert result.returncode == 0, result.stderr
    assert len(result.pages) <= 8
    assert {page["url"].removeprefix(site.url) for page in result.pages} == set(site.hits) - {"/robots.txt"}
    assert {page["fetch_status"] for page in result.pages} <= {"done"}
    (note,) = result.notes
    used = note["fields"]["usedSeconds"]
    assert note["message"] == f"running time {used}s exceeds limit 2s"
    assert note["fields"] == {"r": "ExceedRunningTime", "mostSeconds": "2", "usedSeconds": used}
    assert 2 <= int(used) <= 30
    assert result.status["status"] == "sealed"


def test_unlimited(site: Site, crawl: Crawl) -> None:
    """Empty and 0, however it is spelled, are what unset is: no limit."""
    star(site, 2)
    settings = {
        "MAX_TARGET": "", "MAX_RESULT": "0", "MAX_TIME_SECONDS": "0.0", "MAX_URLS": 0, "MAX_BYTES": "",
    }  # fmt: skip
    result = crawl("site", settings, seeds=site.url + "/")
    assert result.returncode == 0, result.stderr
    assert (len(result.pages), result.notes) == (3, [])


def test_who_says_what_a_limit_is() -> None:
    """The command line before the spider, the spider before the project; rubbish is refused from each."""
    for custom, line, meant in (
        ("7", None, 7),
        (7.0, "10", 10),
        (7, "0", 0),
        (7, "", 0),
        (None, "1e3", 1000),
    ):
        settings = Settings()
        settings.setmodule("crawlproj.settings")
        spider = type("Limited", (Spider,), {"name": "limited", "custom_settings": {"MAX_TARGET": custom}})
        if line is not None:
            settings.set("MAX_TARGET", line, "cmdline")
        spider.update_settings(settings)
        assert Config.from_settings(settings).knobs["max_target"] == meant
    for priority in ("project", "spider", "cmdline"):
        settings = Settings()
        settings.setmodule("crawlproj.settings")
        settings.set("MAX_TARGET", "abc", priority)
        with pytest.raises(BadSetting, match=r"MAX_TARGET must be .*, not 'abc'"):
            Config.from_settings(settings)


def test_a_limit_is_that_of_a_run_whoever_works_on_it(site: Site, scrapy: Project) -> None:
    """Ten over one that is killed, one that leaves and one that ends it; each further run has its own ten."""
    free, last = threading.Event(), 0

    async def leaf(_: web.Request) -> str:
        if len(site.requests) > last:
            await asyncio.to_thread(free.wait, TIMEOUT)
        return linking()

    site.add("/", linking(*(f"/{n}" for n in range(29))))
    site.add("/*", leaf)
    settings = {
        "CRAWL_NAME": "limited", "MAX_TARGET": 10, "MIN_INTERVAL_MS": 0, "HOST_MAX_IN_FLIGHT": 2,
        "LEASE_SECONDS": 2, "ROBOTSTXT_OBEY": False,
    }  # fmt: skip
    command = ("crawl", "site", "-a", f"seeds={site.url}/")
    for sent in (signal.SIGKILL, signal.SIGTERM):
        free.clear()
        last = len(site.requests) + 1  # that is answered; two more are under way when the worker is to end
        worker = scrapy.start(*command, settings=settings)
        assert poll(lambda asked=last + 2: len(site.requests) == asked)
        worker.send_signal(sent)
        free.set()
        worker.communicate(timeout=60)
        assert worker.returncode == (11 if sent == signal.SIGTERM else -9)
    for run in (1, 2, 3):
        done = scrapy(*command, settings=settings)
        assert done.returncode == 0, done.stderr
        state = status(scrapy, "limited")
        assert (state["run"], state["status"], state["started_targets"]) == (run, "sealed", 10)
        assert sum(state["counts"]["fetch_status"].values()) == 10
        notes = [
            note for note in scrapy("notes", "limited", "--json").json if note["namespace"] != "WORKER_LOST"
        ]
        assert [note["fields"]["r"] for note in notes] == ["ExceedTargetsCountLimit"]


@pytest.mark.timeout(180)
def test_eight_workers_start_as_many_targets_as_may_be(site: Site, scrapy: Project) -> None:
    """A hundred URLs on a hundred hosts are due to all at once: ten are asked for, and one note says so."""
    site.add("/", linking(), delay=0.1)
    seeds = " ".join(f"{site.host(n + 1)}/" for n in range(100))
    settings = {
        "CRAWL_NAME": "eight", "MAX_TARGET": 10, "MIN_INTERVAL_MS": 0, "ROBOTSTXT_OBEY": False,
        "FRONTIER_PAUSE_AT_START": True,
    }  # fmt: skip
    workers = [
        scrapy.start("crawl", "site", "-a", f"seeds={seeds}", settings={**settings, "WORKER_ID": f"w{n}"})
        for n in range(8)
    ]
    assert poll(lambda: len(scrapy("crawls").stdout) and len(status(scrapy, "eight")["workers"]) == 8)
    assert poll(lambda: status(scrapy, "eight")["queued"] == 100)
    assert scrapy("resume", "eight").returncode == 0
    for worker in workers:
        _, err = worker.communicate(timeout=100)
        assert worker.returncode == 0, err
    assert len(site.requests) == 10
    state = status(scrapy, "eight")
    assert (state["status"], state["started_targets"], state["results"], state["leased"]) == (
        "sealed",
        10,
        10,
        0,
    )
    notes = [
        each for each in scrapy("notes", "eight", "--json").json if each["namespace"] == "STOP_EARLY_REASON"
    ]
    assert [(note["message"], note["fields"]) for note in notes] == [
        (
            "targets count 10 exceeds limit 10",
            {"r": "ExceedTargetsCountLimit", "limitTargets": "10", "currentStartedTargets": "10"},
        )
    ]


def test_limits_on_bytes_and_on_urls(site: Site, crawl: Crawl) -> None:
    """Bytes stop a run, what runs finishes; URLs stop nothing: so many are fetched, and a note says so."""
    star(site, 30, delay=0.1)
    result = crawl("site", {"MAX_BYTES": 2000, "CRAWL_NAME": "bytes"}, seeds=site.url + "/")
    assert result.returncode == 0, result.stderr
    assert (result.status["status"], result.status["stop_reason"]) == ("sealed", "ExceedBytesLimit")
    assert {page["fetch_status"] for page in result.pages} == {"done"}
    assert len(result.pages) < 10
    (note,) = result.notes
    assert note["fields"] == {
        "r": "ExceedBytesLimit", "limitBytes": "2000", "currentBytes": note["fields"]["currentBytes"],
    }  # fmt: skip
    result = crawl("site", {"MAX_URLS": 7, "CRAWL_NAME": "urls"}, seeds=site.url + "/")
    assert result.returncode == 0, result.stderr
    assert (result.status["status"], result.status["stop_reason"], len(result.pages)) == ("sealed", "done", 7)
    assert [(note["namespace"], note["fields"]) for note in result.notes] == [
        ("MAX_URLS", {"limitUrls": "7"})
    ]


@pytest.mark.parametrize("wish", [{"EARLY_STOP_QUEUE": "dump"}, {"FRONTIER_DUMP_PENDING_AT_CLOSE": True}, {}])
def test_what_is_left_when_a_run_is_sealed_can_be_kept(
    wish: dict[str, object], site: Site, crawl: Crawl, tmp_path: Path
) -> None:
    """One JSON line for each URL that was still queued, in a file that names crawl and run."""
    star(site, 40)
    settings = {
        "CRAWL_NAME": "a/b",
        "MAX_TARGET": 10,
        **wish,
        "CRAWLPROJ_HOME": str(tmp_path),
    }
    result = crawl("site", settings, seeds=site.url + "/")
    assert result.returncode == 0, result.stderr
    assert len(result.pages) == 10
    files = list(tmp_path.glob("pending/*"))
    assert [file.name for file in files] == (["a%2Fb-1.jsonl"] if wish else [])
    left = {json.loads(line)["url"] for file in files for line in file.read_text().splitlines()}
    fetched = {page["url"] for page in result.pages}
    everything = {site.url + "/", *(f"{site.url}/{n}" for n in range(40))}
    assert left == (everything - fetched if wish else set())
    told = [note["fields"] for note in result.notes if note["namespace"] == "QUEUE_DUMPED"]
    assert told == ([{"urls": len(left), "path": str(files[0])}] if wish else [])
