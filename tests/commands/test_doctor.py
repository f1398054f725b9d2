"""`scrapy doctor`."""

import asyncio

import pytest

from crawlproj.connections import open_redis_sync
from crawlproj.frontier.codec import Codec


def verdicts(done):
    (report,) = done.json
    return report, {check["check"]: check["verdict"] for check in report["checks"]}


def test_everything_in_order(scrapy):
    """Servers that answer with the right schema and settings: exit code 0, versions named."""
    done = scrapy("doctor", "--json")
    report, found = verdicts(done)
    assert done.code == 0, done.err
    assert report["ok"] is True
    assert found["versions"] == found["settings"] == found["PostgreSQL"] == found["schema"] == "ok"
    assert found["spiders"] == "ok"
    piped = scrapy("doctor")
    assert piped.code == 0
    assert all(len(line.split("\t")) == 4 for line in piped.lines)


def test_redis_that_evicts(scrapy, redis_url):
    """A Redis that may throw away URLs is a FAIL, with the command that helps, and exit code 6."""
    client = open_redis_sync(redis_url)
    client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        done = scrapy("doctor", "--json")
    finally:
        client.config_set("maxmemory-policy", "noeviction")
        client.close()
    report, _ = verdicts(done)
    (check,) = [check for check in report["checks"] if check["check"].endswith("eviction")]
    assert done.code == 6
    assert (check["verdict"], check["fix"]) == ("FAIL", "CONFIG SET maxmemory-policy noeviction")


def test_schema_that_is_missing(scrapy, database):
    """A given database without the schema is a FAIL, with the command that helps."""
    database.execute("DELETE FROM schema_version")
    done = scrapy("doctor")
    assert done.code == 6
    assert "FAIL\tschema" in done.out
    assert "scrapy migrate" in done.out


def test_server_that_is_away(scrapy):
    """A server that does not answer is a FAIL without its password, and the other checks go on."""
    done = scrapy("doctor", "--json", REDIS_URL="redis://:s3cret@127.0.0.1:1/0")
    _, found = verdicts(done)
    assert done.code == 6
    assert found["servers"] == "FAIL"
    assert "USER_AGENT" in found
    assert "s3cret" not in done.out + done.err


def test_setting_that_cannot_be(scrapy):
    """A setting with an impossible value is named."""
    done = scrapy("doctor", "-s", "MAX_TARGET=abc")
    assert done.code == 6
    assert "FAIL\tsettings\tsetting MAX_TARGET" in done.out


def test_place_for_bodies(scrapy_here, tmp_path):
    """Where bodies go is written to; a place that takes none is a FAIL, with where to read about it."""
    done = scrapy_here("doctor", "-s", f"BODY_STORE=file://{tmp_path}/bodies")
    assert f"ok\tbodies\tnew bodies go to file://{tmp_path}/bodies\t" in done.out
    done = scrapy_here("doctor", "-s", "BODY_STORE=file:///proc/bodies")
    assert done.code == 6
    assert "FAIL\tbodies\tsetting BODY_STORE must be a place that can be written to" in done.out


def test_bodies_are_said_to_go_where_the_setting_says(scrapy_here, database):
    """Rows may name other places; it speaks of new bodies alone, and of no browser, which nothing uses."""
    database.execute("INSERT INTO body (body_hash, size, store) VALUES ('x', 1, 'file:///srv/elsewhere')")
    done = scrapy_here("doctor")
    assert done.code == 0, done.out
    assert "ok\tbodies\tnew bodies go to the database\t" in done.out
    assert "hromium" not in done.out


def test_spider_that_does_not_load(scrapy, tmp_path):
    """A spider file that raises when it is imported is a FAIL, not a traceback."""
    (tmp_path / "broken_spiders.py").write_text("raise RuntimeError('boom')")
    done = scrapy("doctor", "-s", "SPIDER_MODULES=broken_spiders", PYTHONPATH=f"{tmp_path}")
    assert done.code == 6
    assert "RuntimeError: boom" in done.out
    assert "Traceback" not in done.out + done.err


@pytest.fixture
async def frontier(made_frontier):
    """Yield the frontier of a started crawl `a`, with one link."""
    frontier = await made_frontier()
    await frontier.schedule([Codec().encode_link("http://a.test/", 0)])
    return frontier


async def test_frontiers_of_open_runs_are_looked_into(scrapy_here, frontier, redis_url):
    """A consistent one is ok; a host that is in two places is a FAIL, and the crawl is named."""
    done = await asyncio.to_thread(scrapy_here, "doctor")
    assert (done.code, "ok\tfrontiers\t1 open, all consistent" in done.out) == (0, True), done.out
    with open_redis_sync(redis_url) as client:
        client.zadd(f"{frontier.prefix}inactive", {"a.test": 1})
    done = await asyncio.to_thread(scrapy_here, "doctor")
    assert done.code == 6
    assert "FAIL\tfrontiers\tcrawl a, run 1: a.test is in " in done.out
    assert "scrapy rebuild a --force" in done.out


async def test_a_frontier_that_cannot_be_read(scrapy_here, frontier, add_crawl, add_page, redis_url):
    """Keys of something else are a fault of that crawl, and the other crawls are looked into as well."""
    add_page(add_crawl("b"), "http://b.test/1")
    with open_redis_sync(redis_url) as client:
        client.set(f"{frontier.prefix}h:a.test", b"?")
    done = await asyncio.to_thread(scrapy_here, "doctor")
    assert done.code == 6
    failed = [line for line in done.lines if line.startswith("FAIL")]
    assert [line.split("\t")[2].split(",")[0] for line in failed] == ["crawl a", "crawl b"]


def test_a_frontier_that_is_lost(scrapy_here, add_crawl, add_page):
    """An open run with pages and without a frontier is a FAIL, with the command that helps."""
    add_page(add_crawl("a"), "http://a.test/1")
    add_crawl("b", status="queued")  # nobody has been at it, so there is nothing to miss
    done = scrapy_here("doctor")
    assert done.code == 6
    (line,) = [line for line in done.lines if line.startswith("FAIL")]
    assert line == (
        "FAIL\tfrontiers\tcrawl a, run 1, has pages and no frontier: Redis has lost it\tscrapy rebuild a"
    )


async def test_frontiers_of_sealed_runs_are_removed(scrapy_here, frontier, database, redis_url):
    """A worker that died between the seal of its run and the end of its frontier leaves no keys for good."""
    database.execute("UPDATE crawl SET status = 'sealed', retry_at = NULL")
    done = await asyncio.to_thread(scrapy_here, "doctor")
    assert (done.code, "1 of sealed runs were left behind" in done.out) == (0, True), done.out
    with open_redis_sync(redis_url) as client:
        assert client.keys("frontier:*") == []


def test_redis_that_refuses(scrapy, redis_url, valkey_url):
    """An error that is none of the connection is a FAIL in one line, without a traceback."""
    with open_redis_sync(redis_url) as client:
        client.execute_command("ACL", "SETUSER", "weak", "on", ">s3cret", "~*", "+ping", "+hello", "+client")
    try:
        weak = redis_url.replace("unix://", "unix://weak:s3cret@").replace("redis://", "redis://weak:s3cret@")
        done = scrapy("doctor", REDIS_URL=weak)
    finally:
        with open_redis_sync(valkey_url) as client:
            client.execute_command("ACL", "DELUSER", "weak")
    assert done.code == 6, done.err
    assert "Traceback" not in done.err
    assert "s3cret" not in done.out + done.err
    assert "FAIL\tRedis\t" in done.out
