"""An event loop in a thread, for servers beside a program that blocks."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

START_SECONDS = 10  #: how long a server may take to start or to stop


class LoopThread:
    """An event loop in a thread of its own: its servers answer while the program does something else."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="servers", daemon=True)

    def __enter__(self) -> Self:
        """Start the loop."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the loop; what runs on it has been closed before."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_SECONDS)
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* on the loop and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(START_SECONDS)
