"""The database schema: numbered migrations and the runner that applies them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from psycopg import errors
from psycopg.rows import scalar_row

from crawlproj.exceptions import SchemaMismatch

if TYPE_CHECKING:
    from psycopg import Connection

_NAME = re.compile(r"(\d{4})_\w+\.sql")
_LOCK = 0x6372_6177_6C70_726A  # "crawlprj": one migration at a time, whoever starts it


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One numbered step of the schema."""

    number: int
    name: str  #: file name without its ending
    sql: bytes


@cache
def migrations() -> tuple[Migration, ...]:
    """Return every migration there is, in order."""
    found = [
        Migration(number=int(match[1]), name=entry.name.removesuffix(".sql"), sql=entry.read_bytes())
        for entry in files(__package__).iterdir()
        if (match := _NAME.fullmatch(entry.name))
    ]
    return tuple(sorted(found, key=lambda migration: migration.number))


def migrate(conn: Connection[Any]) -> list[str]:
    """Apply what is missing, all of it or nothing; return the names of what was applied.

    Raises SchemaMismatch when the database is newer than this code.
    """
    with conn.transaction():
        conn.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        conn.execute(
            "CREATE TABLE IF NOT EXISTS schema_version"
            " (number integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
        )
        have, want = check(conn)
        if have > want:
            raise SchemaMismatch(_newer(have, want))
        missing = [step for step in migrations() if step.number > have]
        for step in missing:
            conn.execute(step.sql)
            conn.execute(
                "INSERT INTO schema_version (number, name) VALUES (%s, %s)", [step.number, step.name]
            )
    return [step.name for step in missing]


def check(conn: Connection[Any]) -> tuple[int, int]:
    """Return the number of the schema that the database has, and of the one this code wants."""
    try:
        with conn.transaction(), conn.cursor(row_factory=scalar_row) as cursor:
            have = max(cursor.execute("SELECT number FROM schema_version"), default=0)
    except errors.UndefinedTable:
        have = 0
    return have, migrations()[-1].number


def require(conn: Connection[Any]) -> None:
    """Raise SchemaMismatch unless the database has exactly the schema of this code."""
    have, want = check(conn)
    if have > want:
        raise SchemaMismatch(_newer(have, want))
    if have < want:
        raise SchemaMismatch(
            f"the database has schema {have} and this code wants {want}: run `scrapy migrate`"
            if have
            else "the database has no schema yet: run `scrapy migrate`"
        )


def _newer(have: int, want: int) -> str:
    return f"the database has schema {have}, newer than the {want} of this code: update crawlproj"
