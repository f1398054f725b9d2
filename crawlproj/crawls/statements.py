"""The SQL of this package, by the names of its files."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def statement(name: str) -> bytes:
    """Return the statement in `sql/<name>.sql`."""
    return files(__package__).joinpath("sql", f"{name}.sql").read_bytes()
