"""No page before its host's robots.txt is known, and none that it forbids."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadTimeoutError,
    IgnoreRequest,
    NotConfigured,
)
from scrapy.http import Response
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from crawlproj.connections import open_redis, open_redis_sync
from crawlproj.exceptions import Disregarded, MissingComponent, RetryLater, WorkerCloses
from crawlproj.items import Lease, Visit
from crawlproj.politeness.pace import INTERVAL
from crawlproj.scripts import Scripts
from crawlproj.worker import Worker
from middlewares.robots import RobotsMiddleware
from tests.middlewares.kit import SmallCrawl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import redis

    from crawlproj.testing.site import Site

RULES = b"User-agent: *\nDisallow: /no\nCrawl-delay: 3\n\nUser-agent: special\nDisallow: /\n"


def lease(attempts: int = 0, interval_ms: int | None = None, host: str = "e.test") -> Lease:
    return Lease(token=1, host=host, attempts=attempts, min_interval_ms=interval_ms, expires_at=0)


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


class Engine:
    """Answers as an engine would whose downloader met this."""

    def __init__(self, answer: tuple[Any, ...] | Exception) -> None:
        self.answer = answer
        self.asked: list[Request] = []
        self._slot = type("Slot", (), {"closing": None})

    async def download_async(self, request: Request) -> Response:
        self.asked.append(request)
        await asyncio.sleep(0.02)
        if isinstance(self.answer, Exception):
            raise self.answer
        status, body, *headers = self.answer
        return Response(request.url, status=status, body=body, headers=headers[0] if headers else None)


class Bench:
    """One middleware of one worker, with an engine that does not reach for the net."""

    def __init__(self, redis_url: str, **settings: Any) -> None:
        ours = Settings()
        ours.setmodule("crawlproj.settings")
        ours.update({"TWISTED_REACTOR_ENABLED": False, **settings})
        self.crawler = get_crawler(settings_dict=ours.copy_to_dict())
        self.crawler.crawling = True
        self.engine = self.crawler.engine = Engine((200, RULES))  # type: ignore[assignment]
        self.worker = Worker.of(self.crawler)
        self.worker.sampler = self  # type: ignore[assignment]
        self.redis = open_redis(redis_url)
        self.worker.scripts = Scripts(self.redis, "test")
        self.worker.is_open = True
        self.delays: list[tuple[str, float]] = []
        self.recalled: list[str] = []
        self.middleware = RobotsMiddleware.from_crawler(self.crawler)

    async def set_crawl_delay(self, host: str, seconds: float) -> None:
        self.delays.append((host, seconds))

    async def recall(self, host: str) -> None:
        self.recalled.append(host)

    async def ask(self, url: str = "http://e.test/x", **more: Any) -> Exception | None:
        """Return what the middleware raised for a request, or None if it lets it pass."""
        try:
            waiting = self.middleware.process_request(Request(url, **more))
            if waiting is not None:
                await waiting
        except Exception as error:  # noqa: BLE001
            return error
        return None

    async def close(self) -> None:
        await self.middleware.spider_closed()
        await self.worker.scripts.close()
        await self.redis.aclose()


@pytest.fixture
async def make_bench(redis_url: str) -> AsyncIterator[Any]:
    """Make benches with settings of their own."""
    made: list[Bench] = []

    def make(**settings: Any) -> Bench:
        made.append(Bench(redis_url, **settings))
        return made[-1]

    yield make
    for bench in made:
        await bench.close()


@pytest.fixture
def bench(make_bench: Any) -> Bench:
    """A bench with the project's own settings."""
    return make_bench()


async def test_forbidden_pages_are_disregarded(bench: Bench) -> None:
    """The reason is robots; other pages pass."""
    error = await bench.ask("http://e.test/no/1")
    assert isinstance(error, Disregarded)
    assert error.reason == "robots"
    assert await bench.ask("http://e.test/yes") is None
    assert bench.crawler.stats.get_value("robotstxt/forbidden") == 1


async def test_the_request_for_robots_txt(bench: Bench) -> None:
    """It goes to the root of scheme, host and port, past robots, retries and offsite."""
    await bench.ask("http://u:p@E.test:80/a/b?c#d")
    (request,) = bench.engine.asked
    assert request.url == "http://e.test/robots.txt"
    assert request.meta["dont_obey_robotstxt"]
    assert request.meta["dont_retry"]
    assert request.meta["allow_offsite"]
    assert "lease" not in request.meta
    assert INTERVAL not in request.meta


async def test_robots_txt_keeps_the_interval_that_the_lease_has_for_its_host(bench: Bench) -> None:
    """The host is as slow as it is, whatever is asked of it."""
    await bench.ask(meta={"lease": lease(interval_ms=5000)})
    await bench.ask("http://www.e.test/", meta={"lease": lease(interval_ms=5000)})
    assert [request.meta.get(INTERVAL) for request in bench.engine.asked] == [("e.test", 5000), None]


async def test_concurrent_first_requests_all_wait(bench: Bench) -> None:
    """One fetch for all of them, and not one forbidden page passes."""
    results = await asyncio.gather(*(bench.ask(f"http://e.test/no/{n}") for n in range(8)))
    assert [type(result) for result in results] == [Disregarded] * 8
    assert len(bench.engine.asked) == 1


async def test_what_is_known_does_not_wait(bench: Bench) -> None:
    """The second request of a host is decided without a coroutine."""
    await bench.ask()
    assert bench.middleware.process_request(Request("http://e.test/y")) is None
    with pytest.raises(Disregarded):
        bench.middleware.process_request(Request("http://e.test/no"))


@pytest.mark.parametrize(
    "request_",
    [
        Request("http://e.test/no", meta={"dont_obey_robotstxt": True}),
        Request("data:,x"),
        Request("file:///etc/hostname"),
        Request("http://e.test/robots.txt"),
        Request("http://e.test/robots.txt?x=1"),
    ],
)
async def test_what_needs_no_permission(bench: Bench, request_: Request) -> None:
    """A request that is told not to obey, other schemes, and robots.txt itself."""
    assert bench.middleware.process_request(request_) is None
    assert bench.engine.asked == []


async def test_it_can_be_switched_off(make_bench: Any) -> None:
    """ROBOTSTXT_OBEY = False is Scrapy's setting, and it is honoured."""
    with pytest.raises(NotConfigured):
        make_bench(ROBOTSTXT_OBEY=False)


@pytest.mark.parametrize(
    ("settings", "headers", "passes"),
    [
        ({}, {}, True),
        ({"ROBOTSTXT_USER_AGENT": "special"}, {}, False),
        ({"USER_AGENT": "special/1.0"}, {}, False),
        ({}, {"User-Agent": "special/1.0"}, False),
        ({"ROBOTSTXT_USER_AGENT": "other"}, {"User-Agent": "special/1.0"}, True),
    ],
)
async def test_the_name_that_counts(
    make_bench: Any, settings: dict[str, str], headers: dict[str, str], passes: bool
) -> None:
    """ROBOTSTXT_USER_AGENT, else the request's own User-Agent, else USER_AGENT."""
    error = await make_bench(**settings).ask(headers=headers)
    assert (error is None) is passes


@pytest.mark.parametrize("answer", [(503, b""), (500, RULES), (429, b""), DownloadTimeoutError("60 s")])
async def test_while_the_server_cannot_say_pages_come_back_later(bench: Bench, answer: Any) -> None:
    """The whole host waits until robots.txt is asked for again; nothing is lost."""
    bench.engine.answer = answer
    error = await bench.ask(meta={"lease": lease(attempts=0)})
    assert isinstance(error, RetryLater)
    assert error.reason == "robots_unavailable"
    assert error.host_incident
    assert error.retry_after_ms is not None
    assert 60_000 < error.retry_after_ms < 61_000
    again = await bench.ask(meta={"lease": lease(attempts=1)})
    assert isinstance(again, RetryLater)
    assert len(bench.engine.asked) == 1


@pytest.mark.parametrize(
    ("asked", "seconds"), [("600", 600), ("5", 60), ("86400", 900), ("soon", 60), ("0", 60)]
)
async def test_a_server_that_cannot_say_may_ask_for_more_time(bench: Bench, asked: str, seconds: int) -> None:
    """Retry-After counts where it is longer, up to FRONTIER_RETRY_DELAY_MAX_MS."""
    bench.engine.answer = (503, b"", {"Retry-After": asked})
    error = await bench.ask(meta={"lease": lease(attempts=0)})
    assert isinstance(error, RetryLater)
    assert error.retry_after_ms is not None
    assert seconds * 1000 - 200 < error.retry_after_ms <= seconds * 1000 + 100
    ttl = await bench.redis.ttl("downloader:robots:http://e.test")
    assert seconds - 2 <= ttl <= seconds


@pytest.mark.parametrize("meta", [{"lease": lease(attempts=4)}, {}])
async def test_without_an_attempt_left_the_page_is_disregarded(bench: Bench, meta: dict[str, Any]) -> None:
    """The fifth of MAX_ATTEMPTS = 5, or a request without a lease: nobody would bring it back."""
    bench.engine.answer = (503, b"")
    error = await bench.ask(meta=meta)
    assert isinstance(error, Disregarded)
    assert error.reason == "robots_unavailable"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 301])
async def test_no_robots_txt_allows_everything(bench: Bench, status: int) -> None:
    """The 4xx, and a redirect that leads nowhere."""
    bench.engine.answer = (status, RULES)
    assert await bench.ask("http://e.test/no") is None


async def test_redirects_without_end_allow_everything(bench: Bench) -> None:
    """RFC 9309 lets us take it as absent after five; Scrapy gives up by ignoring the request."""
    bench.engine.answer = IgnoreRequest("max redirections reached")
    assert await bench.ask() is None
    assert bench.engine.asked[0].meta["redirect_ttl"] == 5


@pytest.mark.parametrize("kind", [CannotResolveHostError, DownloadConnectionRefusedError])
async def test_where_there_is_no_server_the_page_fails_for_the_same_reason(
    bench: Bench, kind: type[Exception]
) -> None:
    """In this worker and in the next one; soon it is tried again."""
    bench.engine.answer = kind("no")
    assert type(await bench.ask(meta={"lease": lease()})) is kind
    assert type(await bench.ask(meta={"lease": lease()})) is kind
    assert len(bench.engine.asked) == 1
    await asyncio.sleep(1.1)
    bench.engine.answer = (200, RULES)
    assert await bench.ask() is None


async def test_what_our_own_rules_keep_from_is_nothing_the_server_said(
    bench: Bench, server: redis.Redis
) -> None:
    """The page meets the same rule itself; the fleet does not remember it as an absent robots.txt."""
    bench.engine.answer = Disregarded("private_address")
    assert await bench.ask() is None
    assert server.pttl("downloader:robots:http://e.test") <= 1000


async def test_a_worker_that_closes_leaves_no_finding(bench: Bench, server: redis.Redis) -> None:
    """That nobody had time to ask says nothing of the server."""
    bench.engine.answer = WorkerCloses()
    assert isinstance(await bench.ask(meta={"lease": lease()}), WorkerCloses)
    await bench.worker.scripts.flush()
    assert server.dbsize() == 0


async def test_requests_that_wait_are_sent_home_when_the_worker_closes(bench: Bench) -> None:
    """Also while another worker fetches, or Redis is away."""
    bench.engine.answer = (200, b"")
    open_redis_lock = "{downloader:robots:http://e.test}:lock"
    await bench.redis.set(open_redis_lock, "another", px=60_000)
    waiting = asyncio.create_task(bench.ask(meta={"lease": lease()}))
    await asyncio.sleep(0.05)
    bench.engine._slot.closing = True
    async with asyncio.timeout(3):
        assert isinstance(await waiting, WorkerCloses)


async def test_the_crawl_delay_is_told_once_for_each_host_and_value(
    make_bench: Any, server: redis.Redis
) -> None:
    """Before a page passes; by every worker, and again when it has changed."""
    one, other = make_bench(), make_bench()
    await asyncio.gather(*(one.ask(f"http://e.test/{n}") for n in range(5)))
    await one.ask("https://e.test/")
    await other.ask()
    assert one.delays == other.delays == [("e.test", 3.0)]
    one.engine.answer = (200, RULES.replace(b"3", b"7"))
    await one.ask("http://e.test:8080/")
    assert one.delays == [("e.test", 3.0), ("e.test:8080", 7.0)]


NO_DELAY = (200, RULES.replace(b"Crawl-delay: 3\n", b""))


async def expired(server: redis.Redis, authority: str = "http://e.test") -> None:
    """Wait until the fleet and the worker have to ask again."""
    async with asyncio.timeout(5):
        while server.exists(f"downloader:robots:{authority}"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.05)


@pytest.mark.parametrize("answer", [NO_DELAY, (404, b"")])
async def test_a_crawl_delay_that_disappears_is_taken_back_once(
    make_bench: Any, server: redis.Redis, answer: tuple[int, bytes]
) -> None:
    """With the line, or with the whole robots.txt; by each worker that told of it, and not for every page."""
    one, other = make_bench(ROBOTS_CACHE_SECONDS=1), make_bench(ROBOTS_CACHE_SECONDS=1)
    for bench in (one, other):
        await bench.ask()
    for after in (answer, NO_DELAY):
        await expired(server)
        one.engine.answer = other.engine.answer = after
        for bench in (one, other, one):
            await bench.ask()
    assert len([*one.engine.asked, *other.engine.asked]) == 3
    assert one.delays == other.delays == [("e.test", 3.0), ("e.test", 0.0)]


async def test_a_server_that_cannot_answer_takes_no_crawl_delay_back(
    make_bench: Any, server: redis.Redis
) -> None:
    """What it asked for holds until it says something else."""
    bench = make_bench(ROBOTS_CACHE_SECONDS=1, ROBOTS_RETRY_SECONDS=1)
    await bench.ask()
    await expired(server)
    bench.engine.answer = (503, b"")
    await bench.ask()
    assert bench.delays == [("e.test", 3.0)]
    assert bench.recalled == []


async def test_of_a_server_that_cannot_answer_the_crawl_delay_of_before_is_asked_for(bench: Bench) -> None:
    """By a worker that knows none; of one that says that there is none, nothing is remembered."""
    bench.engine.answer = (503, b"")
    await bench.ask()
    bench.engine.answer = (404, b"")
    await bench.ask("http://other.test/")
    assert (bench.delays, bench.recalled) == ([], ["e.test"])


@pytest.mark.parametrize(("own_ms", "told"), [(3000, [("e.test", 0.0)]), (None, [])])
async def test_a_crawl_delay_that_others_told_of_is_taken_back(
    bench: Bench, own_ms: int | None, told: list[tuple[str, float]]
) -> None:
    """By a worker that finds none where a lease came with its host's own interval; else it says nothing."""
    bench.engine.answer = NO_DELAY
    wire = type("Entry", (), {"wire": "http://e.test/x"})
    bench.worker.visits[1] = Visit(lease=lease(interval_ms=own_ms), entry=wire)
    await bench.ask()
    await bench.ask("http://other.test/")
    assert bench.delays == told


@pytest.mark.parametrize("first", ["http", "https"])
async def test_of_both_schemes_of_a_host_the_longer_crawl_delay_counts(bench: Bench, first: str) -> None:
    """In whatever order they are asked; one that has none takes nothing of the other's back."""
    answers = {"http": (200, RULES), "https": NO_DELAY}
    for scheme in sorted(answers, reverse=first == "https"):
        bench.engine.answer = answers[scheme]
        bench.worker.visits[1] = Visit(
            lease=lease(interval_ms=3000), entry=type("Entry", (), {"wire": f"{scheme}://e.test/x"})
        )
        await bench.ask(f"{scheme}://e.test/")
    assert bench.delays[-1] == ("e.test", 3.0)


async def test_alone_it_says_what_it_needs(bench: Bench) -> None:
    """Without the part that opens Redis, in one sentence."""
    bench.worker.is_open = False
    error = await bench.ask()
    assert isinstance(error, MissingComponent)
    assert "RobotsMiddleware needs extensions.lifecycle" in str(error)


# --- with Scrapy's engine -------------------------------------------------------------------------


def test_no_forbidden_page_slips_through_at_the_start(small_crawl: SmallCrawl, site: Site) -> None:
    """8 requests at once to a host that was never asked, by two workers: 0 of 8 forbidden are fetched."""
    site.add("/robots.txt", "User-agent: *\nDisallow: /no\nCrawl-delay: 3\n", delay=0.5)
    site.add("/*", "x")
    forbidden = [f"{site.url}/no/{n}" for n in range(8)]
    workers = [small_crawl.start(*forbidden, f"{site.url}/yes/{n}") for n in range(2)]
    told = [small_crawl.end(worker) for worker in workers]
    for number, each in enumerate(told):
        assert [each.said(url) for url in forbidden] == ["Disregarded"] * 8
        assert each.said(f"{site.url}/yes/{number}") == 200
        assert each.delays == [(site.url.partition("//")[2], 3.0)]
    assert sorted(hit.path for hit in site.requests) == ["/robots.txt", "/yes/0", "/yes/1"]


def test_an_unavailable_robots_txt_is_asked_for_again(
    small_crawl: SmallCrawl, site: Site, server: redis.Redis
) -> None:
    """503 at first, then rules: nothing is fetched meanwhile, and `/private` never."""
    site.add("/robots.txt", status=503)
    site.add("/*", "x")
    urls = [f"{site.url}/private/1#lease=0", f"{site.url}/ok#lease=0"]
    first = small_crawl(*urls, ROBOTS_RETRY_SECONDS=2)
    assert [result["reason"] for result in first.results.values()] == ["robots_unavailable"] * 2
    waits = [result["retry_after_ms"] for result in first.results.values()]
    assert 0 < min(waits) <= max(waits) <= 2_200
    assert [hit.path for hit in site.requests] == ["/robots.txt"]

    site.add("/robots.txt", "User-agent: *\nDisallow: /private\n")
    until = time.monotonic() + 3
    while server.exists(f"downloader:robots:{site.url}"):
        assert time.monotonic() < until
        time.sleep(0.05)
    second = small_crawl(*urls, ROBOTS_RETRY_SECONDS=2)
    assert second.said(f"{site.url}/private/1") == "Disregarded"
    assert second.said(f"{site.url}/ok") == 200
    assert [hit.path for hit in site.requests] == ["/robots.txt", "/robots.txt", "/ok"]


def test_a_redirected_robots_txt_is_followed(small_crawl: SmallCrawl, site: Site) -> None:
    """Also to another host, and its rules are those of the first."""
    other = site.host(2)
    site.add("/robots.txt", status=301, headers={"Location": f"{other}/rules"}, host="127.0.0.1")
    site.add("/rules", "User-agent: *\nDisallow: /no\n", host="127.0.0.2")
    site.add("/no", "x")
    told = small_crawl(f"{site.url}/no", f"{site.url}/yes")
    assert told.said(f"{site.url}/no") == "Disregarded"
    assert site.hits["/no"] == []


def test_a_host_that_is_away_fails_its_pages(small_crawl: SmallCrawl) -> None:
    """Nobody said no, so the reason is the connection."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    url = f"http://127.0.0.1:{port}/x"
    assert small_crawl(url).said(url) == "DownloadConnectionRefusedError"
