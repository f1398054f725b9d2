"""A small histogram of durations: four classes for each doubling, from a millisecond to some minutes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PER_DOUBLING = 4  # a class is a fifth wide: no quantile is further off
CLASSES = 80  # the last one begins at quarter of an hour and has no end


def class_of(milliseconds: float) -> int:
    """Return the class of a duration: the n-th begins at 2^(n/4) ms, the first at 0."""
    if milliseconds < 1:
        return 0
    return min(int(PER_DOUBLING * math.log2(milliseconds)), CLASSES - 1)


def quantile(counts: Mapping[int, int], share: float) -> int | None:
    """Return what that share of the durations is below, in ms; None if there are none.

    Those of a class are taken as spread evenly over it.
    """
    total = sum(counts.values())
    if not total:
        return None
    left = share * total
    last = max(counts)
    for number in sorted(counts):
        count = counts[number]
        if left <= count or number == last:
            low, high = _begin(number) if number else 0, _begin(number + 1)
            return round(low + (high - low) * min(left / count, 1))
        left -= count
    return None


def _begin(number: int) -> float:
    return float(2 ** (number / PER_DOUBLING))
