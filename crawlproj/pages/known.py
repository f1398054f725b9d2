"""What earlier runs know of pages that are about to be fetched again."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from psycopg import AsyncConnection

    from crawlproj.connections import Database

_QUERY = files(__package__).joinpath("sql", "known_validators.sql").read_bytes()


async def known_validators(
    database: Database, crawl_name: str, keys: Sequence[bytes]
) -> dict[bytes, dict[str, str]]:
    """Return per page key the validators of its stored content, byte for byte.

    A page with stored content but without validators has an empty dict; one without content is absent.
    """

    async def read(connection: AsyncConnection[Any]) -> dict[bytes, dict[str, str]]:
        cursor = await connection.execute(_QUERY, {"crawl_name": crawl_name, "keys": list(keys)}, binary=True)
        return {
            bytes(key): {
                name: value
                for name, value in (("etag", etag), ("last_modified", last_modified))
                if value is not None
            }
            for key, etag, last_modified in await cursor.fetchall()
        }

    return await database.run(read)
