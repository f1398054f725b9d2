from __future__ import annotations

from tests.postgres import database, databases, sql

__all__ = ["database", "databases", "sql"]
