"""Frontiers on real servers, each of them consistent when its test ends.

Whatever asks for a server here runs twice: on the embedded Valkey, and on Redis 7 where there is a
`redis-server`. TEST_REDIS_URL names the one server to use instead.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

import crawlproj.settings
from crawlproj.config import Config
from crawlproj.connections import open_redis
from crawlproj.frontier.codec import Codec
from crawlproj.frontier.entries import Entry
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.records import Grant, Outcome, Pending
from crawlproj.knobs import KNOBS
from crawlproj.scripts import Scripts
from crawlproj.testing.servers import fast_folder
from tests.redis_server import OwnRedis

CODEC = Codec()


def config(**knobs: Any) -> Config:
    """Return the defaults, but without waits and with a small filter, changed by *knobs*."""
    settings = Settings()
    settings.setmodule(crawlproj.settings)
    settings.set("MIN_INTERVAL_MS", 0)
    settings.set("FRONTIER_SEEN_SHARDS", 16)
    config = Config.from_settings(settings)
    names = {"min_interval_ms": "interval_ms", "host_max_in_flight": "in_flight"}
    knobs = {names.get(name, name): value for name, value in knobs.items()}
    turned = {name: value for name, value in knobs.items() if name in KNOBS}
    others = {name: value for name, value in knobs.items() if name not in KNOBS}
    return replace(config, knobs={**config.knobs, **turned}, turned=frozenset(turned), **others)


def link(url: str, **changed: Any) -> Entry:
    """Return the entry of a link; a URL without a scheme is a host and a path."""
    return replace(CODEC.encode_link(url if "://" in url else f"http://{url}", 1), **changed)


def links(host: str, n: int, start: int = 0) -> list[Entry]:
    """Return entries of one host: /0, /1 and so on."""
    return [link(f"{host}/{number}") for number in range(start, start + n)]


def name_of(grant: Grant) -> str:
    """Return host and path of what was leased."""
    return CODEC.decode(grant.host, grant.entry).wire.removeprefix("http://")


FORWARD = """
local ctl = cmsgpack.unpack(redis.call('GET', KEYS[1] .. 'ctl'))
ctl.clock_offset_ms = (ctl.clock_offset_ms or 0) + ARGV[1]
redis.call('SET', KEYS[1] .. 'ctl', cmsgpack.pack(ctl))
"""


class Fleet:
    """Makes frontiers on one server, as any number of workers see them."""

    def __init__(
        self, url: str, stack: AsyncExitStack, scripts: type[Scripts] = Scripts, *, cluster: bool = False
    ) -> None:
        self.redis = open_redis(url, cluster=cluster)
        self._cluster = cluster
        self._scripts = scripts
        self._url = url
        self._stack = stack
        self.made: list[Frontier] = []
        stack.push_async_callback(self.redis.aclose)

    async def __call__(self, name: str = "crawl", **knobs: Any) -> Frontier:
        """Create or join a frontier, over a connection of its own."""
        client = open_redis(self._url, cluster=self._cluster)
        scripts = self._scripts(client, "test")
        self._stack.push_async_callback(client.aclose)
        self._stack.push_async_callback(scripts.close)
        wanted = config(**knobs)
        frontier = Frontier(client, scripts, name, wanted.partitions)
        await frontier.create(wanted)
        self.made.append(frontier)
        return frontier

    async def forward(self, ms: int) -> None:
        """Put the clock of every frontier forward, as if *ms* had passed."""
        for prefix in {part.prefix for frontier in self.made for part in frontier.parts}:
            await self.redis.eval(FORWARD, 1, prefix, ms)

    async def snapshot(self, *without: str) -> dict[bytes, bytes]:
        """Return everything the server has, as it has it, but for keys ending in one of *without*."""
        keys = [key async for key in self.redis.scan_iter() if not key.decode().endswith(without or ("\n",))]
        return {key: await self.redis.dump(key) for key in keys}


def redis_program() -> Path:
    """Return the program of a Redis that is new enough, or skip the test with what is missing."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no redis-server is installed: this runs on the embedded Valkey alone")
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"v=(\d+)", said)
    if found is None or int(found[1]) < 7:
        pytest.skip(f"{said.strip()[:60]} is older than Redis 7: this runs on the embedded Valkey alone")
    return Path(program)


#: For what shows nothing of a server, and is long: it runs on the embedded Valkey alone, and on no cluster.
ONE_SERVER = pytest.mark.parametrize("valkey_url", ["valkey"], indirect=True)


@pytest.fixture(scope="session", params=["valkey", "redis"])
def valkey_url(request, valkey_url) -> Iterator[str]:
    """The address of either server, one after the other, for the whole session."""
    if request.param == "valkey":
        yield valkey_url
        return
    if os.environ.get("TEST_REDIS_URL"):
        pytest.skip("TEST_REDIS_URL names the one server to use")
    program = redis_program()
    with tempfile.TemporaryDirectory(prefix="redis-", dir=fast_folder()) as folder:
        server = OwnRedis(Path(folder), program)
        server.start()
        yield server.url
        server.kill()


@pytest.fixture
async def fleet(redis_url):
    """Frontiers on the session's server, found consistent at the end."""
    async with AsyncExitStack() as stack:
        fleet = Fleet(redis_url, stack)
        yield fleet
        for frontier in fleet.made:
            if await frontier.exists():
                assert await frontier.check() == []


@pytest.fixture
async def frontier(fleet):
    """One frontier, without waits."""
    return await fleet()


@pytest.fixture
async def own_fleet(own_server):
    """Frontiers on a server that the test may kill and start again."""
    async with AsyncExitStack() as stack:
        yield Fleet(own_server.url, stack)


@pytest.fixture
def own_server(tmp_path, valkey_url):
    """A server of this test's own."""
    server = OwnRedis(tmp_path, valkey_url)
    server.start()
    yield server
    server.kill()


async def lease(frontier: Frontier, n: int = 100, seconds: float = 60, worker: str = "w") -> list[Grant]:
    """Return what is due now."""
    return (await frontier.next(worker, n, seconds)).grants


async def lease_one(frontier: Frontier, seconds: float = 60, worker: str = "w") -> Grant:
    """Return the one lease that is given."""
    (grant,) = (await frontier.next(worker, 1, seconds)).grants
    return grant


async def succeed(frontier: Frontier, *grants: Grant) -> None:
    """End leases well."""
    for grant in grants:
        assert (await frontier.finish(grant.token, Outcome.SUCCEEDED))[0]


async def pending(frontier: Frontier) -> list[Pending]:
    """Return what is queued, host by host, each in the order of its queue."""
    return sorted([each async for each in frontier.dump_pending()], key=lambda each: each.host)


async def crawl(frontier: Frontier) -> list[str]:
    """Fetch what is due, one by one, until nothing is; return it in order."""
    done = []
    while True:
        granted = await frontier.next("w", 1, 60)
        done += [name_of(grant) for grant in granted.grants]
        await succeed(frontier, *granted.grants)
        if not granted.grants and granted.wait_ms != 0:
            return done
