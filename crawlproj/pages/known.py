"""What earlier runs know of pages that are about to be fetched again."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from crawlproj.pages.rows import links

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from psycopg import AsyncConnection

    from crawlproj.connections import Database
    from crawlproj.pages.rows import Link


def _sql(query: str) -> bytes:
    return files(__package__).joinpath("sql", f"{query}.sql").read_bytes()


_VALIDATORS = _sql("known_validators")
_LINKS = _sql("known_links")


async def known_validators(
    database: Database, crawl_name: str, keys: Sequence[bytes]
) -> dict[bytes, dict[str, str]]:
    """Return per page key the validators of its stored content, byte for byte.

    A page with stored content but without validators has an empty dict; one without content is absent.
    """

    async def read(connection: AsyncConnection[Any]) -> dict[bytes, dict[str, str]]:
        cursor = await connection.execute(
            _VALIDATORS, {"crawl_name": crawl_name, "keys": list(keys)}, binary=True
        )
        return {
            bytes(key): {
                name: value
                for name, value in (("etag", etag), ("last_modified", last_modified))
                if value is not None
            }
            for key, etag, last_modified in await cursor.fetchall()
        }

    return await database.run(read)


async def known_links(database: Database, crawl_name: str, key: bytes) -> list[Link]:
    """Return the links of a page's stored content: after a 304 they are its links still."""

    async def read(connection: AsyncConnection[Any]) -> list[Link]:
        cursor = await connection.execute(_LINKS, {"crawl_name": crawl_name, "key": key}, binary=True)
        row = await cursor.fetchone()
        return [] if row is None else links(row[0])

    return await database.run(read)
