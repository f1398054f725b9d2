"""What a report does when the connection to Redis is lost in the middle of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from crawlproj.frontier.codec import Codec
from crawlproj.frontier.records import Figures
from crawlproj.frontier.seen_cache import SeenCache
from crawlproj.intake import Intake
from crawlproj.items import FetchStatus, Lease, PageObject, ScheduleStatus, Visit
from pipelines.report import ReportPipeline

CODEC = Codec()
LEASE = Lease(token=1, host="e.test", attempts=0, min_interval_ms=None, expires_at=0)


class Stats(dict):
    """Counts as Scrapy's statistics do."""

    def inc_value(self, name, by=1):
        self[name] = self.get(name, 0) + by


class LosingFrontier:
    """Takes whatever comes; the connection is lost while the calls that *loses* says are under way.

    No real server can be made to lose just what it had confirmed of one call, between two scripts of it.
    """

    def __init__(self, seen, loses, *, in_time=True, turns_away=0):
        self.sent = []
        self.figures = Figures()
        self._turns_away = turns_away
        self._seen, self._loses, self._in_time = seen, list(loses), in_time

    def _call(self, links):
        self.sent.append([entry.url for entry in links])
        self.figures = self.figures._replace(over=self.figures.over + self._turns_away)
        if self._loses.pop(0):
            self._seen.clear()

    async def schedule(self, links):
        self._call(links)
        return len(links)

    async def finish(self, token, outcome, *, outlinks, **_):
        self._call(outlinks)
        return self._in_time, len(outlinks)


def link(path):
    return CODEC.encode_link(f"http://e.test/{path}", 1)


async def report(loses, *, known_before=False, in_time=True, turns_away=0):
    """Report a page with one new link and one known one; return what was sent, and the cache."""
    seen = SeenCache(100)
    page = CODEC.decode("e.test", b"h0/")
    visit = Visit(lease=LEASE, entry=page, known_links=["http://e.test/known"], known_since=seen.epoch)
    if known_before:
        seen.clear()
    frontier = LosingFrontier(seen, loses, in_time=in_time, turns_away=turns_away)
    noted: list[PageObject] = []
    worker = SimpleNamespace(
        visits={1: visit}, seen=seen, frontier=frontier, codec=CODEC, after_finish=[], tally=Counter(),
        results=SimpleNamespace(note=noted.append),
    )  # fmt: skip
    done = PageObject(
        url=page.url,
        canonical_url=page.canonical,
        key=page.key,
        lease=LEASE,
        depth=0,
        source_tag=None,
        fetched_at=datetime.now(UTC),
        duration_ms=1,
        http_status=200,
        outlinks=(link("new"),),
        fetch_status=FetchStatus.DONE,
        schedule_status=ScheduleStatus.SUCCEEDED,
    )
    await ReportPipeline(worker, Stats())._report(done)
    assert noted == [done]
    return frontier.sent, seen


async def test_with_no_loss_known_links_cost_nothing():
    """The report is all that goes, and its links are known from then on."""
    sent, seen = await report([False])
    assert sent == [["http://e.test/new"]]
    assert "http://e.test/new" in seen


async def test_links_that_may_have_been_turned_away_are_not_taken_for_known():
    """They come in when they are found again, once there is room."""
    _, seen = await report([False], turns_away=1)
    assert "http://e.test/new" not in seen


async def test_links_that_were_known_before_a_loss_go_again():
    """Ahead of the report, so that the page's lease still stands for them."""
    sent, _ = await report([False, False], known_before=True)
    assert sent == [["http://e.test/known"], ["http://e.test/new"]]


async def test_a_loss_during_the_report_sends_all_its_links_again():
    """What went in its first scripts may be gone, and is not taken for seen."""
    sent, seen = await report([True, False])
    assert sent == [["http://e.test/new"], ["http://e.test/new", "http://e.test/known"]]
    assert "http://e.test/new" not in seen


async def test_a_late_report_sends_nothing_after_it():
    """Whoever has the page now reports its links."""
    sent, _ = await report([True], in_time=False)
    assert sent == [["http://e.test/new"]]


@pytest.mark.parametrize("losses", [1, 2])
async def test_a_loss_while_start_requests_go_sends_them_again(losses):
    """Until one connection has taken them all."""
    seen = SeenCache(100)
    frontier = LosingFrontier(seen, [True] * losses + [False])
    worker = SimpleNamespace(seen=seen, frontier=frontier, codec=CODEC, config=None)
    intake = Intake(SimpleNamespace(stats=Stats()), worker, added=lambda: None)
    entries = [link("1"), link("2")]
    intake.pending = list(entries)
    async with asyncio.timeout(5):
        await intake.send()
    assert frontier.sent == [[entry.url for entry in entries]] * (losses + 1)
    assert intake.pending == []
    assert all(entry.fingerprint in seen for entry in entries)
