"""What the scheduler says of domains: `scheduler:domain_runtime:<domain>`."""

from __future__ import annotations

import asyncio

import pytest

from crawlproj.frontier.domain_records import PREFIX, DomainRecords
from crawlproj.frontier.records import Outcome
from tests.frontier.conftest import lease, lease_one, links, succeed


@pytest.fixture
async def records(fleet):
    """The records that workers of crawls keep."""
    made = []

    async def one_more(crawl="crawl", hold=60.0, **knobs):
        frontier = await fleet(crawl, **knobs)
        new = DomainRecords(frontier, frontier.parts[0]._scripts, crawl=crawl, hold_seconds=hold)
        new.frontier = frontier
        made.append(new)
        return new

    yield one_more
    for each in made:
        await each.close(5)


async def read(fleet, host="a.test"):
    """Return a record's fields."""
    fields = await fleet.redis.hgetall(PREFIX + host)
    return {name.decode(): value.decode() for name, value in fields.items()}


async def now(fleet):
    seconds, micros = await fleet.redis.time()
    return seconds * 1000 + micros // 1000


async def leased(records, n=1):
    """Lease as the scheduler does."""
    grants = await lease(records.frontier, n)
    for grant in grants:
        records.leased(grant.host)
    return grants


async def test_a_record_says_what_the_frontier_knows(records, fleet):
    """When it was leased from, how often, what interval it has and why, when it is due."""
    one = await records(interval_ms=5000)
    await one.frontier.schedule(links("a.test", 2))
    await one.frontier.set_crawl_delay("a.test", 7000)
    await leased(one)
    await one._send()
    record = await read(fleet)
    at = await now(fleet)
    assert at - 1000 < int(record.pop("last_leased_at")) <= at
    assert at + 6000 < int(record.pop("next_due_at")) <= at + 7000
    assert record.pop("crawl:crawl").startswith("1 ")
    assert record == {"leased_count": "1", "min_interval_ms": "7000", "min_interval_source": "robots"}
    assert 0 < await fleet.redis.pttl(PREFIX + "a.test") <= 600_000


async def test_it_is_not_the_downloaders_record(records, fleet):
    """One writer each: nothing else is written."""
    one = await records()
    await one.frontier.schedule(links("a.test", 1))
    await leased(one)
    before = {key async for key in fleet.redis.scan_iter()}
    await one._send()
    assert {key async for key in fleet.redis.scan_iter()} - before == {b"scheduler:domain_runtime:a.test"}


async def test_leases_of_all_crawls_are_counted_until_they_end(records, fleet):
    """Whoever ends them."""
    one, other = await records("one", in_flight=2), await records("two")
    for each, n in ((one, 2), (other, 1)):
        await each.frontier.schedule(links("a.test", 3))
        for _ in range(n):
            assert await leased(each)
        await each._send()
    assert (await read(fleet))["leased_count"] == "3"
    await one.frontier.delete_host("a.test")
    await one._send()
    record = await read(fleet)
    assert record["leased_count"] == "1"
    assert "crawl:one" not in record


async def test_a_crawl_that_died_stops_counting(records, fleet):
    """Its leases count for so long without news, and no longer."""
    one = await records()
    await one.frontier.schedule(links("a.test", 2))
    at = await now(fleet)
    await fleet.redis.hset(
        PREFIX + "a.test", mapping={"crawl:dead": f"4 {at - 1}", "crawl:alive": f"2 {at + 60_000}"}
    )
    await leased(one)
    await one._send()
    record = await read(fleet)
    assert record["leased_count"] == "3"
    assert "crawl:dead" not in record


async def test_a_worker_that_dies_leaves_the_truth_to_the_next(records, fleet):
    """What the frontier takes back from it is what the next one of the crawl notes."""
    dead, next_one = await records(), await records()
    await dead.frontier.schedule(links("a.test", 1))
    (grant,) = (await dead.frontier.next("dead", 1, 0.001)).grants
    dead.leased(grant.host)
    await dead._send()
    await fleet.forward(1000)
    assert (await read(fleet))["leased_count"] == "1"
    (again,) = await leased(next_one)
    await succeed(next_one.frontier, again)
    await next_one._send()
    assert (await read(fleet))["leased_count"] == "0"


async def test_a_domain_that_backs_off_says_until_when(records, fleet):
    """After an incident, or because it asked for that; and no longer than that."""
    one = await records()
    await one.frontier.schedule(links("a.test", 2))
    (grant,) = await leased(one)
    await one.frontier.finish(grant.token, Outcome.RETRY, host_incident=True, retry_after_ms=60_000)
    await one._send()
    record = await read(fleet)
    at = await now(fleet)
    assert at + 59_000 < int(record["backoff_until"]) <= at + 60_000
    assert record["next_due_at"] == record["backoff_until"]
    await fleet.redis.hset(PREFIX + "a.test", "backoff_until", at - 1)
    await fleet.forward(60_000)
    (grant,) = await leased(one)
    await succeed(one.frontier, grant)
    await one._send()
    assert "backoff_until" not in await read(fleet)


async def test_what_has_not_changed_is_not_written_again(records, fleet):
    """A lease that takes long is noted once, and again before it would stop counting."""
    one = await records(hold=60)
    await one.frontier.schedule(links("a.test", 1))
    await leased(one)
    await one._send()
    await fleet.redis.delete(PREFIX + "a.test")
    await one._send()
    assert await read(fleet) == {}
    one._hold_seconds = 0.0
    await one._send()
    assert (await read(fleet))["leased_count"] == "1"


async def test_domains_leave_nothing_behind_in_a_worker(records):
    """Neither those that have been fetched nor those whose frontier is gone."""
    one = await records(in_flight=2)
    await one.frontier.schedule([entry for n in range(250) for entry in links(f"h{n}.test", 1)])
    grants = []
    while len(grants) < 250:
        grants += await leased(one, 100)
    await one._send()
    assert len(one._open) == 250
    await succeed(one.frontier, *grants)
    await one._send()
    assert not one._open
    await one.frontier.schedule(links("a.test", 1))
    await leased(one)
    await one.frontier.drop()
    await one._send()
    assert not one._open


async def test_noting_is_left_to_the_background(records, fleet, monkeypatch):
    """A lease costs no round trip; what was noted comes by itself, or when the worker closes."""
    monkeypatch.setattr("crawlproj.frontier.domain_records.SOON", 0.05)
    one = await records()
    await one.frontier.schedule(links("a.test", 2))
    grant = await lease_one(one.frontier)
    one.leased(grant.host)
    assert await read(fleet) == {}
    async with asyncio.timeout(10):
        while not await read(fleet):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await succeed(one.frontier, grant)
    async with asyncio.timeout(10):
        while (await read(fleet))["leased_count"] != "0":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    one.leased((await lease_one(one.frontier)).host)
    await one.close(5)
    assert (await read(fleet))["leased_count"] == "1"
