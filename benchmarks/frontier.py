"""The frontier alone, beside scrapy-redis' queue and filter: per second, CPU of the server, bytes per URL.

    python -m benchmarks.frontier [--urls 2000000] [--quick] [--server redis|valkey|both]

Links of 61 bytes to 10,000 hosts go through `Frontier.schedule`, `next` and `finish` of one process. Both
servers run with the embedded server's options: an append-only file, synced every second. scrapy-redis has
a server of its own, the same program, at 200,000 URLs; its turns are between ours. What it is compared by:
request_seen and push for a new URL, request_seen for a seen one, pop for lease and finish.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections import defaultdict
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy.settings import Settings

from benchmarks.links import as_on_pages, batches, entries, spread
from benchmarks.own_server import KINDS, OwnServer, own_server
from benchmarks.scrapy_redis_queue import ScrapyRedisQueue
from crawlproj.config import Config
from crawlproj.connections import open_redis
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.records import Outcome
from crawlproj.scripts import Scripts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crawlproj.frontier.entries import Entry

SIZES = (100_000, 200_000, 1_000_000, 2_000_000)
QUICK = 200_000
PEER_AT = 200_000
HOSTS = 10_000
ROUNDS = 3  # medians of
CALLERS = 4  # pages that report at the same time
LINKS, CYCLES, PEER_CALLS = 8_000, 4_000, 1_000  # of each operation in a round
CHUNK = 50_000  # entries made in advance: a million would take a gigabyte
GROWTH_BAR = 1.3
BARS = {
    "schedule new, 20": 50_000,
    "schedule new, 100": 100_000,
    "lease + finish, 16": 25_000,
    "lease + finish, 64": 60_000,
}
BYTES_BARS = {"queued": (65, 55), "seen": (11, 11)}  # and what would be better still
PEER_OF = {"schedule new": "new", "schedule seen": "seen", "lease + finish": "pop"}


class Figure(NamedTuple):
    """What one operation took, per URL."""

    seconds: float
    server: float  #: seconds of the server's processor
    client: float  #: seconds of ours

    @property
    def cpu(self) -> float:
        """Seconds of both processors."""
        return self.server + self.client

    @classmethod
    def median(cls, all_of_them: list[Figure]) -> Figure:
        """Return the median of each."""
        return cls(*(statistics.median(values) for values in zip(*all_of_them, strict=True)))


class Meter:
    """Keeps the figures of every operation, by its name and by how many URLs there were."""

    def __init__(self, server: OwnServer) -> None:
        self.figures: dict[tuple[str, int], list[Figure]] = defaultdict(list)
        self.server = server

    async def run(self, name: str, size: int, n: int, work: Callable[[], Awaitable[Any] | None]) -> Figure:
        """Time *work*, which does something with *n* URLs."""
        used, own, began = self.server.usage().cpu, time.process_time(), time.perf_counter()
        waiting = work()
        if waiting is not None:
            await waiting
        wall, client = time.perf_counter() - began, time.process_time() - own
        figure = Figure(wall / n, (self.server.usage().cpu - used) / n, client / n)
        self.figures[name, size].append(figure)
        return figure

    def note(self, name: str, size: int, figure: Figure) -> None:
        """Keep a figure that was reckoned."""
        self.figures[name, size].append(figure)

    def medians(self) -> dict[tuple[str, int], Figure]:
        """Return one figure for each."""
        return {key: Figure.median(values) for key, values in self.figures.items()}


class Load:
    """One frontier that is filled and asked, by one or two workers."""

    def __init__(self, workers: list[Frontier], meter: Meter) -> None:
        self._workers = workers
        self._meter = meter
        self.next = 0  #: the number of the next URL

    async def fill(self, until: int) -> None:
        """Bring it to *until* URLs, untimed."""
        while self.next < until:
            n = min(CHUNK, until - self.next)
            await self._schedule(entries(spread(self.next, n, HOSTS)), 100, n)
            self.next += n

    async def round(self, size: int) -> None:
        """Time every operation once."""
        await self._new("schedule new, 20", size, 20, spread)
        await self._new("schedule new, 100", size, 100, spread)
        await self._new("schedule new, 20 as on pages", size, 20, as_on_pages)
        known = entries(spread(0, LINKS, HOSTS))
        await self._meter.run("schedule seen, 20", size, LINKS, lambda: self._schedule(known, 20, 0))
        for n in (16, 64):
            await self._meter.run(f"lease + finish, {n}", size, CYCLES, partial(self._cycles, 1, n))
            name = f"lease + finish, {n} by 2 workers"
            await self._meter.run(name, size, CYCLES, partial(self._cycles, 2, n))

    async def _new(
        self, name: str, size: int, batch: int, links: Callable[[int, int, int], list[str]]
    ) -> None:
        found = links(self.next, LINKS, HOSTS)
        self.next += LINKS
        own, began = time.process_time(), time.perf_counter()
        made = entries(found)
        wall, client = time.perf_counter() - began, time.process_time() - own
        figure = await self._meter.run(name, size, LINKS, lambda: self._schedule(made, batch, LINKS))
        encoded = Figure(figure.seconds + wall / LINKS, figure.server, figure.client + client / LINKS)
        self._meter.note(f"{name}, encoding included", size, encoded)

    async def _schedule(self, made: list[Entry], batch: int, expected: int) -> None:
        """Let them in, some calls at a time, as pages that end at the same time do."""
        waiting = batches(made, batch)

        async def caller() -> int:
            return sum([await self._workers[0].schedule(each) for each in waiting])

        new = sum(await asyncio.gather(*(caller() for _ in range(CALLERS))))
        if new != expected:
            raise SystemExit(f"{new} of {len(made)} links were new to the frontier, not {expected}")

    async def _cycles(self, workers: int, n: int) -> None:
        left = CYCLES

        async def worker(name: str, frontier: Frontier) -> None:
            nonlocal left
            while left > 0:
                left -= n  # taken before the answer, or the other one would take it as well
                grants = (await frontier.next(name, n, 60)).grants
                if len(grants) < n:
                    raise SystemExit(f"{len(grants)} URLs were due, not {n}")
                ended = await asyncio.gather(
                    *(frontier.finish(each.token, Outcome.SUCCEEDED) for each in grants)
                )
                if not all(in_time for in_time, _ in ended):
                    raise SystemExit("a lease was lost")

        await asyncio.gather(*(worker(str(i), each) for i, each in enumerate(self._workers[:workers])))


async def measure(
    server: OwnServer, peer_server: OwnServer, most: int
) -> tuple[Meter, Meter, dict[str, float]]:
    """Fill one server and time every operation on the way; returns ours, the peer's, bytes per URL."""
    meter, peer_meter = Meter(server), Meter(peer_server)
    peer = ScrapyRedisQueue(peer_server, HOSTS)
    settings = Settings()
    settings.setmodule("crawlproj.settings")
    settings.set("MIN_INTERVAL_MS", 0)
    config = Config.from_settings(settings)
    empty = server.settled_memory()
    async with AsyncExitStack() as stack:
        workers = []
        for _ in range(2):
            client = open_redis(server.url)
            stack.push_async_callback(client.aclose)
            scripts = Scripts(client, "benchmark")
            stack.push_async_callback(scripts.close)
            workers.append(Frontier(client, scripts, "benchmark"))
            await workers[-1].create(config)
        load = Load(workers, meter)
        for size in sizes(most):
            await load.fill(size - 3 * LINKS * ROUNDS)
            if size == PEER_AT:
                peer.fill(PEER_AT)
            for _ in range(ROUNDS):
                await load.round(size)
                if size == PEER_AT:
                    await peer_meter.run("new", size, PEER_CALLS, lambda: peer.new(PEER_CALLS))
                    await peer_meter.run("seen", size, PEER_CALLS, lambda: peer.seen(PEER_CALLS))
                    await peer_meter.run("pop", size, PEER_CALLS, lambda: peer.pop(PEER_CALLS))
        bytes_of = await per_url(workers[0], server, empty)
    return meter, peer_meter, {**bytes_of, "peer queued": peer.per_queued, "peer seen": peer.per_seen}


def sizes(most: int) -> list[int]:
    """Return at how many URLs to measure."""
    return [size for size in SIZES if size < most] + [most]


async def per_url(frontier: Frontier, server: OwnServer, empty: int) -> dict[str, float]:
    """Return bytes per queued and per seen URL: with everything, and with the queues taken away."""
    figures = await frontier.refresh()
    full = server.settled_memory()
    seen_keys = f"{frontier.prefix}s:"
    names = [key for key in server.client.scan_iter(count=1000) if not key.decode().startswith(seen_keys)]
    for start in range(0, len(names), 1000):
        server.client.unlink(*names[start : start + 1000])
    seen = server.settled_memory()
    return {"queued": (full - seen) / figures.queued, "seen": (seen - empty) / figures.seen}


def report(server: OwnServer, most: int, meter: Meter, peer: Meter, bytes_of: dict[str, float]) -> None:
    """Print the tables."""
    ours, theirs = meter.medians(), {name: figure for (name, _), figure in peer.medians().items()}
    print(f"\n{server.label}, {HOSTS:,} hosts, append-only file synced every second; medians of {ROUNDS}")
    print(
        f"{'':<50}{'URLs':>10}{'per s':>9}{'server µs':>11}{'client µs':>11}{'x scrapy-redis':>16}"
        f"{'by CPU':>8}  bar"
    )
    for (name, size), figure in sorted(ours.items(), key=lambda row: (order(ours, row[0][0]), row[0][1])):
        other = theirs.get(PEER_OF[name.partition(",")[0]])
        rate = 1 / figure.seconds
        row = f"{name:<50}{size:>10,}{rate:>9,.0f}{figure.server * 1e6:>11.1f}{figure.client * 1e6:>11.1f}"
        row += f"{other.seconds / figure.seconds:>16.1f}{other.cpu / figure.cpu:>8.1f}" if other else ""
        print(row + (f"  {BARS[name]:,} {verdict(rate >= BARS[name])}" if name in BARS else ""))
    for name, figure in theirs.items():
        row = f"{'scrapy-redis ' + name:<50}{PEER_AT:>10,}{1 / figure.seconds:>9,.0f}"
        print(row + f"{figure.server * 1e6:>11.1f}{figure.client * 1e6:>11.1f}")
    first = sizes(most)[0]
    print(f"\nserver µs per URL, {most:,} against {first:,} (bar {GROWTH_BAR})")
    for name in dict.fromkeys(name for name, _ in ours if "encoding" not in name):
        growth = ours[name, most].server / ours[name, first].server
        print(f"  {name:<44}{growth:>6.2f} {verdict(growth <= GROWTH_BAR)}")
    print(f"\nbytes per URL at {most:,} (scrapy-redis at {PEER_AT:,})")
    for name, (bar, stretch) in BYTES_BARS.items():
        value = bytes_of[name]
        better = f", stretch {stretch} {verdict(value <= stretch)}" if stretch != bar else ""
        row = f"  {name:<8}{value:>7.1f} bar {bar} {verdict(value <= bar)}{better}"
        print(f"{row}; scrapy-redis {bytes_of['peer ' + name]:.0f}")


def order(rows: dict[tuple[str, int], Figure], name: str) -> int:
    """Return where an operation stands among the others."""
    return list(dict.fromkeys(each for each, _ in rows)).index(name)


def verdict(met: bool) -> str:
    """Say whether a bar was met."""
    return "met" if met else "missed"


def main() -> None:
    """Measure on one server after the other."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--urls", type=int, default=SIZES[-1])
    options.add_argument("--quick", action="store_true", help=f"{QUICK:,} URLs")
    options.add_argument("--server", choices=[*KINDS, "both"], default="both")
    given = options.parse_args()
    most = QUICK if given.quick else given.urls
    if most < PEER_AT:
        options.error(f"--urls must be at least {PEER_AT}: scrapy-redis is measured there")
    for kind in KINDS if given.server == "both" else [given.server]:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with own_server(kind, folder / "ours") as ours, own_server(kind, folder / "peer") as peer:
                report(ours, most, *asyncio.run(measure(ours, peer, most)))


if __name__ == "__main__":
    main()
