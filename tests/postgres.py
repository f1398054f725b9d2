"""Fixtures of tests that look into PostgreSQL themselves."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from crawlproj.connections import Database, connect_database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from psycopg import Connection


@pytest.fixture
async def databases(database_url: str) -> AsyncIterator[Callable[[], Database]]:
    """Yield a function that opens one more connection, as one more worker has it."""
    async with AsyncExitStack() as stack:

        def another() -> Database:
            database = Database(database_url, name="test")
            stack.push_async_callback(database.close)
            return database

        yield another


@pytest.fixture
async def database(databases: Callable[[], Database]) -> Database:
    """Return one connection as a worker has it."""
    return databases()


@pytest.fixture
def sql(database_url: str) -> Iterator[Connection]:
    """Yield a blocking connection, to look at rows and to move them about."""
    with connect_database(database_url) as connection:
        yield connection
