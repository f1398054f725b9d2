"""What a worker learns of domains, on a real server and with a real frontier."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from crawlproj.exceptions import Refused
from crawlproj.sampler.language import ENOUGH
from crawlproj.sampler.sampler import Sampler
from tests.frontier.conftest import Fleet, lease_one, links

JA = {"ja": 2000, "en": 500}


@pytest.fixture
async def fleet(redis_url):
    """Frontiers on the session's server."""
    async with AsyncExitStack() as stack:
        yield Fleet(redis_url, stack)


@pytest.fixture
async def sampler(fleet):
    """Samplers of workers on one crawl whose interval is a second."""
    made = []

    async def one_more(intervals=JA, crawl="crawl", queues=lambda host: {host}, **knobs):
        frontier = await fleet(crawl, interval_ms=1000, **knobs)
        new = Sampler(
            frontier.parts[0]._scripts, frontier, queues=queues, intervals=intervals, keep_seconds=100
        )
        new.frontier = frontier
        made.append(new)
        return new

    yield one_more
    for each in made:
        await each.close(5)


async def interval(sampler, host):
    """Return what a host's next lease carries, and who says so."""
    await sampler._send()
    view = await sampler.frontier.host(host)
    return (view.min_interval_ms, view.interval_source) if view else None


def votes(sampler, host, n, language):
    for _ in range(n):
        sampler.learn(host, language, None)


async def test_the_language_of_its_pages_gives_a_host_its_interval(sampler):
    """In the place of the crawl's, longer or shorter; the next lease carries it."""
    one = await sampler()
    for host, language, expected in (
        ("a.test", "ja-JP", 2000),
        ("b.test", "en", 500),
        ("c.test", "de", None),
    ):
        await one.frontier.schedule(links(host, 1))
        votes(one, host, 3, language)
        assert await interval(one, host) == ((expected, "language") if expected else (1000, "default"))
    grants = {g.host: g.interval_ms for g in (await one.frontier.next("w", 9, 60)).grants}
    assert grants == {"a.test": 2000, "b.test": 500, "c.test": None}


@pytest.mark.parametrize(
    ("delay", "language", "expected"),
    [
        (3, "ja", (3000, "robots")),
        (1.5, "ja", (2000, "language")),
        (2, "ja", (2000, "language")),
        (0.2, "en", (500, "language")),
        (0.8, "en", (800, "robots")),
        (0.8, "de", (1000, "default")),
        (1.2, "de", (1200, "robots")),
        (900, "ja", (300_000, "robots")),
        (0, "ja", (2000, "language")),
    ],
)
async def test_the_larger_of_crawl_delay_and_language_counts(sampler, delay, language, expected):
    """The crawl-delay is cut first; what the language has is in the place of the crawl's interval."""
    one = await sampler()
    await one.frontier.schedule(links("a.test", 1))
    votes(one, "a.test", 3, language)
    await one.set_crawl_delay("a.test", delay)
    assert await interval(one, "a.test") == expected
    await one.frontier.set_host("a.test", interval_ms=7)
    assert await interval(one, "a.test") == (7, "host")
    assert (await lease_one(one.frontier)).interval_ms == 7


async def test_a_crawl_delay_is_known_when_it_has_been_told(sampler):
    """No page passes before that: nothing of it waits for the background."""
    one = await sampler()
    await one.set_crawl_delay("a.test", 5)
    assert (await one.frontier.host("a.test")).min_interval_ms == 5000
    await one.set_crawl_delay("a.test", 0)
    assert (await one.frontier.host("a.test")).min_interval_ms == 1000


async def test_the_next_run_and_other_workers_know_what_one_has_learnt(sampler):
    """At their first lease of the host, before any page has come."""
    one = await sampler(crawl="run1")
    votes(one, "a.test", 3, "ja")
    await one._send()
    for crawl in ("run1", "run2"):
        other = await sampler(crawl=crawl)
        await other.frontier.schedule(links("a.test", 1))
        await other.meet(["a.test", "b.test", "www.example.jp", "a.test"])
        assert await interval(other, "a.test") == (2000, "language")
        assert await interval(other, "www.example.jp") == (2000, "language")
        assert await interval(other, "b.test") is None


async def test_votes_of_several_workers_are_counted_together(sampler):
    """Two that say one thing outweigh one that says another."""
    first, second, third = [await sampler() for _ in range(3)]
    await first.frontier.schedule(links("a.test", 1))
    votes(first, "a.test", 1, "de")
    assert await interval(first, "a.test") == (1000, "default")
    votes(second, "a.test", 1, "ja")
    votes(third, "a.test", 1, "ja")
    await second._send()
    assert await interval(third, "a.test") == (2000, "language")


async def test_a_host_that_is_known_costs_nothing_more(sampler, fleet):
    """After ENOUGH pages no vote is counted, and nothing is sent."""
    one = await sampler()
    votes(one, "a.test", ENOUGH + 5, "ja")
    await one._send()
    assert await fleet.redis.hgetall("sampler:profile:a.test") == {b"lang:ja": str(ENOUGH).encode()}
    votes(one, "a.test", 5, "en")
    assert not one._news
    other = await sampler()
    await other.meet(["a.test"])
    votes(other, "a.test", 5, "en")
    assert not other._news


async def test_pages_that_name_no_language_say_nothing(sampler, fleet):
    """Nor do hosts that are only looked at leave a key behind."""
    one = await sampler()
    one.learn("a.test", "und", "en, de")
    await one.meet(["a.test", "www.example.jp"])
    await one._send()
    assert not [key async for key in fleet.redis.scan_iter("sampler:*")]


async def test_profiles_have_an_end(sampler, fleet):
    """So many seconds after the last that was learnt."""
    one = await sampler()
    votes(one, "a.test", 1, "ja")
    await one.set_crawl_delay("b.test", 0)
    await one._send()
    for host in ("a.test", "b.test"):
        assert 90_000 < await fleet.redis.pttl(f"sampler:profile:{host}") <= 100_000


async def test_a_crawl_delay_of_before_holds_while_robots_txt_cannot_be_read(sampler):
    """In a new run, whose frontier has heard of none."""
    one = await sampler(crawl="run1")
    await one.set_crawl_delay("a.test", 5)
    await one._send()
    other = await sampler(crawl="run2", intervals={})
    await other.frontier.schedule(links("a.test", 1))
    await other.recall("a.test")
    await other.recall("unknown.test")
    assert await interval(other, "a.test") == (5000, "robots")


async def test_a_queue_that_hosts_share_has_the_longest_and_is_never_faster(sampler):
    """Whatever the order in which their pages come."""
    one = await sampler(queues=lambda _: {"farm"})
    await one.frontier.schedule(links("farm", 1))
    for host, language, expected in (
        ("a.test", "en", (1000, "language")),
        ("b.test", "ja", (2000, "language")),
        ("c.test", "en", (2000, "language")),
    ):
        votes(one, host, 3, language)
        assert await interval(one, "farm") == expected


async def test_without_intervals_nobody_is_asked(sampler, fleet):
    """A crawl that treats all languages alike pays for no look."""
    one = await sampler(intervals={})
    before = (await fleet.redis.info("commandstats"))["cmdstat_evalsha"]["calls"]
    await one.meet(["a.test", "b.test"])
    assert (await fleet.redis.info("commandstats"))["cmdstat_evalsha"]["calls"] == before


async def test_what_is_learnt_when_the_run_is_over_is_kept_all_the_same(sampler, fleet):
    """The frontier takes nothing more; the profile does."""
    one = await sampler()
    votes(one, "a.test", 1, "ja")
    assert await one.frontier.seal()
    await one.frontier.drop()
    with pytest.raises(Refused):
        await one.frontier.set_language_interval("a.test", 1)
    await one.close(5)
    assert await fleet.redis.hget("sampler:profile:a.test", "lang:ja") == b"1"
