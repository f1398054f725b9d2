"""Ends of a worker that others, or servers that are away, make difficult."""

from __future__ import annotations

import asyncio
import os
import signal
import textwrap
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from crawlproj.crawls.lifecycle import CrawlStatus
from crawlproj.servers.embedded import join
from crawlproj.servers.postgres import Postgres
from crawlproj.testing.project import TIMEOUT
from extensions.lifecycle import LifecycleExtension
from tests.crawl.support import home, linking, poll, status
from tests.redis_server import OwnRedis

if TYPE_CHECKING:
    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site

__all__ = ["home"]

SETTINGS = {"MIN_INTERVAL_MS": 0, "HOST_MAX_IN_FLIGHT": 8, "ROBOTSTXT_OBEY": False}


def extension(scrapy: Project, tmp_path: Path, name: str, source: str) -> dict[str, str]:
    """Write an extension of which *source* is the body of `from_crawler`; return the setting for it."""
    body = textwrap.indent(textwrap.dedent(source), " " * 8)
    (tmp_path / f"{name}.py").write_text(
        f"class Own:\n    @classmethod\n    def from_crawler(cls, crawler):\n{body}\n        return cls()\n"
    )
    scrapy.env |= {"PYTHONPATH": os.pathsep.join([str(tmp_path), scrapy.env.get("PYTHONPATH", "")])}
    return {"EXTENSIONS": f'{{"{name}.Own": 1}}'}


@pytest.mark.timeout(150)
def test_a_signal_while_servers_are_away(
    site: Site, scrapy: Project, valkey_url: str, home: Path, tmp_path: Path
) -> None:
    """Neither leases that cannot be given back nor a run that cannot be left keep a worker."""
    site.add("/", linking("/held"))
    answers = threading.Event()

    async def held(_: object) -> str:
        await asyncio.to_thread(answers.wait, TIMEOUT)
        return linking()

    site.add("/held", held)
    redis = OwnRedis(home, valkey_url)
    redis.start()
    join(home, valkey=False)
    postgres = Postgres(home)
    scrapy.env |= {"REDIS_URL": redis.url, "DATABASE_URL": postgres.url}
    assert scrapy("migrate").returncode == 0
    settings = {**SETTINGS, "LEASE_SECONDS": 60, "CLOSE_GRACE_SECONDS": 0}
    stuck = """
        import asyncio
        from crawlproj.worker import Worker

        async def stuck(self):
            print("claimed", flush=True)
            await asyncio.Event().wait()

        Worker._set_up = stuck
    """
    seeds = ("-a", f"seeds={site.url}/")
    at_work = scrapy.start("crawl", "site", *seeds, settings={**settings, "CRAWL_NAME": "at-work"})
    beside = scrapy.start("crawl", "site", *seeds, settings={**settings, "CRAWL_NAME": "beside"})
    own = extension(scrapy, tmp_path, "stuck", stuck)
    setting_up = scrapy.start("crawl", "site", *seeds, settings={**settings, **own, "CRAWL_NAME": "begins"})
    try:
        assert setting_up.stdout is not None
        assert setting_up.stdout.readline() == "claimed\n"
        assert poll(lambda: len(site.hits["/held"]) == 2)
        redis.kill()
        at_work.send_signal(signal.SIGTERM)
        _, err = at_work.communicate(timeout=60)
        assert at_work.returncode == 11, err
        assert "1 requests do not come to an end" in err
        postgres.stop()
        setting_up.send_signal(signal.SIGTERM)
        beside.send_signal(signal.SIGTERM)
        for worker in (setting_up, beside):
            _, err = worker.communicate(timeout=45)  # not what those who listen may take otherwise
            assert worker.returncode == 11, err
    finally:
        answers.set()
        beside.kill()
        at_work.kill()
        setting_up.kill()
        redis.kill()


async def test_a_frontier_is_dropped_only_if_it_is_nobodys() -> None:
    """Not one that is kept for the next run, whoever has decided so, nor one that this run has taken over."""
    dropped = []

    async def drop() -> None:
        dropped.append(True)

    own = SimpleNamespace(
        _worker=SimpleNamespace(crawl=SimpleNamespace(frontier="f1"), frontier=SimpleNamespace(drop=drop))
    )
    sealed = {"status": CrawlStatus.SEALED}
    for kept, frontier, drops in ((True, "f1", 0), (False, "f2", 0), (False, "f1", 1)):
        run = SimpleNamespace(**sealed, kept=kept, frontier=frontier)
        await LifecycleExtension._drop_frontier(own, run)  # type: ignore[arg-type]
        assert len(dropped) == drops


def test_who_comes_late_or_is_told_otherwise_leaves_what_is_kept(
    site: Site, scrapy: Project, tmp_path: Path
) -> None:
    """One seals the run and keeps its queue; one that has just claimed it leaves it so."""
    pages = [f"/{n}" for n in range(20)]
    site.add("/", linking(*pages))
    for path in pages:
        site.add(path, linking())
    limit = {**SETTINGS, "CRAWL_NAME": "kept", "MAX_TARGET": 5}
    late = """
        import asyncio
        import os
        from crawlproj.worker import Worker

        join = Worker._join_frontier

        async def late(self):
            print("claimed", flush=True)
            while not os.path.exists(os.environ["GO"]):
                await asyncio.sleep(0.05)
            await join(self)

        Worker._join_frontier = late
    """
    own = extension(scrapy, tmp_path, "late", late)
    go = tmp_path / "go"
    scrapy.env |= {"GO": str(go)}
    seeds = ("-a", f"seeds={site.url}/")
    other = scrapy.start("crawl", "site", *seeds, settings={**limit, **own, "WORKER_ID": "late"})
    assert other.stdout is not None
    assert other.stdout.readline() == "claimed\n"
    done = scrapy("crawl", "site", *seeds, settings={**limit, "EARLY_STOP_QUEUE": "keep"})
    assert done.returncode == 0, done.stderr
    kept = status(scrapy, "kept")["queued"]
    assert kept >= 16
    go.touch()
    _, err = other.communicate(timeout=60)
    assert other.returncode == 0, err
    assert len(scrapy("pending", "kept", "--json", "--limit", "0").json) == kept
    done = scrapy("crawl", "site", *seeds, settings={**limit, "MAX_TARGET": 0})
    assert done.returncode == 0, done.stderr
    assert sorted(path for path in site.hits) == sorted(["/", *pages])


def test_a_dump_that_takes_longer_than_the_grace(site: Site, scrapy: Project, tmp_path: Path) -> None:
    """It is written once and whole, and nothing is dropped before."""
    site.add("/", linking(*(f"/{n}" for n in range(200))))
    for n in range(200):
        site.add(f"/{n}", linking())
    slow = """
        import asyncio
        import crawlproj.frontier.pending as pending
        from crawlproj.crawls import grace

        rows = pending.pending_rows

        async def slow(*args):
            print("dump", flush=True)
            async for row in rows(*args):
                await asyncio.sleep(0.02)
                yield row

        pending.pending_rows = slow
        pending._BATCH = 20
        grace.STEP_SECONDS = 0.3
    """
    own = extension(scrapy, tmp_path, "slow", slow)
    settings = {**SETTINGS, **own, "CRAWL_NAME": "dumped", "EARLY_STOP_QUEUE": "dump", "MAX_TARGET": 10}
    settings |= {"CLOSE_GRACE_SECONDS": 0, "CRAWLPROJ_HOME": str(tmp_path)}
    done = scrapy("crawl", "site", "-a", f"seeds={site.url}/", settings=settings)
    assert (done.returncode, done.stdout) == (0, "dump\n"), done.stderr
    (file,) = tmp_path.glob("pending/*")
    queued = status(scrapy, "dumped")["queued"]
    assert len(file.read_text(encoding="utf-8").splitlines()) == queued > 150
    note = next(
        each for each in scrapy("notes", "dumped", "--json").json if each["namespace"] == "QUEUE_DUMPED"
    )
    assert note["fields"]["urls"] == queued


def test_a_crawl_that_pauses_by_itself_is_left(site: Site, scrapy: Project) -> None:
    """At its start and at its finish its run is paused, for a person to look at, and holds nobody up."""
    site.add("/", linking("/a"))
    site.add("/a", linking())
    settings = {**SETTINGS, "CRAWL_NAME": "looked-at", "LEAVE_WHEN_PAUSED": True}
    settings |= {"FRONTIER_PAUSE_AT_START": True, "FRONTIER_PAUSE_AT_FINISH": True}
    command = ("crawl", "site", "-a", f"seeds={site.url}/")
    for fetched in (0, 2):
        left = scrapy(*command, settings=settings)
        assert left.returncode == 11, left.stderr
        now = status(scrapy, "looked-at")
        assert (now["status"], now["workers"], len(site.requests)) == ("paused", [], fetched)
        assert scrapy("notes", "looked-at", "--json").json[-1]["namespace"] == "PAUSED"
        assert scrapy("resume", "looked-at").returncode == 0
    done = scrapy(*command, settings=settings)
    assert done.returncode == 0, done.stderr
    assert (status(scrapy, "looked-at")["status"], len(site.requests)) == ("sealed", 2)


def test_who_listens_to_the_begin_or_the_end_for_ever(
    site: Site, scrapy: Project, spider_source, tmp_path: Path
) -> None:
    """A signal ends a worker that waits for a listener; without one all the time is its."""
    site.add("/", linking())
    spider_source(
        textwrap.dedent(f"""
        import asyncio

        from scrapy import Spider, signals


        class Listening(Spider):
            name = "listening"
            start_urls = ["{site.url}/"]

            @classmethod
            def from_crawler(cls, crawler, *args, **kwargs):
                spider = super().from_crawler(crawler, *args, **kwargs)
                crawler.signals.connect(spider.heard, signal=getattr(signals, spider.to))
                return spider

            async def heard(self):
                print("heard", flush=True)
                await (asyncio.sleep(2) if self.to == "spider_closed" else asyncio.Event().wait())
                print("done", flush=True)

            def parse(self, response):
                pass
        """)
    )
    ends = {
        "spider_opened": (11, "Something holds the engine up"),
        "engine_stopped": (0, "who listens to its end is not waited for any longer"),
    }
    short = "from crawlproj.crawls import grace\ngrace.STEP_SECONDS = 0.3"
    settings = {**SETTINGS, **extension(scrapy, tmp_path, "short", short), "CLOSE_GRACE_SECONDS": 0}
    workers = {
        to: scrapy.start("crawl", "listening", "-a", f"to={to}", settings={**settings, "CRAWL_NAME": to})
        for to in ends
    }
    waited = scrapy("crawl", "listening", "-a", "to=spider_closed", settings=settings)
    assert (waited.returncode, waited.stdout) == (0, "heard\ndone\n"), waited.stderr
    for to, worker in workers.items():
        assert worker.stdout is not None
        assert worker.stdout.readline() == "heard\n"
        worker.send_signal(signal.SIGTERM)
        _, err = worker.communicate(timeout=45)
        assert (worker.returncode, ends[to][1] in err) == (ends[to][0], True), err
    assert status(scrapy, "engine_stopped")["status"] == "sealed"
    left = status(scrapy, "spider_opened")
    assert (left["status"], left["workers"]) == ("started", [])


def test_what_a_run_leaves_behind_is_told(site: Site, scrapy: Project, spider_source) -> None:
    """Entries that nobody can use are counted and noted; a start() that never ends is no error of the end."""
    pages = [f"/{n}" for n in range(5)]
    site.add("/", linking(*pages))
    for path in pages:
        site.add(path, linking())
    spider_source(
        textwrap.dedent(f"""
        import asyncio

        from scrapy import Request, Spider


        class Renamed(Spider):
            name = "renamed"
            goes_on = ""

            async def start(self):
                yield Request("{site.url}/")
                while self.goes_on:
                    await asyncio.sleep(0.2)
                    yield None

            def parse(self, response):
                for link in response.css("a"):
                    yield response.follow(link, callback=self.later)
                del Renamed.later

            def later(self, response):
                pass
        """)
    )
    limit = {"CRAWL_NAME": "renamed", "CLOSESPIDER_TIMEOUT": 3}
    done = scrapy("crawl", "renamed", "-a", "goes_on=1", settings={**SETTINGS, **limit})
    assert "Traceback" not in done.stderr
    assert scrapy("dead", "renamed", "--json").json[0]["reason"] == "unreadable"
    assert status(scrapy, "renamed")["counts"]["schedule_status"]["dead"] == 5
    done = scrapy("crawl", "renamed", settings={**SETTINGS, **limit})
    assert (done.returncode, "5 URLs were given up: 5 unreadable" in done.stderr) == (0, True), done.stderr
    end = status(scrapy, "renamed")
    assert (end["status"], end["counts"]["schedule_status"]["dead"]) == ("sealed", 5)
    note = next(
        each for each in scrapy("notes", "renamed", "--json").json if each["namespace"] == "DEAD_LETTERS"
    )
    assert (note["fields"]["dead"], note["fields"]["unreadable"]) == (5, 5)
    assert note["fields"]["url"].startswith(site.url)


def test_a_queue_that_cannot_be_dumped_is_kept(site: Site, scrapy: Project, tmp_path: Path) -> None:
    """The run is sealed all the same, and the next one goes on with it."""
    pages = [f"/{n}" for n in range(20)]
    site.add("/", linking(*pages))
    for path in pages:
        site.add(path, linking())
    (tmp_path / "pending").write_text("where the folder would be")
    settings = {**SETTINGS, "CRAWL_NAME": "full", "EARLY_STOP_QUEUE": "dump", "CRAWLPROJ_HOME": str(tmp_path)}
    command = ("crawl", "site", "-a", f"seeds={site.url}/")
    done = scrapy(*command, settings={**settings, "MAX_TARGET": 5})
    assert (done.returncode, "the next run goes on with them" in done.stderr) == (0, True), done.stderr
    assert status(scrapy, "full")["status"] == "sealed"
    assert "QUEUE_NOT_DUMPED" in {each["namespace"] for each in scrapy("notes", "full", "--json").json}
    done = scrapy(*command, settings=settings)
    assert done.returncode == 0, done.stderr
    assert sorted(site.hits) == sorted(["/", *pages])
    assert {len(times) for times in site.hits.values()} == {1}
