"""Pages into PostgreSQL, many at a time, none of them at the expense of another."""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import psycopg

from crawlproj.exceptions import BodyStoreFailed, CrawlError
from crawlproj.pages import columns, record
from crawlproj.pages.record import Packer, Row
from crawlproj.pages.revisit import Schedule

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from psycopg import AsyncConnection
    from psycopg.rows import TupleRow

    from crawlproj.connections import Database
    from crawlproj.items import PageObject
    from crawlproj.pages.bodies import Body, BodyStore

    Connection = AsyncConnection[TupleRow]

T = TypeVar("T")

logger = logging.getLogger(__name__)

GATHER_SECONDS = 0.02  # what a page may wait for others
ENOUGH = 32  # pages from which a larger batch saves nothing more
COMPANY = 8  # pages under way besides, from which waiting is worth it
MAX_PAGES = 64
MAX_BYTES = 4 * 1024 * 1024
_IN_A_THREAD = 512 * 1024  # below it, a thread costs more than it frees; above, the crawl would stutter
_PARTITION_DAYS = 7
_PARTITION_SECONDS = 6 * 3600
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
#: What values raise that no column can hold.
_UNPACKABLE = (struct.error, TypeError, ValueError, ArithmeticError, AttributeError)

_STORE = files(__package__).joinpath("sql", "store.sql").read_bytes()
_KNOWN_BODIES = files(__package__).joinpath("sql", "known_bodies.sql").read_bytes()
_PARTITIONS = files(__package__).joinpath("sql", "make_partitions.sql").read_bytes()


class CrawlLike(Protocol):
    """What the store has to know of the crawl."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...


@dataclass(slots=True)
class _Waiting:
    """A page that somebody waits for."""

    page: PageObject
    row: Row
    stored: asyncio.Future[PageObject]


class PageStore:
    """Writes pages in the order they come, as one commit after the other allows.

    A commit takes all that has come up while the one before it ran, and waits a moment for more as
    long as enough others are *under_way*: a page alone does not wait, and a busy worker's batches
    are large, for one of ten pages costs hardly more than one of a single page.

    A page that PostgreSQL refuses is stored as a failure of its own; the others of its batch are not
    touched by it.
    """

    def __init__(
        self,
        database: Database,
        bodies: BodyStore,
        *,
        crawl: CrawlLike,
        worker: str,
        under_way: Callable[[], int] = lambda: 0,
        keeps_links: bool = True,
        revisits: Schedule | None = None,
    ) -> None:
        self._database = database
        self._bodies = bodies
        self._coming = under_way
        self._constants = {
            "crawl_name": crawl.name,
            "crawl_id": crawl.id,
            "worker": worker,
            "body_store": bodies.address,
            **(revisits or Schedule()).as_arguments(),
        }
        self._new_packer = partial(Packer, crawl.name, keeps_links=keeps_links)
        self._packer = self._new_packer()
        self._waiting: deque[_Waiting] = deque()
        self._under_way: list[_Waiting] = []
        self._wake = asyncio.Event()
        self._closing = asyncio.Event()
        self._failure: CrawlError | None = None
        self._task: asyncio.Task[None] | None = None
        self._prepared_for: Connection | None = None  #: it takes our arrays
        self._packing = 0  #: pages that are in a thread
        self._partitions_due = 0.0

    def start(self) -> None:
        """Begin to write. Called once, inside the event loop."""
        self._task = asyncio.create_task(self._write(), name="page store")
        self._task.add_done_callback(self._ended)

    async def put(self, page: PageObject) -> PageObject:
        """Return *page* as it was stored, once it is committed.

        A page that cannot be stored comes back as failed, with the reason `store_error`. Raises
        only when the store itself has ended.
        """
        if self._failure is not None:
            raise self._failure
        if self._task is None or self._closing.is_set():
            raise CrawlError("the page store is not open")
        row: Row | None
        try:
            row = await self._pack(page)
        except _UNPACKABLE as error:
            page, row = self._refused(page, error)
        if self._failure is not None:
            raise self._failure
        if row is None:
            return page
        waiting = _Waiting(page, row, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._wake.set()
        return await waiting.stored

    async def close(self) -> None:
        """Store everything that was put, then end. What could not be stored was told to its waiters."""
        self._closing.set()
        self._wake.set()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _pack(self, page: PageObject) -> Row:
        text = page.text.main if page.text else None
        if len(page.body) + len(text or "") < _IN_A_THREAD:
            return self._packer.row(page)
        self._packing += 1
        try:
            return await asyncio.to_thread(self._new_packer().row, page)
        finally:
            self._packing -= 1
            self._wake.set()

    async def _write(self) -> None:
        """Commit what waits, until the store is closed and nothing waits any more."""
        while True:
            if time.monotonic() >= self._partitions_due:
                await self._make_partitions()
            if self._waiting:
                await self._gather()
                self._under_way = self._take()
                await self._commit(self._under_way)
                self._under_way = []
            elif self._closing.is_set() and not self._packing:
                return
            else:
                self._wake.clear()
                await self._wake.wait()

    async def _gather(self) -> None:
        """Wait for company, while there is some to be had."""
        with suppress(TimeoutError):
            async with asyncio.timeout(GATHER_SECONDS):
                while (
                    len(self._waiting) < ENOUGH
                    and self._coming() - len(self._waiting) >= COMPANY
                    and not self._closing.is_set()
                ):
                    self._wake.clear()
                    await self._wake.wait()

    def _take(self) -> list[_Waiting]:
        """Return the next batch. It ends before a URL comes twice, so that the order of both holds."""
        batch: list[_Waiting] = []
        keys: set[bytes] = set()
        size = 0
        while self._waiting and len(batch) < MAX_PAGES and size < MAX_BYTES:
            if self._waiting[0].row.key in keys:
                break
            waiting = self._waiting.popleft()
            keys.add(waiting.row.key)
            size += waiting.row.size
            batch.append(waiting)
        return batch

    async def _commit(self, batch: list[_Waiting]) -> None:
        try:
            await self._store([waiting.row for waiting in batch])
        except psycopg.Error as error:
            if not _is_about_data(error):
                raise
            if len(batch) == 1:
                await self._commit_refused(batch[0], error)
            else:
                for waiting in batch:
                    await self._commit([waiting])
        else:
            for waiting in batch:
                _tell(waiting, waiting.page, waiting.row.object_id)

    async def _commit_refused(self, waiting: _Waiting, error: psycopg.Error) -> None:
        page, row = self._refused(waiting.page, error)
        try:
            if row is not None:
                await self._store([row])
        except psycopg.Error as second:
            if not _is_about_data(second):
                raise
            logger.error("Not even the failure of %s can be stored: %s", page.url, _line(second))
        _tell(waiting, page, None)

    def _refused(self, page: PageObject, error: Exception) -> tuple[PageObject, Row | None]:
        """Return what is told and what is stored of a page that cannot be stored."""
        page = record.minimal(page, _line(error))
        logger.error("%s cannot be stored and counts as failed: %s", page.url[:200], page.detail)
        with suppress(*_UNPACKABLE):
            return page, self._packer.row(record.bare(page))
        return page, None

    async def _store(self, rows: Sequence[Row]) -> None:
        own = self._bodies.address is None
        if not own:
            await self._keep({row.body.hash: row.body for row in rows if row.body is not None})
        pack = partial(_arrays, rows, own_bodies=own)
        large = sum(row.size for row in rows) > MAX_BYTES
        arguments = {**self._constants, **(await asyncio.to_thread(pack) if large else pack())}
        await self._run(partial(self._execute, arguments=arguments))

    async def _keep(self, bodies: dict[bytes, Body]) -> None:
        """Bring bodies that nobody has kept yet to where they belong, waiting for as long as that takes.

        Raises BodyStoreFailed when the store closes before it has succeeded.
        """
        known = await self._run(partial(_known_bodies, hashes=list(bodies)))
        new = [body for name, body in bodies.items() if name not in known]
        delay = _FIRST_WAIT
        while new:
            try:
                await self._bodies.keep(new)
            except BodyStoreFailed as error:
                if self._closing.is_set():
                    raise
                if delay == _FIRST_WAIT:
                    logger.warning("Bodies cannot be kept, and pages wait for them: %s", error)
            else:
                if delay != _FIRST_WAIT:
                    logger.info("Bodies can be kept again")
                return
            delay = await self._pause(delay)

    async def _execute(self, connection: Connection, arguments: dict[str, Any]) -> None:
        if connection is not self._prepared_for:
            columns.register(connection)
            self._prepared_for = connection
        await connection.execute(_STORE, arguments, prepare=True)

    async def _run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run *work*, one statement, waiting for as long as the server only lacks room or time."""
        delay = _FIRST_WAIT
        while True:
            try:
                return await self._database.run(work, single=True)
            except psycopg.Error as error:
                if not _is_temporary(error) or self._closing.is_set():
                    raise
                if delay == _FIRST_WAIT:
                    logger.warning("PostgreSQL cannot store pages, trying on: %s", _line(error))
            delay = await self._pause(delay)

    async def _pause(self, delay: float) -> float:
        """Wait, but not when the store closes, and return how long to wait the next time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._closing.wait()
        return min(delay * 2, _LONGEST_WAIT)

    async def _make_partitions(self) -> None:
        self._partitions_due = time.monotonic() + _PARTITION_SECONDS
        try:
            await self._database.run(_partitions)
        except psycopg.Error as error:
            logger.warning(
                "No new partitions of the fetch log, fetch_default takes its rows: %s", _line(error)
            )

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Tell everybody who waits when the task ended before its time: a hang would tell nobody."""
        if task.cancelled():
            self._failure = CrawlError("pages can no longer be stored: the store was cancelled")
        elif (error := task.exception()) is not None:
            self._failure = CrawlError(f"pages can no longer be stored: {_line(error)}")
            self._failure.__cause__ = error
        if self._failure is None:
            return
        logger.critical("%s", self._failure, exc_info=self._failure.__cause__)
        for waiting in (*self._under_way, *self._waiting):
            if not waiting.stored.done():
                waiting.stored.set_exception(self._failure)
        self._waiting.clear()


async def _partitions(connection: Connection) -> None:
    await connection.execute(_PARTITIONS, {"ahead": _PARTITION_DAYS})


async def _known_bodies(connection: Connection, hashes: list[bytes]) -> set[bytes]:
    cursor = await connection.execute(_KNOWN_BODIES, {"hashes": hashes})
    return {name for (name,) in await cursor.fetchall()}


def _arrays(rows: Sequence[Row], *, own_bodies: bool) -> dict[str, columns.Array]:
    found = {
        name: columns.array(element, cells)
        for (name, element), cells in zip(
            record.COLUMNS, zip(*(row.cells for row in rows), strict=True), strict=True
        )
    }
    found["body"] = columns.array(
        "bytea", [columns.bytea(row.body.data if row.body and own_bodies else None) for row in rows]
    )
    items = [item for row in rows for item in row.items]
    for (name, element), cells in zip(
        record.ITEM_COLUMNS, zip(*items, strict=True) if items else ((), (), ()), strict=True
    ):
        found[name] = columns.array(element, cells)
    return found


def _tell(waiting: _Waiting, page: PageObject, object_id: bytes | None) -> None:
    if not waiting.stored.done():  # whoever waited may have been cancelled
        waiting.stored.set_result(page if object_id is None else replace(page, object_id=object_id.hex()))


def _is_about_data(error: psycopg.Error) -> bool:
    """Whether one row is at fault: its data (22), a constraint (23) or a limit (54)."""
    return isinstance(error, psycopg.DataError | psycopg.IntegrityError) or (error.sqlstate or "")[:2] == "54"


def _is_temporary(error: psycopg.Error) -> bool:
    """Whether the server lacks disk, memory or connections, or gave up waiting."""
    return (error.sqlstate or "")[:2] == "53" or error.sqlstate in ("55P03", "57014")


def _line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
