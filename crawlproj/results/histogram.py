"""A small histogram of durations: two classes for each doubling, from a millisecond to some minutes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

CLASSES = 40  # the last one begins at nine minutes and has no end


def class_of(milliseconds: float) -> int:
    """Return the class of a duration: the n-th goes from 2^(n/2) ms to the next."""
    if milliseconds < 1:
        return 0
    return min(int(2 * math.log2(milliseconds)), CLASSES - 1)


def quantile(counts: Mapping[int, int], share: float) -> int | None:
    """Return what that share of the durations is below, in ms; None if there are none.

    Within a class they are taken as spread evenly: it is off by a fifth at the very most, mostly by far less.
    """
    total = sum(counts.values())
    if not total:
        return None
    left = share * total
    for number in sorted(counts):
        count = counts[number]
        if left <= count:
            low = 2 ** (number / 2) if number else 0
            return round(low + (2 ** ((number + 1) / 2) - low) * left / count)
        left -= count
    return round(2 ** ((max(counts) + 1) / 2))
