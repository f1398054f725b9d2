"""How long a worker that is to end waits for what is under way."""

from __future__ import annotations

from enum import Enum

STEP_SECONDS = 5.0  # what each step may take before the next one


class Step(Enum):
    """What a worker does about requests that do not come to an end, one after the other."""

    CUT = "cut"  #: transfers are cut, those who wait for their turn are sent home
    DROP = "drop"  #: callbacks that go on are waited for no longer; their leases are given back
    LEAVE = "leave"  #: the event loop is stopped, whatever still holds it


class Grace:
    """Says when the next step is due. *seconds* is what a worker has to end by itself."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: float | None = None
        self._taken = 0

    def due(self, now: float, *, ending: bool) -> Step | None:
        """Return the step that is due *now*, each once; *ending* says whether the worker is to end.

        Time counts from when it was to end first; a worker that goes on after all has its whole time again.
        """
        if not ending:
            self._since, self._taken = None, 0
            return None
        if self._since is None:
            self._since = now
        steps = tuple(Step)
        if self._taken == len(steps) or now < self._since + self._seconds + self._taken * STEP_SECONDS:
            return None
        self._taken += 1
        return steps[self._taken - 1]
