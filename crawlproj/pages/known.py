"""What earlier runs know of pages that are about to be fetched again."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

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


class Known(NamedTuple):
    """What an earlier run has stored of a page."""

    validators: dict[str, str]  #: `etag` and `last_modified`, byte for byte, as far as they may be sent
    size: int  #: of its body, in bytes


async def known_content(database: Database, crawl_name: str, keys: Sequence[bytes]) -> dict[bytes, Known]:
    """Return per page key what is known of its stored content; a page without content is absent."""

    async def read(connection: AsyncConnection[Any]) -> dict[bytes, Known]:
        cursor = await connection.execute(
            _VALIDATORS, {"crawl_name": crawl_name, "keys": list(keys)}, binary=True
        )
        return {
            bytes(key): Known(
                {
                    name: value
                    for name, value in (("etag", etag), ("last_modified", last_modified))
                    if value is not None
                },
                size,
            )
            for key, etag, last_modified, size in await cursor.fetchall()
        }

    return await database.run(read)


async def known_links(database: Database, crawl_name: str, key: bytes) -> list[Link]:
    """Return the links of a page's stored content: after a 304 they are its links still."""

    async def read(connection: AsyncConnection[Any]) -> list[Link]:
        cursor = await connection.execute(_LINKS, {"crawl_name": crawl_name, "key": key}, binary=True)
        row = await cursor.fetchone()
        return [] if row is None else links(row[0])

    return await database.run(read)
