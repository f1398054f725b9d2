"""The only opener of Redis and PostgreSQL."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, overload

import psycopg
import redis
import redis.asyncio
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ExponentialWithJitterBackoff
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from crawlproj.cluster import ClusterClient
from crawlproj.exceptions import BadSetting, ServerUnreachable
from crawlproj.redaction import redact, what_it_says
from crawlproj.scripts import Scripts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from psycopg import AsyncConnection, Connection
    from psycopg.rows import TupleRow

    from crawlproj.config import Config
    from crawlproj.servers.embedded import Joined

__all__ = [
    "Addresses",
    "Client",
    "Database",
    "check_redis",
    "connect_database",
    "ensure_servers",
    "open_redis",
    "open_redis_sync",
    "open_scripts",
    "reconnect_delay",
    "redact",
]

T = TypeVar("T")

#: Sends plain commands to Redis, be it one server or a cluster.
Client: TypeAlias = "redis.asyncio.Redis | ClusterClient"

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
_REDIS_WANT = "a redis://, rediss:// or unix:// URL"

FIRST_DELAY = 0.1
LONGEST_DELAY = 2.0
MAX_CONFLICTS = 5  # a sixth deadlock in a row is no accident

_CONFLICTS = ("40001", "40P01")  # serialization failure, deadlock: the server asks to try again
# A pooler between us and the server has swapped the session below our prepared statements.
_LOST_STATEMENTS = ("26000", "42P05")
# The server ends the session: shutdown, crash of another backend, starting up, idle limits.
_ENDED = ("57P01", "57P02", "57P03", "57P05", "25P03", "25P04")


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where the servers of this process are, and whether they are the embedded ones."""

    redis_url: str
    database_url: str
    redis_embedded: bool
    database_embedded: bool
    redis_cluster: bool = False  #: Redis is a cluster, and its address that of one of its servers


# --- Redis --------------------------------------------------------------------------------------


@overload
def open_redis(
    url: str, *, cluster: Literal[False] = False, on_connect: Callable[[], None] | None = None
) -> redis.asyncio.Redis: ...
@overload
def open_redis(url: str, *, cluster: bool, on_connect: Callable[[], None] | None = None) -> Client: ...
def open_redis(url: str, *, cluster: bool = False, on_connect: Callable[[], None] | None = None) -> Client:
    """Return a client with bytes replies; nothing is sent before its first command.

    *cluster*: the server is one of a Redis Cluster, see `check_redis`. *on_connect* is called whenever there
    is a new connection for operations: to a server that may not be the same any more.

    A command whose connection is refused or breaks is sent again a few times within a second, one
    that times out is not: the server may still be at it. Whoever calls decides about the rest.
    """
    options = _redis_options()
    if on_connect is not None:

        async def connected(connection: Any) -> None:
            await connection.on_connect()
            on_connect()

        options["redis_connect_func"] = connected
    try:
        if cluster:
            return _open_cluster(url, options)
        return redis.asyncio.Redis.from_url(url, retry=_async_retry(), **options)
    except (ValueError, TypeError, redis.RedisError):
        raise BadSetting("REDIS_URL", redact(url), _REDIS_WANT) from None


def _open_cluster(url: str, options: dict[str, Any]) -> ClusterClient:
    given = parse_url(url)

    def open_node(host: str, port: int) -> redis.asyncio.Redis:
        place = {**options, **given, "host": host, "port": port, "retry": _async_retry()}
        return redis.asyncio.Redis.from_pool(redis.asyncio.ConnectionPool(**place))

    own = {name: value for name, value in options.items() if name != "redis_connect_func"}
    if given.pop("connection_class", None) is redis.asyncio.SSLConnection:
        own["ssl"] = True
    return ClusterClient(open_node=open_node, retry=_async_retry(), **own, **given)


def _async_retry() -> AsyncRetry:
    return AsyncRetry(_redis_backoff(), 3, _RETRIED)


def open_scripts(
    addresses: Addresses, *, on_connect: Callable[[], None] | None = None
) -> tuple[Client, Scripts]:
    """Return a client for plain commands, and operations; the latter are to be closed first."""
    client = open_redis(addresses.redis_url, cluster=addresses.redis_cluster, on_connect=on_connect)
    return client, Scripts(client, redact(addresses.redis_url))


def open_redis_sync(url: str) -> redis.Redis:
    """Return the blocking client, for commands."""
    try:
        return redis.Redis.from_url(url, retry=Retry(_redis_backoff(), 3, _RETRIED), **_redis_options())
    except (ValueError, TypeError, redis.RedisError):
        raise BadSetting("REDIS_URL", redact(url), _REDIS_WANT) from None


_RETRIED = (redis.ConnectionError,)


def _redis_backoff() -> ExponentialWithJitterBackoff:
    return ExponentialWithJitterBackoff(base=0.05, cap=0.5)


def _redis_options() -> dict[str, Any]:
    return {
        "protocol": 2,  # no push messages, and every proxy speaks it
        "socket_timeout": 10,
        "socket_connect_timeout": 5,
        "health_check_interval": 30,  # finds a peer that vanished before a command is lost on it
        "client_name": "crawlproj",
        "driver_info": None,  # two round trips less for every connection
        # It asks for a command that only Redis' cloud knows, and warns when it is refused.
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
    }


def check_redis(url: str) -> bool:
    """Say whether the server is one of a cluster.

    Raises ServerUnreachable when it does not answer, or not to us.
    """
    client = open_redis_sync(url)
    try:
        client.ping()
        with suppress(redis.ResponseError):  # a user that may not ask
            return client.info("cluster").get("cluster_enabled") == 1
        return False
    except (redis.RedisError, OSError, ValueError) as error:
        raise ServerUnreachable("Redis", redact(url), what_it_says(error, url)) from None
    finally:
        client.close()


# --- PostgreSQL ---------------------------------------------------------------------------------


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

    def __init__(self, url: str, *, name: str) -> None:
        self.where = redact(url)
        self._url = url
        self._conninfo = _conninfo(url, name)
        self._connection: AsyncConnection[TupleRow] | None = None
        self._prepare_threshold: int | None = 5
        self._lock = asyncio.Lock()
        self._closing = asyncio.Event()
        self._out = False

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

    def another(self, name: str) -> Database:
        """Return another connection to the same server, for work that takes long."""
        return Database(self._url, name=name)

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
            logger.warning("PostgreSQL at %s is away, trying until it is back: %s", self.where, why)
        with suppress(TimeoutError):
            async with asyncio.timeout(reconnect_delay(breaks, random.random())):
                await self._closing.wait()
        if self._closing.is_set():
            raise ServerUnreachable("PostgreSQL", self.where, why) from None

    def _recovered(self) -> None:
        if self._out:
            self._out = False
            logger.info("PostgreSQL at %s is back", self.where)


def reconnect_delay(breaks: int, chance: float) -> float:
    """Return the seconds to wait after *breaks* earlier failures; *chance* is between 0 and 1."""
    full = min(FIRST_DELAY * 2.0 ** min(breaks, 10), LONGEST_DELAY)
    return full * (0.5 + chance / 2)  # spread, or a fleet comes back in one burst


# --- both -----------------------------------------------------------------------------------------


#: What this process has joined, by home: an address that it gave out comes back to it in settings.
_embedded: dict[Path, Joined] = {}


def ensure_servers(config: Config) -> Addresses:
    """Return where both servers are; each has answered. Starts or joins the embedded ones.

    It blocks, for a second or two at the very first start. Raises ServerUnreachable.
    """
    from crawlproj.servers.embedded import join  # noqa: PLC0415  # not needed where both are given

    own = _embedded.get(config.home)
    redis_embedded = config.redis_url is None or (own is not None and config.redis_url == own.redis_url)
    database_embedded = config.database_url is None or (
        own is not None and config.database_url == own.database_url
    )
    redis_url, database_url = config.redis_url, config.database_url
    if redis_embedded or database_embedded:
        joined = join(config.home, valkey=redis_embedded, postgres=database_embedded)
        _embedded[config.home] = joined
        redis_url, database_url = joined.redis_url or redis_url, joined.database_url or database_url
    addresses = Addresses(
        redis_url=redis_url or "",
        database_url=database_url or "",
        redis_embedded=redis_embedded,
        database_embedded=database_embedded,
        redis_cluster=not redis_embedded and check_redis(redis_url or ""),
    )
    if not addresses.database_embedded:
        connect_database(addresses.database_url).close()
    return addresses
