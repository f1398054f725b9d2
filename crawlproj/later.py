"""Work that is done a moment after it was asked for: for many askers at once, in the background."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

logger = logging.getLogger(__name__)


class Later:
    """Does *work* within *seconds* of being asked, once for all who ask until then.

    For what a crawl can do without: an error of the work is logged as that of *what*, and nothing more.
    """

    def __init__(self, work: Callable[[], Awaitable[None]], *, seconds: float, what: str) -> None:
        self._work = work
        self._seconds = seconds
        self._what = what
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._wanted = False
        self._closed = False

    def soon(self) -> None:
        """Have it done within the time that it may take."""
        if self._wanted:
            return
        self._wanted = True
        if self._task is None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._start)

    def now(self) -> None:
        """Have it begun at once, or when what is under way has ended."""
        self._wanted = True
        if self._task is None and not self._closed:
            self._start()

    async def close(self, seconds: float) -> None:
        """Do what was asked for and is not done yet, if that takes no longer than *seconds*; then no more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            async with asyncio.timeout(seconds):
                if self._task is not None:
                    await asyncio.wait([self._task])
                if self._wanted:
                    self._wanted = False
                    await self._do()
        except TimeoutError:
            logger.info("No time is left for %s", self._what)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._wanted = False
        self._task = asyncio.get_running_loop().create_task(self._do())
        self._task.add_done_callback(self._done)

    async def _do(self) -> None:
        try:
            await self._work()
        except Exception as exc:  # noqa: BLE001  # whatever it is, no page may suffer from it
            logger.warning("%s failed: %s", self._what.capitalize(), exc)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        with suppress(asyncio.CancelledError):
            task.exception()
        if self._wanted and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._start)
