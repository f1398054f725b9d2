from __future__ import annotations

import enum
import json
import uuid
from datetime import UTC, datetime, timedelta, timezone
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crawlproj.clean import as_jsonb, clean, json_utf8, plain, utf8
from tests.postgres import sql

__all__ = ["sql"]

ANY_TEXT = st.text(st.characters(), max_size=20)  # NUL and lone surrogates included
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(width=16) | ANY_TEXT | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=10,
)


class Colour(enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("dirty", "expected"),
    [
        ("plain", "plain"),
        ("a\0b", "a\ufffdb"),
        ("a\ud800b", "a\ufffdb"),
        ("\udc00", "\ufffd"),
        ("\ud83d\ude00", "\U0001f600"),
        ("\U0001f600\0", "\U0001f600\ufffd"),
        ("", ""),
    ],
)
def test_text(dirty, expected):
    """Every character that PostgreSQL refuses becomes U+FFFD; a pair of surrogates is a character."""
    assert clean(dirty) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": [1, 2.5, None, True, "x"]}, {"a": [1, 2.5, None, True, "x"]}),
        ({"ratio": float("nan"), "x": [float("-inf")]}, {"ratio": None, "x": [None]}),
        ({"a\0": {"b": "\0"}}, {"a\ufffd": {"b": "\ufffd"}}),
        ({"backslash": "\\u0000"}, {"backslash": "\\u0000"}),
        ({1: "a", None: "b", (1, 2): "c"}, {"1": "a", "None": "b", "(1, 2)": "c"}),
        (
            {"t": datetime(2024, 1, 2, tzinfo=timezone(timedelta(hours=2)))},
            {"t": "2024-01-02T00:00:00+02:00"},
        ),
        (
            [Colour.RED, uuid.UUID(int=1), PurePosixPath("/a")],
            ["red", "00000000-0000-0000-0000-000000000001", "/a"],
        ),
        ({"huge": 10**5000}, {"huge": None}),
        ({"set": {3, 1, 2}, "bytes": b"\xc3\xa9\xff"}, {"set": [1, 2, 3], "bytes": "\u00e9\ufffd"}),
    ],
)
def test_json(value, expected):
    """Whatever is handed in comes out as JSON that says the same, as far as JSON can."""
    assert json.loads(json_utf8(value)) == expected


def test_depth_is_bounded():
    """A structure that contains itself ends somewhere instead of ending the crawl."""
    loop: list[Any] = []
    loop.append(loop)
    assert json_utf8(loop).startswith(b"[[[")
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    assert json_utf8(deep)


def test_default_is_the_same_as_plain():
    """The quick way and the thorough one give the same for what both know."""
    value = {"when": datetime(2024, 1, 1, tzinfo=UTC), "tags": {"b", "a"}, "c": Colour.RED, "raw": b"x"}
    assert json.loads(json_utf8(value)) == plain(value)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=ANY_TEXT, value=ANY_JSON)
def test_postgresql_takes_it(sql, text, value):
    """There is no text and no structure that PostgreSQL refuses once it is cleaned."""
    query = "SELECT %s::text, %s::jsonb"
    stored, back = sql.execute(query, [clean(text), as_jsonb(value)]).fetchone()
    assert stored.encode() == utf8(text)
    assert back == json.loads(json_utf8(value))
