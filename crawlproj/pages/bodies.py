"""Where the bytes of page objects are kept: each distinct content once, zstd-compressed."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

from crawlproj.exceptions import BadSetting

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """One content on its way into the store."""

    hash: bytes  #: 32 bytes
    size: int  #: before compression
    data: bytes  #: zstd


class BodyStore(Protocol):
    """Takes bodies before the transaction that stores their pages begins.

    What it raises ends the page store: a page whose body is not safe is never committed.
    """

    async def keep(self, bodies: Sequence[Body]) -> Sequence[Body]:
        """Keep *bodies*, and return those that go into the table `body` with their pages."""


class DatabaseBodies:
    """Every body goes into the table `body`."""

    async def keep(self, bodies: Sequence[Body]) -> Sequence[Body]:
        return bodies


def body_store(address: str | None) -> BodyStore:
    """Return the body store that the setting BODY_STORE names. Raises BadSetting."""
    if address is not None:
        raise BadSetting("BODY_STORE", address, "unset: bodies are kept in the database")
    return DatabaseBodies()


def body_hash(body: bytes) -> bytes:
    """Return the 32 bytes that name a content."""
    return blake2b(body, digest_size=32).digest()
