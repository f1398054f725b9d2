"""Crawls that repeat: when one run is sealed, its next one is queued for its time."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from crawlproj.crawls.statements import query

if TYPE_CHECKING:
    from datetime import datetime

    from psycopg import AsyncConnection


async def queue_next(
    connection: AsyncConnection[Any], crawl_id: int, *, at: datetime | None = None
) -> int | None:
    """Queue the next run of the series that a run belongs to, if it is sealed; return its number.

    Belongs into the transaction that seals the run: a crash leaves both or neither. *at* is what counts as
    now. None: it does not repeat, or somebody else has made its next run.
    """
    last = await query(connection, "series_of", crawl_id=crawl_id)
    if last is None:
        return None
    made = await query(
        connection,
        "claim_create",
        name=last["name"],
        spider=last["spider"],
        frontier=secrets.token_hex(8),
        config=Jsonb({}),
        first=False,
    )
    if made is None:
        return None
    await query(connection, "repeat", crawl_id=crawl_id, next_id=made["id"], at=at)
    return int(made["id"])
