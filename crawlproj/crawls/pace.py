"""What holds a worker up, and how fast it is; and the same of all workers of a run together.

A worker looks at itself some times a second and says what held it up in that moment. The first line that
is true of it counts:

| cause     | what the worker does                                                                       |
|-----------|--------------------------------------------------------------------------------------------|
| database  | its pages wait to be committed, and more of them than requests are under way               |
| workers   | it has as many requests on the wire as MAX_CONCURRENT_COUNT allows, or no processor is left |
| host pace | it has room, and no host may be asked; or its requests wait for their host's turn or answer |
| nothing   | there is nothing to do                                                                     |

More workers, or larger ones, help against `workers` alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from crawlproj.clean import as_jsonb
from crawlproj.crawls.statements import query

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from psycopg import AsyncConnection

    from crawlproj.connections import Database
    from crawlproj.crawls.lifecycle import Crawl

BEHIND_SECONDS = 1.0  # that a page waits for its commit: one of a large batch takes tenths of that
FULL = 0.9  # of a processor: what is left goes by in waits that are too short for anything
SHARES_SECONDS = 60.0  # over which the causes are counted
DURATIONS_SECONDS = 120.0  # over which the durations of fetches are


class Cause(StrEnum):
    """What a crawl is limited by."""

    DATABASE = "database"
    WORKERS = "workers"
    HOST_PACE = "host pace"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What one worker does at one moment."""

    in_flight: int  #: requests that are with the downloader
    on_the_wire: int  #: of these, those that have gone out; the others wait for robots.txt or their turn
    most: int  #: that may be in flight
    to_store: int = 0  #: pages that wait for their commit and their report
    waited: float = 0.0  #: seconds that the first of these has waited
    held_back: bool = False  #: nothing new begins until some of what was fetched is parsed and stored
    queued: int = 0  #: URLs that may be leased some time, by any worker
    busy: float = 0.0  #: share of the time since the last look that the event loop computed, or wanted to


def cause(moment: Moment) -> Cause:
    """Return what holds a worker up."""
    behind = moment.waited >= BEHIND_SECONDS or moment.held_back
    if behind and moment.to_store >= max(moment.in_flight, 1):
        return Cause.DATABASE
    if moment.busy >= FULL or moment.held_back:
        return Cause.WORKERS
    if moment.in_flight >= moment.most and 2 * moment.on_the_wire >= moment.in_flight:
        return Cause.WORKERS
    if moment.queued or moment.in_flight:
        return Cause.HOST_PACE
    return Cause.NOTHING


class Shares:
    """How often each cause was found lately."""

    def __init__(self) -> None:
        self._found: deque[tuple[float, Cause]] = deque()
        self._counts: Counter[Cause] = Counter()

    def add(self, now: float, found: Cause) -> None:
        """Take in what was found at *now*, in seconds of any clock."""
        self._found.append((now, found))
        self._counts[found] += 1
        while now - self._found[0][0] > SHARES_SECONDS:
            self._counts[self._found.popleft()[1]] -= 1

    def as_dict(self) -> dict[str, float]:
        """Return the share of each, 0 to 1; of all of them, as soon as there is one."""
        total = len(self._found)
        return {each.value: round(self._counts[each] / total, 3) for each in Cause} if total else {}


class Recent:
    """The part of counters that only grow which they have grown by lately."""

    def __init__(self, seconds: float = DURATIONS_SECONDS) -> None:
        self._seconds = seconds
        self._marks: deque[tuple[float, Counter[int]]] = deque([(float("-inf"), Counter())])

    def add(self, now: float, counts: Mapping[int, int]) -> dict[int, int]:
        """Take in how the counters stand at *now*; return by how much each has grown of late."""
        self._marks.append((now, Counter(counts)))
        # The mark that is left in front is the last one that is older: what came after it is recent.
        while len(self._marks) > 1 and now - self._marks[1][0] >= self._seconds:
            self._marks.popleft()
        return dict(self._marks[-1][1] - self._marks[0][1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """What a worker, or all workers of a run together, say of their speed."""

    pages: int  #: that have come to an end
    rate: float | None  #: pages a second over the last half minute; None: it is too early to tell
    durations: Mapping[int, int]  #: of fetches, by the classes of `crawlproj.results.histogram`
    in_flight: int
    causes: Mapping[str, float]  #: shares of the last minute
    workers: int = 1  #: that have said something

    @property
    def limit(self) -> tuple[Cause, float] | None:
        """Return what limits the crawl most, and in what share of the time; None: nobody has said."""
        if not self.causes:
            return None
        first = max(Cause, key=lambda each: self.causes.get(each.value, 0.0))  # of equals the first named
        return first, self.causes.get(first.value, 0.0)


def merged(paces: Iterable[Mapping[str, Any]]) -> Pace:
    """Return as one what several workers have written; what an older or newer worker lacks does not count."""
    durations: Counter[int] = Counter()
    causes: defaultdict[str, float] = defaultdict(float)
    rates: list[float] = []
    pages = in_flight = workers = said = 0
    for each in paces:
        workers += 1
        pages += each.get("pages") or 0
        in_flight += each.get("in_flight") or 0
        durations.update({int(name): count for name, count in (each.get("durations") or {}).items()})
        if each.get("rate") is not None:
            rates.append(each["rate"])
        if each.get("causes"):
            said += 1
            for name, share in each["causes"].items():
                causes[name] += share
    return Pace(
        pages=pages,
        rate=sum(rates) if rates else None,
        durations=dict(durations),
        in_flight=in_flight,
        causes={name: share / said for name, share in causes.items()},
        workers=workers,
    )


async def write(database: Database, crawl: Crawl, worker: str, pace: Mapping[str, Any]) -> None:
    """Write down the pace of a worker beside its lease; nothing happens when it has none any more."""
    said = as_jsonb(dict(pace))

    async def work(connection: AsyncConnection[Any]) -> None:
        await query(connection, "write_pace", crawl_id=crawl.id, worker=worker, epoch=crawl.epoch, pace=said)

    await database.run(work, single=True)
