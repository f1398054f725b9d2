"""A fleet whose workers are killed at random: every URL is finished once, every host is asked politely.

    python -m benchmarks.fleet [--workers 4] [--kills 20] [--pages 3000] [--hosts 40] [--seed N]

Workers are real `scrapy crawl site` processes on one CRAWL_NAME; each that is killed (`kill -9`) is started
again at once. One page is not answered before the last kill is over and the rest is done: until then the
run cannot be sealed, so that the frontier can be looked at with its work done. What the hosts saw is measured
at the hosts: a request of a killed worker counts until its connection is gone. Exits with 1 if anything is
amiss; the seed that is printed repeats the choice of victims and moments, as far as a machine repeats itself.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import crawlproj.schema
from benchmarks.fleet_site import FleetSite, Served, pairs
from crawlproj.connections import connect_database, open_redis
from crawlproj.demo import LoopThread
from crawlproj.frontier.frontier import Frontier
from crawlproj.scripts import Scripts
from crawlproj.servers.embedded import join, leave

if TYPE_CHECKING:
    from collections.abc import Callable

    from crawlproj.frontier.records import Figures
    from crawlproj.testing.preloaded import Forked, Preloaded

NAME = "fleet"
SLACK = 0.005  #: seconds; closer than this an event loop does not keep time
POLL = 0.02
STARTING_SHARE = 0.2  # of the kills may hit a worker that has not asked any host yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is crawled, by whom, and how often somebody dies."""

    workers: int = 4
    kills: int = 20
    pages: int = 3000
    hosts: int = 40
    interval_ms: int = 250
    in_flight: int = 2  #: of one host
    lease_seconds: float = 5
    fastest: float = 0.05  #: answer, in seconds
    slowest: float = 0.6
    within: float = 600  #: seconds that the whole run may take
    seed: int = 1


@dataclass(slots=True, kw_only=True)
class Report:
    """How it went. `faults` is empty when every promise was kept."""

    seconds: float = 0
    kills: list[str] = field(default_factory=list)  #: one line each
    requests: int = 0
    again: int = 0  #: of these, for a page that had been asked for before
    most_open: int = 0  #: of one host at once
    smallest_gap: float = 0  #: seconds between two requests of one host
    early: list[str] = field(default_factory=list)  #: the requests that came too early, one line each
    faults: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return it as text for people."""
        return [
            *self.kills,
            f"{self.requests} requests in {self.seconds:.0f} s, {self.again} of them once more",
            f"at most {self.most_open} at once on a host, smallest gap {self.smallest_gap * 1000:.1f} ms",
            *self.early,
            *(f"FAULT {fault}" for fault in self.faults),
        ]


class Hopeless(Exception):
    """There is no point in waiting any longer."""


class Fleet:
    """The workers of one crawl, on servers that are there. *folder* gets their logs."""

    def __init__(
        self,
        plan: Plan,
        site: FleetSite,
        folder: Path,
        redis_url: str,
        database_url: str,
        *,
        preloaded: Preloaded | None = None,
    ) -> None:
        self.plan = plan
        self._preloaded = preloaded
        self.report = Report()
        self._site = site
        self._folder = folder
        self._redis_url = redis_url
        self._database_url = database_url
        self._chance = random.Random(plan.seed)
        self._names: dict[int, str] = {}  # of processes, by number; their logs and User-Agents have them
        self._running: list[subprocess.Popen[bytes] | Forked] = []
        self._began = time.monotonic()

    def run(self) -> Report:
        """Crawl, kill, look, and return what was found."""
        self._running = [self._start() for _ in range(self.plan.workers)]
        try:
            for number in range(self.plan.kills):
                self._kill(number)
            self._await(self._is_all_but_the_gate, "the frontier is not through")
            self._look_at_the_frontier()
            self._site.open_gate()
            self._await(lambda: all(each.poll() == 0 for each in self._running), "workers do not leave")
        except Hopeless as error:
            self._fault(str(error))
        finally:
            for each in self._running:
                if each.poll() is None:
                    each.kill()
                each.wait()
        self.report.seconds = time.monotonic() - self._began
        self._look_at_the_store()
        self._look_at_the_hosts()
        return self.report

    # --- workers ------------------------------------------------------------------------------------

    def _start(self) -> subprocess.Popen[bytes] | Forked:
        plan, name = self.plan, f"worker-{len(self._names) + 1}"
        settings = {
            "CRAWL_NAME": NAME,
            "MIN_INTERVAL_MS": plan.interval_ms,
            "HOST_MAX_IN_FLIGHT": plan.in_flight,
            "LEASE_SECONDS": plan.lease_seconds,
            "FRONTIER_MAX_KILLS": plan.kills + 1,  # many of them may have held the gate
            "USER_AGENT": name,
            "DOWNLOAD_TIMEOUT": plan.within,  # the gate is slow
        }
        args = ["crawl", "site", "-a", f"seeds={self._site.url(0)}", "-a", "scope=any"]
        for setting, value in settings.items():
            args += ["-s", f"{setting}={value}"]
        root = Path(crawlproj.__path__[0]).parent
        environment = {**os.environ, "REDIS_URL": self._redis_url, "DATABASE_URL": self._database_url}
        with (self._folder / f"{name}.log").open("wb") as log:
            process: subprocess.Popen[bytes] | Forked
            if self._preloaded is not None:
                process = self._preloaded.start(args, folder=root, env=environment, output=log)
            else:
                process = subprocess.Popen(
                    [sys.executable, "-m", "scrapy", *args],
                    cwd=root,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
        self._names[process.pid] = name
        return process

    def _kill(self, number: int) -> None:
        """Kill one of the workers, when some more requests have come in, and start it again."""
        share = self.plan.pages // (self.plan.kills + 1)
        until = self._site.count + self._chance.randint(1, share)
        extra = self._chance.uniform(0, 0.2)
        starting_too = self._chance.random() < STARTING_SHARE
        which = self._chance.random()
        self._await(lambda: self._site.count >= until, f"the crawl stands still before kill {number + 1}")
        time.sleep(extra)  # the moment is the point
        everybody = range(self.plan.workers)
        at_work = [n for n in everybody if self._names[self._running[n].pid] in self._site.agents]
        victims = everybody if starting_too else at_work or everybody
        victim = victims[int(which * len(victims))]
        process = self._running[victim]
        process.send_signal(signal.SIGKILL)
        if process.wait() != -signal.SIGKILL:
            self._fault(f"{self._names[process.pid]} had ended before, with {process.returncode}")
        self._running[victim] = self._start()
        at = time.monotonic() - self._began
        self.report.kills.append(f"kill {number + 1}: {self._names[process.pid]} after {at:.1f} s")

    def _await(self, condition: Callable[[], bool], otherwise: str) -> None:
        while not condition():
            if broken := [each for each in self._running if each.poll()]:
                raise Hopeless(f"{self._names[broken[0].pid]} ended with {broken[0].returncode}: see its log")
            if time.monotonic() - self._began > self.plan.within:
                raise Hopeless(f"{otherwise}, and {self.plan.within:.0f} s are over")
            time.sleep(POLL)

    # --- what is looked at --------------------------------------------------------------------------

    def _fault(self, text: str) -> None:
        self.report.faults.append(text)

    def _is_all_but_the_gate(self) -> bool:
        figures = asyncio.run(self._figures())
        time.sleep(0.2)  # a look costs a connection
        return figures.queued == 0 and figures.leased == 1

    def _look_at_the_frontier(self) -> None:
        """With one page to go: nothing lost, nothing counted twice, all sums agree."""
        figures = asyncio.run(self._figures())
        for name, is_now, wanted in (
            ("results", figures.results, self.plan.pages - 1),
            ("seen", figures.seen, self.plan.pages),
            ("dead letters", figures.dead, 0),
        ):
            if is_now != wanted:
                self._fault(f"the frontier counts {is_now} {name} instead of {wanted}")
        for fault in asyncio.run(self._check()):
            self._fault(f"frontier: {fault}")

    def _look_at_the_store(self) -> None:
        """Every URL has one row that says done; the run is sealed, and nobody is on it."""
        with connect_database(self._database_url) as connection:
            rows = connection.execute("SELECT url, fetch_status, schedule_status FROM page").fetchall()
            runs = connection.execute("SELECT run, status, counts FROM crawl").fetchall()
            on_it = connection.execute("SELECT count(*) FROM worker_lease").fetchone()
        urls = [row[0] for row in rows]
        if len(urls) != len(set(urls)) or set(urls) != self._site.urls:
            lost = len(self._site.urls - set(urls))
            self._fault(f"the store has {len(urls)} pages, {len(set(urls))} URLs; {lost} are missing")
        if others := [row for row in rows if row[1:] != ("done", "succeeded")]:
            self._fault(f"{len(others)} pages are not done: {others[:5]}")
        if [run[:2] for run in runs] != [(1, "sealed")]:
            self._fault(f"the run is not sealed: {runs}")
        elif runs[0][2]["results"] != self.plan.pages:
            self._fault(f"the run counts {runs[0][2]['results']} results")
        if on_it != (0,):
            self._fault(f"workers are left on the run: {on_it}")

    def _look_at_the_hosts(self) -> None:
        """What each host saw: at most so many at once, and each start an interval after the one before."""
        report, interval = self.report, self.plan.interval_ms / 1000
        hosts = self._site.hosts.values()
        paths = [(served.host, served.path) for host in hosts for served in host.requests]
        report.requests = len(paths)
        report.again = len(paths) - len(set(paths))
        report.most_open = max(host.most_open for host in hosts)
        if report.most_open > self.plan.in_flight:
            self._fault(f"{report.most_open} requests were open at once on a host")
        found = [pair for host in hosts for pair in pairs(host)]
        report.smallest_gap = min((gap for _, _, gap in found), default=0.0)
        early = [pair for pair in found if pair[2] < interval - SLACK]
        report.early = [self._told(*pair) for pair in sorted(early, key=lambda pair: pair[2])]
        if early:
            self._fault(f"{len(early)} of {len(found)} requests came early")

    def _told(self, before: Served, after: Served, gap: float) -> str:
        """Return what is known of a request that came too early."""
        first, second = (
            f"{each.path} of {each.agent} at {each.began - self._began:.3f}{' (new connection)' * each.fresh}"
            for each in (before, after)
        )
        return f"early by {self.plan.interval_ms - gap * 1000:.1f} ms on {after.host}: {first}, {second}"

    async def _figures(self) -> Figures:
        async with _Look(self) as frontier:
            return await frontier.refresh()

    async def _check(self) -> list[str]:
        async with _Look(self) as frontier:
            return await frontier.check()

    def frontier_id(self) -> str:
        """Return the name of the run's frontier."""
        with connect_database(self._database_url) as connection:
            row = connection.execute("SELECT frontier FROM crawl").fetchone()
        assert row is not None
        return str(row[0])


class _Look:
    """The frontier of the run, over a connection of its own."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def __aenter__(self) -> Frontier:
        self._redis = open_redis(self._fleet._redis_url)
        self._scripts = Scripts(self._redis, "look")
        return Frontier(self._redis, self._scripts, self._fleet.frontier_id())

    async def __aexit__(self, *_: object) -> None:
        await self._scripts.close()
        await self._redis.aclose()


def serve(plan: Plan, loop: LoopThread) -> FleetSite:
    """Return the website of a plan, not listening yet."""
    return FleetSite(
        loop,
        hosts=plan.hosts,
        pages=plan.pages - 1,
        fastest=plan.fastest,
        slowest=plan.slowest,
        seed=plan.seed,
    )


def main() -> int:
    """Run a plan on servers of its own and print the report."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name in ("workers", "kills", "pages", "hosts"):
        options.add_argument(f"--{name}", type=int, default=getattr(Plan(), name))
    options.add_argument("--interval-ms", type=int, default=Plan().interval_ms)
    options.add_argument("--in-flight", type=int, default=Plan().in_flight)
    options.add_argument("--within", type=float, default=Plan().within, help="seconds for the whole run")
    options.add_argument("--seed", type=int, default=secrets.randbelow(2**32))
    plan = Plan(**vars(options.parse_args()))
    print(f"seed {plan.seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="fleet-"))
    home = folder / "home"
    joined = join(home)
    try:
        with connect_database(joined.database_url) as connection:
            crawlproj.schema.migrate(connection)
        with LoopThread() as loop, serve(plan, loop) as site:
            report = Fleet(plan, site, folder, joined.redis_url, joined.database_url).run()
    finally:
        leave(home, now=True)
    print("\n".join(report.lines()))
    print(f"the workers' logs are in {folder}")
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
