"""Text and JSON as PostgreSQL takes them: no NUL, no lone surrogates, no NaN."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import date, datetime, time
from enum import Enum
from typing import Any

from itemadapter import ItemAdapter
from psycopg.types.json import Jsonb

REPLACEMENT = "\ufffd"
_MAX_DEPTH = 64  # deeper than any document, far from where Python's or PostgreSQL's stack ends
_MAX_INTEGER = 10**4000  # a longer one cannot even be printed (sys.int_info)


def utf8(value: str) -> bytes:
    """Return *value* as UTF-8, with U+FFFD for every NUL and lone surrogate."""
    try:
        data = value.encode()
    except UnicodeEncodeError:
        data = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
    if b"\0" in data:
        data = data.replace(b"\0", REPLACEMENT.encode())
    return data


def clean(value: str) -> str:
    """Return *value* with U+FFFD for every NUL and lone surrogate."""
    return utf8(value).decode()


def as_jsonb(value: object) -> Jsonb:
    """Return *value* as a parameter for a jsonb column, whatever it holds."""
    return Jsonb(value, dumps=json_utf8)


def json_utf8(value: object) -> bytes:
    """Return *value* as JSON that jsonb takes, whatever it holds."""
    try:
        text = _strict.encode(value)
        # A backslash before the escape makes this a false alarm, which only costs time.
        if "\\u0000" not in text:
            return text.encode()
    except (ValueError, TypeError, RecursionError):
        pass
    return _strict.encode(plain(value)).encode()


def plain(value: object, depth: int = 0) -> Any:
    """Return *value* made of nothing but clean JSON types.

    Items become objects, sets and other iterables arrays, NaN and infinities null, everything
    unknown a string.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return plain(value.value, depth)
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, int):
        return int(value) if abs(value) < _MAX_INTEGER else None
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if depth >= _MAX_DEPTH:
        return _text(value)
    if ItemAdapter.is_item(value):
        value = ItemAdapter(value)
    if isinstance(value, Mapping):
        return {_key(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, depth + 1) for item in value]
    if isinstance(value, set | frozenset):
        return [plain(item, depth + 1) for item in sorted(value, key=_text)]
    return _text(value)


def _key(key: object) -> str:
    return clean(key) if isinstance(key, str) else _text(key)


def _text(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return clean(bytes(value).decode("utf-8", "replace"))
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    try:
        return clean(str(value))
    except Exception:  # noqa: BLE001  # a foreign class; what its __str__ does must not cost the page
        return f"<{type(value).__name__}>"


def _default(value: object) -> Any:
    """Return a JSON type for what the encoder does not know; it comes back for what is inside."""
    if isinstance(value, set | frozenset):
        return sorted(value, key=_text)
    if isinstance(value, Enum):
        return value.value
    if ItemAdapter.is_item(value):
        return dict(ItemAdapter(value))
    return _text(value)


_strict = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_default)
