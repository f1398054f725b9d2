"""When a page is to be visited again, by what a visit of it has found.

| the visit found                                              | its interval | the next visit       |
|--------------------------------------------------------------|--------------|----------------------|
| a page that was never visited well before                    | the first    | after the interval   |
| 304, or the content that is known (`page_object` by its id,  | grows        | after the interval   |
| which hashes the body; an empty page has content, too)       |              |                      |
| 404 or 410                                                   | grows        | after the interval   |
| another content, an empty page that was none among it        | shrinks      | after the interval   |
| a redirect to where it led before; to another place          | as above     | after the interval   |
| no usable answer of any other kind; a callback that broke    | stays        | in the next run      |
| nothing yet: refused by robots.txt, scope or filter, or it   | stays        | in the next run      |
| waits for another attempt                                    |              |                      |

With a fixed interval nothing grows or shrinks. A page that was due in every run has an interval of 0, which
nothing can grow from: it gets the first one. Any other interval stays the page's own when the policy becomes
another one, within the bounds of now. What a page had before stands in its row, so whether it has
changed is decided there, in `sql/store.sql`, by the same rule and by PostgreSQL's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from crawlproj.items import FetchStatus, ScheduleStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crawlproj.config import Config
    from crawlproj.items import PageObject

GROWTH = 1.4  # as Nutch's AdaptiveFetchSchedule: three quiet visits outweigh
SHRINKAGE = 0.8  # five changes, so that a page settles between its changes
GONE = frozenset({404, 410})

_LEARNS = frozenset({FetchStatus.DONE, FetchStatus.EMPTY, FetchStatus.NOT_MODIFIED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How intervals move; in seconds. By itself every page is due in the next run."""

    first: float = 0.0  #: of a page that has none yet
    least: float = 0.0
    most: float = 0.0
    grows: float = 1.0  #: factors
    shrinks: float = 1.0

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """Build it from the settings."""
        first = float(config.revisit_interval_seconds)
        if config.revisit_policy == "fixed":
            return cls(first=first, least=first, most=first)
        least, most = float(config.revisit_min_seconds), float(config.revisit_max_seconds)
        return cls(
            first=min(max(first, least), most), least=least, most=most, grows=GROWTH, shrinks=SHRINKAGE
        )

    def interval(self, before: float | None, *, changed: bool) -> float:
        """Return the interval after a visit that has learned something; None or 0: there was none before."""
        if not before:
            return self.first
        return min(max(before * (self.shrinks if changed else self.grows), self.least), self.most)

    def as_arguments(self) -> Mapping[str, float]:
        """Return it as `sql/store.sql` takes it."""
        return {
            "revisit_first": self.first,
            "revisit_least": self.least,
            "revisit_most": self.most,
            "revisit_grows": self.grows,
            "revisit_shrinks": self.shrinks,
        }


def learns(page: PageObject) -> bool:
    """Say whether a visit has found out how its page is; if not, it is due in the next run."""
    if page.reason == "callback_error":
        return False
    if page.redirect_to is not None:
        return page.schedule_status is ScheduleStatus.SUCCEEDED
    if page.fetch_status is FetchStatus.FAILED:
        return page.schedule_status is ScheduleStatus.FAILED and page.http_status in GONE
    return page.fetch_status in _LEARNS
