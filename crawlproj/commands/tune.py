"""`scrapy tune`: a running crawl's knobs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from crawlproj import cli
from crawlproj.exceptions import Refused
from crawlproj.output import Column, Output

if TYPE_CHECKING:
    import argparse

    from crawlproj.crawls.rows import CrawlRow
    from crawlproj.frontier.frontier import Frontier

LETS_IN = "max_urls"  # the one limit that stops nothing: what a stopping run finds is still let in by it
COLUMNS = (
    Column(title="knob", key="knob"),
    Column(title="value", key="value", right=True),
    Column(title="setting", key="setting", spare=1),
    Column(title="meaning", key="meaning", flexible=True, fold=True),
)


class Command(cli.Command):
    """List a crawl's knobs, or turn them."""

    json = True
    usage = "NAME [KNOB=VALUE …] [--json]"
    summary = "List the knobs of a crawl, or turn some while it runs"
    details = (
        "NAME is a crawl's name or number. Every worker obeys at once; what is turned stays turned when\n"
        "workers come and go, until one comes with that setting on its command line. `scrapy host` turns\n"
        "the knobs of one host. A stop is final: limits of a run that stops are refused, and the\n"
        "next run has those of its settings. Exit code 4: the state of the run refuses it.\n"
        "Piped, separated by tabs: knob, value, setting, meaning."
    )
    examples = (
        "scrapy tune news",
        "scrapy tune news interval_ms=3000 max_target=50000",
    )
    arguments = (1, 99)

    def work(self, args: list[str], opts: argparse.Namespace) -> int | None:
        """Turn what is given, then list it, or everything."""
        from crawlproj.crawls import rows  # noqa: PLC0415  # keeps `scrapy` quick to start
        from crawlproj.knobs import KNOBS  # noqa: PLC0415

        wanted = dict(cli.knob_pair(text) for text in args[1:])
        addresses = self.addresses()
        with self.database(addresses) as connection:
            crawl = rows.find_crawl(connection, args[0])
        values = asyncio.run(self._turn(addresses, crawl, wanted))
        Output(as_json=opts.json).rows(
            COLUMNS,
            [
                {
                    "knob": name,
                    "value": knob.shown(values[name]) if knob.choices or not opts.json else values[name],
                    "setting": knob.setting,
                    "meaning": knob.help,
                }
                for name, knob in KNOBS.items()
                if not wanted or name in wanted
            ],
        )
        return None

    async def _turn(self, addresses: Any, crawl: CrawlRow, wanted: dict[str, Any]) -> dict[str, Any]:
        async with cli.frontier_of(addresses, crawl) as frontier:
            if wanted:
                why = await self._over(frontier, crawl, wanted)
                await frontier.set_crawl(**wanted)
                if why:
                    self.say(f"{why}; what is turned now counts for a run that goes on with its queue")
            return await frontier.crawl_knobs()

    async def _over(self, frontier: Frontier, crawl: CrawlRow, wanted: dict[str, Any]) -> str:
        """Return how the run is over, "" if it is not. Raises Refused for limits that are too late."""
        from crawlproj.knobs import LIMITS  # noqa: PLC0415  # keeps `scrapy` quick to start

        why = f"crawl {crawl.name!r}, run {crawl.run}, "
        if crawl.status == "sealed":
            why += "is sealed"
            late = [name for name in LIMITS if name in wanted]
        elif stop := (await frontier.refresh()).stop:
            why += f"stops already ({stop}), and a stop is final"
            late = [name for name in LIMITS if name in wanted and name != LETS_IN]
        else:
            return ""
        if late:
            raise Refused(
                f"{why}: {', '.join(late)} cannot change it, and the next run has limits of its own"
            )
        return why
