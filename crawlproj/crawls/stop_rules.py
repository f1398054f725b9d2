"""When a run has had enough: soft limits on time, targets, results and bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crawlproj.crawls.notes import bytes_note, results_note, running_time_note, targets_note

if TYPE_CHECKING:
    from crawlproj.crawls.notes import StopNote


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run may use, over all its workers; 0 is unlimited."""

    seconds: float
    targets: int
    results: int
    bytes: int = 0


def exceeded(
    limits: Limits, *, seconds: float, targets: int, results: int, waiting: bool, received: int = 0
) -> StopNote | None:
    """Return the note on the first limit that is reached, or None.

    A run that has as many targets as it may have, and none *waiting* besides, is simply through.
    """
    if limits.seconds and seconds >= limits.seconds:
        return running_time_note(limit=limits.seconds, used=seconds)
    if limits.targets and targets >= limits.targets and waiting:
        return targets_note(limit=limits.targets, started=targets)
    if limits.results and results >= limits.results:
        return results_note(limit=limits.results, results=results)
    if limits.bytes and received >= limits.bytes:
        return bytes_note(limit=limits.bytes, received=received)
    return None
