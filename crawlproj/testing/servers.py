"""Pytest fixtures: a Valkey and a PostgreSQL for the whole session, clean for every test.

TEST_REDIS_URL and TEST_DATABASE_URL name servers to use instead; the tests wipe the database
number of the one, and create and drop databases of their own on the other. Processes that test side by
side (pytest-xdist) have servers of their own each, and refuse a Redis that they would wipe for each other.
"""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier

from crawlproj.connections import connect_database, open_redis_sync
from crawlproj.servers.embedded import join, leave

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOM = 2 * 1024**3


@pytest.fixture(scope="session")
def servers_home() -> Iterator[Path]:
    """Yield the folder of the embedded servers of this session."""
    with tempfile.TemporaryDirectory(
        prefix="crawlproj-test-", dir=fast_folder(), ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)
        leave(Path(folder), now=True)


@pytest.fixture(scope="session")
def valkey_url(request: pytest.FixtureRequest) -> str:
    """Return the address of a running Valkey or Redis, for the whole session."""
    if url := os.environ.get("TEST_REDIS_URL"):
        if "PYTEST_XDIST_WORKER" in os.environ:
            pytest.fail("TEST_REDIS_URL is one server, wiped by every test: test in one process, with -n 0")
        return url
    joined = join(request.getfixturevalue("servers_home"), postgres=False)
    return cast("str", joined.redis_url)


@pytest.fixture
def redis_url(valkey_url: str) -> str:
    """Return the address of an empty Valkey or Redis."""
    client = open_redis_sync(valkey_url)
    client.flushdb()
    client.script_flush()
    client.close()
    return valkey_url


@pytest.fixture(scope="session")
def postgres_url(request: pytest.FixtureRequest) -> str:
    """Return the address of a running PostgreSQL, for the whole session; its user makes databases."""
    if url := os.environ.get("TEST_DATABASE_URL"):
        return url
    joined = join(request.getfixturevalue("servers_home"), valkey=False)
    url = cast("str", joined.database_url)
    with connect_database(url) as connection:  # these databases do not outlive the session
        connection.execute("alter system set fsync = off")
        connection.execute("select pg_reload_conf()")
    return url


@pytest.fixture(scope="session")
def template_database(postgres_url: str) -> Iterator[str]:
    """Yield the name of a database with the newest schema, to be copied."""
    with _database(postgres_url) as name:
        with suppress(ModuleNotFoundError):
            schema = importlib.import_module("crawlproj.schema")
            with connect_database(_url_of(postgres_url, name)) as connection:
                schema.migrate(connection)
        yield name


@pytest.fixture
def database_url(postgres_url: str, template_database: str) -> Iterator[str]:
    """Yield the address of a database with the newest schema and nothing in it."""
    with _database(postgres_url, template_database) as name:
        yield _url_of(postgres_url, name)


def fast_folder() -> str | None:
    """Return a folder in memory with room for databases: a new one for each test is a thousand files."""
    memory = Path("/dev/shm")  # noqa: S108
    if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > _ROOM:
        return str(memory)
    return None


@contextmanager
def _database(postgres_url: str, template: str = "template0") -> Iterator[str]:
    name = f"crawlproj_test_{uuid.uuid4().hex[:16]}"
    with connect_database(postgres_url) as connection:
        connection.execute(
            SQL("create database {} template {} encoding 'UTF8'").format(
                Identifier(name), Identifier(template)
            )
        )
    try:
        yield name
    finally:
        with connect_database(postgres_url) as connection, suppress(psycopg.errors.InvalidCatalogName):
            connection.execute(SQL("drop database {} with (force)").format(Identifier(name)))


def _url_of(postgres_url: str, database: str) -> str:
    if "://" not in postgres_url:
        return make_conninfo(postgres_url, dbname=database)
    return urlsplit(postgres_url)._replace(path=f"/{database}").geturl()
