"""Hosts that ask to be left alone, by what they see of whole crawls."""

from __future__ import annotations

import time
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from crawlproj.testing.project import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Callable

    from crawlproj.testing.plugin import Crawl
    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site

BUSY, QUIET = "/busy", "/page/*"
SLACK = 0.005


def refuse_once(site: Site, headers: Callable[[], dict[str, str]], status: int = 429) -> None:
    """Answer the first request to BUSY with a refusal, and all others with pages."""
    refused: list[float] = []

    def busy(_: web.Request) -> web.Response:
        if refused:
            return web.Response(text="<p>here it is</p>", content_type="text/html")
        refused.append(time.monotonic())
        return web.Response(status=status, headers=headers())

    site.add(BUSY, busy)
    site.add(QUIET, "<p>a page</p>")


def silence(site: Site, host: str) -> float:
    """Return how long nothing came to a host after the refusal, in seconds."""
    name = host.partition("//")[2]
    times = [hit.at for hit in site.requests if hit.host == name]
    refused = next(hit.at for hit in site.requests if hit.host == name and hit.path == BUSY)
    return min(at for at in times if at > refused) - refused


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        (lambda: {"Retry-After": "2"}, 2),
        (lambda: {"Retry-After": formatdate(time.time() + 3, usegmt=True)}, 2),  # dates have whole seconds
        (lambda: {"X-RateLimit-Reset": str(int(time.time()) + 3)}, 2),
    ],
    ids=["seconds", "date", "limit"],
)
def test_nobody_asks_before_the_time_that_was_said(
    crawl: Crawl, site: Site, headers: Callable[[], dict[str, str]], seconds: float
) -> None:
    """Not even with other pages of it leased already; other hosts go on, and nothing is lost."""
    refuse_once(site, headers)
    other = site.host(2)
    seeds = [f"{site.url}{BUSY}"]
    seeds += [f"{host}/page/{n}" for n in range(4) for host in (site.url, other)]
    settings: dict[str, Any] = {"HOST_MAX_IN_FLIGHT": 4, "MIN_INTERVAL_MS": 500, "MAX_ATTEMPTS": 2}
    result = crawl("site", settings, seeds=seeds, depth=0, scope="any")
    assert result.returncode == 0, result.stderr
    assert result.status["counts"]["fetch_status"]["done"] == 9
    assert silence(site, site.url) >= seconds - SLACK
    name = other.partition("//")[2]
    refused = next(hit.at for hit in site.requests if hit.path == BUSY)
    assert any(refused < hit.at < refused + seconds for hit in site.requests if hit.host == name)


def test_another_crawl_leaves_it_alone_as_well(scrapy: Project, site: Site) -> None:
    """It was told of another one's pages; its own cost no attempt."""
    refuse_once(site, lambda: {"Retry-After": "3"}, status=503)
    settings = {"MIN_INTERVAL_MS": 200, "MAX_ATTEMPTS": 2}
    crawls = {
        "told": f"{site.url}{BUSY}",
        "other": " ".join(f"{site.url}/page/{n}" for n in range(40)),
    }
    running = []
    for name, seeds in crawls.items():
        arguments = ("crawl", "site", "-a", f"seeds={seeds}", "-a", "depth=0")
        running.append(scrapy.start(*arguments, settings={**settings, "CRAWL_NAME": name}))
    for process in running:
        _, stderr = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0, stderr
    (status,) = scrapy("status", "other", "--json").json
    assert status["counts"]["fetch_status"] == {"done": 40, "not_modified": 0, "empty": 0, "failed": 0}
    assert {row["attempts"] for row in scrapy("pages", "other", "--json", "--limit", "0").json} == {1}
    assert silence(site, site.url) >= 3 - SLACK


def test_the_last_attempt_of_a_page_makes_its_host_wait_as_well(crawl: Crawl, site: Site) -> None:
    """A page that is given up says the same of its host as one that comes again."""
    refuse_once(site, lambda: {"Retry-After": "2"})
    seeds = [f"{site.url}{BUSY}", *(f"{site.url}/page/{n}" for n in range(3))]
    result = crawl("site", {"MAX_ATTEMPTS": 1, "MIN_INTERVAL_MS": 50}, seeds=seeds, depth=0)
    assert result.page(BUSY)["reason"] == "http_429"
    assert result.status["counts"]["fetch_status"]["done"] == 3
    assert silence(site, site.url) >= 2 - SLACK
