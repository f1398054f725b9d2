"""What the frontier hands out and takes in."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from crawlproj.frontier.entries import Entry

STATES = {
    "r": "ready",
    "i": "inactive",
    "s": "snoozed",
    "p": "in-process",
    "t": "retired",
    "x": "exhausted",
}

MARKING, QUEUING = 1, 2  #: steps of filling a frontier, see `Frontier.fill`


class Outcome(StrEnum):
    """How a lease ends."""

    SUCCEEDED = "s"
    FAILED = "f"
    RETRY = "r"
    DISREGARDED = "d"
    UNREADABLE = "k"


class Figures(NamedTuple):
    """What the frontier counts, and its switches, as of the last operation."""

    queued: int = 0
    held: int = 0  #: of these, by hosts that are blocked or have spent their budget
    leased: int = 0
    started: int = 0  #: targets
    results: int = 0
    seen: int = 0
    dead: int = 0
    late: int = 0
    fresh: int = 0  #: queued that would be new targets: neither tried before in this run nor a redirect's end
    admitted: int = 0  #: URLs that the limit on these counts
    over: int = 0  #: how often one was turned away for that limit
    bytes: int = 0  #: of the bodies that were reported
    paused: bool = False
    stop: str = ""
    closed: bool = False
    version: int = 0  #: of the knobs
    filling: int = 0  #: the step of bringing in pages of earlier runs: MARKING, QUEUING, 0 when that is done

    @property
    def idle(self) -> bool:
        """Say whether nothing is leased, and nothing is queued that may ever be.

        A crawl that is paused or being filled never is.
        """
        return self.queued == self.held and self.leased == 0 and not self.paused and not self.filling

    @classmethod
    def sum(cls, all_of: Sequence[Figures]) -> Figures:
        """Return the figures of several partitions as those of one frontier."""
        counts = [sum(column) for column in zip(*(each[:_COUNTS] for each in all_of), strict=True)]
        return cls._make(
            (
                *counts,
                any(each.paused for each in all_of),
                next((each.stop for each in all_of if each.stop), ""),
                all(each.closed for each in all_of),
                max(each.version for each in all_of),
                # What is not marked everywhere is not marked.
                min((each.filling for each in all_of if each.filling), default=0),
            )
        )


_COUNTS = Figures._fields.index("paused")  # what stands before it is counted


class Grant(NamedTuple):
    """One lease as the server gives it."""

    token: int
    host: str
    attempts: int
    interval_ms: int | None  #: the host's own; None: the crawl's
    entry: bytes
    knobs: Mapping[str, float] = {}  #: the host's own


class Granted(NamedTuple):
    """What `next` found: leases, and when it is worth asking again."""

    wait_ms: int | None  #: until something is due; None: nothing will be, by itself
    grants: list[Grant]
    gone: bool = False  #: there is no such frontier any more, or it is another run's


class Report(NamedTuple):
    """How one lease ended."""

    token: int
    outcome: Outcome
    outlinks: Sequence[Entry] = ()
    results: Sequence[int] = ()  #: fingerprints
    retry_after_ms: int | None = None
    host_incident: bool = False
    counted: bool = False  #: its outlinks go on a target that has been counted
    duration_ms: int | None = None  #: of the fetch; None: there was none
    size: int = 0  #: bytes that came over the wire


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """One host's queue as an operator sees it."""

    host: str
    state: str
    queued: int
    in_flight: int
    min_interval_ms: int
    interval_source: str  #: host (its own knob), robots, language or default (the crawl's)
    next_due_ms: int
    spent: int
    budget: int
    errors: int
    backs_off_ms: int = 0  #: after an incident, or because it asked for that
    knobs: Mapping[str, float] = field(default_factory=dict)  #: its own; `blocked` is 1 if it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """One queued URL."""

    host: str
    entry: bytes
    priority: int
    attempts: int
    delayed: bool = False  #: waits for another attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """What will not be tried again, and why."""

    id: str
    host: str
    entry: bytes
    reason: str
    attempts: int
    at: datetime
