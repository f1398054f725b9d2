"""The Bloom filter: no URL twice, hardly ever a new one that is taken for seen, and less memory."""

from __future__ import annotations

import asyncio
import random

import pytest

from crawlproj.exceptions import BadSetting
from crawlproj.frontier.frontier import BLOOM_BLOCK
from crawlproj.frontier.records import Outcome
from tests.frontier.conftest import ONE_SERVER, crawl, lease_one, link, links

BLOCK_AT_A_HUNDREDTH = int(BLOOM_BLOCK * 0.693 / 7)  # URLs that fill one block of bits at this error rate


def fingerprints(n: int, seed: int = 0) -> list[int]:
    """Return so many, as of any URLs."""
    chance = random.Random(seed)
    return [chance.randrange(-(2**63), 2**63) for _ in range(n)]


@pytest.fixture
def make(fleet):
    """Return a function that makes or joins a frontier with a Bloom filter."""

    async def made(name="crawl", **settings):
        return await fleet(name, **{"seen_filter": "bloom", "bloom_capacity": 100_000, **settings})

    return made


async def marked(frontier, prints: list[int]) -> int:
    """Mark them seen; return how many were new to the filter."""
    before = (await frontier.refresh()).seen
    await frontier.mark_seen({"a.test": prints})
    return (await frontier.refresh()).seen - before


async def memory(fleet, frontier, kind: str) -> int:
    """Return the bytes that keys of one kind take."""
    keys = [key async for key in fleet.redis.scan_iter(f"{frontier.prefix}{kind}:*")]
    return sum([await fleet.redis.memory_usage(key, samples=0) for key in keys])


async def test_no_url_twice(make):
    """In a batch, in two, from two workers at once, after it was fetched; one that is forced is queued."""
    frontier, other = await make(), await make()
    assert await frontier.schedule([*links("a.test", 3), *links("a.test", 3)]) == 3
    added = await asyncio.gather(frontier.schedule(links("b.test", 50)), other.schedule(links("b.test", 50)))
    assert sum(added) == 50
    grant = await lease_one(frontier)
    outlinks = [*links("a.test", 5), link("a.test/0", forced=True)]
    assert await frontier.finish(grant.token, Outcome.SUCCEEDED, outlinks=outlinks) == (True, 3)
    assert len(await crawl(other)) == 3 + 2 + 1 + 50 - 1
    assert await other.schedule(links("b.test", 50)) == 0
    assert other.figures.seen == 55


@ONE_SERVER
async def test_no_new_url_is_taken_for_seen(make):
    """None of 20,000, at the error rate that is the default."""
    frontier = await make(bloom_capacity=20_000)
    entries = [link(f"h{n % 50}.test/{n}") for n in range(20_000)]
    assert await frontier.schedule(entries) == 20_000
    assert await frontier.schedule(entries) == 0


async def test_in_several_blocks_and_partitions(make, fleet):
    """Fingerprints at both ends find their block; all blocks are used, and dropped."""
    frontier = await make(bloom_capacity=1_000_000, partitions=2)
    ends = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 2, 2**63 - 1]
    assert await marked(frontier, ends) == len(ends)
    assert await marked(frontier, ends) == 0
    assert await frontier.schedule([link(f"h{n}.test/") for n in range(300)]) == 300
    blocks = [key async for key in fleet.redis.scan_iter("*:b:*")]
    assert len(blocks) > 40
    assert await frontier.check() == []
    await frontier.drop()
    assert await fleet.snapshot() == {}


@ONE_SERVER
async def test_the_error_rate_is_as_promised(make):
    """At capacity a new URL is taken for seen about as often as asked for, and seen ones are never new."""
    n, last = BLOCK_AT_A_HUNDREDTH * 2, 10_000
    frontier = await make(bloom_capacity=n, bloom_error=0.01)
    prints = fingerprints(n)
    await frontier.mark_seen({"a.test": prints[:-last]})
    rate = 1 - await marked(frontier, prints[-last:]) / last
    assert 0.003 < rate < 0.02
    assert await marked(frontier, prints[:5000]) == 0


async def test_it_takes_less_memory(make, fleet):
    """At its capacity less than the exact filter, and next to nothing before."""
    n = 2 * int(BLOOM_BLOCK * 0.693 / 24)
    bloom = await make(bloom_capacity=n)
    exact = await fleet("exact", seen_shards=n // 400)
    prints = fingerprints(n)
    await bloom.mark_seen({"a.test": prints[:1]})
    assert await memory(fleet, bloom, "b") < 200_000
    for frontier in (bloom, exact):
        await frontier.mark_seen({"a.test": prints})
    assert (await bloom.refresh()).seen == (await exact.refresh()).seen == n
    sizes = [await memory(fleet, bloom, "b") / n, await memory(fleet, exact, "s") / n]
    assert 4 < sizes[0] < 5.5 < sizes[1] < 12, sizes


@pytest.mark.parametrize(
    ("there", "other", "setting"),
    [
        (
            {},
            {"seen_filter": "exact"},
            "FRONTIER_SEEN_FILTER must be bloom, as this crawl has it, not 'exact'",
        ),
        (
            {"seen_filter": "exact"},
            {},
            "FRONTIER_SEEN_FILTER must be exact, as this crawl has it, not 'bloom'",
        ),
        ({}, {"bloom_error": 1e-3}, "FRONTIER_BLOOM_ERROR must be 1e-07, as this crawl has it, not '0.001'"),
        (
            {},
            {"bloom_error": 0.9e-7},
            "FRONTIER_BLOOM_ERROR must be 1e-07, as this crawl has it, not '9e-08'",
        ),
        (
            {},
            {"bloom_capacity": 10**7},
            "FRONTIER_BLOOM_CAPACITY must be 100000, as this crawl has it, not '10000000'",
        ),
    ],
)
async def test_another_filter_is_refused(make, fleet, there, other, setting):
    """Nothing is changed, and the first goes on as it was."""
    frontier = await make(**there)
    await frontier.schedule(links("a.test", 2))
    before = await fleet.snapshot()
    with pytest.raises(BadSetting) as refused:
        await make(**other, interval_ms=7)
    assert setting in str(refused.value)
    assert await fleet.snapshot() == before
    assert await (await make(**there)).schedule(links("a.test", 3)) == 1
