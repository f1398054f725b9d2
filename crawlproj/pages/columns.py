"""Columns of many rows as binary PostgreSQL arrays.

A statement that takes one array per column costs the same for one row as for sixty, and its text
never changes. Cells are packed when a page arrives, a row at a time, so that a value that cannot
be packed costs its own page only; putting a batch together is then nothing but joins.
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from psycopg.adapt import Dumper
from psycopg.pq import Format

from crawlproj.clean import json_utf8, utf8

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg.abc import AdaptContext, Buffer

#: What a NULL looks like.
NULL = b"\xff\xff\xff\xff"

#: Object ids of the element types, the same in every PostgreSQL.
OIDS = {"bytea": 17, "int8": 20, "int4": 23, "text": 25, "timestamptz": 1184, "jsonb": 3802}

_empty = struct.Struct("!iiI").pack
_header = struct.Struct("!iiIii").pack
_int4 = struct.Struct("!ii").pack
_int8 = struct.Struct("!iq").pack
_length = struct.Struct("!i").pack
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Array(bytes):
    """A packed array; the statement's cast says of which type it is."""

    __slots__ = ()


class ArrayDumper(Dumper):
    """Hands an Array to PostgreSQL as it is."""

    format = Format.BINARY
    oid = 0

    def dump(self, obj: Any) -> Buffer | None:
        buffer: Buffer = obj  # a copy of it as bytes would be one more of a body of 64 MB
        return buffer


def register(context: AdaptContext) -> None:
    """Let a connection take Array parameters."""
    if context.adapters is not None:
        context.adapters.register_dumper(Array, ArrayDumper)


def array(element: str, cells: Sequence[bytes]) -> Array:
    """Return the array of packed *cells*."""
    if not cells:
        return Array(_empty(0, 0, OIDS[element]))
    return Array(b"".join((_header(1, 1, OIDS[element], len(cells), 1), *cells)))


def bytea(value: bytes | None) -> bytes:
    """Pack bytes."""
    return NULL if value is None else _length(len(value)) + value


def text(value: str | None) -> bytes:
    """Pack text, cleaned."""
    if value is None:
        return NULL
    data = utf8(value)
    return _length(len(data)) + data


def jsonb(value: object) -> bytes:
    """Pack JSON, cleaned; None is NULL."""
    if value is None:
        return NULL
    data = json_utf8(value)
    return _length(len(data) + 1) + b"\x01" + data  # the version of the binary form


def int4(value: int | None) -> bytes:
    """Pack an integer of 32 bits."""
    return NULL if value is None else _int4(4, value)


def int8(value: int | None) -> bytes:
    """Pack an integer of 64 bits."""
    return NULL if value is None else _int8(8, value)


def timestamptz(value: datetime | None) -> bytes:
    """Pack a time; one without a zone is taken for UTC."""
    if value is None:
        return NULL
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return _int8(8, (value - _EPOCH) // _MICROSECOND)
