"""Requests that a callback yields: who may refuse them, and which are known to be seen."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
from scrapy import Request, Spider, signals
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

import crawlproj.settings
from crawlproj.crawls.admission import Admission
from crawlproj.items import Lease, Visit
from crawlproj.scheduler import FrontierScheduler
from crawlproj.worker import Worker
from middlewares.page import PageMiddleware

HOME = "http://home.test/"


class Shop(Spider):
    name = "shop"

    def parse(self, response):
        """Do nothing."""

    def parse_item(self, response):
        """Do nothing."""


class Half(OffsiteMiddleware):
    """Lets only paths with an `a` in them pass."""

    def should_follow(self, request, spider):
        return "a" in request.url.partition("//")[2].partition("/")[2]


class Page:
    """A page under way in a crawler that does not run."""

    def __init__(self, offsite=OffsiteMiddleware, allowed=None):
        settings = Settings()
        settings.setmodule(crawlproj.settings)
        settings.set("TWISTED_REACTOR_ENABLED", value=False)
        self.crawler = get_crawler(Shop, settings.copy_to_dict())
        self.spider = self.crawler.spider = Shop()
        if allowed is not None:
            self.spider.allowed_domains = allowed
        self.worker = Worker.of(self.crawler)
        self.worker.admission = Admission.from_config({})
        self.middleware = PageMiddleware.from_crawler(self.crawler)
        scheduler = FrontierScheduler.from_crawler(self.crawler)
        scheduler.intake.spider = self.spider
        self.crawler.engine = SimpleNamespace(scheduler=scheduler)
        self.offsite = offsite and offsite.from_crawler(self.crawler)
        if self.offsite:
            self.offsite.spider_opened(self.spider)
        self.next()

    def next(self):
        """Begin another page."""
        entry = self.worker.codec.encode_link(HOME, 0)
        lease = Lease(token=1, host="home.test", attempts=0, min_interval_ms=None, expires_at=0)
        stored = self.worker.codec.decode(entry.host, entry.data.encode())
        self.visit = Visit(lease=lease, entry=stored)

    def yields(self, *requests):
        """Return the paths of what is let through."""
        before = len(self.visit.outlinks)
        for each in requests:
            request = Request(HOME + each) if isinstance(each, str) else each
            assert self.middleware._outlinks.absorb(self.visit, request)
        return [entry.url.removeprefix(HOME) for entry in self.visit.outlinks[before:]]

    def stat(self, name):
        """Return a counter."""
        return self.crawler.stats.get_value(name, 0)


ELSEWHERE = Request("http://elsewhere.test/")


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("allowed", [None, [], ["home.test"], ["elsewhere.test"], ["home.test", None]])
def test_offsite_refuses_what_it_would(allowed, beside):
    """With nobody else listening as with somebody; it counts as in Scrapy, meta and dont_filter let pass."""
    page = Page(allowed=allowed)
    heard = []
    if beside:

        def listen(request):
            heard.append(request.url)

        page.crawler.signals.connect(listen, signal=signals.request_scheduled)
    free = [ELSEWHERE.replace(dont_filter=True), ELSEWHERE.replace(meta={"allow_offsite": True})]
    page.yields("a", ELSEWHERE, ELSEWHERE, *free)
    found = [entry.url for entry in page.visit.outlinks]
    home, away = not allowed or "home.test" in allowed, not allowed or "elsewhere.test" in allowed
    assert found == [HOME + "a"] * home + [ELSEWHERE.url] * 2 * away + [ELSEWHERE.url] * 2
    assert page.stat("offsite/filtered") == (not home) + 2 * (not away)
    assert page.stat("offsite/domains") == (not home) + (not away)
    assert len(heard) == (5 if beside else 0)


def test_domains_may_change_while_a_page_is_read():
    """As Scrapy looks at them each time."""
    page = Page()
    assert page.yields("1", ELSEWHERE) == ["1", ELSEWHERE.url]
    page.spider.allowed_domains = ["home.test"]
    assert page.yields("2", ELSEWHERE) == ["2"]
    page.spider.allowed_domains = []
    assert page.yields("3", ELSEWHERE) == ["3", ELSEWHERE.url]


def test_an_offsite_of_the_spiders_own_is_asked():
    """One that is built on Scrapy's has rules of its own, whatever domains are allowed."""
    page = Page(Half)
    assert page.yields("a", "b") == ["a"]
    assert page.stat("offsite/filtered") == 1


def test_whoever_listens_may_refuse():
    """From the next page on, if it began to listen in the middle of one; until it no longer does."""
    page = Page()

    def refuse(request):
        if "no" in request.url:
            raise IgnoreRequest

    page.yields("0")
    page.crawler.signals.connect(refuse, signal=signals.request_scheduled)
    page.next()
    assert page.yields("no", "yes") == ["yes"]
    page.crawler.signals.disconnect(refuse, signal=signals.request_scheduled)
    page.next()
    assert page.yields("no", "yes") == ["no", "yes"]
    assert Page(None).yields("no") == ["no"]


@pytest.mark.parametrize("offsite", [None, OffsiteMiddleware])
def test_a_listener_that_breaks_refuses_nothing(offsite, caplog):
    """Its error is logged, as Scrapy does."""
    page = Page(offsite, allowed=["home.test"])

    def broken(request):
        raise RuntimeError("broken listener")

    page.crawler.signals.connect(broken, signal=signals.request_scheduled)
    with caplog.at_level(logging.ERROR):
        assert page.yields("a") == ["a"]
    assert "Error caught on signal handler" in caplog.text


def test_an_offsite_that_breaks_refuses_nothing(caplog):
    """A domain that is no text is the spider's mistake, and is logged."""
    page = Page()
    page.spider.allowed_domains = [5]
    with caplog.at_level(logging.ERROR):
        assert page.yields("a") == ["a"]
    assert "Error caught on signal handler" in caplog.text


def seen(page):
    """Let a page be reported: what it led to is known from now on."""
    for entry in page.visit.outlinks:
        page.worker.seen.add(entry.url if entry.plain else entry.fingerprint)
    page.next()


def test_what_was_seen_is_kept_with_its_page_only():
    """It is counted, and noted as a link with its callback and depth, as if it had been new."""
    page = Page()
    made = [
        Request(HOME + "a", callback=page.spider.parse_item, meta={"depth": 1}),
        Request(HOME + "b?x&a", headers={"Referer": HOME}, meta={"depth": 2}),
        Request(HOME + "c", cookies={"a": "b"}),
        Request(HOME + "d#part"),
    ]
    page.yields(*made)
    first = page.visit.outlinks
    seen(page)
    assert page.yields(*made) == []
    assert [(each.url, each.data) for each in page.visit.known_links] == [
        (each.url, each.data) for each in first
    ]
    assert page.stat("dupefilter/filtered") == len(made)


def test_another_request_for_a_seen_url_is_another():
    """A form, a forced request, and one that Offsite refuses are not known by their URL."""
    page = Page(allowed=["home.test"])
    page.yields("a", ELSEWHERE.replace(meta={"allow_offsite": True}))
    seen(page)
    page.worker.seen.add(ELSEWHERE.url)
    again = [
        Request(HOME + "a", method="POST"),
        Request(HOME + "a", body=b"x"),
        Request(HOME + "a", dont_filter=True),
    ]
    assert page.yields(*again) == ["a"] * 3
    assert page.visit.outlinks[2].forced
    assert page.yields(ELSEWHERE) == []
    assert page.visit.known_links == []
    assert page.stat("offsite/filtered") == 1
