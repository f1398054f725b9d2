from __future__ import annotations

import pytest

from crawlproj.connections import database as connections
from tests.postgres import database, databases, sql

__all__ = ["database", "databases", "sql"]


@pytest.fixture(autouse=True)
def deadlocks_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a deadlock come out: elsewhere it costs a second try, and no test would see it."""
    monkeypatch.setattr(connections, "MAX_CONFLICTS", 0)
