"""The delay rules."""

from __future__ import annotations

import pytest

from crawlproj.politeness.pace import IntervalSource, pace, poll_ms


@pytest.mark.parametrize(("leased", "expected"), [(5000, 5000), (200, 200), (0, 0)])
def test_the_interval_of_a_lease_is_used_as_it_is(leased: int, expected: int) -> None:
    """Also when it is below the default: whoever gave the lease has weighed them."""
    found = pace(leased, 1000)
    assert (found.interval_ms, found.source) == (expected, IntervalSource.LEASE)


def test_without_a_lease_the_default_applies() -> None:
    """No interval in the lease is not an interval of zero."""
    found = pace(None, 1000)
    assert (found.interval_ms, found.source) == (1000, IntervalSource.DEFAULT)


def test_asking_again_slows_down_and_stays_bounded() -> None:
    """A place that stays taken is asked for less and less often, but never forgotten."""
    waits = [poll_ms(0, tries, jitter=0) for tries in range(2000)]
    assert waits == sorted(waits)
    assert waits[0] == 50
    assert waits[-1] == 1000


def test_asking_again_is_no_use_before_the_next_start() -> None:
    """With a start 5 s away there is nothing to ask for until then; workers do not ask in step."""
    assert poll_ms(5000, 0, jitter=0) == 5000
    assert poll_ms(5000, 0, jitter=1) > 5000


def test_a_time_that_is_known_is_asked_for_then() -> None:
    """However often one had to ask before; workers do not ask in step."""
    assert poll_ms(12, None, jitter=0) == 12
    assert poll_ms(12, None, jitter=1) == 15
