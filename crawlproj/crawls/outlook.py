"""How far a run is, and how long it still takes, as far as that can be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Knob of a limit -> what counts against it: as the frontier's figures name it, and as people do.
LIMITS = {
    "max_target": ("started", "targets"),
    "max_result": ("results", "results"),
    "max_urls": ("admitted", "URLs"),
    "max_bytes": ("bytes", "bytes"),
    "max_time_seconds": ("time", "time"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How much of a limit is used up."""

    kind: str  #: targets, results, URLs, bytes, or time in seconds
    used: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowest:
    """The host that takes longest, asked by as many workers as may be."""

    host: str
    seconds: float  #: for all that it has queued
    queued: int
    interval_ms: int
    rests_ms: int  #: before that, because it is left alone


def uses(knobs: Mapping[str, Any], figures: Mapping[str, Any], seconds: float | None) -> list[Use]:
    """Return the limits that are set. *seconds* is how long the run has been running."""
    counted = {**figures, "time": seconds}
    return [
        Use(kind=kind, used=counted.get(figure) or 0, most=knobs[knob])
        for knob, (figure, kind) in LIMITS.items()
        if knobs.get(knob)
    ]


def slowest(hosts: Iterable[Mapping[str, Any]]) -> Slowest | None:
    """Return the host whose queue takes longest; None if none needs any time."""
    found = [each for row in hosts if row["queued"] and row["state"] != "retired" and (each := _alone(row))]
    return max(found, key=lambda each: each.seconds, default=None)


def _alone(row: Mapping[str, Any]) -> Slowest | None:
    interval, due = int(row.get("min_interval_ms") or 0), int(row.get("next_due_ms") or 0)
    rests = due if due > interval else 0
    seconds = (rests + row["queued"] * interval) / 1000
    if not seconds:
        return None
    return Slowest(
        host=row["host"], seconds=seconds, queued=row["queued"], interval_ms=interval, rests_ms=rests
    )


def time_left(
    queued: int, rate: float | None, alone: Slowest | None, limits: Iterable[Use]
) -> tuple[float, bool] | None:
    """Return for how many seconds the run goes on, and whether it is a limit that ends it.

    That is, if no new links are found. None: it cannot be told.
    """
    if not queued or (not rate and alone is None):
        return None
    left = max(queued / rate if rate else 0.0, alone.seconds if alone is not None else 0.0)
    ends = [_until(use, rate) for use in limits]
    first = min((end for end in ends if end is not None), default=left)
    return (first, True) if first < left else (left, False)


def _until(use: Use, rate: float | None) -> float | None:
    """Return in how many seconds a limit is reached: one that grows with time, or with every page."""
    if use.kind == "time":
        return max(use.most - use.used, 0.0)
    return max(use.most - use.used, 0.0) / rate if use.kind == "targets" and rate else None
