"""What was found last at each URL, and the figures of a day, on a real server."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from crawlproj.connections import open_redis
from crawlproj.items import FetchStatus, HealthSignal, Lease, PageObject, ScheduleStatus
from crawlproj.results import results as module
from crawlproj.results.figures import fetch_result, last_day
from crawlproj.results.results import COUNTS, HOUR, RESULT, FetchResults
from crawlproj.scripts import Scripts
from tests.redis_server import OwnRedis

LEASE = Lease(token=1, host="e.test", attempts=0, min_interval_ms=None, expires_at=0)
NOON = datetime(2026, 8, 15, 12, tzinfo=UTC).timestamp()
SIGNAL = HealthSignal(raw_text_length=180, text_length=3456)
DONE = PageObject(
    url="http://e.test/1",
    canonical_url="http://e.test/1",
    key=bytes(range(16)),
    lease=LEASE,
    depth=0,
    source_tag=None,
    fetched_at=datetime(2026, 8, 15, 7, 47, 52, 120_456, tzinfo=UTC),
    duration_ms=812,
    http_status=200,
    fetch_status=FetchStatus.DONE,
    schedule_status=ScheduleStatus.SUCCEEDED,
    health_signal=SIGNAL,
    object_id="7f" * 16,
)
FAILED = replace(
    DONE,
    key=bytes(16),
    fetch_status=FetchStatus.FAILED,
    http_status=502,
    reason="http_502",
    health_signal=None,
    object_id=None,
    duration_ms=None,
)


class Clock:
    """Says what it is told."""

    now = NOON

    def __call__(self) -> float:
        return self.now


class Apart(Scripts):
    """As on a cluster: no two keys are on one server."""

    def are_together(self, *keys):
        return len(keys) < 2


@pytest.fixture
async def opened(redis_url):
    """The results of workers on one server."""
    made = []

    def one_more(url=redis_url, *, crawl="news", worker="vm-1", keep=100, scripts=Scripts, memory=None):
        client = open_redis(url)
        new = FetchResults(
            scripts(client, "test"),
            memory or (lambda: client.info("memory")),
            crawl=crawl,
            worker=worker,
            keep_seconds=keep,
            clock=Clock(),
        )
        new.redis = client
        made.append(new)
        return new

    yield one_more
    for each in made:
        await each.close(0.1)
        await each._scripts.close()
        await each.redis.aclose()


async def found(results, page=DONE):
    await results._send()
    return await fetch_result(results.redis, page.key)


async def test_a_result_has_the_fields_of_its_contract(opened):
    """As JSON, under the hash of its URL."""
    results = opened(crawl='a "b" \u00e9')
    results.note(DONE)
    await results._send()
    raw = await results.redis.get("downloader:fetch_result:000102030405060708090a0b0c0d0e0f")
    assert json.loads(raw) == {
        "fetch_status": "done",
        "http_status": 200,
        "reason": None,
        "fetched_at": "2026-08-15T07:47:52.120Z",
        "object_id": "7f" * 16,
        "health_signal": SIGNAL.as_dict(),
        "crawl": 'a "b" \u00e9',
        "worker": "vm-1",
    }


@pytest.mark.parametrize("status", [FetchStatus.FAILED, FetchStatus.NOT_MODIFIED])
async def test_no_signal_is_null_as_a_whole(opened, status):
    """Null is not six zeros."""
    results = opened()
    page = replace(FAILED, fetch_status=status, reason='odd "reason"')
    results.note(page)
    result = await found(results, page)
    assert (result["fetch_status"], result["health_signal"], result["object_id"]) == (
        status.value,
        None,
        None,
    )
    assert result["reason"] == 'odd "reason"'


async def test_every_field_of_a_signal_is_kept_as_it_is(opened):
    """Of a rendered page, too."""
    results = opened()
    signal = HealthSignal(
        render_duration_ms=812,
        raw_text_length=0,
        text_length=None,
        xhr_error_count=0,
        xhr_total_count=12,
        has_console_error=False,
    )
    results.note(replace(DONE, health_signal=signal))
    assert (await found(results))["health_signal"] == signal.as_dict()


async def test_what_was_not_fetched_is_no_result(opened):
    """Disregarded URLs and followed redirects have no fetch status."""
    results = opened()
    results.note(replace(DONE, fetch_status=None, schedule_status=ScheduleStatus.DISREGARDED))
    assert await found(results) is None
    assert (await last_day(results.redis, now=NOON)).fetches == 0


async def test_what_came_last_counts(opened):
    """Of one worker and of several, in one batch and in two."""
    one, other = opened(), opened(worker="vm-2")
    one.note(DONE)
    one.note(replace(DONE, http_status=201))
    assert (await found(one))["http_status"] == 201
    other.note(replace(DONE, http_status=202))
    result = await found(other)
    assert (result["http_status"], result["worker"]) == (202, "vm-2")


async def test_results_have_an_end(opened):
    """As the setting says; 0 keeps none, and counts all the same."""
    results, none = opened(), opened(keep=0, crawl="other")
    results.note(DONE)
    none.note(FAILED)
    assert await found(results)
    assert 90_000 < await results.redis.pttl(RESULT + DONE.key.hex()) <= 100_000
    assert await found(none, FAILED) is None
    assert (await last_day(none.redis, crawl="other", now=NOON)).fetches == 1
    for key in [key async for key in results.redis.scan_iter(COUNTS + "*")]:
        assert 24 * HOUR < await results.redis.ttl(key) <= 26 * HOUR


async def test_the_figures_of_a_day_go_by_the_hour(opened):
    """A fetch counts from its moment to the end of its hour a day later, whatever hour it is told in."""
    results = opened()
    clock = results._clock
    for at in (NOON - 1, NOON, NOON + HOUR - 1, NOON + HOUR):  # around two edges, and told together
        clock.now = at
        results.note(DONE)
    await results._send()
    for now, count in (
        (NOON - 1, 1),
        (NOON, 3),
        (NOON + HOUR, 4),
        (NOON + 23 * HOUR - 1, 4),
        (NOON + 23 * HOUR, 3),
        (NOON + 24 * HOUR - 1, 3),
        (NOON + 24 * HOUR, 1),
        (NOON + 25 * HOUR, 0),
    ):
        figures = await last_day(results.redis, now=now)
        assert figures.fetches == count, now
        assert 23 * HOUR <= now - figures.since.timestamp() < 24 * HOUR


@pytest.mark.parametrize("scripts", [Scripts, Apart])
async def test_the_figures_say_what_came_of_fetches(opened, scripts):
    """By status, all four of them, by way and by reason; of one crawl or of all."""
    news, shop = opened(scripts=scripts), opened(crawl="shop", scripts=scripts)
    for n in range(4):
        news.note(replace(DONE, key=bytes([n + 1] * 16), duration_ms=700 + n))
    news.note(replace(DONE, fetch_status=FetchStatus.EMPTY, reason="callback_error", duration_ms=3000))
    news.note(FAILED, entry="b")
    for reason in ("http_502", "timeout", "timeout"):
        shop.note(replace(FAILED, reason=reason))
    for each in (news, shop):
        await each._send()
    figures = await last_day(news.redis, crawl="news", now=NOON)
    assert figures.by_status == {"done": 4, "not_modified": 0, "empty": 1, "failed": 1}
    assert figures.by_entry == {"a": 5, "b": 1}
    assert figures.by_reason == {"http_502": 1}
    assert figures.p50_ms == pytest.approx(702, rel=0.2)
    assert figures.p95_ms == pytest.approx(3000, rel=0.2)
    figures = await last_day(news.redis, now=NOON)
    assert (figures.fetches, figures.by_status["failed"]) == (9, 4)
    assert list(figures.by_reason.items()) == [("http_502", 2), ("timeout", 2)]
    figures = await last_day(news.redis, crawl="never", now=NOON)
    assert (figures.fetches, figures.p50_ms) == (0, None)
    assert len([key async for key in news.redis.scan_iter(RESULT + "*")]) == 6


async def test_nobody_waits_for_it_and_little_travels_in_one_piece(opened, monkeypatch):
    """A full batch goes before its time has come; nothing of a page is held until then but its result."""
    monkeypatch.setattr(module, "BATCH", 8)
    monkeypatch.setattr(module, "SOON", 60)
    results = opened()
    for n in range(20):
        results.note(replace(DONE, key=n.to_bytes(16)))
    assert len(results._results) == 20  # nothing has been sent: not even the event loop has turned
    assert all(isinstance(each, str) for each in results._results.values())
    async with asyncio.timeout(10):
        while await results.redis.dbsize() < 22:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_what_is_left_goes_when_a_worker_closes(opened):
    """It does not wait for its second."""
    results = opened()
    results.note(DONE)
    await results.close(5)
    assert await fetch_result(results.redis, DONE.key)


@pytest.fixture
def own_server(tmp_path, redis_url):
    """A server that the test may kill and start again."""
    server = OwnRedis(tmp_path, redis_url)
    server.start()
    yield server
    server.kill()


async def test_an_outage_costs_no_page_and_no_memory(opened, own_server, monkeypatch):
    """Results wait, no more than MOST; what there is goes when the server is back."""
    monkeypatch.setattr(module, "MOST", 50)
    results = opened(own_server.url)
    results.note(FAILED)
    assert await found(results, FAILED)
    own_server.kill()
    for n in range(200):
        results.note(replace(DONE, key=n.to_bytes(16)))
    sending = asyncio.create_task(results._send())
    await asyncio.sleep(0.2)
    for n in range(200, 400):
        results.note(replace(DONE, key=n.to_bytes(16)))
    assert len(results._results) <= 50
    own_server.start()
    await sending
    await results._send()
    assert (await last_day(results.redis, now=NOON)).by_status[FetchStatus.DONE] == 400
    kept = [key async for key in results.redis.scan_iter(RESULT + "*")]
    assert 50 <= len(kept) <= 101


async def test_a_server_that_is_nearly_full_is_left_to_the_frontier(opened, caplog):
    """No result is kept from four fifths of its memory on, until there is room again; figures are."""
    caplog.set_level("INFO")
    memory = {"maxmemory": 100, "used_memory": 81}

    async def info():
        return memory

    results = opened(memory=info)
    results.note(DONE)
    assert await found(results) is None
    assert (await last_day(results.redis, now=NOON)).fetches == 1
    assert caplog.text.count("nearly full") == 1
    for said, is_kept in (
        ({"maxmemory": 100, "used_memory": 80}, True),
        ({"maxmemory": 100, "used_memory": 99}, False),
        ({"maxmemory": 0, "used_memory": 10**12}, True),
    ):
        memory = said
        await results.redis.flushdb()
        results._looked_at = float("-inf")
        await results._send()
        results.note(DONE)
        assert (await found(results) is not None) is is_kept


async def test_a_closing_worker_does_not_wait_for_a_server_that_is_away(opened, own_server):
    """It is a cache."""
    results = opened(own_server.url)
    own_server.kill()
    results.note(DONE)
    async with asyncio.timeout(3):
        await results.close(0.2)
