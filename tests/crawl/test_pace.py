"""What a host sees of a fleet: every two requests an interval apart, whatever brings them.

Only the smallest distance is looked at here: how near the mean comes to the interval is a benchmark's
matter (`python -m benchmarks.politeness`). When the host's own process stands still nobody knows when a
request came, and the longest time that may have passed counts. One request at a time: then the next one is
timed when the answer is there, and a worker that gets no processor makes the distance longer, never shorter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.paced import Course, TwoHosts, run

if TYPE_CHECKING:
    from crawlproj.demo import LoopThread
    from crawlproj.testing.project import Project

SLACK_MS = 5  # closer than this an event loop does not keep time


@pytest.mark.parametrize(("interval_ms", "pages"), [(1000, 10), (300, 30)], ids=["1000 ms", "300 ms"])
def test_four_workers_keep_the_interval(
    server_thread: LoopThread, scrapy: Project, interval_ms: int, pages: int
) -> None:
    """Pages, redirects to another host and from there, and robots.txt, of one host."""
    with TwoHosts(server_thread) as site:
        seen = run(scrapy, site, Course(interval_ms=interval_ms, pages=pages, within=110), "paced")
    assert seen.requests == pages + 1
    assert seen.smallest >= interval_ms - SLACK_MS


def test_workers_that_die_do_not_shorten_it(server_thread: LoopThread, scrapy: Project) -> None:
    """One of four is killed and started again every few requests; no page is lost."""
    course = Course(interval_ms=300, pages=25, kill_requests=6, lease_seconds=2, within=110)
    with TwoHosts(server_thread) as site:
        seen = run(scrapy, site, course, "killed")
    assert seen.kills >= 2
    assert seen.smallest >= course.interval_ms - SLACK_MS
