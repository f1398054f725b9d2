"""`scrapy pages`."""

import asyncio
import json
import subprocess
import sys

from crawlproj.frontier.codec import Codec
from tests.commands.conftest import PROJECT, on_terminal

FIELDS = [
    "url",
    "canonical_url",
    "depth",
    "source_tag",
    "fetch_status",
    "schedule_status",
    "http_status",
    "reason",
    "attempts",
    "fetched_at",
    "object_id",
    "health_signal",
]
SIGNAL = {
    "render_duration_ms": None,
    "raw_text_length": 0,
    "text_length": 0,
    "xhr_error_count": None,
    "xhr_total_count": None,
    "has_console_error": None,
}


def test_json_is_the_contract(scrapy, add_crawl, add_page):
    """--json prints one object a line with exactly the contract's fields; null is not zero."""
    crawl = add_crawl("a")
    add_page(crawl, "http://h/1", fetch_status="empty", health_signal=json.dumps(SIGNAL))
    add_page(
        crawl,
        "http://h/2",
        fetch_status=None,
        schedule_status="disregarded",
        reason="robots",
        attempts=0,
        fetched_at=None,
        reported_at="2026-01-02T03:04:06Z",
    )
    first, second = scrapy("pages", "a", "--json").json
    assert list(first) == list(second) == FIELDS
    assert first["health_signal"] == SIGNAL
    assert first["fetched_at"] == "2026-01-02T03:04:05Z"
    assert second["fetch_status"] is None
    assert second["health_signal"] is None
    assert second["fetched_at"] is None
    assert second["object_id"] is None


def test_filters(scrapy_here, add_crawl, add_page):
    """--status takes either enumeration's word, --host a host, --limit a number, 0 for all."""
    crawl = add_crawl("a")
    add_page(crawl, "http://h/1")
    add_page(crawl, "http://h/2", fetch_status="failed", schedule_status="failed")
    add_page(crawl, "http://i/3", fetch_status=None, schedule_status="disregarded")

    def urls(*args):
        return [line.split("\t")[1] for line in scrapy_here("pages", "a", *args).lines]

    assert urls("--status", "failed") == ["http://h/2"]
    assert urls("--status", "disregarded") == ["http://i/3"]
    assert urls("--status", "succeeded") == ["http://h/1"]
    assert sorted(urls("--host", "h")) == ["http://h/1", "http://h/2"]
    assert len(urls("--limit", "2")) == 2
    assert len(urls("--limit", "0")) == 3
    done = scrapy_here("pages", "a", "--status", "asleep")
    assert done.code == 2
    assert "asleep" in done.err


async def test_host_that_the_crawl_has_never_had(scrapy_here, add_crawl, add_page, made_frontier):
    """It is not found, exit code 3; one without such a page, or with none so far, has no rows, 0."""
    frontier = await made_frontier()  # of crawl a
    await frontier.schedule([Codec().encode_link("http://waits/1", 0)])
    crawl = add_crawl("b", status="sealed")
    add_page(crawl, "http://h/1")
    add_page(add_crawl("b", run=2, status="sealed"), "http://i/1")

    async def ended(*args):
        done = await asyncio.to_thread(scrapy_here, "pages", *args)
        assert (done.out, done.err.count("\n")) == ("", 1)
        return done.code, done.err

    for name, host in (("a", "nothere"), ("b", "waits"), (str(crawl), "H"), ("b", "http://h/")):
        crawl_name = "a" if name == "a" else "b"
        said = f"scrapy pages: crawl {crawl_name!r} has no host {host!r}\n"
        assert await ended(name, "--host", host) == (3, said)
    assert (await ended("b", "--host", "nothere", "--status", "done"))[0] == 3
    assert (await ended("b", "--host", "h", "--status", "failed"))[0] == 0
    assert (await ended(str(crawl), "--host", "i"))[0] == 0
    assert (await ended("a", "--host", "waits"))[0] == 0
    assert (await ended("b", "--status", "failed"))[0] == 0
    assert (await ended("a"))[0] == 0


def test_name_and_number(scrapy_here, add_crawl, add_page):
    """A name means the pages of all its runs, a number those that this run was the last to touch."""
    first = add_crawl("a", run=1, status="sealed")
    second = add_crawl("a", run=2)
    add_page(first, "http://h/old")
    add_page(second, "http://h/new")
    assert len(scrapy_here("pages", "a").lines) == 2
    (line,) = scrapy_here("pages", str(first)).lines
    assert "http://h/old" in line


def test_piped_url_is_whole(scrapy_here, add_crawl, add_page):
    """Piped, nothing is cut, however long a URL is."""
    url = "http://h/" + "x" * 5000
    add_page(add_crawl("a"), url)
    assert scrapy_here("pages", "a").out.split("\t")[1] == url


def test_terminal(environment, add_crawl, add_page):
    """On a terminal a row is a line: the URL is cut, the figures are not."""
    add_page(add_crawl("a"), "http://h/" + "x" * 500, http_status=200, attempts=3)
    lines = on_terminal(environment | {"NO_COLOR": "1"}, "pages", "a").strip().splitlines()
    assert len(lines) == 2
    assert max(map(len, lines[1:])) <= 100
    assert "…" in lines[1]
    assert "200" in lines[1]


def test_many_rows_stream(environment, add_crawl, database):
    """The first rows are there before the last have been read, and leaving early is no error."""
    crawl = add_crawl("a")
    database.execute(
        "INSERT INTO page (crawl_name, url_key, crawl_id, first_crawl_id, url, canonical_url, host, depth,"
        " schedule_status, attempts, reported_at)"
        " SELECT 'a', decode(md5(n::text), 'hex'), %s, %s, 'http://h/' || n, 'http://h/' || n, 'h', 1,"
        " 'succeeded', 1, now() FROM generate_series(1, 50000) AS n",
        [crawl, crawl],
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "scrapy", "pages", "a"],
        cwd=PROJECT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.readline()
    process.stdout.close()
    with process.stderr as err:
        assert err.read() == b""
    assert process.wait(30) == 0
