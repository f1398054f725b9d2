"""How near a crawl of one host comes to its interval, as the host sees it.

    python -m benchmarks.politeness [--pages 100] [--interval 200] [--seconds 60]

One host on loopback that answers at once; `scrapy crawl site` as a user runs it, alone and as a fleet of
four. Ideal is one page an interval, from the first page to the last: longer is time that the host would
have given, shorter would break the promise. The smallest gap says the same of every two requests.

Then fleets of four for so many *seconds*, at 1000 and 300 ms: three of ten pages lead to another host, three
come from there. The same with one worker killed every five seconds and started again, up to the last fifth.
"""

from __future__ import annotations

import argparse
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import crawlproj
from benchmarks.paced import Course, TwoHosts, run
from crawlproj.demo import LoopThread
from crawlproj.servers.embedded import join, leave
from crawlproj.testing.project import Project
from crawlproj.testing.site import Site

BAR = 0.03  # of the ideal time, above it
FLEETS = ((1, 1), (4, 1), (4, 4))  # workers, HOST_MAX_IN_FLIGHT
COURSES = (1000, 300)  # ms
KILL_SECONDS = 5
SLACK_MS = 5  # closer an event loop does not keep time
TIMEOUT = 600


class Seen(NamedTuple):
    """What the host saw of one crawl, in seconds."""

    total: float  #: from the first page to the last
    smallest_gap: float  #: between any two requests, robots.txt included
    largest_gap: float


def crawl(project: Project, site: Site, pages: int, interval_ms: int, workers: int, in_flight: int) -> Seen:
    """Crawl every page once and return what the host saw."""
    site.requests.clear()
    settings = {
        "CRAWL_NAME": f"politeness-{workers}-{in_flight}",
        "MIN_INTERVAL_MS": interval_ms,
        "HOST_MAX_IN_FLIGHT": in_flight,
    }
    seeds = " ".join(f"{site.url}/page/{number}" for number in range(pages))
    running = [
        project.start("crawl", "site", "-a", f"seeds={seeds}", settings=settings) for _ in range(workers)
    ]
    for worker in running:
        _, stderr = worker.communicate(timeout=TIMEOUT)
        if worker.returncode:
            raise SystemExit(f"a worker ended with {worker.returncode}:\n{stderr[-3000:]}")
    arrivals = sorted(hit.at for hit in site.requests if hit.path.startswith("/page/"))
    if len(arrivals) != pages:
        raise SystemExit(f"the host saw {len(arrivals)} requests for {pages} pages")
    gaps = [after - before for before, after in pairwise(sorted(hit.at for hit in site.requests))]
    return Seen(arrivals[-1] - arrivals[0], min(gaps), max(gaps))


def courses(project: Project, site: TwoHosts, seconds: float) -> None:
    """Crawl with redirects between two hosts, with and without kills, and print a row for each."""
    print(
        "\nfour workers, redirects to another host and from there, robots.txt included; means and gaps in ms"
    )
    print(
        f"{'interval':>9}{'in flight':>10}{'kills':>6}{'requests':>9}{'mean':>9}{'above':>8}{'smallest':>9}"
    )
    for interval_ms in COURSES:
        for in_flight, kill_seconds in ((1, 0), (4, 0), (1, KILL_SECONDS), (4, KILL_SECONDS)):
            course = Course(
                interval_ms=interval_ms,
                pages=round(seconds * 1000 / interval_ms),
                in_flight=in_flight,
                kill_seconds=kill_seconds,
                lease_seconds=5 if kill_seconds else 60,
                robots_seconds=10,
                within=10 * seconds + 60,
            )
            seen = run(project, site, course, f"course-{interval_ms}-{in_flight}-{kill_seconds}")
            above = seen.mean / interval_ms - 1
            kept = seen.smallest >= interval_ms - SLACK_MS
            verdict = "kept" if kept and above <= BAR else "early" if not kept else "kept, slow"
            print(
                f"{interval_ms:>9}{in_flight:>10}{seen.kills:>9}{seen.requests:>9}{seen.mean:>9.1f}"
                f"{above:>9.1%}{seen.smallest:>13.1f}  {verdict}",
                flush=True,
            )


def main() -> None:
    """Crawl with every fleet and print a row for each."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--pages", type=int, default=100)
    options.add_argument("--interval", type=int, default=200, help="ms (default: %(default)s)")
    options.add_argument("--seconds", type=float, default=60, help="of each fleet of the second part")
    given = options.parse_args()
    ideal = (given.pages - 1) * given.interval / 1000
    folder = Path(crawlproj.__path__[0]).parent
    print(
        f"{given.pages} pages of one host, {given.interval} ms apart: ideal {ideal:.2f} s, bar {BAR:.0%} more"
    )
    print(f"{'workers':>8}{'in flight':>10}{'seconds':>9}{'above ideal':>13}{'gaps, ms':>16}")
    with tempfile.TemporaryDirectory() as name, LoopThread() as thread, Site(thread) as site:
        home = Path(name) / "home"
        addresses = join(home)
        env = {
            "CRAWLPROJ_HOME": str(home),
            "REDIS_URL": addresses.redis_url or "",
            "DATABASE_URL": addresses.database_url or "",
        }
        project = Project(folder, work=Path(name), env=env)
        site.add("/page/*", "<title>A page</title><p>It says nothing, and at once.</p>")
        try:
            project("migrate")
            for workers, in_flight in FLEETS:
                seen = crawl(project, site, given.pages, given.interval, workers, in_flight)
                above = seen.total / ideal - 1
                gaps = f"{seen.smallest_gap * 1000:.1f}-{seen.largest_gap * 1000:.1f}"
                verdict = "met" if above <= BAR else "missed"
                print(f"{workers:>8}{in_flight:>10}{seen.total:>9.2f}{above:>13.2%}{gaps:>16}  {verdict}")
            with TwoHosts(thread) as hosts:
                courses(project, hosts, given.seconds)
        finally:
            project.close()
            leave(home, now=True)


if __name__ == "__main__":
    main()
