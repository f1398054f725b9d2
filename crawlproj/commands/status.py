"""`scrapy status`: the figures of one crawl."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from crawlproj import cli
from crawlproj.output import (
    Output,
    ago,
    console,
    duration,
    flat,
    milliseconds,
    number,
    pairs_table,
    size,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from psycopg import Connection

    from crawlproj.connections import Addresses
    from crawlproj.crawls.outlook import Use
    from crawlproj.crawls.pace import Pace
    from crawlproj.crawls.rows import CrawlRow

WATCH_SECONDS = 2.0
EASE = 4  # times as long as a look took, at least, pass until the next: at a large crawl it is work
MOST_WORKERS = 4  # of more than these only how many there are


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A run at one moment: what the contract names, and what only people ask."""

    record: dict[str, Any]
    crawl: CrawlRow
    hosts: Sequence[Mapping[str, Any]]
    limits: Sequence[Use]
    pace: Pace
    stopping: str | None  #: why it ends early, if it does
    last_note: Mapping[str, Any] | None
    rests: bool = False  #: its frontier is paused, whatever its row says
    fills: bool = False  #: what earlier runs know is still coming in


class Command(cli.Command):
    """Print the figures of a crawl."""

    json = True
    usage = "[NAME] [--watch] [--json]"
    summary = "Print the figures of a crawl: counts, queue, workers, what it waits for"
    details = (
        "NAME is a crawl's name or number; without it, the latest crawl.\n"
        "Piped: name and value, separated by a tab."
    )
    examples = ("scrapy status", "scrapy status news --watch", "scrapy status 18 --json")
    arguments = (0, 1)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add --watch."""
        super().add_options(parser)
        parser.add_argument(
            "--watch", action="store_true", help="again every 2 s, until it is sealed or Ctrl-C"
        )

    def work(self, args: list[str], opts: argparse.Namespace) -> int | None:
        """Print once, or again and again."""
        from crawlproj.crawls import rows  # noqa: PLC0415  # keeps `scrapy` quick to start

        out = Output(as_json=opts.json)
        addresses = self.addresses()
        with self.database(addresses) as connection:
            crawl_id = rows.find_crawl(connection, args[0] if args else None).id
            if not opts.watch:
                _print(out, look(connection, addresses, crawl_id))
                return None
            with contextlib.suppress(KeyboardInterrupt):
                _watch(out, connection, addresses, crawl_id)
        return None


def _watch(out: Output, connection: Connection[Any], addresses: Addresses, crawl_id: int) -> None:
    with _screen(out) as show:
        while True:
            began = time.monotonic()
            standing = look(connection, addresses, crawl_id)
            show(standing)
            if standing.record["status"] == "sealed":
                return
            time.sleep(max(WATCH_SECONDS, EASE * (time.monotonic() - began)))


@contextlib.contextmanager
def _screen(out: Output) -> Iterator[Any]:
    if not out.for_people:
        yield lambda standing: _print(out, standing)
        return
    from rich.live import Live  # noqa: PLC0415  # only when it is needed

    with Live(console=console(), auto_refresh=False) as live:
        yield lambda standing: live.update(pairs_table(for_people(standing)), refresh=True)


def _print(out: Output, standing: Standing) -> None:
    if out.as_json:
        out.json(standing.record)
    else:
        out.record(for_people(standing) if out.for_people else flat(standing.record))
    out.flush()


def look(connection: Connection[Any], addresses: Addresses, crawl_id: int) -> Standing:
    """Return how a run stands. Raises NotFound."""
    from crawlproj.crawls import outlook, pace, rows  # noqa: PLC0415  # keeps `scrapy` quick to start
    from crawlproj.crawls.notes import STOP_EARLY_REASON  # noqa: PLC0415

    crawl = rows.crawl(connection, crawl_id)
    frontier = asyncio.run(_frontier(addresses, crawl))
    figures, hosts = frontier.figures, frontier.hosts
    if hosts is None:
        hosts = [
            {"host": row["host"], "state": "exhausted", "queued": 0}
            for row in rows.hosts(connection, crawl.id)
        ]
    stop = rows.last_note(connection, crawl.id, STOP_EARLY_REASON)
    return Standing(
        record=_record(connection, crawl, figures, hosts),
        crawl=crawl,
        hosts=hosts,
        limits=outlook.uses(frontier.knobs, figures, rows.elapsed(connection, crawl.id)),
        pace=pace.merged(rows.paces(connection, crawl.id)),
        stopping=stop["message"] if stop and crawl.status != "sealed" else None,
        last_note=rows.last_note(connection, crawl.id),
        rests=bool(figures.get("paused")),
        fills=bool(figures.get("filling")),
    )


def _record(
    connection: Connection[Any],
    crawl: CrawlRow,
    figures: Mapping[str, Any],
    hosts: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return what the contract names, from the run's row, its pages and its frontier's *figures*."""
    from crawlproj.crawls import rows  # noqa: PLC0415  # keeps `scrapy` quick to start

    known = crawl.counts or {}
    # Until it has begun, the frontier that it takes over counts for the run before.
    begun = figures if crawl.started_at else {}
    return {
        "name": crawl.name,
        "run": crawl.run,
        "status": crawl.status,
        "retry_at": crawl.retry_at,
        "stop_reason": crawl.stop_reason,
        "counts": _counts(connection, crawl, figures),
        "queued": figures.get("queued", known.get("queued", 0)),
        "leased": figures.get("leased", known.get("leased", 0)),
        "started_targets": begun.get("started", known.get("started_targets", 0)),
        "results": begun.get("results", known.get("results", 0)),
        "hosts": dict.fromkeys(cli.HOST_STATES, 0) | Counter(row["state"] for row in hosts),
        "workers": rows.workers(connection, crawl.id),
        "started_at": crawl.started_at,
        "finished_at": crawl.finished_at,
    }


def _counts(
    connection: Connection[Any], crawl: CrawlRow, figures: Mapping[str, Any]
) -> dict[str, dict[str, int]]:
    """Return pages by fetch_status and by schedule_status."""
    from crawlproj.crawls import rows  # noqa: PLC0415  # keeps `scrapy` quick to start

    if crawl.counts is not None and rows.is_counted(crawl.counts):
        counts = rows.by_status(crawl.counts)
    else:
        counts = rows.count_pages(connection, [crawl.id])[crawl.id]
    if figures:  # what the pages do not know: they are in the frontier alone
        waiting = max(0, figures["queued"] - counts["schedule_status"].get("retry", 0))
        held = {"scheduled": waiting, "leased": figures["leased"], "dead": figures["dead"]}
        counts["schedule_status"] |= held
    return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frontier:
    """What Redis knows of a run; nothing of one that has no frontier (any more)."""

    figures: Mapping[str, Any]
    knobs: Mapping[str, Any]
    hosts: list[dict[str, Any]] | None


async def _frontier(addresses: Addresses, crawl: CrawlRow) -> _Frontier:
    async with cli.open_frontier(addresses, crawl.frontier) as frontier:
        if frontier is None:
            return _Frontier(figures={}, knobs={}, hosts=None)
        figures = await frontier.refresh()
        return _Frontier(
            figures=figures._asdict(),
            knobs=await frontier.crawl_knobs(),
            hosts=[cli.host_row(view) for view in await frontier.hosts()],
        )


def for_people(standing: Standing) -> Iterator[tuple[str, str]]:
    """Yield what people read, line by line: its name, its value."""
    record, crawl, now = standing.record, standing.crawl, datetime.now(UTC)
    yield "crawl", f"{crawl.name} · run {crawl.run} · spider {crawl.spider}"
    if crawl.label or crawl.tags:
        tags = f"tags {', '.join(crawl.tags)}" if crawl.tags else ""
        yield "label", " · ".join(filter(None, (crawl.label, tags)))
    yield "status", _state(standing, now)
    for kind, counts in record["counts"].items():
        # All four fetch statuses, always; of the seven others those that say something.
        shown = counts if kind == "fetch_status" else {status: n for status, n in counts.items() if n}
        if shown:
            yield kind, " · ".join(f"{status} {number(count)}" for status, count in shown.items())
    rests = "paused, waits for `scrapy resume` · " if standing.rests else ""
    if standing.fills:
        rests += "pages of earlier runs are coming in · "
    yield "frontier", f"{rests}queued {number(record['queued'])} · leased {number(record['leased'])}"
    yield "so far", f"targets {number(record['started_targets'])} · results {number(record['results'])}"
    if standing.limits and crawl.status != "sealed":
        yield "limits", " · ".join(_use(use) for use in standing.limits)
    if hosts := [f"{state} {number(count)}" for state, count in record["hosts"].items() if count]:
        yield "hosts", " · ".join(hosts)
    yield from _workers(standing, now)
    yield from _pace(standing)
    yield from _outlook(standing)
    said = standing.last_note
    if said is not None and said["message"] != standing.stopping:
        lately = (now - said["time"]).total_seconds() < 1
        yield "last note", f"{'just now' if lately else ago(said['time'], now=now)}: {said['message']}"


def _state(standing: Standing, now: datetime) -> str:
    record, crawl = standing.record, standing.crawl
    words = [record["status"]]
    if record["stop_reason"]:
        words[0] += f" ({record['stop_reason']})"
    if standing.stopping:
        words[0] += f", stopping: {standing.stopping}"
    elif record["started_at"] and record["status"] == "started":
        words[0] += f" {ago(record['started_at'], now=now)}"
    elif record["started_at"] and not record["finished_at"]:
        words.append(f"started {ago(record['started_at'], now=now)}")
    if record["finished_at"]:
        words[0] += f" {ago(record['finished_at'], now=now)}"
        if record["started_at"]:
            words.append(f"took {duration((record['finished_at'] - record['started_at']).total_seconds())}")
    elif record["status"] == "queued" and record["retry_at"]:
        words.append("due now" if record["retry_at"] <= now else f"due {ago(record['retry_at'], now=now)}")
    if crawl.repeat_seconds and record["status"] != "sealed":
        words.append(f"again every {duration(crawl.repeat_seconds)}")
    return " · ".join(words)


def _use(use: Use) -> str:
    if use.kind == "time":
        return f"{duration(use.used)} of {duration(use.most)}"
    if use.kind == "bytes":
        return f"{size(int(use.used))} of {size(int(use.most))}"
    return f"{use.kind} {number(use.used)} of {number(use.most)}"


def _workers(standing: Standing, now: datetime) -> Iterator[tuple[str, str]]:
    workers = standing.record["workers"]
    if len(workers) > MOST_WORKERS:
        yield "workers", number(len(workers))
        return
    for worker in workers:
        left = (worker["expires_at"] - now).total_seconds()
        yield "worker", f"{worker['worker']} · {worker['phase']} · lease {duration(max(left, 0))}"
    if not workers and standing.record["status"] == "started":
        yield "worker", "none"


def _pace(standing: Standing) -> Iterator[tuple[str, str]]:
    """Say how fast all workers are together."""
    from crawlproj.results.histogram import quantile  # noqa: PLC0415  # keeps `scrapy` quick to start

    durations = standing.pace.durations
    half, most = quantile(durations, 0.5), quantile(durations, 0.95)
    parts = [] if standing.pace.rate is None else [f"{standing.pace.rate:.1f} pages/s"]
    if half is not None:
        parts.append(f"P50 {milliseconds(half)} · P95 {milliseconds(most)}")
    if parts:
        yield "speed", " · ".join(parts)


def _outlook(standing: Standing) -> Iterator[tuple[str, str]]:
    """Say what the crawl waits for and how long it still takes, as far as can be told."""
    from crawlproj.crawls import outlook  # noqa: PLC0415  # keeps `scrapy` quick to start

    record = standing.record
    if record["status"] != "started" or standing.rests:
        return
    if standing.pace.limit is not None:
        cause, share = standing.pace.limit
        yield "limited by", f"{cause.value} ({share:.0%}){_HELP[cause.value]}"
    if standing.stopping:
        return  # what is queued is not fetched any more
    alone = outlook.slowest(standing.hosts)
    if alone is not None:
        reckoning = f"{number(alone.queued)} \N{MULTIPLICATION SIGN} {number(alone.interval_ms)} ms"
        if alone.rests_ms:
            reckoning = f"rests {duration(alone.rests_ms / 1000)}, then {reckoning}"
        yield "slowest host", f"{alone.host} needs {duration(alone.seconds)} alone ({reckoning})"
    held = sum(row["queued"] for row in standing.hosts if row["state"] == "retired")
    left = outlook.time_left(record["queued"] - held, standing.pace.rate, alone, standing.limits)
    if left is not None:
        seconds, by_limit = left
        why = "then a limit stops it" if by_limit else "if no new links are found"
        yield "time left", f"{duration(seconds)}, {why}"


_HELP = {
    "database": ": the store is behind",
    "workers": ": more of them would help",
    "host pace": ": more workers would not help",
    "nothing": "",
}
