"""Operations find their server in a Redis Cluster, wherever their slot is and goes."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from hashlib import sha1
from pathlib import Path

import pytest
from redis.exceptions import ResponseError

from crawlproj.connections import check_redis, open_redis
from crawlproj.scripts import Script, Scripts
from crawlproj.testing.servers import fast_folder
from tests.frontier.conftest import redis_program
from tests.own_cluster import OwnCluster


def made_of(text: str) -> Script:
    return Script("test", text.encode(), sha1(text.encode(), usedforsecurity=False).hexdigest())


APPEND = made_of("redis.call('RPUSH', KEYS[1], ARGV[1]) return redis.call('LLEN', KEYS[1])")
BOTH = made_of("return {redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])}")
NAMES = [f"list:{number}" for number in range(60)]


@contextmanager
def running(*, replica: bool) -> Iterator[OwnCluster]:
    """Run a cluster of three servers; the first has a replica, if that is wanted."""
    with tempfile.TemporaryDirectory(prefix="cluster-", dir=fast_folder()) as folder:
        cluster = OwnCluster(Path(folder), redis_program(), replica=replica)
        yield cluster
        cluster.close()


@asynccontextmanager
async def scripts_on(cluster: OwnCluster) -> AsyncIterator[Scripts]:
    """Open scripts that know the address of its second server."""
    client = open_redis(cluster.urls[1], cluster=True)
    scripts = Scripts(client, "the cluster")
    yield scripts
    await scripts.close()
    await client.aclose()


@pytest.fixture(scope="module")
def cluster():
    """Three servers, for all tests here that kill none."""
    with running(replica=False) as cluster:
        yield cluster


@pytest.fixture
def own_cluster(cluster):
    """Those, empty."""
    cluster.empty()
    return cluster


@pytest.fixture
async def scripts(own_cluster):
    """Scripts on them."""
    async with scripts_on(own_cluster) as scripts:
        yield scripts


async def append(scripts: Scripts, value: str) -> list[int]:
    """Append to every list; return their lengths."""
    async with asyncio.timeout(60):
        return list(await asyncio.gather(*(scripts.call(APPEND, (name,), value) for name in NAMES)))


async def test_calls_reach_the_server_that_has_their_keys(scripts, own_cluster):
    """Before the map of the slots is known, too."""
    assert await append(scripts, "a") == [1] * len(NAMES)
    assert all(own_cluster.keys()[:3])
    assert await append(scripts, "b") == [2] * len(NAMES)


async def test_keys_of_two_slots_are_not_together(scripts):
    """And an operation on both is refused, which only its caller hears."""
    await append(scripts, "a")
    assert scripts.are_together("{a}x", "{a}y")
    assert not scripts.are_together("a", "b")
    with pytest.raises(ResponseError, match="slot"):
        await scripts.call(BOTH, ("a", "b"))


async def test_a_slot_that_has_moved_is_followed(scripts, own_cluster):
    """Calls under way and later ones arrive once, at the new server."""
    await append(scripts, "a")
    here = own_cluster.owner_of(NAMES[0])
    there = next(number for number in (1, 2) if number != here)
    own_cluster.move(NAMES[0], there)
    assert own_cluster.owner_of(NAMES[0]) == there
    assert await append(scripts, "b") == [2] * len(NAMES)


async def test_a_slot_that_is_moving_is_waited_for(scripts, own_cluster):
    """Half of its keys may be there already: whoever asked either server would see half of a frontier."""
    await append(scripts, "a")
    name = "{list:0}:new"
    here = own_cluster.owner_of(name)
    there = next(number for number in (1, 2) if number != here)
    own_cluster.begin_to_move(name, there)
    waiting = scripts.call(APPEND, (name,), "x")
    other = next(each for each in NAMES if own_cluster.slot_of(each) != own_cluster.slot_of(name))
    assert await scripts.call(APPEND, (other,), "b") == 2
    assert not waiting.done()
    own_cluster.move(name, there)
    async with asyncio.timeout(30):
        assert await waiting == 1
    assert own_cluster.owner_of(name) == there


async def test_a_replica_takes_over_from_a_server_that_died():
    """What was meant for it waits, and goes to its replica; the others are not held up."""
    with running(replica=True) as cluster:
        async with scripts_on(cluster) as scripts:
            await append(scripts, "a")
            cluster.replicated()
            lost = [name for name in NAMES if cluster.owner_of(name) == 0]
            kept = next(name for name in NAMES if name not in lost)
            assert lost
            cluster.kill(0)
            waiting = asyncio.ensure_future(append(scripts, "b"))
            assert await scripts.call(APPEND, (kept,), "c") >= 2
            assert not waiting.done()
            lengths = await waiting
            assert [lengths[NAMES.index(name)] for name in lost] == [2] * len(lost)
            assert scripts.lost_at > 0


async def test_calls_wait_until_the_cluster_is_there(caplog):
    """An address where nobody answers is warned of once."""
    client = open_redis("redis://127.0.0.1:1/0", cluster=True)
    scripts = Scripts(client, "nowhere")
    waiting = [scripts.call(APPEND, (name,), "a") for name in NAMES]
    flushed = asyncio.ensure_future(scripts.flush())
    await asyncio.wait([flushed], timeout=3)  # some tries
    assert not any(each.done() for each in waiting)
    assert not flushed.done()
    await scripts.close()
    await flushed
    assert all(each.cancelled() for each in waiting)
    assert len(caplog.records) == 1
    await client.aclose()


def test_a_server_says_whether_it_is_one_of_a_cluster(own_cluster, redis_url):
    """So that its address is all that has to be set."""
    assert check_redis(own_cluster.urls[2])
    assert not check_redis(redis_url)
