"""Bring what earlier runs of a crawl know into the frontier of its next run.

1. Pages that are not due are marked seen. Until that is done nothing is leased and nothing else enters.
2. Pages that are due are queued behind the start requests, those reported longest ago first, as they were
   asked for the last time. If the run before has left something queued, the links of the pages that are
   not due follow: what it left is among them.

One worker does it, the one that has the lock in PostgreSQL. The frontier keeps how far it is, so that another
one goes on when that one dies, and so that a frontier that is lost is filled again: a step is begun anew,
and nothing enters twice. Memory holds a batch at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

from psycopg.rows import dict_row
from scrapy import signals
from scrapy.exceptions import IgnoreRequest
from twisted.python.failure import Failure

from crawlproj.exceptions import Refused, UndecodableEntry
from crawlproj.frontier.records import MARKING, QUEUING
from crawlproj.frontier.requests import to_request
from crawlproj.frontier.seen_cache import SeenCache
from crawlproj.pages.rows import links
from crawlproj.recall import Recall, again, sql

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from psycopg import AsyncConnection
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler

    from crawlproj.connections import Database
    from crawlproj.crawls.admission import Admission
    from crawlproj.crawls.lifecycle import Crawl
    from crawlproj.frontier.codec import Codec
    from crawlproj.frontier.entries import Entry, Stored
    from crawlproj.frontier.frontier import Frontier

logger = logging.getLogger(__name__)

# Rows worked on before the event loop has its turn, a few ms: to mark one costs less than to queue it. Twice
# as many come from the server at once.
MARKED, QUEUED = 250, 50
POLL_SECONDS = 1.0  # how long the news that another worker is done, or dead, may take

_LOCK = 0x7265_7669  # "revi": of the advisory lock, beside the run's number


class Revisit:
    """Fills one run's frontier. It has *database* for itself: its transaction is as long as its work.

    *most*: seconds after a visit from which on any page is due. *wants* says of a page or link, as its entry
    reads, whether the spider as it is now would ask for it. *starts* is waited for before anything is queued.
    """

    def __init__(
        self,
        database: Database,
        frontier: Frontier,
        codec: Codec,
        crawl: Crawl,
        *,
        most: float,
        wants: Callable[[Stored], bool],
        starts: Callable[[], Awaitable[None]],
        seen_cache: int,
    ) -> None:
        self.marked = asyncio.Event()  #: links and start requests may enter
        self.done: Counter[str] = Counter()  #: not_due, queued, unwanted: pages, and links that were left
        self._database = database
        self._frontier = frontier
        self._codec = codec
        self._crawl = crawl
        self._run = {"crawl_name": crawl.name, "crawl_id": crawl.id, "most": most}
        self._wants = wants
        self._starts = starts
        self._recall = Recall(frontier, codec)
        self._sent = SeenCache(seen_cache)

    async def close(self) -> None:
        """Close its connection."""
        await self._database.close()

    async def run(self) -> None:
        """Fill the frontier, or wait until another worker has; at once if it is filled."""
        while True:
            try:
                figures = await self._frontier.refresh()
                step = 0 if figures.stop or figures.closed else figures.filling
            except Refused:  # another worker has sealed the run and dropped its frontier
                step = 0
            if step != MARKING:  # or nothing is leased any more, marked or not
                self.marked.set()
            if not step:
                return
            if not await self._database.run(self._fill):
                await asyncio.sleep(POLL_SECONDS)

    async def _fill(self, connection: AsyncConnection[Any]) -> bool:
        """Do what is left to do, unless somebody else does. A broken connection begins it again."""
        # Should this machine vanish, the server does not keep the lock for it; nor in a long outage of Redis.
        await connection.execute("SET LOCAL idle_in_transaction_session_timeout = '60s'")
        cursor = await connection.execute(sql("known_lock"), {"class": _LOCK, "crawl_id": self._crawl.id})
        row = await cursor.fetchone()
        if row is None or not row[0]:
            return False
        self.done.clear()
        try:
            if (await self._frontier.refresh()).filling == MARKING:
                async for rows in self._slices(connection, "known_pages", MARKED, due=False):
                    self.done["not_due"] += await self._recall.mark(rows)
                await self._frontier.fill(MARKING)
            self.marked.set()
            await self._starts()
            async for rows in self._slices(connection, "known_pages", QUEUED, due=True):
                await self._let_in([self._recall.known(row) for row in rows])
            async for rows in self._slices(connection, "known_pages_links", QUEUED):
                await self._let_in_links(rows)
            await self._frontier.fill(QUEUING)
        except Refused:  # stopped, and perhaps sealed by another worker
            return True
        self._say()
        return True

    async def _let_in_links(self, rows: Sequence[dict[str, Any]]) -> None:
        for row in rows:
            page = self._recall.page(row)
            fresh = [
                link
                for link in (*links(row["own_links"]), *links(row["object_links"]))
                if link.extra is not None or link.url not in self._sent
            ]
            for start in range(0, len(fresh), QUEUED):
                await self._let_in(
                    [
                        self._recall.entry(
                            link.url, link.extra, row["depth"] + 1 if link.depth is None else link.depth, page
                        )
                        for link in fresh[start : start + QUEUED]
                    ]
                )
                await asyncio.sleep(0)
            for link in fresh:
                if link.extra is None:  # most links of most pages, again and again
                    self._sent.add(link.url)

    async def _let_in(self, entries: Sequence[Entry | None]) -> None:
        readable = [entry for entry in entries if entry is not None]
        wanted = [again(entry) for entry in readable if self._wanted(entry)]
        self.done["unwanted"] += len(readable) - len(wanted)
        self.done["queued"] += await self._recall.let_in(wanted)

    def _wanted(self, entry: Entry) -> bool:
        stored = self._codec.decode(entry.host, entry.data.encode())
        # What is sent with a request was made for its moment: the page with the form makes it again.
        return stored.method == "GET" and not stored.body and self._wants(stored)

    async def _slices(
        self, connection: AsyncConnection[Any], query: str, size: int, **values: Any
    ) -> AsyncIterator[list[dict[str, Any]]]:
        """Yield the rows of a query, a few at a time, as the server hands them out, while the run goes on."""
        async with connection.cursor(name=query, row_factory=dict_row) as cursor:
            await cursor.execute(sql(query), {**self._run, **values})
            while rows := await cursor.fetchmany(2 * size):
                for start in range(0, len(rows), size):
                    if self._frontier.figures.stop:
                        raise Refused("the run has been stopped")
                    yield rows[start : start + size]
                    await asyncio.sleep(0)

    def _say(self) -> None:
        done = self.done
        if self._recall.unreadable:
            logger.warning("%d known pages or links cannot be read any more", self._recall.unreadable)
        logger.info(
            "What earlier runs know: %d are due and queued, %d not due, %d not wanted any more",
            done["queued"],
            done["not_due"],
            done["unwanted"],
        )


def wishes(crawler: Crawler, spider: Spider, admission: Admission) -> Callable[[Stored], bool]:
    """Return what says of a page or link that is known whether the spider as it is now would ask for it.

    The crawl must let it in, its callback must be there still and its depth within DEPTH_LIMIT. Whoever
    listens when requests are scheduled may refuse it (Offsite, for one), and so may the spider's own
    `revisits(request)`, if there is one.
    """
    depth_limit = crawler.settings.getint("DEPTH_LIMIT")
    asked: Callable[[Request], object] | None = getattr(spider, "revisits", None)

    def wants(known: Stored) -> bool:
        if depth_limit and known.depth > depth_limit:
            return False
        if not admission.is_open and admission.refusal(known.url, known.depth, embed=known.embeds > 0):
            return False
        try:
            request = to_request(known, spider)
        except UndecodableEntry:
            return False
        if asked is not None and not asked(request):
            return False
        answers = crawler.signals.send_catch_log(
            signals.request_scheduled, request=request, spider=spider, dont_log=IgnoreRequest
        )
        refusals = (each for _, each in answers if isinstance(each, Failure))
        return not any(isinstance(refusal.value, IgnoreRequest) for refusal in refusals)

    return wants
