"""Workers of one crawl that die again and again, measured at the hosts."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from benchmarks.fleet import Fleet, Plan, serve
from crawlproj.connections import connect_database
from crawlproj.testing.project import TIMEOUT
from tests.crawl.support import linking, poll

if TYPE_CHECKING:
    from pathlib import Path

    from crawlproj.demo import LoopThread
    from crawlproj.testing.preloaded import Preloaded
    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site


@pytest.mark.timeout(360)
def test_a_fleet_that_is_killed_finishes_every_url_once(
    server_thread: LoopThread,
    tmp_path: Path,
    redis_url: str,
    database_url: str,
    preloaded: Preloaded | None,
) -> None:
    """3 workers, 8 kills, 600 URLs on 20 hosts: none lost, none twice, hosts' limits kept, the run sealed.

    One request at a time on a host: then its distance holds on the slowest machine, for the next one is timed
    when the answer to the one before is there. With more, a worker that gets no processor is late.
    """
    plan = Plan(
        workers=3, kills=8, pages=600, hosts=20, in_flight=1, interval_ms=150, slowest=0.3,
        lease_seconds=3, within=300, seed=5,
    )  # fmt: skip
    with serve(plan, server_thread) as site:
        report = Fleet(plan, site, tmp_path, redis_url, database_url, preloaded=preloaded).run()
    assert report.faults == [], "\n".join(report.lines())
    assert len(report.kills) == plan.kills
    assert (
        report.requests == plan.pages + plan.hosts + 1 + report.again
    )  # each host's robots.txt, the gate's too


def test_a_worker_whose_run_another_one_sealed_has_finished(
    site: Site, scrapy: Project, database_url: str
) -> None:
    """It hears of it from its heartbeat, and nothing was interrupted: the exit code is 0."""
    answers = threading.Event()

    async def held(_: object) -> str:
        await asyncio.to_thread(answers.wait, TIMEOUT)
        return linking()

    site.add("/", held)
    settings = {"CRAWL_NAME": "sealed", "MIN_INTERVAL_MS": 0, "LEASE_SECONDS": 2}
    process = scrapy.start("crawl", "site", "-a", f"seeds={site.url}/", settings=settings)
    try:
        assert poll(lambda: site.hits["/"])
        with connect_database(database_url) as connection, connection.transaction():
            connection.execute("UPDATE crawl SET status = 'sealed', retry_at = NULL, finished_at = now()")
            connection.execute("DELETE FROM worker_lease")
        assert process.stderr is not None
        assert any("this worker stops" in line for line in process.stderr)
    finally:
        answers.set()
    stderr = process.communicate(timeout=TIMEOUT)[1]
    assert process.returncode == 0, stderr
