"""A Redis Cluster of one node, for tests that show that every operation keeps to the keys of one hash tag.

A cluster of one node serves all slots and still refuses a command, or a script, that touches two of them.
Scripts get the line that makes the server look at keys that they have not declared, too.
"""

from __future__ import annotations

import inspect
import socket
import subprocess
import tempfile
import time
from contextlib import AsyncExitStack, suppress
from hashlib import sha1

import pytest
import redis

from crawlproj.connections import open_redis_sync
from crawlproj.scripts import Script, Scripts
from crawlproj.testing.servers import fast_folder
from tests.frontier.conftest import ONE_SERVER, Fleet, redis_program

SLOTS = 16384


@pytest.fixture(scope="module")
def cluster_url():
    """The address of a cluster of one node."""
    program = redis_program()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as free:
        bus = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="cluster-", dir=fast_folder()) as folder:
        options = {
            "port": port, "cluster-port": bus, "bind": "127.0.0.1", "dir": folder, "save": "",
            "cluster-enabled": "yes",
        }  # fmt: skip
        words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
        process = subprocess.Popen([program, *words], stdout=subprocess.DEVNULL)
        url = f"redis://127.0.0.1:{port}/0"
        try:
            while process.poll() is None:
                with suppress(redis.ConnectionError), open_redis_sync(url) as client:
                    client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, SLOTS - 1)
                    break
            yield url
        finally:
            process.kill()
            process.wait(10)


@pytest.fixture
def redis_url(cluster_url):
    """The cluster, empty."""
    with open_redis_sync(cluster_url) as client:
        while b"cluster_state:ok" not in client.execute_command("CLUSTER", "INFO"):
            time.sleep(0.05)  # it takes two seconds of its own
        client.flushall()
    return cluster_url


class StrictScripts(Scripts):
    """Runs operations that the server keeps to one slot."""

    def call(self, operation, keys, *arguments):
        return super().call(strict(operation), keys, *arguments)


def strict(operation: Script) -> Script:
    """Return it as a script with flags: without a line of these the server looks at declared keys alone."""
    text = operation.text if operation.text.startswith(b"#!") else b"#!lua\n" + operation.text
    return Script(operation.name, text, sha(text))


def sha(text: bytes) -> str:
    """Return the name by which a server knows a script."""
    return sha1(text, usedforsecurity=False).hexdigest()


@pytest.fixture
async def fleet(redis_url):
    """Frontiers on the cluster, found consistent at the end."""
    async with AsyncExitStack() as stack:
        fleet = Fleet(redis_url, stack, StrictScripts)
        yield fleet
        for each in fleet.made:
            if await each.exists():
                assert await each.check() == []


#: A start-URL key has the name that a spider gives it, and so a slot of its own.
ELSEWHERE = {
    "test_a_sealed_run_takes_nothing",
    "test_every_way_in_refuses_a_host_over_its_budget",
}


def collected(module, *fixtures: str) -> dict[str, object]:
    """Return the tests of a module that need no server of their own, and fixtures for them."""
    own = {"own_fleet", "own_server", "valkey_url"}
    tests = {
        name: test
        for name, test in vars(module).items()
        if name.startswith("test_")
        and name not in ELSEWHERE
        and inspect.isfunction(test)
        and ONE_SERVER.mark not in getattr(test, "pytestmark", ())
        and not own & set(inspect.signature(test).parameters)
    }
    here = {"cluster_url": cluster_url, "redis_url": redis_url, "fleet": fleet}
    return {**tests, **here, **{name: getattr(module, name) for name in fixtures}}
