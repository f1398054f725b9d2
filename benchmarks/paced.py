"""A crawl of one host by several workers, with all that may go past its interval, as the host sees it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.fleet_site import FleetSite, Served, message, pairs

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterable

    from crawlproj.demo import LoopThread
    from crawlproj.testing.project import Project

STEADY = 0.8  # of the pages: what comes after them waits for leases of the dead, and says nothing of the pace
NOBODY_TO_JOIN = 3
POLL = 0.02


class TwoHosts(FleetSite):
    """Two hosts that answer at once: the one that is measured, and another one.

    Both have a robots.txt. A page whose path begins with `/over` leads to the same page of the other host.
    """

    def __init__(self, loop: LoopThread) -> None:
        super().__init__(loop, hosts=2, pages=0, fastest=0, slowest=0.01, seed=1)
        self.measured, self.other = list(self.hosts)[:2]

    def seeds(self, pages: int) -> list[str]:
        """Return URLs that make so many requests to the measured host, robots.txt not counted.

        Three of ten lead from it to the other host, three come from there.
        """
        found = []
        for number in range(pages):
            here, there = self.measured, self.other
            if number % 10 < 3:
                found.append(f"http://{here}:{self.port}/over/{number}")
            elif number % 10 < 6:
                found.append(f"http://{there}:{self.port}/over/{number}")
            else:
                found.append(f"http://{here}:{self.port}/{number}")
        return found

    def reply(self, served: Served) -> bytes:
        """Return a page, a robots.txt, or the way to the other host."""
        if served.path == "/robots.txt":
            return message(b"200 OK", b"User-agent: *\nDisallow: /private\n")
        if served.path.startswith("/over/"):
            there = self.other if served.host == self.measured else self.measured
            target = f"http://{there}:{self.port}/{served.path.removeprefix('/over/')}"
            return message(b"302 Found", b"over there", f"Location: {target}\r\n".encode())
        return message(b"200 OK", b"<title>A page</title><p>It says nothing, and at once.</p>")

    def pages_asked(self) -> int:
        """Return how many pages of the measured host have been asked for."""
        return len({served.path for served in self.hosts[self.measured].requests} - {"/robots.txt"})

    def forget(self) -> None:
        """Begin anew."""
        for host in self.hosts.values():
            host.requests.clear()
        self.agents.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What is crawled, by whom, and how often somebody dies."""

    interval_ms: int
    pages: int  #: requests to the measured host
    workers: int = 4
    in_flight: int = 1
    kill_seconds: float = 0  #: so often one worker is killed and started again; 0: never,
    kill_requests: int = 0  #: or after so many requests, however long they take
    lease_seconds: float = 60
    robots_seconds: int = 86_400  #: how long a robots.txt is kept; then it is asked for again
    within: float = 300


class Seen(NamedTuple):
    """What the hosts saw, in milliseconds."""

    requests: int  #: to the measured host
    mean: float  #: between two of these
    smallest: float  #: between two of either host, at most: see `fleet_site.pairs`
    kills: int


class TooLong(Exception):
    """The crawl does not come to its end."""


def run(project: Project, site: TwoHosts, course: Course, name: str) -> Seen:
    """Crawl, kill, and return what the hosts saw. Raises TooLong."""
    site.forget()
    began = time.monotonic()
    workers = [_start(project, site, course, name) for _ in range(course.workers)]
    kills = 0
    while site.pages_asked() < course.pages * STEADY:
        _check(workers, course, began, site)
        if _is_due(site, course, kills, time.monotonic() - began):
            victim = kills % course.workers
            _kill(workers[victim])
            # Until somebody has come as far as the hosts there may be no run to join.
            workers[victim] = _start(project, site, course, name, join=bool(site.agents))
            kills += 1
        time.sleep(POLL)
    while any(worker.poll() is None for worker in workers):
        _check(workers, course, began, site)
        time.sleep(POLL)
    return _seen(site, course, kills)


def _start(
    project: Project, site: TwoHosts, course: Course, name: str, *, join: bool = False
) -> subprocess.Popen[str]:
    settings = {
        "CRAWL_NAME": name,
        "CRAWL_JOIN": join,
        "MIN_INTERVAL_MS": course.interval_ms,
        "HOST_MAX_IN_FLIGHT": course.in_flight,
        "LEASE_SECONDS": course.lease_seconds,
        "ROBOTS_CACHE_SECONDS": course.robots_seconds,
        "FRONTIER_MAX_KILLS": 1000,
        "LOG_LEVEL": "ERROR",
    }
    seeds = " ".join(site.seeds(course.pages))
    return project.start("crawl", "site", "-a", f"seeds={seeds}", "-a", "scope=any", settings=settings)


def _is_due(site: TwoHosts, course: Course, kills: int, seconds: float) -> bool:
    """Return whether the next worker is to be killed."""
    if course.kill_requests:
        return len(site.hosts[site.measured].requests) >= course.kill_requests * (kills + 1)
    return bool(course.kill_seconds) and seconds > course.kill_seconds * (kills + 1)


def _kill(worker: subprocess.Popen[str]) -> None:
    worker.kill()
    worker.communicate()


def _check(workers: Iterable[subprocess.Popen[str]], course: Course, began: float, site: TwoHosts) -> None:
    for worker in workers:
        if worker.poll() not in {None, 0, NOBODY_TO_JOIN}:
            raise TooLong(f"a worker ended with {worker.returncode}:\n{worker.communicate()[1][-3000:]}")
    if time.monotonic() - began > course.within:
        codes = [worker.poll() for worker in workers]
        asked = f"{site.pages_asked()} of {course.pages} pages were asked for"
        raise TooLong(f"{course.within:.0f} s are over, {asked}, the workers' exit codes are {codes}")


def _seen(site: TwoHosts, course: Course, kills: int) -> Seen:
    requests = sorted(site.hosts[site.measured].requests, key=lambda served: served.began)
    asked = {served.path for served in requests}
    if wrong := len(asked - {"/robots.txt"}) - course.pages:
        raise TooLong(f"the host was asked for {abs(wrong)} pages too {'many' if wrong > 0 else 'few'}")
    steady = requests
    if kills:
        paths: set[str] = set()
        for number, served in enumerate(requests):
            paths.add(served.path)
            if len(paths) > course.pages * STEADY:
                steady = requests[: number + 1]
                break
    mean = (steady[-1].began - steady[0].began) / (len(steady) - 1)
    hosts = (site.hosts[site.measured], site.hosts[site.other])
    smallest = min(gap for host in hosts for _, _, gap in pairs(host))
    return Seen(len(requests), mean * 1000, smallest * 1000, kills)
