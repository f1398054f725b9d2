"""Looking up addresses: beside the crawl, once each, and never for ever."""

from __future__ import annotations

import asyncio
import threading

import pytest

from crawlproj.frontier.addresses import FAILED_SECONDS, Addresses, look_up


class Names:
    """A name server that counts questions, and answers only what it knows and when it is let."""

    def __init__(self, **known):
        self.known = known
        self.asked = []
        self.free = threading.Event()
        self.free.set()

    def __call__(self, name):
        self.asked.append(name)
        self.free.wait(20)
        return self.known.get(name)


@pytest.fixture
def names():
    """A name server that knows a and b."""
    server = Names(a="10.0.0.1", b="10.0.0.2")
    yield server
    server.free.set()


async def test_what_this_machine_knows():
    """Names and addresses in any spelling; what does not resolve has none."""
    assert await Addresses().of(["localhost", "127.0.0.1", "[::1]", "a" * 64, ""]) == {
        "localhost": look_up("localhost"),
        "127.0.0.1": "127.0.0.1",
        "[::1]": "::1",
    }
    assert look_up("localhost") in {"127.0.0.1", "::1"}


async def test_the_least_address_is_taken(monkeypatch):
    """In whatever order they come, so that all workers take the same; version 4 before 6."""
    found = ["10.0.0.9", "::1", "9.0.0.1", "fe80::1%lo"]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [(0, 0, 0, "", (each, 0)) for each in found])
    assert look_up("a") == "9.0.0.1"


async def test_each_name_is_asked_for_once(names):
    """By many at once, and afterwards."""
    addresses = Addresses(names)
    found = await asyncio.gather(*(addresses.of(["a", "b"]) for _ in range(5)))
    assert found == [{"a": "10.0.0.1", "b": "10.0.0.2"}] * 5
    assert await addresses.of(["b"]) == {"b": "10.0.0.2"}
    assert sorted(names.asked) == ["a", "b"]


async def test_a_failure_is_not_for_ever(names):
    """A name without an address is asked for again, a while later."""
    now = [1000.0]
    addresses = Addresses(names, clock=lambda: now[0])
    assert await addresses.of(["c"]) == {}
    names.known["c"] = "10.0.0.3"
    now[0] += FAILED_SECONDS - 1
    assert await addresses.of(["c"]) == {}
    now[0] += 1
    assert await addresses.of(["c"]) == {"c": "10.0.0.3"}
    now[0] += 10 * FAILED_SECONDS
    assert await addresses.of(["c"]) == {"c": "10.0.0.3"}
    assert names.asked == ["c", "c"]


async def test_a_slow_server_holds_nobody_up(names):
    """The name goes without an address; the answer, when it comes, is there for the next."""
    names.free.clear()
    addresses = Addresses(names, wait_seconds=0.05)
    assert await addresses.of(["a"]) == {}
    assert await addresses.of(["a"]) == {}
    names.free.set()
    while not await addresses.of(["a"]):
        pass
    assert names.asked == ["a"]


async def test_memory_is_bounded(names):
    """The oldest name is forgotten."""
    addresses = Addresses(names, remembered=2)
    for name in "abc":
        await addresses.of([name])
    await addresses.of(["b", "c"])
    assert names.asked == ["a", "b", "c"]
    await addresses.of(["a"])
    assert names.asked == ["a", "b", "c", "a"]


async def test_closing_waits_for_nobody(names):
    """What has not begun never does."""
    names.free.clear()
    addresses = Addresses(names, wait_seconds=0.05)
    await addresses.of([str(n) for n in range(40)])
    begun = len(names.asked)
    addresses.close()
    names.free.set()
    await asyncio.sleep(0.05)
    assert len(names.asked) == begun < 40
