"""What a host sees of a fleet: every two requests an interval apart, whatever brings them.

Only the smallest distance is looked at here: how near the mean comes to the interval is a benchmark's
matter (`python -m benchmarks.politeness`). When the host's own process stands still nobody knows when a
request came, and the longest time that may have passed counts: the first test is of that. One request at a
time: then the next one is timed when the answer is there, and a worker that gets no processor makes the
distance longer, never shorter.
"""

from __future__ import annotations

import asyncio
import socket
import time
from typing import TYPE_CHECKING

import pytest

from benchmarks.paced import Course, TwoHosts, run

if TYPE_CHECKING:
    from crawlproj.demo import LoopThread
    from crawlproj.testing.project import Project

REQUEST = b"GET / HTTP/1.1\r\n\r\n"
SLACK_MS = 5  # closer than this an event loop does not keep time


@pytest.mark.parametrize("fresh", [True, False], ids=["fresh", "kept"])
def test_a_host_that_stands_still_makes_no_distance_shorter(server_thread: LoopThread, fresh: bool) -> None:
    """What comes while its loop is held up has come before the loop looks at the clock, not after that."""
    with TwoHosts(server_thread) as site, socket.socket() as client:

        async def ask() -> tuple[float, float]:
            host, turns, began, sent = site.hosts[site.measured], 0, time.monotonic(), 0.0
            before = len(host.requests)
            while len(host.requests) == before:
                if turns == 20:
                    if fresh:
                        client.connect((site.measured, site.port))
                    client.sendall(REQUEST)
                    sent = time.monotonic()
                turns += 1
                time.sleep(0.003)  # noqa: ASYNC251  # it is held up
                assert site._heart is not None
                site._heart.cancel()
                site._beat()
                await asyncio.sleep(0)
            return began, sent

        if not fresh:
            client.connect((site.measured, site.port))
            client.sendall(REQUEST)
            assert client.recv(1000)
        began, sent = server_thread.run(ask())
        assert began < site.hosts[site.measured].requests[-1].earliest <= sent


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
