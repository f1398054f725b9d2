"""What the server's clock says, by this worker's."""

from __future__ import annotations

import pytest

from crawlproj.politeness.server_clock import SPAN_SECONDS, ServerClock

AHEAD = 1_000_000.0  # of the server's clock


def answered(clock: ServerClock, asked: float, took: float, ahead: float = AHEAD) -> tuple[float, float]:
    """Take in an answer whose time was read in its middle; return the bounds of that time by our clock."""
    clock.note(asked + took / 2 + ahead, asked, asked + took)
    return clock.ours(asked + took / 2 + ahead)


def test_one_answer_tells_as_exactly_as_it_was_fast() -> None:
    """The time was read between the question and the answer."""
    assert answered(ServerClock(), 10, 0.5) == pytest.approx((10, 10.5))


def test_a_slow_answer_makes_no_difference_after_a_fast_one() -> None:
    """Also in the next span of time; what is older than that counts no more."""
    clock = ServerClock()
    answered(clock, 10, 0.002)
    for later in (10.1, 10 + SPAN_SECONDS + 0.1):
        assert answered(clock, later, 0.5) == pytest.approx((later + 0.249, later + 0.251))
    later = 10 + 4 * SPAN_SECONDS
    assert answered(clock, later, 0.5) == pytest.approx((later, later + 0.5))


@pytest.mark.parametrize("step", [-3600.0, -0.1, 0.1, 3600.0])
def test_a_clock_that_was_set_is_believed_at_once(step: float) -> None:
    """What was known of it before is worth nothing."""
    clock = ServerClock()
    answered(clock, 10, 0.002)
    assert answered(clock, 11, 0.004, AHEAD + step) == pytest.approx((11, 11.004))
