"""What the tests of whole crawls share."""

from __future__ import annotations

import gzip
import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crawlproj.connections import open_redis
from crawlproj.frontier.frontier import Frontier
from crawlproj.scripts import Scripts
from crawlproj.servers.embedded import leave
from crawlproj.testing.servers import fast_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from redis import Redis

    from crawlproj.frontier.entries import Entry
    from crawlproj.testing.project import Project

WORDS = "<main><p>" + "Some words that anybody can read, quite a few of them. " * 5 + "</p></main>"


@pytest.fixture
def home() -> Iterator[Path]:
    """Return a folder for servers of a test's own, short enough for a socket's name."""
    with tempfile.TemporaryDirectory(prefix="away-", dir=fast_folder(), ignore_cleanup_errors=True) as folder:
        yield Path(folder).resolve()
        leave(Path(folder).resolve(), now=True)


def linking(*paths: str) -> str:
    """Return a page with text and links."""
    return f"<html><body>{WORDS}{''.join(f'<a href={path!r}>x</a>' for path in paths)}</body></html>"


def status(scrapy: Project, name: str) -> dict[str, Any]:
    """Return what `scrapy status` says of a crawl."""
    (found,) = scrapy("status", name, "--json").json
    return dict(found)


def figures(redis: Redis) -> dict[str, int]:
    """Return the counters of the one frontier there is."""
    (key,) = redis.scan_iter("frontier:*:ctr")
    packed = "return cjson.encode(cmsgpack.unpack(redis.call('GET', KEYS[1])))"
    return {name: int(value) for name, value in json.loads(redis.eval(packed, 1, key)).items()}


async def push(redis_url: str, entries: Sequence[Entry]) -> None:
    """Queue entries, whatever they hold, in the one frontier there is."""
    redis = open_redis(redis_url)
    keys = [key async for key in redis.scan_iter("frontier:*:ctl")]
    frontier_id = keys[0].decode().split(":")[1].strip("{}")
    await Frontier(redis, Scripts(redis, "test"), frontier_id).schedule(entries)
    await redis.aclose()


def bomb() -> bytes:
    """Return a few KB that expand to 50 MB."""
    return gzip.compress(bytes(50_000_000))


def poll(condition: Callable[[], object], seconds: float = 60) -> object:
    """Return the first truth of *condition*, or the last falsehood."""
    deadline = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found
