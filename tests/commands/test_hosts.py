"""`scrapy hosts`."""

import pytest

from crawlproj.frontier.codec import Codec

FIELDS = [
    "host",
    "state",
    "queued",
    "in_flight",
    "min_interval_ms",
    "interval_source",
    "next_due_ms",
    "spent",
    "budget",
    "errors",
]


@pytest.fixture
async def frontier(made_frontier):
    """Yield the frontier of a started crawl `a`, with links on three hosts and one lease."""
    frontier = await made_frontier()
    urls = ["http://b.test/1", *(f"http://a.test/{n}" for n in range(3)), "http://c.test/1"]
    await frontier.schedule([Codec().encode_link(url, 0) for url in urls])
    await frontier.set_host("c.test", interval_ms=12_000, blocked=True)
    await frontier.next("w", 1, 60)
    return frontier


async def test_rows_have_the_fields_of_the_contract(scrapy, frontier):
    """--json has exactly the contract's fields, and the default order is the longest queue first."""
    rows = scrapy("hosts", "a", "--json").json
    assert [list(row) for row in rows] == [FIELDS] * 3
    assert [row["queued"] for row in rows] == sorted((row["queued"] for row in rows), reverse=True)
    assert rows[0]["host"] == "a.test"
    by_host = {row["host"]: row for row in rows}
    assert by_host["c.test"]["state"] == "retired"
    assert by_host["c.test"]["min_interval_ms"] == 12_000
    assert sum(row["in_flight"] for row in rows) == 1


async def test_state_and_sort(scrapy, frontier):
    """--state takes several, --sort any column; names go from a to z."""
    lines = scrapy("hosts", "a", "--sort", "host").lines
    assert [line.split("\t")[0] for line in lines] == ["a.test", "b.test", "c.test"]
    lines = scrapy("hosts", "a", "--state", "retired,exhausted").lines
    assert [line.split("\t")[0] for line in lines] == ["c.test"]
    done = scrapy("hosts", "a", "--state", "snoozed")
    assert (done.code, done.out) == (0, "")


def test_sealed_crawl_without_frontier(scrapy_here, add_crawl, add_page):
    """When the frontier is gone, the pages tell the hosts: all exhausted, unknown figures null."""
    crawl = add_crawl("a", status="sealed", counts={"fetch_status": {"done": 1}})
    add_page(crawl, "http://a.test/1")
    add_page(crawl, "http://b.test/1", fetch_status="failed", schedule_status="failed")
    rows = scrapy_here("hosts", "a", "--json", "--sort", "errors").json
    assert [(row["host"], row["state"], row["errors"]) for row in rows] == [
        ("b.test", "exhausted", 1),
        ("a.test", "exhausted", 0),
    ]
    assert list(rows[0]) == FIELDS
    assert rows[0]["min_interval_ms"] is None
