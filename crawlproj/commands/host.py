"""`scrapy host`: one host of a running crawl, and its knobs."""

from __future__ import annotations

import asyncio
from difflib import get_close_matches
from itertools import chain
from typing import TYPE_CHECKING, Any

from crawlproj import cli
from crawlproj.commands.hosts import due
from crawlproj.exceptions import BadArgument, NotFound, WrongUsage
from crawlproj.output import Output, flat, milliseconds, number

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from crawlproj.connections import Addresses
    from crawlproj.crawls.rows import CrawlRow
    from crawlproj.frontier.frontier import Frontier

FIRST_URLS = 5
LONGEST_NAME = 255
SOURCES = {
    "host": "its own",
    "robots": "its robots.txt's crawl-delay",
    "language": "that of its language",
    "default": "the crawl's",
}
SHORT = {"interval": "interval_ms", "budget": "total_budget", "precedence": "precedence"}


class Command(cli.Command):
    """Show one host of a crawl, or turn its knobs."""

    json = True
    usage = (
        "NAME HOST [--block | --unblock] [--interval MS] [--budget N] [--precedence N] [--delete] [--json]"
    )
    summary = "Show one host of a crawl, or change it while the crawl runs"
    details = (
        "NAME is a crawl's name or number, HOST the name of a queue as `scrapy hosts` lists it. Changes\n"
        "hold at once, for all workers. A host that the crawl has not met yet is remembered. --delete\n"
        "forgets what is queued for a host; its URLs stay seen, and a new one brings the host back: block\n"
        "it as well. --set here is this command's own; -s gives a setting, as everywhere.\n"
        "Piped: name and value, separated by a tab."
    )
    examples = (
        "scrapy host news m.example.hk",
        "scrapy host news m.example.hk --block",
        "scrapy host news m.example.hk --interval 5000 --set max_attempts=2",
        "scrapy host news m.example.hk --unset interval_ms    the crawl's own value again",
    )
    arguments = (2, 2)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add what can be changed."""
        super().add_options(parser)
        parser.add_argument(
            "--block", action="store_true", help="hand out nothing of it; what is queued stays"
        )
        parser.add_argument("--unblock", action="store_true", help="hand out its URLs again")
        parser.add_argument("--interval", metavar="MS", help="between two starts; as --set interval_ms=MS")
        parser.add_argument(
            "--budget", metavar="N", help="cost after which it retires; as --set total_budget=N"
        )
        parser.add_argument("--precedence", metavar="N", help="a lower one has its turn first")
        parser.add_argument("--delete", action="store_true", help="forget what is queued for it")
        parser.conflict_handler = "resolve"  # Scrapy's -s can be written --set, too
        for name, dest, value, meaning in (
            ("--set", "turn", "KNOB=VALUE", "turn a knob of this host; may be given again"),
            ("--unset", "give_back", "KNOB", "give a knob back to the crawl; may be given again"),
        ):
            parser.add_argument(name, dest=dest, metavar=value, action="append", default=[], help=meaning)

    def work(self, args: list[str], opts: argparse.Namespace) -> int | None:
        """Change what is to be changed, then show the host."""
        from crawlproj.crawls import rows  # noqa: PLC0415  # keeps `scrapy` quick to start

        knobs = _wanted(opts)
        _check(args[1], opts, knobs)
        addresses = self.addresses()
        with self.database(addresses) as connection:
            crawl = rows.find_crawl(connection, args[0])
        out = Output(as_json=opts.json)
        if opts.delete:
            taken = asyncio.run(_delete(addresses, crawl, args[1]))
            if out.as_json:
                out.json({"host": args[1], "deleted": taken})
            else:
                out.line(f"{args[1]} deleted · {number(taken)} queued URLs forgotten")
            return None
        record = asyncio.run(self._show(addresses, crawl, args[1], knobs, _blocked(opts)))
        if out.as_json:
            out.json(record)
        else:
            out.record(_for_people(record) if out.for_people else flat(record))
        return None

    async def _show(
        self,
        addresses: Addresses,
        crawl: CrawlRow,
        host: str,
        knobs: Mapping[str, float | None],
        blocked: bool | None,
    ) -> dict[str, Any]:
        from crawlproj.frontier.codec import Codec  # noqa: PLC0415
        from crawlproj.frontier.pending import pending_rows  # noqa: PLC0415  # keeps `scrapy` quick to start

        codec = Codec.from_config(cli.spider_config(self.given_settings, crawl.spider))
        async with cli.frontier_of(addresses, crawl) as frontier:
            if knobs or blocked is not None:
                await frontier.set_host(host, blocked=blocked, **knobs)
            view = await frontier.host(host)
            if view is None and not knobs and blocked is None:
                raise NotFound(await _no_host(frontier, crawl, host))
            urls: list[str] = []
            async for row in pending_rows(frontier, codec, host):
                if len(urls) == FIRST_URLS:
                    break
                urls.append(row["url"])
        if view is None:  # all that it had of its own has been taken away again
            return {"host": host, "state": None, "blocked": False, "knobs": {}, "next_urls": []}
        own = dict(view.knobs)
        return {
            **cli.host_row(view),
            "backs_off_ms": view.backs_off_ms,
            "blocked": bool(own.pop("blocked", 0)),
            "knobs": {name: _shown(name, value) for name, value in own.items()},
            "next_urls": urls,
        }


def _wanted(opts: argparse.Namespace) -> dict[str, float | None]:
    """Return the knobs to turn, None for one to give back. Raises BadArgument."""
    from crawlproj.knobs import parse_knob  # noqa: PLC0415  # keeps `scrapy` quick to start

    wanted: dict[str, float | None] = {}
    given = [(knob, getattr(opts, option)) for option, knob in SHORT.items()]
    pairs = [f"{knob}={value}" for knob, value in given if value is not None]
    for name, value in (cli.knob_pair(text, of_host=True) for text in chain(pairs, opts.turn)):
        if wanted.setdefault(name, value) != value:
            raise BadArgument(f"{name} is given twice, with different values")
    for name in opts.give_back:
        if name in wanted:
            raise BadArgument(f"{name} cannot be set and unset at once")
        _known(name, parse_knob)
        wanted[name] = None
    return wanted


def _known(name: str, parse_knob: Any) -> None:
    """Raise BadArgument for the name of no knob of a host."""
    from crawlproj.knobs import KNOBS  # noqa: PLC0415  # keeps `scrapy` quick to start

    if name not in KNOBS or not KNOBS[name].per_host:
        parse_knob(name, "0", of_host=True)  # says which there are


def _check(host: str, opts: argparse.Namespace, knobs: Mapping[str, Any]) -> None:
    """Refuse what makes no sense. Raises WrongUsage or BadArgument."""
    if opts.block and opts.unblock:
        raise WrongUsage("--block and --unblock contradict each other")
    if opts.delete and (knobs or opts.unblock):
        raise WrongUsage("--delete forgets the host with all its knobs: give it alone")
    if opts.delete and opts.block:
        raise WrongUsage("--delete and --block are two steps: delete first, then block")
    if not host or not host.isprintable() or " " in host or "/" in host or len(host) > LONGEST_NAME:
        raise BadArgument(f"{host[:80]!r} is no host: write it as `scrapy hosts` lists it")


def _blocked(opts: argparse.Namespace) -> bool | None:
    return True if opts.block else False if opts.unblock else None


async def _delete(addresses: Addresses, crawl: CrawlRow, host: str) -> int:
    async with cli.frontier_of(addresses, crawl, patience=None) as frontier:
        if await frontier.host(host) is None:
            raise NotFound(await _no_host(frontier, crawl, host))
        return await frontier.delete_host(host)


async def _no_host(frontier: Frontier, crawl: CrawlRow, host: str) -> str:
    names = [view.host for view in await frontier.hosts()]
    if close := get_close_matches(host, names, 1):
        return f"crawl {crawl.name!r} has no host {host!r}; the nearest name is {close[0]!r}"
    return f"crawl {crawl.name!r} has no host {host!r}; `scrapy hosts` lists what there is"


def _shown(name: str, value: float) -> Any:
    """Return a knob's value, in words where it has some."""
    from crawlproj.knobs import KNOBS  # noqa: PLC0415  # keeps `scrapy` quick to start

    knob = KNOBS.get(name)
    return knob.shown(value) if knob is not None and knob.choices else value


def _for_people(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "host", record["host"]
    if record["state"] is None:
        yield "state", "not met yet, and nothing of its own"
        return
    yield "state", f"{record['state']}{' · blocked' if record['blocked'] else ''}"
    yield "queued", f"{number(record['queued'])} · in flight {number(record['in_flight'])}"
    yield "interval", f"{milliseconds(record['min_interval_ms'])} · {SOURCES[record['interval_source']]}"
    backs_off = f" · backs off for {milliseconds(record['backs_off_ms'])}" if record["backs_off_ms"] else ""
    yield "due in", due(record["next_due_ms"]) + backs_off
    budget = "no limit" if record["budget"] < 0 else number(record["budget"])
    yield "spent", f"{number(record['spent'])} of {budget} · errors {number(record['errors'])}"
    if record["knobs"]:
        yield "own knobs", " · ".join(f"{name} {value}" for name, value in record["knobs"].items())
    for place, url in enumerate(record["next_urls"]):
        yield "" if place else "first URLs", url
