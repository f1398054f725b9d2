"""Workers and servers that die lose nothing."""

from __future__ import annotations

import asyncio
import random
import signal
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from aiohttp import web

from crawlproj.connections import connect_database, open_redis_sync
from crawlproj.testing.project import TIMEOUT, Project
from tests.crawl.support import linking, poll, status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crawlproj.testing.preloaded import Preloaded
    from crawlproj.testing.site import Site

PAGES = 300
ROOT = Path(__file__).parents[2]


def pages_of(site: Site, pages: int, *, delay: float = 0.02) -> None:
    """Make a site in which every page links to a few others."""
    for n in range(pages):
        others = {(n * 2 + 1) % pages, (n * 2 + 2) % pages, (n * 7) % pages}
        site.add(f"/{n}", linking(*(f"/{other}" for other in sorted(others))), delay=delay)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The folder of embedded servers of this test's own."""
    return tmp_path / "home"


@pytest.fixture
def embedded(home: Path, tmp_path: Path, preloaded: Preloaded | None) -> Iterator[Project]:
    """Commands that start the embedded servers themselves."""
    commands = Project(ROOT, work=tmp_path, env={"CRAWLPROJ_HOME": str(home)}, preloaded=preloaded)
    for name in ("REDIS_URL", "DATABASE_URL"):
        commands.env.pop(name, None)
    yield commands
    commands.close()


@pytest.mark.timeout(240)
def test_kill_9_of_the_worker_at_ten_moments(site: Site, embedded: Project, home: Path) -> None:
    """Ten workers killed in mid-crawl, embedded servers: every page stored, leases on time, no orphans."""
    pages_of(site, PAGES, delay=0.15)  # so slow that ten short lives do not see the end of it
    lease = 2
    settings = {"CRAWL_NAME": "killed", "MIN_INTERVAL_MS": 0, "HOST_MAX_IN_FLIGHT": 8, "LEASE_SECONDS": lease}
    command = ("crawl", "site", "-a", f"seeds={site.url}/0")
    chance = random.Random(11)
    for _ in range(10):
        before = len(site.requests)
        process = embedded.start(*command, settings=settings)
        assert poll(lambda before=before: len(site.requests) > before)
        time.sleep(chance.uniform(0, 0.25))  # the moment is the point
        process.send_signal(signal.SIGKILL)
        process.wait()
    last = time.monotonic()
    done = embedded(*command, settings=settings)
    assert done.returncode == 0, done.stderr
    late = max(times[-1] for times in site.hits.values()) - last
    assert late < 60

    pages = embedded("pages", "killed", "--limit", "0", "--json").json
    assert len({page["url"] for page in pages}) == len(pages) == PAGES
    assert {page["fetch_status"] for page in pages} == {"done"}
    state = status(embedded, "killed")
    assert (state["status"], state["run"]) == ("sealed", 1)
    assert poll(lambda: not servers_of(home), seconds=60), servers_of(home)


def servers_of(home: Path) -> list[str]:
    """Return the processes that were started for *home*."""
    commands = (" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))
    return [command for command in commands if str(home) in command]


def test_a_second_signal_ends_at_once_and_loses_nothing(site: Site, scrapy: Project) -> None:
    """SIGINT twice: gone in no time, and the next worker finishes the run, each page stored once."""
    pages_of(site, 40)
    answers = threading.Event()

    async def held(_: object) -> str:
        await asyncio.to_thread(answers.wait, TIMEOUT)
        return linking("/3")

    site.add("/1", held)
    settings = {"CRAWL_NAME": "twice", "MIN_INTERVAL_MS": 0, "HOST_MAX_IN_FLIGHT": 20, "LEASE_SECONDS": 2}
    arguments = ("crawl", "site", "-a", f"seeds={site.url}/0")
    process = scrapy.start(*arguments, settings=settings)
    assert poll(lambda: site.hits["/1"])
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert any("Received SIGINT" in line for line in process.stderr)  # two at once would be taken for one
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    process.communicate(timeout=TIMEOUT)
    assert time.monotonic() - began < 30  # it is not for the answer that it waits: that one is 60 s away
    answers.set()
    done = scrapy(*arguments, settings=settings)
    assert done.returncode == 0, done.stderr
    assert status(scrapy, "twice")["counts"]["fetch_status"]["done"] == 40
    assert status(scrapy, "twice")["run"] == 1


def test_one_signal_finishes_what_runs(site: Site, scrapy: Project) -> None:
    """SIGTERM: what is in flight is stored, the rest is due again, and the exit code says so."""
    pages_of(site, 60, delay=0.5)
    settings = {"CRAWL_NAME": "term", "MIN_INTERVAL_MS": 0, "HOST_MAX_IN_FLIGHT": 4, "LEASE_SECONDS": 60}
    arguments = ("crawl", "site", "-a", f"seeds={site.url}/0")
    process = scrapy.start(*arguments, settings=settings)
    assert poll(lambda: len(site.requests) > 6)
    process.send_signal(signal.SIGTERM)
    stderr = process.communicate(timeout=TIMEOUT)[1]
    assert process.returncode == 11, stderr
    stopped = status(scrapy, "term")
    fetched = len([path for path in site.hits if path != "/robots.txt"])
    assert stopped["counts"]["fetch_status"]["done"] == fetched
    assert (stopped["status"], stopped["leased"], stopped["workers"]) == ("started", 0, [])
    done = scrapy(*arguments, settings=settings)  # at once: no lease has to run out
    assert done.returncode == 0, done.stderr
    assert status(scrapy, "term")["counts"]["fetch_status"]["done"] == 60
    assert {len(times) for path, times in site.hits.items() if path != "/robots.txt"} == {1}


def test_a_lost_redis_reply_or_connection_delays_only(site: Site, scrapy: Project, redis_url: str) -> None:
    """Every client connection of Redis cut again and again in mid-crawl: the run finishes whole."""
    pages_of(site, 60, delay=0.05)
    settings = {"CRAWL_NAME": "cut", "MIN_INTERVAL_MS": 0, "HOST_MAX_IN_FLIGHT": 4, "LEASE_SECONDS": 3}
    process = scrapy.start("crawl", "site", "-a", f"seeds={site.url}/0", settings=settings)
    assert poll(lambda: len(site.requests) > 4)
    with open_redis_sync(redis_url) as redis:
        for _ in range(5):
            redis.client_kill_filter(_type="normal", skipme=True)
            time.sleep(0.2)  # some work in between
    stderr = process.communicate(timeout=TIMEOUT)[1]
    assert process.returncode == 0, stderr
    assert status(scrapy, "cut")["counts"]["fetch_status"]["done"] == 60


def test_a_store_that_breaks_never_hangs(site: Site, scrapy: Project) -> None:
    """The store's task dies: one error, leases given back, exit code 1, and the next worker goes on."""
    pages_of(site, 20)
    settings = {"CRAWL_NAME": "broken", "MIN_INTERVAL_MS": 0}
    arguments = ("crawl", "site", "-a", f"seeds={site.url}/0")
    done = scrapy(*arguments, settings={**settings, "ITEM_PIPELINES": {
        "pipelines.classify.ClassifyPipeline": -30,
        "tests.crawl.broken.BrokenStore": -20,
        "pipelines.report.ReportPipeline": -10,
    }})  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "The worker stops" in done.stderr
    state = status(scrapy, "broken")
    assert (state["status"], state["leased"]) == ("started", 0)
    done = scrapy(*arguments, settings=settings)
    assert done.returncode == 0, done.stderr
    assert status(scrapy, "broken")["counts"]["fetch_status"]["done"] == 20


@pytest.mark.timeout(180)
def test_embedded_servers_that_die_are_started_again(site: Site, embedded: Project, home: Path) -> None:
    """kill -9 of the embedded Valkey and PostgreSQL in mid-crawl: both come back, the run finishes whole."""
    pages_of(site, 120, delay=0.1)
    settings = {"MIN_INTERVAL_MS": 0, "HOST_MAX_IN_FLIGHT": 2, "LEASE_SECONDS": 4}
    process = embedded.start("crawl", "site", "-a", f"seeds={site.url}/0", settings=settings)
    assert poll(lambda: len(site.requests) > 10)
    for each in psutil.process_iter(["name", "cmdline"]):
        told = " ".join(each.info["cmdline"] or ())
        if str(home) in told and each.info["name"] in {"valkey-server", "postgres"}:
            each.kill()
    stderr = process.communicate(timeout=TIMEOUT)[1]
    assert process.returncode == 0, stderr
    assert {f"/{n}" for n in range(120)} <= set(site.hits)
    assert "120 done" in stderr


def test_a_worker_that_lost_its_lease_overwrites_nothing(site: Site, scrapy: Project) -> None:
    """Stopped for longer than a lease: what the other one stored stays; the report is late."""
    asked: list[int] = []

    async def answer(_: object) -> web.Response | str:
        asked.append(1)
        if len(asked) == 1:
            await asyncio.sleep(1)
            return web.Response(status=404)
        return linking("/next")

    site.add("/", answer)
    site.add("/next", linking())
    settings = {"CRAWL_NAME": "stale", "MIN_INTERVAL_MS": 0, "LEASE_SECONDS": 2, "ROBOTSTXT_OBEY": False}
    arguments = ("crawl", "site", "-a", f"seeds={site.url}/")
    frozen = scrapy.start(*arguments, settings=settings)
    assert poll(lambda: asked)
    frozen.send_signal(signal.SIGSTOP)
    other = scrapy(*arguments, settings=settings)
    assert other.returncode == 0, other.stderr
    before = scrapy("pages", "stale", "--json").json
    assert {page["fetch_status"] for page in before} == {"done"}
    frozen.send_signal(signal.SIGCONT)
    stderr = frozen.communicate(timeout=TIMEOUT)[1]
    assert "'frontier/late': 1" in stderr, stderr
    assert scrapy("pages", "stale", "--json").json == before


def test_a_set_up_that_breaks_ends_the_worker(site: Site, scrapy: Project, redis_url: str) -> None:
    """A Redis user that may run no scripts: the worker says so and leaves, and the run is nobody's."""
    site.add("/", linking())
    with open_redis_sync(redis_url) as redis:
        redis.execute_command("ACL", "SETUSER", "weak", "on", ">secret-word", "~*", "+@all", "-@scripting")
    try:
        scrapy.env["REDIS_URL"] = redis_url.replace("://", "://weak:secret-word@", 1)
        settings = {"CRAWL_NAME": "weak", "MIN_INTERVAL_MS": 0}
        done = scrapy("crawl", "site", "-a", f"seeds={site.url}/", settings=settings)
    finally:
        with open_redis_sync(redis_url) as redis:
            redis.execute_command("ACL", "DELUSER", "weak")
    assert done.returncode == 1, done.stderr
    assert "no permissions" in done.stderr.lower()
    assert "secret-word" not in done.stderr
    assert site.requests == []
    scrapy.env["REDIS_URL"] = redis_url
    assert status(scrapy, "weak")["workers"] == []


def test_a_commit_that_is_held_up_costs_no_lease(site: Site, scrapy: Project, database_url: str) -> None:
    """Somebody locks the table of pages for longer than a lease: the worker stays on its run, and ends it."""
    pages_of(site, 12, delay=0.1)
    settings = {"CRAWL_NAME": "held", "MIN_INTERVAL_MS": 0, "LEASE_SECONDS": 2}
    worker = scrapy.start("crawl", "site", "-a", f"seeds={site.url}/0", settings=settings)
    assert poll(lambda: len(site.requests) > 2)
    with closing(connect_database(database_url)) as sql:
        with sql.transaction():
            sql.execute("LOCK TABLE page IN ACCESS EXCLUSIVE MODE")
            time.sleep(5)  # two leases and a half
        kept = sql.execute("SELECT epoch, expires_at > now() FROM worker_lease").fetchall()
    _, err = worker.communicate(timeout=TIMEOUT)
    assert worker.returncode == 0, err
    assert kept == [(1, True)]
    assert status(scrapy, "held")["counts"]["fetch_status"]["done"] == 12
    assert scrapy("notes", "held").stdout == ""
