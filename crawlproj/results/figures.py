"""The figures of the last day: counters of whole hours, never a scan."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from crawlproj.items import FetchStatus
from crawlproj.results.histogram import quantile
from crawlproj.results.results import COUNTS, HOUR, RESULT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crawlproj.connections import Client

HOURS = 24  # this one and the 23 before it


@dataclass(frozen=True, slots=True, kw_only=True)
class DayFigures:
    """What the downloader did since *since*, 23 to 24 hours ago: of one crawl, or of all."""

    since: datetime
    by_status: Mapping[FetchStatus, int]  #: all four of them
    by_entry: Mapping[str, int]  #: by the way it was asked for; `a`: under a lease
    by_reason: Mapping[str, int]  #: why fetches failed, the most frequent first
    p50_ms: int | None  #: of how long fetches took
    p95_ms: int | None

    @property
    def fetches(self) -> int:
        """How many there were."""
        return sum(self.by_status.values())


async def last_day(redis: Client, *, crawl: str | None = None, now: float | None = None) -> DayFigures:
    """Return the figures of the last 24 hours, to the hour, of one crawl by its name or of all."""
    hour = int(time.time() if now is None else now) // HOUR
    suffix = "" if crawl is None else f":{crawl}"
    total: Counter[str] = Counter()
    for each in range(hour - HOURS + 1, hour + 1):
        fields: Any = await redis.hgetall(f"{COUNTS}{each}{suffix}")
        total.update({name.decode(): int(value) for name, value in fields.items()})
    durations = {int(name): count for name, count in _part(total, "ms:").items()}
    statuses = _part(total, "status:")
    return DayFigures(
        since=datetime.fromtimestamp((hour - HOURS + 1) * HOUR, UTC),
        by_status={status: statuses.get(status, 0) for status in FetchStatus},
        by_entry=_part(total, "entry:"),
        by_reason=_part(total, "reason:"),
        p50_ms=quantile(durations, 0.5),
        p95_ms=quantile(durations, 0.95),
    )


async def fetch_result(redis: Client, key: bytes) -> dict[str, Any] | None:
    """Return what was found last at a URL, by its page key; None if that is not known (any more)."""
    found = await redis.get(RESULT + key.hex())
    return None if found is None else dict(json.loads(found))


def _part(counts: Counter[str], prefix: str) -> dict[str, int]:
    skip = len(prefix)
    return {name[skip:]: count for name, count in counts.most_common() if name.startswith(prefix)}
