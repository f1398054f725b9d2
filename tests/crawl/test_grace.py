"""A worker that is to end does so within its grace, whatever it waits for, and nothing is lost by it."""

from __future__ import annotations

import asyncio
import signal
import textwrap
from typing import TYPE_CHECKING

from aiohttp import web

from tests.crawl.support import linking, poll, status

if TYPE_CHECKING:
    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site

SETTINGS = {"MIN_INTERVAL_MS": 0, "HOST_MAX_IN_FLIGHT": 8, "LEASE_SECONDS": 60, "ROBOTSTXT_OBEY": False}


def trickling(seconds: float):
    """Return an answer that comes a byte at a time."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/html"})
        await response.prepare(request)
        for _ in range(round(seconds * 10)):
            await response.write(b" ")
            await asyncio.sleep(0.1)
        await response.write_eof(b"<p>At last.</p>")
        return response

    return answer


def test_a_time_limit_does_not_wait_for_a_trickle(site: Site, scrapy: Project) -> None:
    """The run is sealed for its limit; the page that would have taken minutes is nobody's failure."""
    site.add("/", linking("/trickle", "/page"))
    site.add("/trickle", trickling(300))
    site.add("/page", linking())
    settings = {**SETTINGS, "CRAWL_NAME": "late", "MAX_TIME_SECONDS": 600, "CLOSE_GRACE_SECONDS": 1}
    worker = scrapy.start("crawl", "site", "-a", f"seeds={site.url}/", settings=settings)
    assert poll(
        lambda: site.hits["/trickle"] and status(scrapy, "late")["counts"]["fetch_status"]["done"] == 2
    )
    assert scrapy("tune", "late", "max_time_seconds=1").returncode == 0
    _, err = worker.communicate(timeout=60)
    assert worker.returncode == 0, err
    assert "1 requests are still under way and are cut short" in err
    end = status(scrapy, "late")
    assert (end["status"], end["stop_reason"], end["queued"]) == ("sealed", "ExceedRunningTime", 1)
    assert end["counts"]["fetch_status"] == {"done": 2, "not_modified": 0, "empty": 0, "failed": 0}
    assert end["counts"]["schedule_status"]["retry"] == 0


def test_what_hangs_when_a_signal_comes(site: Site, scrapy: Project, spider_source) -> None:
    """A transfer is cut, a callback without an end dropped, a listener without one left: all is due again."""
    site.add("/", linking("/trickle", "/waits", "/page"))
    site.add("/trickle", trickling(300))
    site.add("/waits", linking("/behind"))
    site.add("/page", linking())
    site.add("/behind", linking())
    spider_source(
        textwrap.dedent(f"""
        import asyncio

        from scrapy import Spider, signals


        class Hanging(Spider):
            name = "hanging"
            start_urls = ["{site.url}/"]
            hang = ""

            @classmethod
            def from_crawler(cls, crawler, *args, **kwargs):
                spider = super().from_crawler(crawler, *args, **kwargs)
                if spider.hang:
                    crawler.signals.connect(spider.never_closed, signal=signals.spider_closed)
                return spider

            async def never_closed(self):
                await asyncio.Event().wait()

            async def parse(self, response):
                if self.hang and response.url.endswith("/waits"):
                    await asyncio.Event().wait()
                for link in response.css("a"):
                    yield response.follow(link)
        """)
    )
    settings = {**SETTINGS, "CRAWL_NAME": "hangs", "CLOSE_GRACE_SECONDS": 0}
    worker = scrapy.start("crawl", "hanging", "-a", "hang=1", settings=settings)
    assert poll(lambda: site.hits["/trickle"] and site.hits["/page"] and site.hits["/waits"])
    assert poll(lambda: status(scrapy, "hangs")["counts"]["fetch_status"]["done"] == 2)
    worker.send_signal(signal.SIGTERM)
    _, err = worker.communicate(timeout=60)
    assert worker.returncode == 11, err
    assert "cut short" in err
    assert "1 requests do not come to an end" in err
    assert "Something holds the engine up" in err
    left = status(scrapy, "hangs")
    assert (left["status"], left["leased"], left["queued"], left["workers"]) == ("started", 0, 2, [])
    site.add("/trickle", linking())
    done = scrapy("crawl", "hanging", settings=settings)
    assert done.returncode == 0, done.stderr
    end = status(scrapy, "hangs")
    assert (end["status"], end["run"], end["counts"]["fetch_status"]["done"]) == ("sealed", 1, 5)
    assert {path: len(times) for path, times in site.hits.items()} == {
        "/": 1, "/page": 1, "/trickle": 2, "/waits": 2, "/behind": 1
    }  # fmt: skip


def test_code_that_does_not_give_way_when_a_signal_comes(site: Site, scrapy: Project, spider_source) -> None:
    """It holds the event loop or a thread that nobody can end: it ends in time, and nothing is lost."""
    site.add("/", linking("/held"))
    site.add("/held", linking("/behind"))
    site.add("/behind", linking())
    spider_source(
        textwrap.dedent(f"""
        import asyncio
        import time

        from scrapy import Spider


        class Holding(Spider):
            name = "holding"
            start_urls = ["{site.url}/"]
            hold = ""

            async def parse(self, response):
                if self.hold and response.url.endswith("/held"):
                    print("it holds", flush=True)
                    if self.hold == "thread":
                        await asyncio.to_thread(time.sleep, 600)
                    time.sleep(600)
                for link in response.css("a"):
                    yield response.follow(link)
        """)
    )
    settings = {**SETTINGS, "CLOSE_GRACE_SECONDS": 0, "LEASE_SECONDS": 2}
    once, twice = [signal.SIGTERM], [signal.SIGINT, signal.SIGTERM]
    held_up = "it was held up in Holding.parse, "
    left = "threads that do not end are left to themselves: asyncio_"
    cases = [
        ("loop", once, held_up),
        ("loop", twice, held_up),
        ("thread", once, left),
        ("thread", twice, left),
    ]
    workers = {}
    for number, (hold, _, _) in enumerate(cases):
        name = f"held-{number}"
        own = {**settings, "CRAWL_NAME": name}
        workers[name] = scrapy.start("crawl", "holding", "-a", f"hold={hold}", settings=own)
    for worker in workers.values():
        assert worker.stdout is not None
        assert worker.stdout.readline() == "it holds\n"
    for worker, (_, signals, _) in zip(workers.values(), cases, strict=True):
        for sent in signals:
            worker.send_signal(sent)
    for worker in [*workers.values()][1::2]:
        # A second one that comes so soon may be another thread's, which does not wake the one that sleeps.
        assert poll(lambda worker=worker: worker.poll() is not None or worker.send_signal(signal.SIGTERM), 30)
    for (name, worker), (_, _, words) in zip(workers.items(), cases, strict=True):
        _, err = worker.communicate(timeout=30)
        assert worker.returncode == 11, err
        assert words in err
        done = scrapy("crawl", "holding", settings={**settings, "CRAWL_NAME": name})
        assert done.returncode == 0, done.stderr
        end = status(scrapy, name)
        assert (end["status"], end["run"], end["counts"]["fetch_status"]["done"]) == ("sealed", 1, 3)


def test_a_signal_while_the_event_loop_starts(site: Site, scrapy: Project, spider_source) -> None:
    """Ctrl-C in the moment in which Twisted would log it and go on: the run is left, and due at once."""
    site.add("/", trickling(300))
    spider_source(
        textwrap.dedent("""
        import os
        import signal

        from scrapy import Spider
        from twisted.internet.base import ReactorBase

        start = ReactorBase._reallyStartRunning


        def start_interrupted(self):
            os.kill(os.getpid(), signal.SIGINT)
            start(self)


        ReactorBase._reallyStartRunning = start_interrupted


        class Hasty(Spider):
            name = "hasty"
        """)
    )
    settings = {**SETTINGS, "CRAWL_NAME": "hasty", "CLOSE_GRACE_SECONDS": 1}
    done = scrapy("crawl", "site", "-a", f"seeds={site.url}/", settings=settings, timeout=30)
    assert done.returncode == 11, done.stderr
    end = status(scrapy, "hasty")
    assert (end["status"], end["leased"], end["workers"]) == ("started", 0, [])
