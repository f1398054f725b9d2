"""Clients of Redis, be it one server or a cluster."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import redis
import redis.asyncio
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ExponentialWithJitterBackoff
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from crawlproj.cluster import ClusterClient
from crawlproj.exceptions import BadSetting, ServerUnreachable
from crawlproj.redaction import redact, what_it_says

if TYPE_CHECKING:
    from collections.abc import Callable

#: Sends plain commands to Redis, be it one server or a cluster.
Client: TypeAlias = "redis.asyncio.Redis | ClusterClient"

_REDIS_WANT = "a redis://, rediss:// or unix:// URL"


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
