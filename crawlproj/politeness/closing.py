"""Waits that end when the worker closes, however long they would have been."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from crawlproj.exceptions import WorkerCloses

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")


class ClosingTime:
    """Send those home who still wait when *is_closing* turns true; asked once a *period*, in seconds.

    A crawl-delay of minutes, a place that another worker holds, a Redis that is away: none of them
    may hold up a shutdown.
    """

    def __init__(self, is_closing: Callable[[], bool], *, period: float = 1.0) -> None:
        self._is_closing = is_closing
        self._period = period
        self._waiting: dict[asyncio.Task[Any], bool] = {}  # task -> whether it was sent home
        self._timer: asyncio.TimerHandle | None = None

    async def guard(self, wait: Coroutine[Any, Any, T]) -> T:
        """Return what *wait* returns. Raises WorkerCloses when the worker closes first."""
        task = asyncio.current_task()
        assert task is not None
        self._waiting[task] = False
        if self._timer is None:
            self._schedule()
        try:
            return await wait
        except asyncio.CancelledError:
            if self._waiting[task] and task.uncancel() == 0:
                raise WorkerCloses from None
            raise
        finally:
            del self._waiting[task]

    def _schedule(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._period, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        if self._is_closing():
            for task, sent_home in self._waiting.items():
                if not sent_home:
                    self._waiting[task] = True
                    task.cancel()
        self._schedule()
