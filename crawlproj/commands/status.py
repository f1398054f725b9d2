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
from crawlproj.output import Output, ago, console, duration, flat, number, pairs_table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from psycopg import Connection

    from crawlproj.connections import Addresses
    from crawlproj.crawls.rows import CrawlRow

WATCH_SECONDS = 2.0
HOST_BOUND = 0.8  # the slowest host decides when it alone needs this share of the time that is left


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A run at one moment: what the contract names, and what only people ask."""

    record: dict[str, Any]
    spider: str
    hosts: Sequence[Mapping[str, Any]]
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
                _print(out, _standing(connection, addresses, crawl_id))
                return None
            with contextlib.suppress(KeyboardInterrupt):
                _watch(out, connection, addresses, crawl_id)
        return None


def _watch(out: Output, connection: Connection[Any], addresses: Addresses, crawl_id: int) -> None:
    with _screen(out) as show:
        while True:
            standing = _standing(connection, addresses, crawl_id)
            show(standing)
            if standing.record["status"] == "sealed":
                return
            time.sleep(WATCH_SECONDS)


@contextlib.contextmanager
def _screen(out: Output) -> Iterator[Any]:
    if not out.for_people:
        yield lambda standing: _print(out, standing)
        return
    from rich.live import Live  # noqa: PLC0415  # only when it is needed

    with Live(console=console(), auto_refresh=False) as live:
        yield lambda standing: live.update(pairs_table(_for_people(standing)), refresh=True)


def _print(out: Output, standing: Standing) -> None:
    if out.as_json:
        out.json(standing.record)
    else:
        out.record(_for_people(standing) if out.for_people else flat(standing.record))
    out.flush()


def _standing(connection: Connection[Any], addresses: Addresses, crawl_id: int) -> Standing:
    from crawlproj.crawls import rows  # noqa: PLC0415  # keeps `scrapy` quick to start

    crawl = rows.crawl(connection, crawl_id)
    figures, hosts = asyncio.run(_frontier(addresses, crawl))
    if hosts is None:
        hosts = [
            {"host": row["host"], "state": "exhausted", "queued": 0}
            for row in rows.hosts(connection, crawl.id)
        ]
    known = crawl.counts or {}
    if rows.is_counted(crawl.counts):
        counts = rows.by_status(known)
    else:
        counts = rows.count_pages(connection, [crawl.id])[crawl.id]
    if figures:  # what the pages do not know: they are in the frontier alone
        waiting = max(0, figures["queued"] - counts["schedule_status"].get("retry", 0))
        counts["schedule_status"] |= {"scheduled": waiting, "leased": figures["leased"]}
    record = {
        "name": crawl.name,
        "run": crawl.run,
        "status": crawl.status,
        "retry_at": crawl.retry_at,
        "stop_reason": crawl.stop_reason,
        "counts": counts,
        "queued": figures.get("queued", known.get("queued", 0)),
        "leased": figures.get("leased", known.get("leased", 0)),
        "started_targets": figures.get("started", known.get("started_targets", 0)),
        "results": figures.get("results", known.get("results", 0)),
        "hosts": dict.fromkeys(cli.HOST_STATES, 0) | Counter(row["state"] for row in hosts),
        "workers": rows.workers(connection, crawl.id),
        "started_at": crawl.started_at,
        "finished_at": crawl.finished_at,
    }
    return Standing(
        record=record,
        spider=crawl.spider,
        hosts=hosts,
        rests=bool(figures.get("paused")),
        fills=bool(figures.get("filling")),
    )


async def _frontier(
    addresses: Addresses, crawl: CrawlRow
) -> tuple[dict[str, int], list[dict[str, Any]] | None]:
    async with cli.open_frontier(addresses, crawl.frontier) as frontier:
        if frontier is None:
            return {}, None
        figures = await frontier.refresh()
        return figures._asdict(), [cli.host_row(view) for view in await frontier.hosts()]


def _for_people(standing: Standing) -> Iterator[tuple[str, str]]:
    record, now = standing.record, datetime.now(UTC)
    yield "crawl", f"{record['name']} · run {record['run']} · spider {standing.spider}"
    yield "status", _state(record, now)
    for kind, counts in record["counts"].items():
        # All four fetch statuses, always; of the seven others those that say something.
        shown = counts if kind == "fetch_status" else {status: n for status, n in counts.items() if n}
        yield kind, " · ".join(f"{status} {number(count)}" for status, count in shown.items())
    rests = "paused, waits for `scrapy resume` · " if standing.rests else ""
    if standing.fills:
        rests += "pages of earlier runs are coming in · "
    yield "frontier", f"{rests}queued {number(record['queued'])} · leased {number(record['leased'])}"
    yield "so far", f"targets {number(record['started_targets'])} · results {number(record['results'])}"
    if hosts := [f"{state} {number(count)}" for state, count in record["hosts"].items() if count]:
        yield "hosts", " · ".join(hosts)
    for worker in record["workers"]:
        left = (worker["expires_at"] - now).total_seconds()
        yield "worker", f"{worker['worker']} · {worker['phase']} · lease {duration(max(left, 0))}"
    yield from _outlook(standing, now)


def _state(record: Mapping[str, Any], now: datetime) -> str:
    words = [record["status"]]
    if record["stop_reason"]:
        words[0] += f" ({record['stop_reason']})"
    if record["started_at"] and record["status"] == "started":
        words[0] = f"started {ago(record['started_at'], now=now)}"
    elif record["started_at"]:
        words.append(f"started {ago(record['started_at'], now=now)}")
    if record["finished_at"]:
        took = f" after {duration((record['finished_at'] - record['started_at']).total_seconds())}"
        words.append(f"finished {ago(record['finished_at'], now=now)}{took if record['started_at'] else ''}")
    elif record["status"] == "queued" and record["retry_at"]:
        words.append("due now" if record["retry_at"] <= now else f"due {ago(record['retry_at'], now=now)}")
    return " · ".join(words)


def _outlook(standing: Standing, now: datetime) -> Iterator[tuple[str, str]]:
    """Say what the crawl waits for and how long it still takes, as far as can be told."""
    record = standing.record
    if record["status"] != "started" or standing.rests or not record["queued"] or not record["started_at"]:
        return
    alone, host = max(
        (
            (row["queued"] * (row["min_interval_ms"] or 0) / 1000, row)
            for row in standing.hosts
            if row["state"] != "retired"
        ),
        key=lambda pair: pair[0],
        default=(0.0, {}),
    )
    fetched = sum(record["counts"]["fetch_status"].values())
    passed = (now - record["started_at"]).total_seconds()
    overall = record["queued"] * passed / fetched if fetched else 0.0
    if alone:
        reckoning = f"{number(host['queued'])} \N{MULTIPLICATION SIGN} {number(host['min_interval_ms'])} ms"
        yield "slowest host", f"{host['host']} needs {duration(alone)} alone ({reckoning})"
    if overall:
        bound = "the pace of its slowest host" if alone >= HOST_BOUND * overall else "the number of workers"
        yield "time left", f"{duration(max(alone, overall))} if no new links are found · limited by {bound}"
