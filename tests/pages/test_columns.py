from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from crawlproj.pages import columns


def back(sql: Any, element: str, cells: list[bytes]) -> list[Any]:
    columns.register(sql)
    (found,) = sql.execute(f"SELECT %b::{element}[]".encode(), [columns.array(element, cells)]).fetchone()
    return found


NOON = datetime(2024, 5, 1, 12, 0, 0, 123456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("element", "pack", "values"),
    [
        ("bytea", columns.bytea, [b"", b"\0\xff", None, b"x" * 100_000]),
        ("text", columns.text, ["", "\u00e9\U0001f600", None, "x" * 100_000]),
        ("int4", columns.int4, [0, -1, None, 2**31 - 1, -(2**31)]),
        ("int8", columns.int8, [0, -1, None, 2**63 - 1]),
        ("timestamptz", columns.timestamptz, [NOON, None, datetime(1970, 1, 1, tzinfo=UTC)]),
        ("jsonb", columns.jsonb, [{"a": [1, None]}, [], None, "x"]),
    ],
)
def test_what_is_packed_comes_back(sql, element, pack, values):
    """PostgreSQL reads every packed value as what it was, NULLs and extremes included."""
    assert back(sql, element, [pack(value) for value in values]) == values
    assert back(sql, element, []) == []
    assert back(sql, element, [columns.NULL]) == [None]


def test_times_keep_their_moment(sql):
    """A time is stored as the moment it is, whatever its zone; without one it is taken for UTC."""
    zone = timezone(timedelta(hours=9))
    cells = [columns.timestamptz(NOON.astimezone(zone)), columns.timestamptz(NOON.replace(tzinfo=None))]
    assert back(sql, "timestamptz", cells) == [NOON, NOON]
