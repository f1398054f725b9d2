"""The only opener of Redis and PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crawlproj.connections.clients import Client, check_redis, open_redis, open_redis_sync
from crawlproj.connections.database import Database, connect_database, reconnect_delay
from crawlproj.redaction import redact
from crawlproj.scripts import Scripts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where the servers of this process are, and whether they are the embedded ones."""

    redis_url: str
    database_url: str
    redis_embedded: bool
    database_embedded: bool
    redis_cluster: bool = False  #: Redis is a cluster, and its address that of one of its servers


#: What this process has joined, by home: an address that it gave out comes back to it in settings.
_embedded: dict[Path, Joined] = {}


def ensure_servers(config: Config, *, redis: bool = True) -> Addresses:
    """Return where both servers are; each has answered. Starts or joins the embedded ones.

    It blocks, for a second or two at the very first start. Without *redis* a given Redis is not asked, for
    those that only need PostgreSQL: whether it is a cluster is not known then. Raises ServerUnreachable.
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
        redis_cluster=redis and not redis_embedded and check_redis(redis_url or ""),
    )
    if not addresses.database_embedded:
        connect_database(addresses.database_url).close()
    return addresses


def open_scripts(
    addresses: Addresses, *, on_connect: Callable[[], None] | None = None
) -> tuple[Client, Scripts]:
    """Return a client for plain commands, and operations; the latter are to be closed first."""
    client = open_redis(addresses.redis_url, cluster=addresses.redis_cluster, on_connect=on_connect)
    return client, Scripts(client, redact(addresses.redis_url))
