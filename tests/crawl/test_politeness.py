"""Whole crawls, by what the sites see of them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from aiohttp import web

from crawlproj.testing.project import TIMEOUT

if TYPE_CHECKING:
    from crawlproj.testing.plugin import Crawl
    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site

TOLERANCE = 0.2  # what is wrong is further off; `test_pace.py` measures what is right


def gaps(site: Site, host: str, *, but: str = "-") -> list[float]:
    """Return the times between arrivals at one host."""
    name = host.partition("//")[2]
    times = sorted(hit.at for hit in site.requests if hit.host == name and hit.path != but)
    return [after - before for before, after in pairwise(times)]


def test_four_workers_keep_one_interval(scrapy: Project, site: Site) -> None:
    """One host, one crawl, four processes: every two arrivals are an interval apart, and all are one rate."""
    site.add("/p*", "<p>a page</p>")
    seeds = " ".join(f"{site.url}/p{n}" for n in range(12))
    settings: dict[str, Any] = {"CRAWL_NAME": "four", "MIN_INTERVAL_MS": 500, "HOST_MAX_IN_FLIGHT": 4}
    workers = [scrapy.start("crawl", "site", "-a", f"seeds={seeds}", settings=settings) for _ in range(4)]
    for worker in workers:
        _, stderr = worker.communicate(timeout=TIMEOUT)
        assert worker.returncode == 0, stderr
    assert sorted(hit.path for hit in site.requests) == sorted(
        ["/robots.txt", *(f"/p{n}" for n in range(12))]
    )
    assert min(gaps(site, site.url)) >= 0.5 - TOLERANCE


def test_a_redirect_is_charged_to_the_host_it_leads_to(crawl: Crawl, site: Site) -> None:
    """10 hosts lead to one: its own interval and its own robots.txt count, and no page is lost."""
    other = site.host(99)
    hosts = [site.host(10 + n) for n in range(10)]
    for number, host in enumerate(hosts):
        name = host.split("/")[2].partition(":")[0]
        site.add("/go", status=302, headers={"Location": f"{other}/{number}"}, host=name)
        site.add(f"/{number}", f"<p>page {number}</p>", host="127.0.0.99")
    site.add("/robots.txt", "User-agent: *\nDisallow: /9\n", host="127.0.0.99")
    result = crawl("site", {"MIN_INTERVAL_MS": 300}, seeds=[f"{h}/go" for h in hosts], scope="any")
    assert len(gaps(site, other)) == 9
    assert min(gaps(site, other)) >= 0.3 - TOLERANCE
    there = {
        row["url"][-1]: row["fetch_status"] or row["reason"] for row in result.pages if other in row["url"]
    }
    assert there == {str(n): "done" for n in range(9)} | {"9": "robots"}


def test_an_unavailable_robots_txt_is_asked_for_again(crawl: Crawl, site: Site) -> None:
    """503 at first: no page is fetched meanwhile, none is lost, and `/private` is never fetched."""
    answers = iter([503])

    def robots(_: web.Request) -> web.Response:
        status = next(answers, 200)
        return web.Response(status=status, text="User-agent: *\nDisallow: /private\n")

    site.add("/robots.txt", robots)
    site.add("/*", "<p>a page</p>")
    seeds = [f"{site.url}/private/1", f"{site.url}/ok"]
    result = crawl("site", {"ROBOTS_RETRY_SECONDS": 2}, seeds=seeds, depth=0)
    assert [hit.path for hit in site.requests] == ["/robots.txt", "/robots.txt", "/ok"]
    assert site.requests[1].at - site.requests[0].at >= 2 - TOLERANCE
    assert result.page("/ok")["fetch_status"] == "done"
    assert result.page("/private/1")["schedule_status"] == "disregarded"
    assert result.page("/private/1")["reason"] == "robots"


def test_a_robots_txt_that_stays_unavailable_ends_its_pages(crawl: Crawl, site: Site) -> None:
    """After MAX_ATTEMPTS the page is disregarded, with the reason, and was never fetched."""
    site.add("/robots.txt", status=500)
    settings = {"ROBOTS_RETRY_SECONDS": 1, "MAX_ATTEMPTS": 2}
    page = crawl("site", settings, seeds=f"{site.url}/x", depth=0).page("/x")
    assert (page["fetch_status"], page["schedule_status"]) == (None, "disregarded")
    assert page["reason"] == "robots_unavailable"
    assert {hit.path for hit in site.requests} == {"/robots.txt"}


def test_crawl_delay_and_interval_combine(crawl: Crawl, scrapy: Project, site: Site) -> None:
    """A small crawl-delay does not shrink the interval, a larger one stretches it, a huge one is cut."""
    small, large, huge = (site.host(n) for n in (2, 3, 4))
    for host, delay in ((small, "0.1"), (large, "1.5"), (huge, "3600")):
        name = host.split("/")[2].partition(":")[0]
        site.add("/robots.txt", f"User-agent: *\nCrawl-delay: {delay}\n", host=name)
    site.add("/p*", "<p>a page</p>")
    seeds = [f"{host}/p{n}" for host in (small, large, huge) for n in range(3)]
    settings = {"MIN_INTERVAL_MS": 600, "CRAWL_DELAY_MAX_SECONDS": 2}
    crawl("site", settings, seeds=seeds, depth=0, scope="any")
    for host, interval in ((small, 0.6), (large, 1.5), (huge, 2.0)):
        between = gaps(site, host, but="/robots.txt")
        assert len(between) == 2
        assert min(between) >= interval - TOLERANCE


def test_a_crawl_delay_that_disappears_is_taken_back(crawl: Crawl, site: Site) -> None:
    """Pages come as slowly as robots.txt asks, and as fast as the interval lets them when it asks no more."""

    def robots(_: web.Request) -> web.Response:
        asked = len(site.hits["/robots.txt"])
        return web.Response(text="User-agent: *\nCrawl-delay: 1.5\n" if asked <= 1 else "User-agent: *\n")

    site.add("/robots.txt", robots)
    site.add("/p*", "<p>a page</p>")
    settings = {"MIN_INTERVAL_MS": 300, "ROBOTS_CACHE_SECONDS": 4}
    crawl("site", settings, seeds=[f"{site.url}/p{n}" for n in range(8)], depth=0)
    again = [hit.path for hit in site.requests].index("/robots.txt", 1)
    times = [hit.at for hit in site.requests]
    between = [after - before for before, after in pairwise(times)]
    assert min(between[1 : again - 1]) >= 1.5 - TOLERANCE
    assert sum(between[-3:]) < 3 * 1.5 - TOLERANCE


def test_a_host_that_does_not_exist_is_a_failure_and_no_refusal(crawl: Crawl) -> None:
    """Nobody forbade the page: there is no server."""
    page = crawl("site", {"MAX_ATTEMPTS": 2}, seeds="http://nowhere.invalid/x", depth=0).page("/x")
    assert (page["fetch_status"], page["schedule_status"]) == ("failed", "failed")
    assert page["reason"] == "dns"
