"""The delay rules: which interval a request keeps, and how long those wait who were refused."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

INTERVAL = "throttle_interval"  #: meta key: (host key, ms) to keep by a request without a lease
MAX_WAIT = "throttle_max_wait_ms"  #: meta key: raise TooSoon instead of waiting longer

POLL_FIRST_MS = 50  # a place held by another worker frees unseen: ask soon at first,
POLL_MAX_MS = 1000  # and later no more often than this
LATE_FREE_MS = 2  # so late still counts as in time: closer an event loop does not keep it
LATEST_MS = 1000  # a start this late is reserved anew; for so long the next one waits for news of it


class IntervalSource(StrEnum):
    """Where a request's interval comes from."""

    LEASE = "lease"  #: the frontier's, for this host
    DEFAULT = "default"  #: MIN_INTERVAL_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How far apart the starts on one domain are, and who says so."""

    interval_ms: int
    source: IntervalSource


def pace(leased_ms: int | None, default_ms: int) -> Pace:
    """Return the lease's interval as it is, or the default where no lease says one.

    Never the larger of both: whoever gave the lease has already weighed them.
    """
    if leased_ms is None:
        return Pace(interval_ms=default_ms, source=IntervalSource.DEFAULT)
    return Pace(interval_ms=max(leased_ms, 0), source=IntervalSource.LEASE)


def poll_ms(retry_ms: float, tries: int | None, *, jitter: float) -> float:
    """Return how long to wait before asking again.

    *retry_ms* is the earliest time that can be of use, *tries* how often that was not enough, as for a
    place that another worker holds; None when it is. *jitter* from 0 to 1 keeps workers apart.
    """
    backoff = 0 if tries is None else min(POLL_FIRST_MS * 2.0 ** min(tries, 10), POLL_MAX_MS)
    return max(retry_ms, backoff) * (1 + jitter / 4)
