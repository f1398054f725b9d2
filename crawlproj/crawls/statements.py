"""The SQL of this package, by the names of its files, and how it is run.

Each statement is a transaction of its own, unless one is open: connections are in autocommit mode.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from psycopg.rows import dict_row

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection


@cache
def statement(name: str) -> bytes:
    """Return the statement in `sql/<name>.sql`."""
    return files(__package__).joinpath("sql", f"{name}.sql").read_bytes()


async def query(connection: AsyncConnection[Any], name: str, /, **values: Any) -> dict[str, Any] | None:
    """Run a statement; return its first row, if it has any."""
    rows = await query_all(connection, name, **values)
    return rows[0] if rows else None


async def query_all(connection: AsyncConnection[Any], name: str, /, **values: Any) -> list[dict[str, Any]]:
    """Run a statement; return its rows, none if it is of a kind that has none."""
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(statement(name), values)
        return await cursor.fetchall() if cursor.description else []


def query_sync(connection: Connection[Any], name: str, /, **values: Any) -> dict[str, Any] | None:
    """Run a statement on a blocking connection; return its first row, if it has any."""
    rows = query_all_sync(connection, name, **values)
    return rows[0] if rows else None


def query_all_sync(connection: Connection[Any], name: str, /, **values: Any) -> list[dict[str, Any]]:
    """Run a statement on a blocking connection; return its rows, none if it is of a kind that has none."""
    with connection.cursor(row_factory=dict_row) as cursor:
        cursor.execute(statement(name), values)
        return cursor.fetchall() if cursor.description else []
