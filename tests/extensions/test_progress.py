"""The progress extension: how it begins, what it logs, what it survives."""

import asyncio
import logging
from collections import Counter
from types import SimpleNamespace

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.settings import Settings

from crawlproj import connections
from crawlproj.config import Config
from crawlproj.frontier.codec import Codec
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.partition import Partition
from crawlproj.scripts import Scripts
from crawlproj.worker import Worker
from extensions import progress
from extensions.progress import ProgressExtension


@pytest.fixture
def settings():
    """Return the project's settings."""
    settings = Settings()
    settings.setmodule("crawlproj.settings")
    return settings


@pytest.fixture
async def worker(redis_url, settings):
    """Yield what the extension reads of a worker: a real frontier of two hosts, a tally."""
    redis = connections.open_redis(redis_url)
    scripts = Scripts(redis, "test")
    frontier = Frontier(redis, scripts, "f")
    await frontier.create(Config.from_settings(settings))
    await frontier.schedule([Codec().encode_link(f"http://{host}.test/", 0) for host in "ab"])
    tally = Counter({"fetch:done": 5, "fetch:failed": 3, "schedule:retry": 2, "schedule:failed": 1})
    yield SimpleNamespace(
        redis=redis, frontier=frontier, tally=tally, crawl=SimpleNamespace(name="news"), is_open=True
    )
    await scripts.close()
    await redis.aclose()


@pytest.fixture
def extension(worker, settings, monkeypatch):
    """Return the extension of that worker, which logs every few milliseconds."""
    monkeypatch.setattr(progress, "LOGGED_SECONDS", 0.01)
    monkeypatch.setattr(Worker, "of", lambda _: worker)
    return ProgressExtension.from_crawler(Crawler(Spider, settings))


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  # what is logged sets no event
            await asyncio.sleep(0.01)


async def test_logs_the_line(extension, caplog):
    """Without a terminal the line goes to the log, until the spider closes; retries are no failures."""
    caplog.set_level(logging.INFO, "extensions.progress")
    extension.engine_started()
    await until(lambda: caplog.messages)
    extension.spider_closed()
    assert caplog.messages[0] == "news   5 done · 1 failed · 2 queued │ 2 hosts"
    await asyncio.sleep(0.05)
    logged = len(caplog.messages)
    await asyncio.sleep(0.05)
    assert len(caplog.messages) == logged


def said(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "extensions.progress"]


async def test_redis_that_is_away(extension, worker, caplog):
    """An outage of Redis costs the figure of hosts, not the line."""
    caplog.set_level(logging.INFO, "extensions.progress")
    redis = connections.open_redis("redis://127.0.0.1:1/0")
    scripts = Scripts(redis, "nobody")
    silent = Partition(redis, scripts, worker.frontier.prefix)
    silent.figures = worker.frontier.figures
    worker.frontier.parts = [silent]
    extension.engine_started()
    await until(lambda: len(said(caplog)) > 1)
    extension.spider_closed()
    assert said(caplog)[-1] == "news   5 done · 1 failed · 2 queued"
    await scripts.close()
    await redis.aclose()


def test_off(settings):
    """PROGRESS_ENABLED=False takes it away."""
    settings.set("PROGRESS_ENABLED", "False")
    with pytest.raises(NotConfigured):
        ProgressExtension.from_crawler(Crawler(Spider, settings))
