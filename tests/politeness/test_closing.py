"""Waits that end when the worker closes."""

from __future__ import annotations

import asyncio
import time

import pytest

from crawlproj.exceptions import WorkerCloses
from crawlproj.politeness.closing import ClosingTime


async def test_nobody_is_sent_home_while_the_worker_runs() -> None:
    """A wait returns what it waited for, however many looks it takes."""
    closing = ClosingTime(lambda: False, period=0.01)
    assert await closing.guard(asyncio.sleep(0.1, "done")) == "done"


async def test_those_who_wait_are_sent_home_when_it_closes() -> None:
    """All of them, soon, and as a retry and no cancellation: their requests come back."""
    closed = False
    closing = ClosingTime(lambda: closed, period=0.01)
    tasks = [asyncio.create_task(closing.guard(asyncio.sleep(60))) for _ in range(5)]
    await asyncio.sleep(0.05)
    assert not any(task.done() for task in tasks)
    closed = True
    began = time.monotonic()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [WorkerCloses] * 5
    assert time.monotonic() - began < 1
    assert all(task.cancelling() == 0 for task in tasks)


async def test_a_cancellation_from_outside_stays_one() -> None:
    """Whoever cancels a request sees it cancelled."""
    closing = ClosingTime(lambda: False, period=0.01)
    task = asyncio.create_task(closing.guard(asyncio.sleep(60)))
    await asyncio.sleep(0.03)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_what_a_wait_raises_comes_through() -> None:
    """An error of the wait is the caller's."""

    async def fail() -> None:
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        await ClosingTime(lambda: False).guard(fail())


async def test_nothing_ticks_when_nobody_waits() -> None:
    """The timer ends with the last wait, and begins with the next."""
    looks = 0

    def look() -> bool:
        nonlocal looks
        looks += 1
        return False

    closing = ClosingTime(look, period=0.01)
    await closing.guard(asyncio.sleep(0.05))
    seen = looks
    assert seen > 1
    await asyncio.sleep(0.05)
    assert looks == seen
    await closing.guard(asyncio.sleep(0.05))
    assert looks > seen
