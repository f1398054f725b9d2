"""Whether a crawl of many hosts costs more for each of them, and what stays of a host that is done.

    python -m benchmarks.breadth [--hosts 20000] [--few 1000] [--urls 5]

Crawls in real Scrapy processes with everything on (frontier, robots, throttle, cookies, store), but for a
download handler that answers at once: of few hosts and of many, with the same pages on each. That of few
runs before and after the other, and their mean counts, for a machine that others share changes its pace.
Printed are the steps' times on the server and in the worker and their growth; the worker's memory and
containers when it has warmed up and at the end; the keys in Redis before and after. Keys that expire by
themselves (turns on a host, robots.txt) are counted apart.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from crawlproj.connections import open_redis_sync
from crawlproj.servers.embedded import join, leave

if TYPE_CHECKING:
    from redis import Redis

GROWTH_BAR = 1.3
STEPS = {
    "schedule": ("schedule",),
    "next": ("next",),
    "finish": ("finish",),
    "throttle": ("reserve", "release"),
    "robots": ("robots_look", "robots_save"),
}
GONE = -2  # expired between two looks
SAMPLE_SECONDS, SAMPLES = 0.5, 2048  # commands that the server notes between two looks: nearly all of them


class Sampler:
    """Asks the server now and then how long its last scripts took."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self.micros: dict[str, list[int]] = defaultdict(list)
        client.config_set("slowlog-log-slower-than", 0)
        client.config_set("slowlog-max-len", SAMPLES)
        self._last = -1

    def look(self) -> None:
        """Note what is new."""
        entries = self._client.slowlog_get(SAMPLES)
        for entry in entries:
            words = entry["command"].split(b" ", 2)
            if entry["id"] > self._last and words[0] == b"EVALSHA":
                self.micros[words[1].decode()].append(entry["duration"])
        self._last = max((entry["id"] for entry in entries), default=self._last)


def crawl(hosts: int, urls: int, home: Path, client: Redis) -> dict[str, Any]:
    """Crawl and return the figures of the worker, the server's times by step among them."""
    sampler = Sampler(client)
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "benchmarks.wide_crawl",
        str(hosts),
        str(urls),
        str(home),
    ]
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, env={**os.environ, "PYTHONUNBUFFERED": "1"})
        most = 0
        while process.poll() is None:
            time.sleep(SAMPLE_SECONDS)
            sampler.look()
            most = max(most, int(client.dbsize()))
            if sys.stderr.isatty():
                print(f"\r{hosts:,} hosts: {int(client.dbsize()):,} keys ", end="", file=sys.stderr)
        output.seek(0)
        lines = output.read().splitlines()
    if process.returncode or not lines:
        raise SystemExit(f"the crawl of {hosts} hosts ended with {process.returncode}")
    figures: dict[str, Any] = json.loads(lines[-1])
    if figures["pages"] != hosts * urls:
        raise SystemExit(f"{figures['pages']} pages were fetched, not {hosts * urls}")
    micros = {
        figures["names"][sha]: fmean(values)  # of full batches and of small ones
        for sha, values in sampler.micros.items()
        if sha in figures["names"]
    }
    figures["server"] = {
        step: sum(micros.get(name, 0) * figures["calls"].get(name, 0) for name in names) / figures["pages"]
        for step, names in STEPS.items()
    }
    figures["worker"] = {
        step: sum(figures["medians"].get(name, 0) * 1e6 for name in names) for step, names in STEPS.items()
    }
    figures["most_keys"] = most
    return figures


def keys(client: Redis) -> tuple[Counter[str], Counter[str], int]:
    """Return how many keys stay and how many expire, by family, and when the last one does, in s."""
    stay: Counter[str] = Counter()
    expire: Counter[str] = Counter()
    longest = 0
    names = list(client.scan_iter(count=1000))
    for start in range(0, len(names), 1000):
        pipe = client.pipeline(transaction=False)
        for name in names[start : start + 1000]:
            pipe.ttl(name)
        for name, ttl in zip(names[start : start + 1000], pipe.execute(), strict=True):
            if ttl == GONE:
                continue
            family = ":".join(name.decode("utf-8", "replace").lstrip("{").split(":")[:2])
            (stay if ttl < 0 else expire)[family] += 1
            longest = max(longest, ttl)
    return stay, expire, longest


def report(few: dict[str, Any], many: dict[str, Any], hosts: tuple[int, int]) -> None:
    """Print the times and the memory."""
    print(f"{'':<10}{'server µs per page':>26}{'growth':>9}{'worker µs per call':>28}{'growth':>9}")
    for step in STEPS:
        row = f"{step:<10}"
        for kind, width in (("server", 16), ("worker", 18)):
            before, after = few[kind][step], many[kind][step]
            growth = after / before
            row += f"{before:>{width}.1f}{after:>10.1f}{growth:>9.2f}"
            if kind == "server":
                verdict = "met" if growth <= GROWTH_BAR else "missed"
        print(f"{row}  bar {GROWTH_BAR} {verdict}")
    for figures, number in ((few, hosts[0]), (many, hosts[1])):
        first, last = (rss / 2**20 for rss in figures["rss"])
        pages, cpu = figures["pages"], figures["cpu_seconds"] / figures["pages"] * 1000
        print(f"\n{number:,} hosts: {pages:,} pages in {figures['seconds']:.0f} s, {cpu:.2f} ms CPU each")
        each = (last - first) * 1024 / number
        print(f"  memory: {first:.0f} MB warm, {last:.0f} MB at the end, {each:.1f} KB a host")
        for name, before, after in figures["grown"]:
            print(f"  container {name}: {before:,} -> {after:,}")
        for name, before, after in figures["more"]:
            print(f"  objects   {name}: {before:,} -> {after:,}")


def with_means(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of *one*, its times those of both."""
    return one | {
        kind: {step: (one[kind][step] + other[kind][step]) / 2 for step in STEPS}
        for kind in ("server", "worker")
    }


def main() -> None:
    """Crawl few hosts, many, and few once more, and compare."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--hosts", type=int, default=20_000)
    options.add_argument("--few", type=int, default=1_000)
    options.add_argument("--urls", type=int, default=5)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        home = Path(name) / "home"
        client = open_redis_sync(join(home).redis_url or "")
        try:
            few = crawl(given.few, given.urls, home, client)
            client.flushdb()
            many = crawl(given.hosts, given.urls, home, client)
            stay, expire, longest = keys(client)
            client.flushdb()
            few = with_means(few, crawl(given.few, given.urls, home, client))
            report(few, many, (given.few, given.hosts))
            most = many["most_keys"]
            print(f"\nkeys in Redis: 0 before, {most:,} at most, {stay.total():,} stay {dict(stay)}")
            print(f"  {expire.total():,} expire by themselves, the last in {longest} s: {dict(expire)}")
        finally:
            client.close()
            leave(home, now=True)


if __name__ == "__main__":
    main()
