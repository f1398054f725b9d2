"""Fill the lost frontier of a run again, from what PostgreSQL knows of its pages.

As in Heritrix's recovery there are two passes. First everything that has come to an end is marked seen, with
what counted as a target or a result. Then everything that was ever found is let in: pages that wait for
another attempt, with their attempts, and the links of all pages; the seen filter drops what has been done.
Start requests come back by themselves: their marks are gone, so the next worker's spider lets in again those
that have not been fetched. So do the pages that earlier runs know and that are due: the frontier is to be
filled again (`crawlproj.revisit`). Those that are not due are marked seen here, too, before any link enters.

The frontier is paused meanwhile. A rebuild that died is begun again from its start: nothing enters twice.
"""

from __future__ import annotations

import json
from base64 import b64decode
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from psycopg.rows import dict_row

from crawlproj.clean import as_jsonb
from crawlproj.crawls.resting import follow_row, status_of
from crawlproj.exceptions import BadUrl, Refused
from crawlproj.frontier.canonical import fingerprint, normalise
from crawlproj.frontier.seen_cache import SeenCache
from crawlproj.pages.revisit import Schedule
from crawlproj.pages.rows import links
from crawlproj.recall import Recall, sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from psycopg import Connection

    from crawlproj.config import Config
    from crawlproj.crawls.rows import CrawlRow
    from crawlproj.frontier.codec import Codec
    from crawlproj.frontier.entries import Entry
    from crawlproj.frontier.frontier import Frontier
    from crawlproj.pages.rows import Link

NAMESPACE = "REBUILD"
BATCH = 1000  # rows or links in memory at once, about

_LOCK = 0x7265_6275  # "rebu": of the advisory lock, beside the run's number


@dataclass(slots=True, kw_only=True)
class Rebuilt:
    """What went into a frontier."""

    seen: int = 0  #: pages that have come to an end
    retries: int = 0  #: of the queued, those that have been tried before
    queued: int = 0
    targets: int = 0
    results: int = 0
    unreadable: int = 0  #: links that no request can be made of any more


def check(connection: Connection[Any], crawl: CrawlRow) -> None:
    """Raise Refused for a run that cannot be rebuilt."""
    name = f"crawl {crawl.name!r}, run {crawl.run},"
    if crawl.status == "sealed":
        raise Refused(f"{name} is sealed: nothing of it is left to do")
    if crawl.config.get("recovery_log", True) is False:
        raise Refused(
            f"{name} keeps no links (FRONTIER_RECOVERY_LOG is off): there is nothing to rebuild from"
        )
    if next(_rows(connection, "rebuild_any", {"crawl_id": crawl.id}), None) is None:
        raise Refused(f"{name} has no page yet: there is nothing to rebuild from")


def is_unfinished(connection: Connection[Any], crawl_id: int) -> bool:
    """Say whether a rebuild of the run has been begun and has not come to its end."""
    last = next(_rows(connection, "last_note", {"crawl_id": crawl_id, "namespace": NAMESPACE}), None)
    return last is not None and last["fields"].get("state") == "begun"


async def rebuild(
    connection: Connection[Any],
    frontier: Frontier,
    codec: Codec,
    config: Config,
    crawl: CrawlRow,
    *,
    progress: Callable[[Rebuilt], None] = lambda _: None,
) -> Rebuilt:
    """Fill *frontier*, which is made if it is not there, and let it go on unless the run is paused.

    Raises Refused when somebody else is at it.
    """
    # Committed at once: should this one die, the next one knows that what is there is half of it.
    _note(connection, crawl.id, "begun", "the frontier is being rebuilt")
    with connection.transaction():
        if not next(_rows(connection, "rebuild_lock", {"class": _LOCK, "crawl_id": crawl.id}))["locked"]:
            raise Refused(f"crawl {crawl.name!r}, run {crawl.run}, is being rebuilt by another process")
        await frontier.create(config, codec.fixed(), run=crawl.run, fills=crawl.run > 1)
        await frontier.pause()
        work = _Rebuild(
            connection,
            frontier,
            codec,
            crawl,
            progress,
            SeenCache(config.seen_cache),
            Schedule.from_config(config).most,
            Recall(frontier, codec),
        )
        done = await work.run()
        message = f"the frontier has been rebuilt: {done.seen} pages seen, {done.queued} URLs queued"
        _note(connection, crawl.id, "done", message)
        read = status_of(connection, crawl.id)
        await follow_row(frontier, await read(), read)
    return done


@dataclass(slots=True)
class _Rebuild:
    connection: Connection[Any]
    frontier: Frontier
    codec: Codec
    crawl: CrawlRow
    progress: Callable[[Rebuilt], None]
    sent: SeenCache  #: links that have been let in, or found seen
    most: float  #: seconds after a visit from which on any page is due
    recall: Recall
    done: Rebuilt = field(default_factory=Rebuilt)

    @property
    def _run(self) -> dict[str, Any]:
        return {"crawl_id": self.crawl.id, "crawl_name": self.crawl.name}

    async def run(self) -> Rebuilt:
        await self._mark_ended()
        if self.crawl.run > 1:  # what is due and not yet fetched comes in with the next worker
            for batch in self._batches("known_pages", sql("known_pages"), most=self.most, due=False):
                self.done.seen += await self.recall.mark(batch)
        await self._mark_items()
        await self._count_targets()  # before anything enters: a limit on URLs counts them
        await self._queue_waiting()
        await self._queue_links()
        figures = await self.frontier.refresh()
        self.done.results = figures.results
        self.done.unreadable = self.recall.unreadable
        return self.done

    async def _mark_ended(self) -> None:
        for batch in self._batches("rebuild_ended"):
            seen: dict[str, list[int]] = {}
            results: list[int] = []
            for row in batch:
                seen.setdefault(row["host"], []).append(_seen_as(row["canonical_url"], row["request"]))
                if row["is_result"]:
                    results.append(fingerprint(row["canonical_url"]))
            await self.frontier.mark_seen(seen, results=results)
            self.done.seen += len(batch)
            self.progress(self.done)

    async def _mark_items(self) -> None:
        for batch in self._batches("rebuild_items"):
            await self.frontier.mark_seen({}, results=[self._item_counts_as(row) for row in batch])

    def _item_counts_as(self, row: dict[str, Any]) -> int:
        """Return the result that an item is, as it was when its page was reported."""
        if row["url"] is not None:
            with suppress(BadUrl):
                return self.codec.fingerprint(normalise(row["url"]))
        return fingerprint(f"{row['canonical_url']} item {row['n']}")

    async def _queue_waiting(self) -> None:
        for batch in self._batches("rebuild_waiting"):
            entries: list[Entry] = []
            for row in batch:
                entry = self.recall.known(row)
                if entry is not None:
                    entries.append(replace(entry, forced=False, attempts=row["attempts"]))
            self.done.retries += await self._schedule(entries, counted=True)

    async def _queue_links(self) -> None:
        waiting: list[_Found] = []
        for batch in self._batches("rebuild_links"):
            for row in batch:
                row["stored"] = self.recall.page(row)
                for link in (*links(row["own_links"]), *links(row["object_links"])):
                    if link.extra is None and link.url in self.sent:  # most links of most pages
                        continue
                    found = self._found(row, link)
                    if found is not None:
                        waiting.append(found)
                if len(waiting) >= BATCH:
                    await self._let_in(waiting)
                    waiting = []
        await self._let_in(waiting)

    def _found(self, page: dict[str, Any], link: Link) -> _Found | None:
        depth = page["depth"] + 1 if link.depth is None else link.depth
        entry = self.recall.entry(link.url, link.extra, depth, page["stored"])
        if entry is None:
            return None
        data = json.loads(link.extra) if link.extra else {}
        again = entry.forced or (page["redirected"] and _is_in_chain(self.codec, link.url, data))
        return _Found(
            entry=replace(entry, forced=False, head=page["redirected"])
            if again or page["redirected"]
            else entry,
            page=page["url_key"],
            reported_at=page["reported_at"],
            redirected=page["redirected"],
            target=self.codec.page_key(link.url, *_method_and_body(data)) if again else None,
        )

    async def _let_in(self, found: Sequence[_Found]) -> None:
        again = [each.target for each in found if each.target is not None]
        known: dict[bytes, datetime | None] = {}
        if again:
            known = {
                bytes(row["url_key"]): row["reported_at"] for row in self._rows("rebuild_known", keys=again)
            }
        wanted = [(each, entry) for each in found if (entry := each.as_wanted(known)) is not None]
        await self._schedule([entry for each, entry in wanted if each.redirected], counted=True)
        await self._schedule([entry for each, entry in wanted if not each.redirected])
        for _, entry in wanted:
            if entry.plain:
                self.sent.add(entry.url)

    async def _schedule(self, entries: Sequence[Entry], *, counted: bool = False) -> int:
        added = await self.recall.let_in(entries, counted=counted)
        self.done.queued += added
        self.progress(self.done)
        return added

    async def _count_targets(self) -> None:
        """Restore how many targets have started, and the bytes; a second time nothing is added."""
        counted = next(self._rows("rebuild_targets"))
        self.done.targets = counted["targets"]
        figures = await self.frontier.refresh()
        await self.frontier.mark_seen(
            {},
            started=max(0, self.done.targets - figures.started),
            size=max(0, counted["bytes"] - figures.bytes),
        )

    def _rows(self, query: str, **values: Any) -> Iterator[dict[str, Any]]:
        return _rows(self.connection, query, {**self._run, **values})

    def _batches(
        self, query: str, text: bytes | None = None, **values: Any
    ) -> Iterator[list[dict[str, Any]]]:
        """Yield the rows of a query a thousand at a time, as the server hands them out."""
        with self.connection.cursor(name=query, row_factory=dict_row) as cursor:
            cursor.execute(text or _sql(query), {**self._run, **values})
            while batch := cursor.fetchmany(BATCH):
                yield batch


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A link, and what decides whether it is still to be followed."""

    entry: Entry
    page: bytes  #: the key of the page that it was found on
    reported_at: datetime  #: when that was
    redirected: bool
    target: bytes | None  #: the key of its own page, if it is to be fetched even when seen

    def as_wanted(self, known: dict[bytes, datetime | None]) -> Entry | None:
        """Return the entry to be let in; None for one that has been fetched since it was found.

        *known* says when the targets were last reported, None for those that are queued already.
        """
        if self.target is None or self.target not in known:
            return self.entry
        last = known[self.target]
        if last is None or last > self.reported_at:
            return None
        # It enters under a mark of its own instead of by force, so that it enters once.
        mark = fingerprint(f"again {self.page.hex()} {self.target.hex()}")
        return replace(self.entry, fingerprint=mark, repeats=True)


def _seen_as(canonical_url: str, request: str | None) -> int:
    """Return the mark of a page in the seen filter."""
    if request is None:
        return fingerprint(canonical_url)
    return fingerprint(canonical_url, *_method_and_body(json.loads(request)))


def _method_and_body(data: dict[str, Any]) -> tuple[str, bytes]:
    return str(data.get("M", "GET")), b64decode(data["b"]["$b"]) if "b" in data else b""


def _is_in_chain(codec: Codec, url: str, data: dict[str, Any]) -> bool:
    """Say whether a redirect leads back to where it came from."""
    chain = data.get("m", {}).get("redirect_urls", ())
    return codec.canonical(url) in {codec.canonical(normalise(each)) for each in chain}


def _note(connection: Connection[Any], crawl_id: int, state: str, message: str) -> None:
    values = {
        "crawl_id": crawl_id,
        "namespace": NAMESPACE,
        "message": message,
        "fields": as_jsonb({"state": state}),
    }
    next(_rows(connection, "write_note", values))


def _rows(connection: Connection[Any], query: str, values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        yield from cursor.execute(_sql(query), values).fetchall()


@cache
def _sql(query: str) -> bytes:
    return files("crawlproj.crawls").joinpath("sql", f"{query}.sql").read_bytes()
