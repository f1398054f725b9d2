"""A frontier of several partitions on a Redis Cluster of three servers."""

from __future__ import annotations

import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from crawlproj.testing.servers import fast_folder
from tests.frontier.conftest import Fleet, crawl, link, links, redis_program
from tests.own_cluster import OwnCluster

PARTITIONS = 6


@pytest.fixture(scope="module")
def own_cluster():
    """Three servers."""
    with tempfile.TemporaryDirectory(prefix="cluster-", dir=fast_folder()) as folder:
        cluster = OwnCluster(Path(folder), redis_program())
        yield cluster
        cluster.close()


@pytest.fixture
async def fleet(own_cluster):
    """Frontiers on them, found consistent at the end."""
    async with AsyncExitStack() as stack:
        fleet = Fleet(own_cluster.urls[0], stack, cluster=True)
        await fleet.redis.flushall(target_nodes="primaries")
        yield fleet
        for each in fleet.made:
            if await each.exists():
                assert await each.check() == []


async def test_partitions_are_on_all_servers(fleet, own_cluster):
    """One address is enough to find them."""
    frontier = await fleet(partitions=PARTITIONS)
    await frontier.schedule([link(f"h{number}.test/") for number in range(60)])
    assert all(own_cluster.keys())
    assert len(await crawl(frontier)) == 60


@pytest.mark.parametrize("kind", ["list", "set", "zset"])
async def test_start_urls_enter_from_any_slot(fleet, kind):
    """An entry whose requests are in the frontier already is dropped; nothing enters twice."""
    frontier = await fleet(partitions=PARTITIONS)
    for raw in ("a", "b"):
        if kind == "list":
            await fleet.redis.rpush("start", raw)
        elif kind == "set":
            await fleet.redis.sadd("start", raw)
        else:
            await fleet.redis.zadd("start", {raw: 1})
    entries = [link("one.test/"), link("two.test/")]
    for raw in await frontier.peek("start", 16):
        assert await frontier.take_from("start", raw, entries)
        assert not await frontier.take_from("start", raw, entries)
    assert await frontier.peek("start", 16) == []
    assert (await frontier.refresh()).queued == 2


async def test_a_start_url_for_which_no_room_is_left_stays_in_a_key_elsewhere(fleet):
    """What of it has come in is found seen when it is read again."""
    frontier = await fleet(max_urls=2)
    await fleet.redis.rpush("start", "x")
    assert not await frontier.take_from("start", b"x", links("a.test", 3))
    assert await fleet.redis.llen("start") == 1
    await frontier.set_crawl(max_urls=3)
    assert await frontier.take_from("start", b"x", links("a.test", 3))
    assert await fleet.redis.llen("start") == 0
    assert (frontier.figures.queued, frontier.figures.admitted) == (3, 3)
