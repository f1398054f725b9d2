"""Every request keeps its distance."""

from __future__ import annotations

import asyncio
import math
import signal
import socket
import time
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
import redis
from scrapy import Request, signals
from scrapy.http import Response
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from crawlproj.connections import open_redis, open_redis_sync
from crawlproj.exceptions import HostRests, MissingComponent, TooSoon, WorkerCloses
from crawlproj.items import Lease, Visit
from crawlproj.politeness.pace import INTERVAL, LATEST_MS, MAX_WAIT
from crawlproj.politeness.runtime import keys_of
from crawlproj.scripts import Scripts
from crawlproj.worker import Worker
from middlewares.throttle import LEAVING, PLACE, ThrottleMiddleware
from tests.middlewares.kit import SmallCrawl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from crawlproj.testing.site import Site

TOLERANCE = 0.03  # on a busy machine a request is now and then on its way for longer than another


def gaps(times: list[float]) -> list[float]:
    return [after - before for before, after in pairwise(sorted(times))]


def lease(host: str, interval_ms: int | None, in_flight: int = 2) -> Lease:
    return Lease(
        token=1, host=host, attempts=0, min_interval_ms=interval_ms, in_flight=in_flight, expires_at=0
    )


@pytest.fixture
def small_crawl(redis_url: str) -> Iterator[SmallCrawl]:
    """Small crawls that share one Redis."""
    crawls = SmallCrawl(redis_url)
    yield crawls
    crawls.close()


@pytest.fixture
def server(redis_url: str) -> Iterator[redis.Redis]:
    """The server as an operator sees it."""
    client = open_redis_sync(redis_url)
    yield client
    client.close()


class Bench:
    """One middleware of one worker, without an engine."""

    def __init__(self, redis_url: str, interval_ms: int) -> None:
        settings = Settings()
        settings.setmodule("crawlproj.settings")
        settings.update(
            {"MIN_INTERVAL_MS": interval_ms, "HOST_MAX_IN_FLIGHT": 2, "TWISTED_REACTOR_ENABLED": False}
        )
        self.crawler = get_crawler(settings_dict=settings.copy_to_dict())
        self.crawler.crawling = True
        self.worker = Worker.of(self.crawler)
        self.redis = open_redis(redis_url)
        self.worker.scripts = Scripts(self.redis, "test")
        self.worker.is_open = True
        self.middleware = ThrottleMiddleware.from_crawler(self.crawler)
        # Hosts that have answered before; how long a new one takes is not known, see below.
        self.middleware._met = dict.fromkeys(["e.test", "other.test", "www.e.test", "xn--bcher-kva.test"])
        self.middleware._met["[::1]:8080"] = None

    async def start(self, request: Request) -> float:
        """Let a request go out and return how long that took, in ms."""
        began = time.monotonic()
        assert await self.middleware.process_request(request) is None
        return (time.monotonic() - began) * 1000


@asynccontextmanager
async def opened(redis_url: str, interval_ms: int) -> AsyncIterator[Bench]:
    bench = Bench(redis_url, interval_ms)
    yield bench
    await bench.middleware.spider_closed()
    await bench.worker.scripts.close()
    await bench.redis.aclose()


@pytest.fixture
async def bench(redis_url: str) -> AsyncIterator[Bench]:
    """A middleware with the default interval at 300 ms and two places for each host."""
    async with opened(redis_url, 300) as bench:
        yield bench


@pytest.fixture
async def slow_bench(redis_url: str) -> AsyncIterator[Bench]:
    """The same with the default interval at 1 s, which a busy machine does not make of a shorter one."""
    async with opened(redis_url, 1000) as bench:
        yield bench


async def test_the_default_interval_applies_without_a_lease(bench: Bench, server: redis.Redis) -> None:
    """MIN_INTERVAL_MS, and Redis says that it is the default."""
    await bench.start(Request("http://e.test/1"))
    assert await bench.start(Request("http://e.test/2")) >= 290
    state = server.hgetall(keys_of("e.test")[0])
    assert state[b"min_interval_ms"] == b"300"
    assert state[b"min_interval_source"] == b"default"


async def test_the_interval_of_the_lease_is_used_as_it_is(slow_bench: Bench, server: redis.Redis) -> None:
    """It is smaller than the default, and no maximum is taken."""
    meta = {"lease": lease("e.test", 60)}
    await slow_bench.start(Request("http://e.test/1", meta=meta))
    assert 55 <= await slow_bench.start(Request("http://e.test/2", meta=meta)) < 900
    assert server.hget(keys_of("e.test")[0], "min_interval_source") == b"lease"


async def test_a_lease_without_an_interval_means_the_default(bench: Bench) -> None:
    """None is not zero."""
    meta = {"lease": lease("e.test", None)}
    await bench.start(Request("http://e.test/1", meta=meta))
    assert await bench.start(Request("http://e.test/2", meta=meta)) >= 290


async def test_a_lease_for_another_host_says_nothing_of_this_one(bench: Bench) -> None:
    """A request that was sent elsewhere keeps the default there."""
    meta = {"lease": lease("short.test", 0)}
    await bench.start(Request("http://e.test/1", meta=meta))
    assert await bench.start(Request("http://e.test/2", meta=meta)) >= 290


async def test_a_queue_that_is_not_named_by_the_host_still_gives_its_interval(slow_bench: Bench) -> None:
    """Whatever policy named the queue: the leased URL is on this host."""

    class Entry:
        url = "http://www.e.test/1"

    slow_bench.worker.visits[1] = Visit(lease=lease("e.test", 30), entry=Entry())
    meta = {"lease": lease("e.test", 30)}
    await slow_bench.start(Request("http://www.e.test/1", meta=meta))
    assert await slow_bench.start(Request("http://www.e.test/2", meta=meta)) < 900


async def test_a_request_without_a_lease_can_bring_an_interval_for_its_host(slow_bench: Bench) -> None:
    """As robots.txt does; on another host it does not count."""
    for host, low, high in (("e.test", 45, 900), ("other.test", 900, math.inf)):
        requests = [Request(f"http://{host}/{n}", meta={INTERVAL: ("e.test", 50)}) for n in range(2)]
        await slow_bench.start(requests[0])
        assert low <= await slow_bench.start(requests[1]) < high


@pytest.mark.parametrize(
    ("one", "same"),
    [
        ("http://e.test/", "http://E.test:80/x"),
        ("http://e.test/", "https://e.test./x"),
        ("http://e.test", "http://u:p@e.test?x=1"),
        ("http://bücher.test/", "http://xn--bcher-kva.test/"),
        ("http://[::1]:8080/", "http://[0:0:0:0:0:0:0:1]:8080/"),
    ],
)
async def test_a_host_has_one_interval_however_it_is_spelled(bench: Bench, one: str, same: str) -> None:
    """And credentials are no part of it."""
    await bench.start(Request(one))
    assert await bench.start(Request(same)) >= 290


@pytest.mark.parametrize("url", ["data:,x", "file:///etc/hostname", "s3://bucket/x"])
async def test_what_is_no_http_passes(bench: Bench, server: redis.Redis, url: str) -> None:
    """There is no host to be polite to."""
    request = Request(url)
    await bench.start(request)
    assert PLACE not in request.meta
    assert server.dbsize() == 0


async def test_the_first_request_to_a_host_counts_until_it_is_answered(bench: Bench) -> None:
    """How long it takes to connect is not known, so the next start keeps its distance from the answer."""
    starts = []
    for number in range(3):
        request = Request(f"http://new.test/{number}", meta={"lease": lease("new.test", 500, in_flight=1)})
        await bench.start(request)
        starts.append(time.monotonic())
        await asyncio.sleep(0.45)
        bench.middleware.process_response(request, Response(request.url))
    first, second = gaps(starts)
    assert first >= 0.945
    assert 0.495 <= second < 0.945


@pytest.mark.parametrize("places", [1, 2])
async def test_what_holds_a_request_up_on_its_way_to_the_wire_counts(bench: Bench, places: int) -> None:
    """A callback that does not give way when its turn has come: the next keeps its distance from then."""
    requests = [Request(f"http://e.test/{n}", meta={"lease": lease("e.test", 500, places)}) for n in range(2)]
    await bench.start(requests[0])
    asyncio.get_running_loop().call_soon(time.sleep, 0.4)
    await asyncio.sleep(0.01)
    sent = time.monotonic()
    bench.middleware.process_response(requests[0], Response(requests[0].url))
    await bench.start(requests[1])
    assert time.monotonic() - sent >= 0.3  # 0.1 if it did not count


async def test_nobody_starts_while_the_first_request_to_a_host_is_on_its_way(bench: Bench) -> None:
    """Also with places for two: not before its answer, or before it must have got there."""
    first = Request("http://new.test/1", meta={"lease": lease("new.test", 100)})
    await bench.start(first)
    began = time.monotonic()
    second = asyncio.create_task(
        bench.start(Request("http://new.test/2", meta={"lease": lease("new.test", 100)}))
    )
    await asyncio.sleep(0.25)
    bench.middleware.process_response(first, Response(first.url))
    await second
    assert 0.345 <= time.monotonic() - began < (LATEST_MS + 90) / 1000
    meta = {"lease": lease("another.test", 100)}
    await bench.start(Request("http://another.test/1", meta=meta))
    assert await bench.start(Request("http://another.test/2", meta=meta)) >= LATEST_MS + 90


@pytest.mark.parametrize("way", ["response", "exception", "left", "all"])
async def test_the_place_is_given_back_once_on_every_way(bench: Bench, server: redis.Redis, way: str) -> None:
    """And the request's meta is as it was."""
    await bench.start(Request("http://e.test/other"))
    request = Request("http://e.test/1", meta={"mine": 1})
    await bench.start(request)
    assert server.zcard(keys_of("e.test")[1]) == 2
    if way in {"left", "all"}:
        bench.crawler.signals.send_catch_log(signals.request_left_downloader, request=request, spider=None)
        assert PLACE in request.meta  # until the answer has been looked at, or for a moment
        await asyncio.sleep(2 * LEAVING if way == "left" else 0)
    if way in {"exception", "all"}:
        assert bench.middleware.process_exception(request, ValueError()) is None
    if way in {"response", "all"}:
        response = Response(request.url)
        assert bench.middleware.process_response(request, response) is response
    await bench.worker.scripts.flush()
    assert request.meta == {"mine": 1}
    assert server.zcard(keys_of("e.test")[1]) == 1


async def test_a_request_that_is_sent_round_again_has_one_place(bench: Bench, server: redis.Redis) -> None:
    """A middleware behind the throttle may return the request instead of a response."""
    request = Request("http://e.test/1")
    for _ in range(3):
        await bench.start(request)
    await bench.start(request.replace(url="http://other.test/"))
    await bench.worker.scripts.flush()
    assert server.zcard(keys_of("e.test")[1]) == 0
    assert server.zcard(keys_of("other.test")[1]) == 1


async def test_a_request_that_goes_out_again_at_once_keeps_its_second_place(
    bench: Bench, server: redis.Redis
) -> None:
    """What is done in a moment for the first one leaves it alone."""
    request = Request("http://e.test/1", meta={"lease": lease("e.test", 0)})
    await bench.start(request)
    bench.crawler.signals.send_catch_log(signals.request_left_downloader, request=request, spider=None)
    bench.middleware.process_response(request, Response(request.url))
    await bench.start(request)
    await asyncio.sleep(3 * LEAVING)
    await bench.worker.scripts.flush()
    assert server.zcard(keys_of("e.test")[1]) == 1


async def test_a_cancelled_wait_leaks_no_place(bench: Bench, server: redis.Redis) -> None:
    """Nobody gives back for a request that never went out, so the wait does it itself."""
    await bench.start(Request("http://e.test/1"))
    request = Request("http://e.test/2")
    waiting = asyncio.create_task(bench.start(request))
    await asyncio.sleep(0.05)
    waiting.cancel()
    await asyncio.wait([waiting])
    await bench.worker.scripts.flush()
    assert server.zcard(keys_of("e.test")[1]) == 1
    assert request.meta == {}


async def test_places_still_held_are_given_back_when_the_spider_closes(
    bench: Bench, server: redis.Redis
) -> None:
    """The next worker does not wait for them to expire."""
    await bench.start(Request("http://e.test/1"))
    await bench.middleware.spider_closed()
    assert server.zcard(keys_of("e.test")[1]) == 0


async def test_the_visit_knows_when_it_went_out(bench: Bench) -> None:
    """After the wait, not before it."""
    visit = bench.worker.visits[1] = Visit(lease=lease("e.test", 200), entry=None)
    await bench.start(Request("http://e.test/1", meta={"lease": visit.lease}))
    first = visit.started
    await bench.start(Request("http://e.test/2", meta={"lease": visit.lease}))
    assert visit.started - first >= 0.198


async def test_a_worker_that_closes_sends_its_waiting_requests_home(bench: Bench) -> None:
    """Minutes of interval do not hold up a shutdown; the request is retried later."""
    meta = {"lease": lease("e.test", 300_000)}
    await bench.start(Request("http://e.test/1", meta=meta))
    waiting = asyncio.create_task(bench.start(Request("http://e.test/2", meta=meta)))
    await asyncio.sleep(0.05)
    bench.crawler.crawling = False
    bench.crawler.engine = type("Engine", (), {"_slot": None})()
    with pytest.raises(WorkerCloses):
        await asyncio.wait_for(waiting, 3)


async def test_a_request_may_refuse_to_wait(slow_bench: Bench, server: redis.Redis) -> None:
    """It learns at once when its turn would be, and takes nobody's."""
    await slow_bench.start(Request("http://e.test/1", meta={MAX_WAIT: 0}))
    impatient = Request("http://e.test/2", meta={MAX_WAIT: 100})
    began = time.monotonic()
    with pytest.raises(TooSoon) as caught:
        await slow_bench.start(impatient)
    waited_ms = (time.monotonic() - began) * 1000
    assert waited_ms < 900
    assert waited_ms + caught.value.retry_after_ms > 500
    assert caught.value.retry_after_ms <= 1001
    assert server.zcard(keys_of("e.test")[1]) == 1
    await asyncio.sleep(0.95)
    await slow_bench.start(impatient)


async def test_a_host_that_asks_for_it_is_left_alone(bench: Bench, server: redis.Redis) -> None:
    """By every request, leased or not, at once; other hosts are not, nor one where a page alone is ill."""
    for status, headers, rests in (
        (500, {"Retry-After": "60"}, False),
        (429, {}, False),
        (503, {"Retry-After": "soon"}, False),
        (429, {"Retry-After": "60"}, True),
    ):
        request = Request("http://e.test/1", meta={"lease": lease("e.test", 0)})
        await bench.start(request)
        bench.middleware.process_response(request, Response(request.url, status=status, headers=headers))
        await bench.worker.scripts.flush()
        assert (server.hget(keys_of("e.test")[0], "rest_until") is not None) is rests
    for meta in ({}, {"lease": lease("e.test", 0)}):
        with pytest.raises(HostRests) as caught:
            await bench.start(Request("http://e.test/2", meta=meta))
        assert 59_000 < caught.value.retry_after_ms <= 60_001
    with pytest.raises(TooSoon) as caught:
        await bench.start(Request("http://e.test/3", meta={MAX_WAIT: 100}))
    assert caught.value.retry_after_ms > 59_000
    await bench.start(Request("http://other.test/1"))
    assert server.zcard(keys_of("e.test")[1]) == 0


async def test_a_start_that_was_reserved_does_not_take_place_when_its_host_rests(
    bench: Bench, server: redis.Redis
) -> None:
    """It waits for its turn when the other request's answer comes; its place is free again."""
    first = Request("http://e.test/1", meta={"lease": lease("e.test", 300)})
    await bench.start(first)
    second = asyncio.create_task(
        bench.start(Request("http://e.test/2", meta={"lease": lease("e.test", 300)}))
    )
    async with asyncio.timeout(5):
        while server.zcard(keys_of("e.test")[1]) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    headers = {"Retry-After": "30"}
    bench.middleware.process_response(first, Response(first.url, status=429, headers=headers))
    with pytest.raises(HostRests) as caught:
        await second
    assert 29_000 < caught.value.retry_after_ms <= 30_000
    await bench.worker.scripts.flush()
    assert server.zcard(keys_of("e.test")[1]) == 0


async def test_a_rest_is_no_longer_than_the_setting_says(bench: Bench, server: redis.Redis) -> None:
    """FRONTIER_RETRY_DELAY_MAX_MS, as in the frontier."""
    request = Request("http://e.test/1")
    await bench.start(request)
    headers = {"Retry-After": "999999"}
    bench.middleware.process_response(request, Response(request.url, status=503, headers=headers))
    with pytest.raises(HostRests) as caught:
        await bench.start(Request("http://e.test/2"))
    assert 899_000 < caught.value.retry_after_ms <= 900_001


async def test_alone_it_says_what_it_needs(bench: Bench) -> None:
    """Without the part that opens Redis, in one sentence."""
    bench.worker.is_open = False
    with pytest.raises(MissingComponent, match=r"ThrottleMiddleware needs .*LifecycleExtension"):
        await bench.start(Request("http://e.test/"))
    bench.worker.is_open = True


# --- with Scrapy's engine -------------------------------------------------------------------------


def test_four_workers_keep_one_interval(small_crawl: SmallCrawl, site: Site) -> None:
    """12 URLs of one host by 4 processes: every two arrivals an interval apart, robots.txt included."""
    site.add("/p*", "hello")
    urls = [f"{site.url}/p{n}#lease=200" for n in range(12)]
    workers = [small_crawl.start(*urls[n::4]) for n in range(4)]
    told = [small_crawl.end(worker) for worker in workers]
    assert sum(len(each.results) for each in told) == 12
    assert all(each.said(url) == 200 for each in told for url in each.results)
    arrivals = [hit.at for hit in site.requests]
    assert len(arrivals) == 13
    assert min(gaps(arrivals)) >= 0.2 - TOLERANCE
    assert max(arrivals) - min(arrivals) >= 12 * 0.2 - TOLERANCE


def test_a_redirect_is_charged_to_the_host_it_leads_to(small_crawl: SmallCrawl, site: Site) -> None:
    """10 hosts that all redirect to one: its interval holds, and its robots.txt is asked for and obeyed."""
    other = site.host(99)
    hosts = [site.host(10 + n) for n in range(10)]
    site.add("/robots.txt", "User-agent: *\nDisallow: /9\n", host="127.0.0.99")
    for number, host in enumerate(hosts):
        name = host.split("/")[2].partition(":")[0]
        site.add("/go", status=302, headers={"Location": f"{other}/{number}"}, host=name)
    for number in range(10):
        site.add(f"/{number}", "here", host="127.0.0.99")
    told = small_crawl(*(f"{host}/go" for host in hosts), MIN_INTERVAL_MS=150, HOST_MAX_IN_FLIGHT=4)
    said = [told.said(f"{host}/go") for host in hosts]
    assert said == [200] * 9 + ["Disregarded"]
    there = [hit for hit in site.requests if hit.host.startswith("127.0.0.99:")]
    assert [hit.path for hit in there].count("/robots.txt") == 1
    assert len(there) == 10
    assert min(gaps([hit.at for hit in there])) >= 0.15 - TOLERANCE


def test_no_more_than_the_cap_are_in_flight(small_crawl: SmallCrawl, site: Site) -> None:
    """Two at a time in two processes, by what the site sees."""
    inside: list[int] = []
    now = 0

    async def slow(_: object) -> str:
        nonlocal now
        now += 1
        inside.append(now)
        await asyncio.sleep(0.1)
        now -= 1
        return "x"

    site.add("/p*", slow)
    urls = [f"{site.url}/p{n}" for n in range(12)]
    workers = [small_crawl.start(*urls[n::2], HOST_MAX_IN_FLIGHT=2) for n in range(2)]
    for worker in workers:
        small_crawl.end(worker)
    assert len(inside) == 12
    assert max(inside) == 2


def test_nothing_is_left_behind(small_crawl: SmallCrawl, site: Site, server: redis.Redis) -> None:
    """After answers, errors and timeouts no place is held, and nothing of ours stays in the meta."""
    site.add("/ok", "x")
    site.add("/slow", "x", delay=5)
    site.add_raw("/cut", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
    urls = [f"{site.url}/{path}" for path in ("ok", "gone", "slow", "cut")]
    told = small_crawl(*urls, DOWNLOAD_TIMEOUT=1)
    assert [told.said(url) for url in urls[:3]] == [200, "HttpError", "DownloadTimeoutError"]
    assert told.said(urls[3]) != 200
    assert not any(PLACE in result["meta"] for result in told.results.values())
    domain = site.url.partition("//")[2]
    assert server.hget(keys_of(domain)[0], "in_flight_count") == b"0"
    assert server.zcard(keys_of(domain)[1]) == 0


def test_a_stopped_worker_leaves_within_seconds(
    small_crawl: SmallCrawl, site: Site, server: redis.Redis
) -> None:
    """SIGTERM while requests wait five minutes for their turn."""
    site.add("/p*", "hello")
    urls = [f"{site.url}/p{n}#lease=300000" for n in range(3)]
    worker = small_crawl.start(*urls, ROBOTSTXT_OBEY=False)
    until = time.monotonic() + 90
    while not site.hits["/p0"]:
        assert time.monotonic() < until
        time.sleep(0.05)
    time.sleep(0.3)
    worker.send_signal(signal.SIGTERM)
    began = time.monotonic()
    told = small_crawl.end(worker, timeout=20)
    assert time.monotonic() - began < 5
    assert [told.said(url.partition("#")[0]) for url in urls] == [200, "WorkerCloses", "WorkerCloses"]
    assert server.zcard(keys_of(site.url.partition("//")[2])[1]) == 0


def test_a_host_that_is_away_holds_no_place(small_crawl: SmallCrawl, server: redis.Redis) -> None:
    """Refused connections come back at once, and free their place."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    urls = [f"http://127.0.0.1:{port}/{n}" for n in range(5)]
    told = small_crawl(*urls, ROBOTSTXT_OBEY=False)
    assert [told.said(url) for url in urls] == ["DownloadConnectionRefusedError"] * 5
    assert server.zcard(keys_of(f"127.0.0.1:{port}")[1]) == 0
