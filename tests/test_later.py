"""Work that is done a moment after it was asked for."""

from __future__ import annotations

import asyncio

import pytest

from crawlproj.later import Later


class Work:
    """Counts how often it was done, and takes as long as it is told to."""

    def __init__(self, *, seconds: float = 0.02) -> None:
        self.begun = self.ended = 0
        self.free = asyncio.Event()
        self.free.set()
        self.error: Exception | None = None
        self.later = Later(self.do, seconds=seconds, what="counting")

    async def do(self) -> None:
        self.begun += 1
        await self.free.wait()
        if self.error is not None:
            raise self.error
        self.ended += 1


async def settled(work: Work, times: int) -> None:
    async with asyncio.timeout(10):
        while work.ended < times:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_many_who_ask_are_served_together() -> None:
    """Once, in the background."""
    work = Work()
    for _ in range(100):
        work.later.soon()
    assert work.begun == 0
    await settled(work, 1)
    await asyncio.sleep(0.05)
    assert work.begun == 1


async def test_who_asks_meanwhile_is_served_afterwards() -> None:
    """Never two at a time, and nobody is forgotten."""
    work = Work()
    work.free.clear()
    work.later.now()
    await asyncio.sleep(0)
    for ask in (work.later.soon, work.later.now, work.later.soon):
        ask()
    await asyncio.sleep(0.05)
    assert work.begun == 1
    work.free.set()
    await settled(work, 2)
    assert work.begun == 2


async def test_now_does_not_wait_for_its_time() -> None:
    """And what had been asked for by then is done with it."""
    work = Work(seconds=60)
    work.later.soon()
    work.later.now()
    await settled(work, 1)
    assert work.later._timer is None


async def test_closing_does_what_is_left_and_no_more() -> None:
    """Once, with what is under way; whoever asks afterwards is told nothing."""
    work = Work(seconds=60)
    work.later.soon()
    await work.later.close(5)
    assert work.ended == 1
    work.later.soon()
    work.later.now()
    await asyncio.sleep(0)
    assert work.begun == 1


async def test_closing_takes_no_longer_than_it_may(caplog: pytest.LogCaptureFixture) -> None:
    """What does not end is left."""
    work = Work(seconds=60)
    work.free.clear()
    work.later.now()
    async with asyncio.timeout(5):
        await work.later.close(0.05)
    assert (work.begun, work.ended) == (1, 0)
    assert work.later._task is None


async def test_an_error_is_said_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """The next who asks is served as if nothing had been."""
    work = Work()
    work.error = ValueError("no")
    work.later.now()
    await asyncio.sleep(0.02)
    assert "Counting failed: no" in caplog.text
    work.error = None
    work.later.soon()
    await settled(work, 1)
