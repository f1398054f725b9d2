"""What a worker remembers as seen, to spare Redis links that it has just sent there."""

from __future__ import annotations


class SeenCache:
    """A set of bounded size that forgets its older half when full.

    Only what the frontier has confirmed may go in: forgetting costs a round trip, a wrong entry
    would cost a page.
    """

    __slots__ = ("_half", "_new", "_old", "epoch")

    def __init__(self, size: int) -> None:
        self._half = size // 2
        self._new: set[str | int] = set()
        self._old: set[str | int] = set()
        self.epoch = 0  #: how often it has forgotten everything

    def clear(self) -> None:
        """Forget everything: the server may have lost what it confirmed."""
        self._new, self._old = set(), set()
        self.epoch += 1

    def __contains__(self, name: str | int) -> bool:
        return name in self._new or name in self._old

    def add(self, name: str | int) -> None:
        """Remember *name*."""
        if self._half == 0:
            return
        if len(self._new) >= self._half:
            self._old, self._new = self._new, set()
        self._new.add(name)
