"""Connections to PostgreSQL: one that outlives the server's restarts, and plain ones for commands."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import ExitStack, nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from crawlproj.exceptions import BadSetting, ServerUnreachable
from crawlproj.redaction import redact, what_it_says

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from psycopg import AsyncConnection, Connection
    from psycopg.rows import TupleRow

T = TypeVar("T")

logger = logging.getLogger(__name__)

# Without these a peer that vanished (cable, firewall, frozen machine) holds us for hours.
_LIBPQ_DEFAULTS: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "client_encoding": "utf8",
}
_DATABASE_WANT = "a postgresql:// URL or a libpq connection string"

FIRST_DELAY = 0.1
LONGEST_DELAY = 2.0
MAX_CONFLICTS = 5  # a sixth deadlock in a row is no accident

_CONFLICTS = ("40001", "40P01")  # serialization failure, deadlock: the server asks to try again
# A pooler between us and the server has swapped the session below our prepared statements.
_LOST_STATEMENTS = ("26000", "42P05")
# The server ends the session: shutdown, crash of another backend, starting up, idle limits.
_ENDED = ("57P01", "57P02", "57P03", "57P05", "25P03", "25P04")


def _conninfo(url: str, name: str) -> str:
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:  # its text shows the whole string, password included
        raise BadSetting("DATABASE_URL", redact(url), _DATABASE_WANT) from None
    known = {key: value for key, value in given.items() if value is not None}
    return make_conninfo("", **{"application_name": f"crawlproj:{name}", **_LIBPQ_DEFAULTS, **known})


def connect_database(url: str, *, name: str = "command") -> Connection[TupleRow]:
    """Return a blocking connection, for commands.

    It is in autocommit mode: what belongs together goes into `with connection.transaction()`.
    """
    conninfo = _conninfo(url, name)
    with ExitStack() as stack:
        try:
            connection = psycopg.connect(conninfo, autocommit=True)
            stack.callback(connection.close)
            connection.execute("set timezone to 'UTC'")
        except psycopg.Error as error:
            raise ServerUnreachable("PostgreSQL", redact(url), what_it_says(error, url)) from None
        stack.pop_all()
    return connection


class Database:
    """One connection to PostgreSQL that outlives the server's restarts.

    Work is handed in as a function and runs in one transaction, one at a time. When the connection
    breaks, it is opened again, as long as that takes, and the work runs again from its start, so it
    must not keep results of an earlier try. A commit whose answer got lost is repeated as well.
    """

    def __init__(self, url: str, *, name: str, says_outages: bool = True) -> None:
        self.where = redact(url)
        self._url = url
        self._conninfo = _conninfo(url, name)
        self._connection: AsyncConnection[TupleRow] | None = None
        self._prepare_threshold: int | None = 5
        self._lock = asyncio.Lock()
        self._closing = asyncio.Event()
        self._out = False
        self._level = logging.WARNING if says_outages else logging.DEBUG

    async def run(
        self, work: Callable[[AsyncConnection[TupleRow]], Awaitable[T]], *, single: bool = False
    ) -> T:
        """Run *work* in one transaction and return its result.

        *single*: it is one statement, and so a transaction without being told; that spares two round trips.
        """
        async with self._lock:
            breaks = conflicts = 0
            while True:
                try:
                    result = await self._once(work, single=single)
                except psycopg.Error as error:
                    if self._is_lost(error):
                        await self._outage(error, breaks)
                        breaks += 1
                    elif error.sqlstate in _LOST_STATEMENTS and self._prepare_threshold is not None:
                        self._prepare_threshold = None
                        await self._drop()
                    elif error.sqlstate in _CONFLICTS and conflicts < MAX_CONFLICTS:
                        conflicts += 1
                    else:
                        raise
                else:
                    self._recovered()
                    return result

    def another(self, name: str, *, says_outages: bool = True) -> Database:
        """Return another connection to the same server, for work that is not to wait, or be waited for.

        Without *says_outages* this one alone says that the server is away.
        """
        return Database(self._url, name=name, says_outages=says_outages)

    async def close(self) -> None:
        """Let what runs finish, unless the server is away, and close the connection."""
        self._closing.set()
        async with self._lock:
            await self._drop()

    async def _once(self, work: Callable[[AsyncConnection[TupleRow]], Awaitable[T]], *, single: bool) -> T:
        connection = self._connection or await self._open()
        settled = False
        try:
            async with nullcontext() if single else connection.transaction():
                result = await work(connection)
                if connection.info.transaction_status == TransactionStatus.INERROR:
                    # The server would answer the commit with a rollback, and no error.
                    raise psycopg.errors.InFailedSqlTransaction("the work went on after a failed statement")
            settled = True
            return result
        finally:
            # A connection left in a transaction would fail everything that comes after.
            if not settled and connection.info.transaction_status != TransactionStatus.IDLE:
                await self._drop()

    async def _open(self) -> AsyncConnection[TupleRow]:
        if self._closing.is_set():
            raise ServerUnreachable("PostgreSQL", self.where, "the connection has been closed")
        connection = await psycopg.AsyncConnection.connect(
            self._conninfo, autocommit=True, prepare_threshold=self._prepare_threshold
        )
        self._connection = connection
        await connection.execute("set timezone to 'UTC'")
        return connection

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error, OSError):
                await connection.close()

    def _is_lost(self, error: psycopg.Error) -> bool:
        """Whether the session is gone, so that a new one may do better."""
        if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return False
        if self._connection is None or self._connection.closed:
            return True
        return error.sqlstate in _ENDED or (error.sqlstate or "").startswith("08")

    async def _outage(self, error: psycopg.Error, breaks: int) -> None:
        await self._drop()
        why = what_it_says(error, self._url)
        if not self._out:
            self._out = True
            logger.log(self._level, "PostgreSQL at %s is away, trying until it is back: %s", self.where, why)
        with suppress(TimeoutError):
            async with asyncio.timeout(reconnect_delay(breaks, random.random())):
                await self._closing.wait()
        if self._closing.is_set():
            raise ServerUnreachable("PostgreSQL", self.where, why) from None

    def _recovered(self) -> None:
        if self._out:
            self._out = False
            logger.log(min(self._level, logging.INFO), "PostgreSQL at %s is back", self.where)


def reconnect_delay(breaks: int, chance: float) -> float:
    """Return the seconds to wait after *breaks* earlier failures; *chance* is between 0 and 1."""
    full = min(FIRST_DELAY * 2.0 ** min(breaks, 10), LONGEST_DELAY)
    return full * (0.5 + chance / 2)  # spread, or a fleet comes back in one burst
