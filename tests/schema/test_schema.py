from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.rows import dict_row

from crawlproj import schema
from crawlproj.connections import connect_database
from crawlproj.exceptions import SchemaMismatch
from crawlproj.schema import Migration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Connection

NEWEST = schema.migrations()[-1].number


@pytest.fixture
def blank(database_url) -> Iterator[Connection]:
    """Yield a connection to a database with nothing in it."""
    with connect_database(database_url) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        yield connection


def tables(connection: Connection) -> set[str]:
    query = (
        "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace"
    )
    return {name for (name,) in connection.execute(query) if not name.startswith("fetch_")}


def test_migrations_are_numbered_without_gaps():
    """Every number is there once, so that a version says which schema it is."""
    assert [step.number for step in schema.migrations()] == list(range(1, NEWEST + 1))


def test_migrate_makes_everything_and_then_nothing(blank):
    """An empty database gets every table; a second time there is nothing to do."""
    assert schema.check(blank) == (0, NEWEST)
    assert schema.migrate(blank) == [step.name for step in schema.migrations()]
    assert tables(blank) == {
        *("crawl", "worker_lease", "event", "note"),
        *("page", "page_object", "body", "fetch", "item", "schema_version"),
    }
    assert schema.migrate(blank) == []
    assert schema.check(blank) == (NEWEST, NEWEST)
    schema.require(blank)


def test_concurrent_migrations(blank, database_url):
    """Of many that migrate at the same moment one does, and the others see it done."""

    def migrate(_: int) -> list[str]:
        with connect_database(database_url) as connection:
            return schema.migrate(connection)

    with ThreadPoolExecutor(4) as pool:
        applied = list(pool.map(migrate, range(4)))
    assert sorted(map(len, applied)) == [0, 0, 0, NEWEST]


def test_missing_schema_is_a_sentence(blank):
    """A database without a schema is refused with what to do."""
    with pytest.raises(SchemaMismatch, match="no schema yet: run `scrapy migrate`"):
        schema.require(blank)


def test_older_schema_is_a_sentence(sql, monkeypatch):
    """A database behind this code is refused with what to do."""
    newer = Migration(number=NEWEST + 1, name="9999_newer", sql=b"SELECT 1")
    steps = (*schema.migrations(), newer)
    monkeypatch.setattr(schema, "migrations", lambda: steps)
    with pytest.raises(SchemaMismatch, match=rf"has schema {NEWEST} and this code wants {NEWEST + 1}"):
        schema.require(sql)
    assert schema.migrate(sql) == ["9999_newer"]
    schema.require(sql)


def test_newer_schema_is_refused(sql):
    """Code that is older than the database never touches it."""
    sql.execute("INSERT INTO schema_version (number, name) VALUES (9999, 'later')")
    for refused in (schema.require, schema.migrate):
        with pytest.raises(SchemaMismatch, match="newer than the"):
            refused(sql)


def test_broken_migration_leaves_nothing(blank, monkeypatch):
    """All of a migration or nothing: what failed half-way can be run again."""
    broken = Migration(number=NEWEST + 1, name="9999_broken", sql=b"CREATE TABLE half (); SELECT nonsense")
    steps = (*schema.migrations(), broken)
    monkeypatch.setattr(schema, "migrations", lambda: steps)
    with pytest.raises(psycopg.errors.UndefinedColumn):
        schema.migrate(blank)
    assert tables(blank) == set()


def test_check_on_any_kind_of_connection(database_url):
    """With rows as dicts, in a transaction or without: the answer is the same."""
    with psycopg.connect(database_url, row_factory=dict_row) as connection:
        connection.execute("SELECT 1")
        assert schema.check(connection) == (NEWEST, NEWEST)


def test_partitions_are_made_once(sql):
    """Partitions from yesterday to a week ahead are there; asked again there is nothing to make."""
    assert sql.execute("SELECT fetch_make_partitions(7)").fetchone() == (0,)
    assert sql.execute("SELECT fetch_make_partitions(9)").fetchone() == (2,)
    query = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'fetch'::regclass"
    assert sql.execute(query).fetchone() == (12,)


def test_partitions_do_not_wait_for_readers(sql, database_url):
    """A long reader costs the maker of partitions an error, not everybody else their writes."""
    with connect_database(database_url) as reader, reader.transaction():
        reader.execute('SELECT count(*) FROM "fetch"')
        with pytest.raises(psycopg.errors.LockNotAvailable):
            sql.execute("SELECT fetch_make_partitions(9)")
