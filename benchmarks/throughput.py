"""Pages per second beside Scrapy in memory and scrapy-redis, and of two workers beside one.

    python -m benchmarks.throughput [--hosts 10] [--pages 200] [--rounds 3] [--only NAME …]

Loopback hosts served by one nginx, pages of 8 KB with 21 links, the same for everybody. Every contestant may
have as much in flight as Scrapy's defaults allow (16, 8 a host). Scrapy in memory and scrapy-redis run with
Scrapy's own settings and a LinkExtractor spider. Ours run with the project's settings and everything on:
frontier, throttle, robots, text, health signal, store, lifecycle, all of Scrapy's middlewares. `site` is the
project's own spider, `unmodified` the LinkExtractor spider of the two others. `two-workers` are two processes
of `site` on one crawl; they are compared with one from the first answer to the last, without start-up.

Rounds are interleaved; medians and ratios are printed, for only ratios of one run mean anything on a machine
that others share. Two workers share the cores with nginx and PostgreSQL.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scrapy.settings import Settings

from benchmarks.website import served
from crawlproj.config import Config
from crawlproj.connections import ensure_servers

TWO = "two-workers"
CONTESTANTS = ("memory", "scrapy-redis", "site", "unmodified", TWO)
TIMEOUT = 300


def run(contestant: str, folder: Path, urls: list[str], redis_url: str) -> dict[str, float]:
    """Run one crawl, each worker in a process of its own, and return its figures."""
    workers = 2 if contestant == TWO else 1
    environment = {
        **os.environ,
        "BENCH_REDIS_URL": redis_url,
        "BENCH_CRAWL_NAME": f"bench-{uuid.uuid4().hex}",
    }
    name = "site" if contestant == TWO else contestant
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.contestants", name, str(folder), *urls]
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        for _ in range(workers)
    ]
    with ThreadPoolExecutor() as readers:  # of both at once: a full pipe would hold its process up
        ended = list(readers.map(lambda process: process.communicate(timeout=TIMEOUT), started))
    for process, (stdout, stderr) in zip(started, ended, strict=True):
        if process.returncode or not stdout.strip():
            raise SystemExit(f"{contestant} failed:\n{stderr[-3000:]}")
    figures = [json.loads(stdout.splitlines()[-1]) for stdout, _ in ended]
    span = max(each["last"] for each in figures) - min(each["first"] for each in figures)
    return {
        "pages": sum(each["pages"] for each in figures),
        "seconds": span if workers > 1 else figures[0]["seconds"],
        "span": span,
        "cpu_seconds": sum(each["cpu_seconds"] for each in figures),
    }


def main() -> None:
    """Run the rounds and print medians and ratios."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--hosts", type=int, default=10)
    options.add_argument("--pages", type=int, default=200)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--only", nargs="*", choices=CONTESTANTS, default=CONTESTANTS)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = Settings()
        settings.setmodule("crawlproj.settings")
        settings.set("CRAWLPROJ_HOME", str(folder / "home"))
        redis_url = ensure_servers(Config.from_settings(settings)).redis_url
        rates: dict[str, list[float]] = {contestant: [] for contestant in given.only}
        costs: dict[str, list[float]] = {contestant: [] for contestant in given.only}
        spans: dict[str, list[float]] = {contestant: [] for contestant in given.only}
        with served(folder, given.hosts, given.pages) as urls:
            for turn in range(given.rounds):
                for contestant in given.only:
                    figures = run(contestant, folder, urls, redis_url)
                    if figures["pages"] < given.hosts * given.pages:
                        raise SystemExit(f"{contestant} fetched only {figures['pages']} pages")
                    rate = figures["pages"] / figures["seconds"]
                    rates[contestant].append(rate)
                    spans[contestant].append(figures["pages"] / figures["span"])
                    costs[contestant].append(figures["cpu_seconds"] / figures["pages"] * 1000)
                    print(f"round {turn + 1}  {contestant:<14}{rate:8.0f} pages/s", file=sys.stderr)
        report(rates, costs)
        if {"site", TWO} <= set(given.only):
            pairs = [two / one for one, two in zip(spans["site"], spans[TWO], strict=True)]
            shown = f"{statistics.median(pairs):.2f} ({min(pairs):.2f}-{max(pairs):.2f})"
            print(f"two workers are {shown} times one, from the first answer to the last")


def report(rates: dict[str, list[float]], costs: dict[str, list[float]]) -> None:
    """Print the table: medians, and each contestant as a multiple of the two others."""
    medians = {name: statistics.median(values) for name, values in rates.items()}
    print(f"{'contestant':<14}{'pages/s':>9}{'range':>14}{'CPU ms':>8}{'x memory':>10}{'x scrapy-redis':>16}")
    for name, median in medians.items():
        spread = f"{min(rates[name]):.0f}-{max(rates[name]):.0f}"
        row = f"{name:<14}{median:>9.0f}{spread:>14}{statistics.median(costs[name]):>8.2f}"
        for other, width in (("memory", 10), ("scrapy-redis", 16)):
            row += f"{median / medians[other]:>{width}.2f}" if other in medians else "-".rjust(width)
        print(row)


if __name__ == "__main__":
    main()
