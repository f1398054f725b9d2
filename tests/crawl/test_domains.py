"""What whole crawls leave in Redis about domains and fetches, and how it changes their pace."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from crawlproj.connections import open_redis, open_redis_sync
from crawlproj.results.figures import last_day

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis

    from crawlproj.testing.plugin import Crawl
    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site

TOLERANCE = 0.03  # on a busy machine a request is now and then on its way for longer than another


@pytest.fixture
def server(redis_url: str) -> Iterator[Redis]:
    """The server as another program sees it."""
    with open_redis_sync(redis_url) as client:
        yield client


def gaps(site: Site, host: str) -> list[float]:
    """Return the times between arrivals at one host."""
    name = host.partition("//")[2]
    times = sorted(hit.at for hit in site.requests if hit.host == name)
    return [after - before for before, after in pairwise(times)]


def test_a_language_has_its_own_pace(crawl: Crawl, scrapy: Project, site: Site, server: Redis) -> None:
    """Three pages tell it; the next run knows it from the second lease on. Another language has another."""
    japanese, german = site.host(2), site.host(3)
    for host, attribute in ((japanese, "ja-JP"), (german, "de")):
        name = host.split("/")[2].partition(":")[0]
        site.add("/p*", f'<html lang="{attribute}"><p>a page</p></html>', host=name)
    seeds = [f"{host}/p{n}" for n in range(4) for host in (japanese, german)]
    settings = {
        "CRAWL_NAME": "paced",
        "MIN_INTERVAL_MS": 200,
        "MIN_INTERVAL_MS_BY_LANGUAGE": json.dumps({"ja": 900}),
    }
    assert crawl("site", settings, seeds=seeds, depth=0, scope="any").returncode == 0
    domain = japanese.partition("//")[2]
    assert server.hgetall(f"sampler:profile:{domain}") == {b"lang:ja": b"4"}
    site.requests.clear()
    assert crawl("site", settings, seeds=seeds, depth=0, scope="any").returncode == 0
    slow, fast = gaps(site, japanese), gaps(site, german)
    assert len(slow) == len(fast) == 3
    assert min(slow[1:]) >= 0.9 - TOLERANCE
    assert max(fast) < 0.9
    record = server.hgetall(f"scheduler:domain_runtime:{domain}")
    assert record[b"min_interval_ms"] == b"900"
    assert record[b"min_interval_source"] == b"language"
    assert record[b"leased_count"] == b"0"
    assert server.hget(f"downloader:domain_runtime:{domain}", "min_interval_source") == b"lease"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("fast", "must be a dictionary, or one as JSON, not 'fast'\n"),
        ('["ja"]', "must be a dictionary, or one as JSON, not '[\"ja\"]'\n"),
        ("3", "must be a dictionary, or one as JSON, not '3'\n"),
        ('{"japanese": 2000}', "must be languages in their short form: 'ja' or 'zh', not 'japanese'\n"),
        ('{"jp": 2000}', "must be languages in their short form: 'ja', not 'jp'\n"),
        ('{"zh-TW": 2000}', "must be languages in their short form: 'zh', not 'zh-TW'\n"),
        ('{"ja": "slow"}', "must be a whole number, at least 0, for each language"),
        ('{"ja": -1}', "must be a whole number, at least 0, for each language"),
        ('{"ja": 0.5}', "must be a whole number, at least 0, for each language"),
    ],
)
def test_a_pace_of_no_language_is_refused(scrapy: Project, value: str, why: str) -> None:
    """In one sentence, before anything is made."""
    done = scrapy("crawl", "site", "-a", "seeds=http://e.test/", "-s", f"MIN_INTERVAL_MS_BY_LANGUAGE={value}")
    assert done.returncode == 2
    assert f"setting MIN_INTERVAL_MS_BY_LANGUAGE {why}" in done.stderr


async def test_every_fetch_leaves_its_result(
    crawl: Crawl, scrapy: Project, site: Site, server: Redis, redis_url: str
) -> None:
    """Under the key that PostgreSQL has, for all four statuses; the figures of the day add up to them."""
    site.add("/done", "<p>some text</p>", headers={"ETag": '"1"'})
    site.add("/empty", "<html></html>")
    site.add("/failed", status=404)
    site.add("/away", status=302, headers={"Location": "/done"})
    site.add("/robots.txt", "User-agent: *\nDisallow: /no\n")
    seeds = [f"{site.url}/{path}" for path in ("done", "empty", "failed", "away", "no")]
    settings: dict[str, Any] = {"CRAWL_NAME": "noted", "MIN_INTERVAL_MS": 0, "WORKER_ID": "w-1"}
    result = crawl("site", settings, seeds=seeds, depth=0)
    assert result.returncode == 0, result.stderr
    found = {}
    for key in server.scan_iter("downloader:fetch_result:*"):
        found[key] = json.loads(server.get(key))
        assert 0 < server.ttl(key) <= 86_400
    assert sorted((each["fetch_status"], each["http_status"]) for each in found.values()) == [
        ("done", 200), ("empty", 200), ("failed", 404),
    ]  # fmt: skip
    signals = {each["object_id"]: each["health_signal"] for each in found.values()}
    for row in result.pages:
        if row["fetch_status"] is not None:
            assert signals[row["object_id"]] == row["health_signal"]
    assert {(each["crawl"], each["worker"]) for each in found.values()} == {("noted", "w-1")}
    redis = open_redis(redis_url)
    figures = await last_day(redis, crawl="noted")
    await redis.aclose()
    assert figures.by_status == {"done": 1, "not_modified": 0, "empty": 1, "failed": 1}
    assert figures.by_entry == {"a": 3}
    assert figures.by_reason == {"http_404": 1}
    assert figures.p50_ms is not None
