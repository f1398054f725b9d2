"""Pages per second beside Scrapy in memory and scrapy-redis.

    python -m benchmarks.throughput [--hosts 10] [--pages 200] [--rounds 3] [--only NAME …]

Loopback hosts served by nginx, pages of 8 KB with 21 links. Every contestant may have as much in
flight as Scrapy's defaults allow (16, 8 a host). Ours runs with everything on: frontier, throttle,
robots, text, health signal, store, lifecycle. Rounds are interleaved; medians and ratios are printed,
since only ratios of one run mean anything on a machine that others share.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from scrapy.settings import Settings

from benchmarks.website import served
from crawlproj.config import Config
from crawlproj.connections import ensure_servers

CONTESTANTS = ("memory", "scrapy-redis", "site", "unmodified")
TIMEOUT = 300


def run(contestant: str, folder: Path, urls: list[str], redis_url: str) -> dict[str, float]:
    """Run one crawl in a process of its own and return its figures."""
    environment = {**os.environ, "BENCH_REDIS_URL": redis_url}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.contestants", contestant, str(folder), *urls],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
        env=environment,
    )
    if done.returncode or not done.stdout.strip():
        raise SystemExit(f"{contestant} failed:\n{done.stderr[-3000:]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


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
        with served(folder, given.hosts, given.pages) as urls:
            for turn in range(given.rounds):
                for contestant in given.only:
                    figures = run(contestant, folder, urls, redis_url)
                    if figures["pages"] < given.hosts * given.pages:
                        raise SystemExit(f"{contestant} fetched only {figures['pages']} pages")
                    rate = figures["pages"] / figures["seconds"]
                    rates[contestant].append(rate)
                    costs[contestant].append(figures["cpu_seconds"] / figures["pages"] * 1000)
                    print(f"round {turn + 1}  {contestant:<14}{rate:8.0f} pages/s", file=sys.stderr)
        report(rates, costs)


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
