"""Start URLs that others push into Redis."""

from __future__ import annotations

import asyncio
import json
import os
import pickle

import pytest
from scrapy import Request, Spider
from scrapy.utils.test import get_crawler
from scrapy_redis.spiders import RedisSpider

from crawlproj.exceptions import BadUrl
from crawlproj.frontier.codec import Codec
from crawlproj.frontier.feed import BATCH, Feed
from tests.frontier.conftest import crawl, lease, name_of


class Shop(RedisSpider):
    name = "shop"
    redis_key = "shop:start_urls"
    redis_encoding = "utf-8"

    def parse(self, response):
        """Do nothing."""


KEY = Shop.redis_key
CODEC = Codec()


def made(url, cls=Shop):
    """Return a spider as Scrapy makes it."""
    crawler = get_crawler(cls, {"REDIS_URL": url})
    return cls.from_crawler(crawler)


@pytest.fixture
def feed(redis_url):
    """The feed of a scrapy-redis spider."""
    return Feed.of(made(redis_url))


def encode(request):
    """Do what the scheduler does."""
    try:
        return CODEC.encode_request(request, Shop(), forced=request.dont_filter)
    except BadUrl:
        return None


async def push(fleet, kind, *entries):
    for n, entry in enumerate(entries):
        if kind == "list":
            await fleet.redis.rpush(KEY, entry)
        elif kind == "set":
            await fleet.redis.sadd(KEY, entry)
        else:
            await fleet.redis.zadd(KEY, {entry: -n})


async def move_all(feed, frontier):
    moved = 0
    while more := await feed.move(frontier, CODEC, encode):
        moved += more
    return moved


@pytest.mark.parametrize("kind", ["list", "set", "zset"])
async def test_entries_move_from_any_kind_of_key(fleet, frontier, feed, kind):
    """In the order of a list, by the scores of a sorted set."""
    urls = [f"http://a.test/{n:02}" for n in range(2 * BATCH + 3)]
    await push(fleet, kind, *urls)
    assert await move_all(feed, frontier) == len(urls)
    assert not await fleet.redis.exists(KEY)
    done = await crawl(frontier)
    assert (sorted(done) if kind == "set" else done) == [url[7:] for url in urls]


async def test_an_entry_may_say_how(fleet, frontier, feed):
    """The JSON of scrapy-redis: method, meta and form."""
    entry = {"url": "http://a.test/", "meta": {"job": 7}, "method": "post", "q": "ü"}
    await push(fleet, "list", json.dumps(entry))
    assert await move_all(feed, frontier) == 1
    (grant,) = await lease(frontier)
    assert b'"M":"POST"' in grant.entry
    assert b'"job":7' in grant.entry


async def test_there_is_no_key(frontier, feed):
    """Nothing moves, and nothing is wrong."""
    assert await feed.move(frontier, CODEC, encode) == 0


async def test_bad_entries_cost_nobody_else(fleet, frontier, feed, caplog):
    """Each is reported once, shortened, and gone; the others are crawled."""
    bad = [b"not a url", b'{"url": 5}', b"\xff\xfe", b"", b"5", b'{"no": "url"}', b"[1]", b"x" * 5000, b"{}"]
    await push(fleet, "list", b"http://a.test/1", *bad, b"http://a.test/2", b"file:///etc/hostname")
    assert await move_all(feed, frontier) == len(bad) + 3
    assert await crawl(frontier) == ["a.test/1", "a.test/2"]
    said = [record.getMessage() for record in caplog.records if record.name == "crawlproj.frontier.feed"]
    assert len(said) == len(bad)
    assert all(len(line) < 400 and KEY in line for line in said)


class Marker:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


async def test_a_pickle_is_not_read(fleet, frontier, feed, tmp_path):
    """It would leave a folder behind."""
    await push(fleet, "list", pickle.dumps(Marker(str(tmp_path / "marker"))))
    assert await move_all(feed, frontier) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["list", "set", "zset"])
async def test_an_entry_moves_once(fleet, redis_url, kind):
    """Eight workers at the same key take each entry once, also the same one pushed twice."""
    await push(fleet, kind, *(f"http://h{n}.test/" for n in range(50)))
    twice = 1 if kind == "list" else 0
    if twice:
        await push(fleet, kind, "http://h0.test/")
    workers = [await fleet() for _ in range(8)]
    moved = await asyncio.gather(*(move_all(Feed.of(made(redis_url)), worker) for worker in workers))
    assert sum(moved) == 50 + twice
    assert (await workers[0].refresh()).queued == 50 + twice


async def test_an_entry_may_ask_for_several(fleet, frontier, redis_url):
    """A spider's own reading of an entry: many requests, one step."""

    class Many(Shop):
        def make_request_from_data(self, data):
            for n in range(int(data)):
                yield Request(f"http://a.test/{n}")

    await push(fleet, "list", "300", "0")
    assert await move_all(Feed.of(made(redis_url, Many)), frontier) == 2
    assert frontier.figures.queued == 300


async def test_a_run_that_is_over_leaves_them(fleet, frontier, feed):
    """What it would not crawl stays for the next one."""
    await push(fleet, "list", "http://a.test/")
    await frontier.stop("enough")
    assert await feed.move(frontier, CODEC, encode) == 0
    assert await frontier.seal()
    assert await feed.move(frontier, CODEC, encode) == 0
    assert await fleet.redis.llen(KEY) == 1


async def test_another_worker_has_sealed_the_run(fleet, feed):
    """Who has not heard of it yet takes nothing either, and that is no error."""
    frontier, other = await fleet(), await fleet()
    await push(fleet, "list", "http://a.test/")
    assert await other.seal()
    assert await feed.move(frontier, CODEC, encode) == 0
    assert frontier.figures.closed
    assert await fleet.redis.llen(KEY) == 1


async def test_the_spiders_own_reader_has_nothing_to_do(fleet, frontier, redis_url):
    """It would pop before it reads; its limit on idle time counts from the last entry that came."""
    spider = made(redis_url)
    feed = Feed.of(spider)
    spider.spider_idle_start_time = 0
    await push(fleet, "list", "http://a.test/")
    assert list(spider.next_requests()) == []
    assert spider.count_size(KEY) == 0
    assert await move_all(feed, frontier) == 1
    assert spider.spider_idle_start_time > 0


def test_other_spiders_have_no_feed():
    """Nor has one whose reader has never been set up."""
    assert Feed.of(Spider(name="plain")) is None
    assert Feed.of(Shop()) is None


async def test_a_name_like_a_pattern_is_a_name(fleet, frontier, feed):
    """Only the spider's own key is read."""
    await fleet.redis.rpush("shop:start_url", "http://b.test/")
    await fleet.redis.rpush("shop:*", "http://b.test/")
    await push(fleet, "list", "http://a.test/")
    assert await move_all(feed, frontier) == 1
    assert [name_of(grant) for grant in await lease(frontier)] == ["a.test/"]
    assert await fleet.redis.delete("shop:start_url", "shop:*") == 2
