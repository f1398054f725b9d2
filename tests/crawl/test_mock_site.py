"""One site with every way to answer: each of them is one row with its reason, and harms nothing."""

from __future__ import annotations

import json
import ssl
from collections import Counter
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.crawl.mock.behaviour import Row
from tests.crawl.mock.bodies import BODIES
from tests.crawl.mock.encodings import ENCODINGS
from tests.crawl.mock.heartbeat import MARK
from tests.crawl.mock.large import LARGE
from tests.crawl.mock.malformed import MALFORMED
from tests.crawl.mock.manners import MANNERS
from tests.crawl.mock.packed import MAXSIZE, PACKED
from tests.crawl.mock.redirects import LIMIT, REDIRECTS
from tests.crawl.mock.revisits import REVISITS, RUNS, VISITS
from tests.crawl.mock.server import MockSite
from tests.crawl.mock.statuses import STATUSES
from tests.downloads.certificate import write_certificate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from crawlproj.demo import LoopThread
    from crawlproj.testing.plugin import Crawl
    from crawlproj.testing.project import Crawled, Project
    from tests.crawl.mock.behaviour import Length

BEHAVIOURS = (*STATUSES, *REDIRECTS, *MALFORMED, *PACKED, *BODIES, *ENCODINGS, *MANNERS)
SETTINGS = {
    "MAX_ATTEMPTS": 2,
    "MAX_CONCURRENT_COUNT": 64,
    "DOWNLOAD_TIMEOUT": 8,  # a machine that others use may be slow
    "DOWNLOAD_MAXSIZE": MAXSIZE,
    "ROBOTS_RETRY_SECONDS": 1,
    "REDIRECT_MAX_TIMES": LIMIT,
    "EXTENSIONS": {"tests.crawl.mock.heartbeat.Heartbeat": 500},
}
#: What one answer may do to the loop, and all of them to the process. On a quiet machine it is half of that;
#: each of these pages took seconds before, or minutes.
STANDS_STILL_MS = 200
GROWS_MB = 100
LARGE_GROWS_MB = 400  # two pages: the body as it comes, as it is unpacked, and the copy of its pieces

SPIDER = '''
import asyncio

from spiders.site import SiteSpider


class MockSpider(SiteSpider):
    """Follows what there is, and breaks where the path says so."""

    name = "mock"

    async def parse(self, response):
        path = response.url.rpartition("/")[2]
        if path == "raises":
            raise ValueError("before anything")
        if path == "returns-nothing":
            return
        if path == "slow":
            await asyncio.sleep(0.3)
        if path == "yields-rubbish":
            for each in (None, 5, "text", object(), b"bytes", float("nan"), {"nul": "a\\0b"}):
                yield each
        for each in super().parse(response):
            yield each
        if path == "raises-late":
            raise ValueError("after everything")
'''


@pytest.fixture
def tls(tmp_path: Path) -> ssl.SSLContext:
    """A certificate that nobody knows."""
    write_certificate(tmp_path / "key.pem", tmp_path / "certificate.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate.pem", tmp_path / "key.pem")
    return context


def test_every_behaviour_is_one_row(
    server_thread: LoopThread,
    tls: ssl.SSLContext,
    crawl: Crawl,
    scrapy: Project,
    spider_source: Callable[[str], None],
    tmp_path: Path,
) -> None:
    """Status, reason, lengths, encoding, object and health signal, and how often the server was asked."""
    assert len(BEHAVIOURS) >= 200
    spider_source(SPIDER)
    with MockSite(server_thread, BEHAVIOURS, tls) as site:
        seeds = tmp_path / "seeds"
        seeds.write_text("\n".join(site.url(each.name, login=True) for each in BEHAVIOURS if each.seed))
        result = crawl("mock", SETTINGS, seeds=f"@{seeds}")
        assert result.returncode == 0, result.stderr[-5000:]
        wanted = {
            site.url(each.name, path): row
            for each in BEHAVIOURS
            for path, row in ((each.path, each.row), *((p, row) for p, (_, row) in each.others.items()))
            if row is not None
        }
        wrong = [*differences(result, encodings(scrapy), wanted), *miscounted(site)]
        assert not wrong, "\n" + "\n".join(f"{site.name_of(line)} {line[:300]}" for line in wrong)
        assert {peer.method for _, peer in site.seen} == {"GET"}
    assert result.status["status"] == "sealed"
    assert (result.status["queued"], result.status["leased"]) == (0, 0)
    assert "s3cr3t" not in result.stderr + str(result.pages)
    beat = heartbeat(result)
    assert beat["busiest_ms"] < STANDS_STILL_MS, beat
    assert beat["grown_mb"] < GROWS_MB, beat


def test_large_and_odd_pages_do_not_hold_the_loop_up(
    server_thread: LoopThread, tls: ssl.SSLContext, crawl: Crawl, scrapy: Project, tmp_path: Path
) -> None:
    """Up to DOWNLOAD_MAXSIZE, compressed or not, in any encoding, and however it is nested."""
    with MockSite(server_thread, LARGE, tls) as site:
        seeds = tmp_path / "seeds"
        seeds.write_text("\n".join(site.url(each.name) for each in LARGE))
        settings = {"EXTENSIONS": SETTINGS["EXTENSIONS"], "MAX_CONCURRENT_COUNT": 2}
        result = crawl("site", settings, seeds=f"@{seeds}")
        assert result.returncode == 0, result.stderr[-5000:]
        wanted = {site.url(each.name): each.row for each in LARGE}
        wrong = list(differences(result, encodings(scrapy), wanted))
        assert not wrong, "\n" + "\n".join(f"{site.name_of(line)} {line[:300]}" for line in wrong)
    beat = heartbeat(result)
    assert beat["busiest_ms"] < STANDS_STILL_MS, beat
    assert beat["grown_mb"] < LARGE_GROWS_MB, beat


def miscounted(site: MockSite) -> Iterator[str]:
    """Yield what was asked for more or less often than it has to be."""
    for each in BEHAVIOURS:
        times = site.requests[each.name, each.path]
        if times != each.requests:
            yield f"was asked {times} times, not {each.requests}: {site.url(each.name)}"


def heartbeat(result: Crawled) -> dict[str, int]:
    """Return what the heartbeat has seen."""
    seen: dict[str, int] = json.loads(result.stderr.rpartition(MARK)[2].splitlines()[0])
    return seen


def encodings(scrapy: Project) -> dict[str, str | None]:
    """Return the encoding of each page object, by its id."""
    with psycopg.connect(scrapy.env["DATABASE_URL"]) as database:
        rows = database.execute("SELECT encode(object_id, 'hex'), encoding FROM page_object").fetchall()
    return dict(rows)


def differences(result: Crawled, encoded: dict[str, str | None], wanted: dict[str, Row]) -> Iterator[str]:
    """Yield what is otherwise than it has to be, one line each, ending with the URL."""
    for url, times in Counter(row["url"] for row in result.pages).items():
        if times > 1:
            yield f"has {times} rows: {url}"
        if url not in wanted:
            yield f"is not expected: {url}"
    found = {row["url"]: row for row in result.pages}
    for url, row in wanted.items():
        if url not in found:
            yield f"has no row: {url}"
            continue
        for name, (is_, wants) in _compared(found[url], encoded, row).items():
            if is_ != wants:
                yield f"{name} is {is_!r}, not {wants!r} : {url}"


def _compared(found: dict[str, Any], encoded: dict[str, str | None], row: Row) -> dict[str, tuple[Any, Any]]:
    signal = found["health_signal"] or {}
    encoding = encoded.get(found["object_id"])
    return {
        "fetch_status": (found["fetch_status"], row.fetch_status),
        "schedule_status": (found["schedule_status"], row.schedule_status),
        "http_status": (found["http_status"], row.http_status),
        "reason": (found["reason"], row.reason),
        "object": (found["object_id"] is not None, row.stored),
        "health_signal": (found["health_signal"] is not None, row.stored),
        "text_length": (signal.get("text_length"), _expected(signal.get("text_length"), row.text)),
        "raw_text_length": (signal.get("raw_text_length"), _expected(signal.get("raw_text_length"), row.raw)),
        "encoding": (encoding, encoding if row.encoding is None else row.encoding),
    }


def _expected(found: int | None, wanted: Length) -> Any:
    """Return *found* where it is within what is wanted."""
    if isinstance(wanted, tuple) and found is not None and wanted[0] <= found <= wanted[1]:
        return found
    return wanted


def test_pages_that_are_visited_again(
    server_thread: LoopThread, tls: ssl.SSLContext, crawl: Crawl, scrapy: Project, tmp_path: Path
) -> None:
    """Four runs: which validators each sends, what it makes of the answer, and that good content stays."""
    with MockSite(server_thread, REVISITS, tls) as site:
        seeds = tmp_path / "seeds"
        seeds.write_text("\n".join(site.url(each.name) for each in REVISITS))
        for run in range(RUNS):
            site.run, before = run, len(site.seen)
            result = crawl(
                "site",
                {"CRAWL_NAME": "again", "MAX_ATTEMPTS": 1, "DOWNLOAD_TIMEOUT": 6},
                seeds=f"@{seeds}",
            )
            assert result.returncode == 0, result.stderr
            wanted = {site.url(f"again-{name}"): visits[run].row for name, visits in VISITS.items()}
            assert not list(differences(result, encodings(scrapy), wanted)), run
            sent = {
                name: (peer.headers.get("if-none-match"), peer.headers.get("if-modified-since"))
                for name, peer in site.seen[before:]
                if peer.target == "/"
            }
            assert sent == {
                f"again-{name}": (visits[run].etag, visits[run].date) for name, visits in VISITS.items()
            }
        story = scrapy("page", site.url("again-bad-days"), "--text")
        assert "keeper of the lighthouse" in story.stdout
