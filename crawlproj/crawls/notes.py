"""Notes on a run: what a person should know, above all why it stopped early."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crawlproj.clean import as_jsonb, clean
from crawlproj.crawls.statements import query

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg import AsyncConnection

    from crawlproj.connections import Database

STOP_EARLY_REASON = "STOP_EARLY_REASON"
TARGETS = "ExceedTargetsCountLimit"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopNote:
    """Why a run stops before it is through. Programs read *fields*, all of them strings."""

    message: str
    fields: dict[str, str]
    namespace: str = STOP_EARLY_REASON


def running_time_note(*, limit: float, used: float) -> StopNote:
    """Return the note that a run took longer than it may."""
    steps = 1 if limit == int(limit) else 10  # whole seconds, unless that would hide the limit
    most, now = f"{limit:.15g}", f"{math.ceil(used * steps) / steps:.15g}"
    return StopNote(
        message=f"running time {now}s exceeds limit {most}s",
        fields={"r": "ExceedRunningTime", "mostSeconds": most, "usedSeconds": now},
    )


def targets_note(*, limit: int, started: int) -> StopNote:
    """Return the note that a run has as many targets as it may have."""
    return StopNote(
        message=f"targets count {started} exceeds limit {limit}",
        fields={
            "r": TARGETS,
            "limitTargets": str(limit),
            "currentStartedTargets": str(started),
        },
    )


def results_note(*, limit: int, results: int) -> StopNote:
    """Return the note that a run has as many results as it may have."""
    return StopNote(
        message=f"results count {results} exceeds limit {limit}",
        fields={
            "r": "ExceedResultsCountLimit",
            "limitResults": str(limit),
            "currentResults": str(results),
        },
    )


def bytes_note(*, limit: int, received: int) -> StopNote:
    """Return the note that a run has received as many bytes as it may."""
    return StopNote(
        message=f"bytes count {received} exceeds limit {limit}",
        fields={
            "r": "ExceedBytesLimit",
            "limitBytes": str(limit),
            "currentBytes": str(received),
        },
    )


async def write(
    database: Database,
    crawl_id: int,
    *,
    namespace: str,
    message: str,
    fields: Mapping[str, Any],
    once: bool = False,
) -> bool:
    """Write a note on a run; False when the run has one of this kind, and one is enough.

    That is so for *once*, and always for an early stop.
    """
    kind = clean(namespace)

    async def work(connection: AsyncConnection[Any]) -> bool:
        if once:
            await query(connection, "lock", crawl_id=crawl_id)
            if await query(connection, "last_note", crawl_id=crawl_id, namespace=kind) is not None:
                return False
        row = await query(
            connection,
            "write_note",
            crawl_id=crawl_id,
            namespace=kind,
            message=clean(message),
            fields=as_jsonb(dict(fields)),
        )
        return row is not None

    return await database.run(work)


async def stop_reason(database: Database, crawl_id: int) -> str | None:
    """Return why a run stops early, as its note says in `r`; None if it does not."""

    async def work(connection: AsyncConnection[Any]) -> str | None:
        row = await query(connection, "last_note", crawl_id=crawl_id, namespace=STOP_EARLY_REASON)
        return None if row is None else str(row["fields"].get("r") or STOP_EARLY_REASON)

    return await database.run(work)
