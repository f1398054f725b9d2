"""No page of a host is asked for before its robots.txt is known, and none that it forbids."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import replace
from functools import partial
from ssl import SSLError
from typing import TYPE_CHECKING, Any, NoReturn, Self
from urllib.parse import urlsplit

from scrapy import Request, signals
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    IgnoreRequest,
    NotConfigured,
)
from scrapy.http.request import NO_CALLBACK

from crawlproj.exceptions import Disregarded, MissingComponent, RetryLater, WorkerCloses
from crawlproj.frontier.canonical import host_key, normalise
from crawlproj.items import Lease
from crawlproj.pages.failure import explain
from crawlproj.pages.retry_after import asked_wait_ms
from crawlproj.politeness.closing import ClosingTime
from crawlproj.politeness.fleet_robots import FleetRobots
from crawlproj.politeness.pace import INTERVAL
from crawlproj.politeness.robots import Finding, RobotsFile, from_answer
from crawlproj.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from scrapy.crawler import Crawler

    from crawlproj.politeness.fleet_robots import Verdict
    from crawlproj.politeness.robots import Rules

REMEMBERED_DELAYS = 10_000  # hosts; more than a worker has under way
MAX_REDIRECTS = 5  # RFC 9309, 2.3.1.2
OUTLAST_MS = 100  # a retry comes this much after the finding it waits for has run out

#: What says whether there is a crawl-delay: a server that cannot answer takes none back.
TELLING = frozenset({Finding.RULES, Finding.ABSENT})

#: When nobody answered, a page fails the way its robots.txt did.
NO_SERVER: dict[Finding, type[Exception]] = {
    Finding.UNRESOLVED: CannotResolveHostError,
    Finding.REFUSED: DownloadConnectionRefusedError,
    Finding.INSECURE: SSLError,
    Finding.BROKEN: DownloadFailedError,
}


class RobotsMiddleware:
    """Hold a request until its host's robots.txt is known; drop it where that says no.

    One worker asks for the fleet. 2xx: its rules count. Other 4xx than 429: everything is allowed.
    429, 5xx, timeouts: nothing is, for ROBOTS_RETRY_SECONDS or as long as Retry-After says; a leased request
    comes back after that, as long as it has attempts left. No server at all: the request fails for the same
    reason.

    Settings: ROBOTSTXT_OBEY, ROBOTSTXT_USER_AGENT, ROBOTS_CACHE_SECONDS, ROBOTS_RETRY_SECONDS.
    Meta: dont_obey_robotstxt.
    Stats: robotstxt/request_count, robotstxt/response_count, robotstxt/response_status_count/<status>,
    robotstxt/exception_count/<type>, robotstxt/forbidden, robotstxt/unavailable.
    """

    def __init__(self, crawler: Crawler) -> None:
        if not crawler.settings.getbool("ROBOTSTXT_OBEY"):
            raise NotConfigured
        self._crawler = crawler
        self._worker = Worker.of(crawler)
        self._config = self._worker.config
        self._token: str | None = crawler.settings.get("ROBOTSTXT_USER_AGENT")
        self._agent: str = crawler.settings.get("USER_AGENT") or ""
        self._delays: OrderedDict[str, float] = OrderedDict()
        self._closing = ClosingTime(self._worker.sends_home)
        self._robots: FleetRobots | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build it. Raises NotConfigured when robots.txt is not to be obeyed."""
        self = cls(crawler)
        crawler.signals.connect(self.spider_closed, signal=signals.spider_closed)
        return self

    def process_request(self, request: Request) -> Coroutine[Any, Any, None] | None:
        """Let the request pass, or raise: Disregarded, RetryLater, or why there is no server."""
        if request.meta.get("dont_obey_robotstxt") or not request.url.startswith(("http://", "https://")):
            return None
        wire = normalise(request.url)
        if "/robots.txt" in wire and urlsplit(wire).path == "/robots.txt":
            return None
        authority = f"{wire.partition(':')[0]}://{host_key(wire)}"
        robots = self._open()
        verdict = robots.known(authority)
        if verdict is None:
            return self._wait(request, authority, robots)
        self._decide(request, authority, verdict)
        return None

    async def spider_closed(self) -> None:
        """Give up what is still being looked for."""
        if self._robots is not None:
            await self._robots.close()

    async def _wait(self, request: Request, authority: str, robots: FleetRobots) -> None:
        search = robots.find(authority, partial(self._fetch, authority, _interval(request, authority)))
        self._decide(request, authority, await self._closing.guard(search))

    def _decide(self, request: Request, authority: str, verdict: Verdict) -> None:
        finding = verdict.rules.finding
        if finding is Finding.UNREACHABLE:
            self._unavailable(request, verdict)
        if finding in NO_SERVER:
            raise NO_SERVER[finding](f"{authority}: no server answered the request for robots.txt")
        header = request.headers.get(b"User-Agent")
        agent = self._token or (header.decode("latin-1") if header else self._agent)
        if not verdict.rules.allows(request.url, agent):
            self._count("forbidden")
            raise Disregarded("robots")

    def _unavailable(self, request: Request, verdict: Verdict) -> NoReturn:
        self._count("unavailable")
        lease = request.meta.get("lease")
        if isinstance(lease, Lease) and lease.attempts + 1 < lease.max_attempts:
            left_ms = verdict.left_ms(time.monotonic()) + OUTLAST_MS
            raise RetryLater("robots_unavailable", retry_after_ms=left_ms, host_incident=True)
        raise Disregarded("robots_unavailable")

    async def _fetch(self, authority: str, interval: tuple[str, int] | None) -> RobotsFile:
        """Ask for a robots.txt, through the throttle like everything else."""
        meta: dict[str, Any] = {
            "dont_obey_robotstxt": True,
            "dont_retry": True,
            "allow_offsite": True,
            "redirect_ttl": MAX_REDIRECTS,
        }
        if interval is not None:
            meta[INTERVAL] = interval
        request = Request(
            f"{authority}/robots.txt", callback=NO_CALLBACK, priority=1000, dont_filter=True, meta=meta
        )
        self._count("request_count")
        try:
            response = await self._crawler.engine.download_async(request)
        except WorkerCloses:
            raise  # it says nothing of the server
        except Exception as error:  # noqa: BLE001  # whatever a download handler raises: there is no answer
            return self._no_answer(error)
        self._count("response_count")
        self._count(f"response_status_count/{response.status}")
        file = from_answer(response.status, response.body)
        if file.finding is not Finding.UNREACHABLE:
            return file
        asked = asked_wait_ms(response.status, response.headers, time.time()) or 0
        return replace(file, asks_seconds=asked / 1000)

    def _no_answer(self, error: Exception) -> RobotsFile:
        if isinstance(error, Disregarded):
            return RobotsFile(finding=Finding.SKIPPED)
        if isinstance(error, IgnoreRequest) and not isinstance(error, RetryLater):
            return RobotsFile(finding=Finding.ABSENT)  # redirects without end, a body that explodes
        self._count(f"exception_count/{type(error).__name__}")
        if explain(error).reason == "tls":
            return RobotsFile(finding=Finding.INSECURE)
        for finding, kind in NO_SERVER.items():
            if isinstance(error, kind):
                return RobotsFile(finding=finding)
        return RobotsFile(finding=Finding.UNREACHABLE)

    async def _found(self, authority: str, rules: Rules) -> None:
        """Tell of the crawl-delay, once for each host and value; 0 takes back what is asked for no more."""
        scheme, _, host = authority.partition("://")
        if rules.finding not in TELLING:
            if rules.finding is Finding.UNREACHABLE and host not in self._delays:
                await self._worker.sampler.recall(host)
            return
        seconds, told = self._delay(rules), self._delays.get(host)
        if not seconds and not told and (told == 0 or not self._worker.has_own_interval(host)):
            return
        # The two of a host may say different things, and the longer delay is that of its queue.
        other = await self._open().stored(f"{'http' if scheme == 'https' else 'https'}://{host}")
        if other is not None:
            seconds = max(seconds, self._delay(other))
        if self._delays.get(host) == seconds:
            return
        self._delays[host] = seconds
        if len(self._delays) > REMEMBERED_DELAYS:
            self._delays.popitem(last=False)
        await self._worker.sampler.set_crawl_delay(host, seconds)

    def _delay(self, rules: Rules) -> float:
        return rules.crawl_delay(self._token or self._agent) or 0.0

    def _count(self, name: str) -> None:
        self._crawler.stats.inc_value(f"robotstxt/{name}")

    def _open(self) -> FleetRobots:
        if self._robots is not None:
            return self._robots
        if not self._worker.is_open:
            raise MissingComponent(
                "middlewares.robots.RobotsMiddleware needs extensions.lifecycle.LifecycleExtension"
                " in EXTENSIONS"
            )
        self._robots = FleetRobots(
            self._worker.scripts,
            self._found,
            keep_seconds=self._config.robots_cache_seconds,
            retry_seconds=self._config.robots_retry_seconds,
            # Less what a page waits on top of it: the frontier cuts the sum to the knob.
            longest_retry_seconds=(self._config.knobs["retry_delay_max_ms"] - OUTLAST_MS) / 1000,
        )
        return self._robots


def _interval(request: Request, authority: str) -> tuple[str, int] | None:
    """Return the interval that the request's lease has for its host: its robots.txt keeps it as well."""
    lease = request.meta.get("lease")
    if not isinstance(lease, Lease) or lease.min_interval_ms is None:
        return None
    host = authority.partition("://")[2]
    return (host, lease.min_interval_ms) if lease.host == host else None
