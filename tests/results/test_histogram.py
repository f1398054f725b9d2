"""Durations in few classes."""

from __future__ import annotations

import random
from collections import Counter
from statistics import quantiles

import pytest

from crawlproj.results.histogram import CLASSES, class_of, quantile


@pytest.mark.parametrize(
    ("milliseconds", "number"),
    [
        (0, 0),
        (0.5, 0),
        (1, 0),
        (1.5, 2),
        (2, 4),
        (2.9, 6),
        (4, 8),
        (1000, 39),
        (1024, 40),
        (10**9, CLASSES - 1),
    ],
)
def test_four_classes_for_each_doubling(milliseconds: float, number: int) -> None:
    """Whatever it is, it has a class; the last one has no end."""
    assert class_of(milliseconds) == number


def test_nothing_has_no_quantile() -> None:
    """Not even zero."""
    assert quantile({}, 0.5) is None


@pytest.mark.parametrize(
    "draw",
    [lambda rng: rng.lognormvariate(6, 1), lambda rng: rng.uniform(1, 3000), lambda _: 780],
    ids=["long tail", "even", "always the same"],
)
def test_a_quantile_is_near_the_true_one(draw) -> None:
    """Of ten thousand durations, within a fifth."""
    rng = random.Random(1)
    durations = [draw(rng) for _ in range(10_000)]
    counts = Counter(map(class_of, durations))
    true = quantiles(durations, n=100)
    for share in (0.5, 0.95):
        assert quantile(counts, share) == pytest.approx(true[round(share * 100) - 1], rel=0.2)
