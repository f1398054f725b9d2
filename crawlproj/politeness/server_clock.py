"""When it is what time on the server, by this worker's clock."""

from __future__ import annotations

import math

SPAN_SECONDS = 2.5  # two clocks drift apart, or are put right, by less than a millisecond meanwhile


class ServerClock:
    """Knows the server's clock as exactly as the fastest of the last answers.

    Each answer says that the server's time was read between the question and the answer. On a busy
    machine those are many milliseconds apart now and then, and a start would be as many late.
    """

    def __init__(self) -> None:
        self._low = self._high = math.nan  #: what to add to ours, in seconds, at least and at most
        self._earlier = (-math.inf, math.inf)
        self._since = -math.inf

    def note(self, server: float, asked: float, answered: float) -> None:
        """Take in one answer: the server's time, and ours before and after; all in seconds."""
        low, high = server - answered, server - asked
        if answered - self._since > SPAN_SECONDS:
            fresh = answered - self._since <= 2 * SPAN_SECONDS
            self._earlier = (self._low, self._high) if fresh else (-math.inf, math.inf)
            self._low, self._high, self._since = low, high, answered
        else:
            self._low, self._high = max(self._low, low), min(self._high, high)
        least, most = self._bounds()
        if least > most:  # one of the clocks was set
            self._low, self._high, self._since = low, high, answered
            self._earlier = (-math.inf, math.inf)

    def ours(self, server: float) -> tuple[float, float]:
        """Return the earliest and the latest that a time of the server's can be by our clock."""
        least, most = self._bounds()
        return server - most, server - least

    def _bounds(self) -> tuple[float, float]:
        return max(self._low, self._earlier[0]), min(self._high, self._earlier[1])
