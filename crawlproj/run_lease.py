"""A worker's place on its run: renewed, taken again when it was lost, given up when the run is paused."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from crawlproj.crawls import lifecycle
from crawlproj.crawls.lifecycle import CrawlStatus
from crawlproj.crawls.resting import follow_row

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crawlproj.worker import Worker

logger = logging.getLogger(__name__)

PAUSED_SECONDS = 1.0  # between two looks at a frontier that rests
PAUSED_LOOKS = 3  # after which it rests of its own accord: people change a run first, then its frontier


class RunLease:
    """Keeps a worker on its run for as long as it is to be there.

    Settings: LEASE_SECONDS, LEAVE_WHEN_PAUSED.
    """

    def __init__(self, worker: Worker, *, taken_again: Callable[[], Awaitable[None]]) -> None:
        self._worker = worker
        self._taken_again = taken_again

    async def keep(self) -> None:
        """Renew the lease until cancelled, or until the run is over."""
        worker = self._worker
        while True:
            await asyncio.sleep(worker.config.lease_seconds / 3)
            status = await lifecycle.renew(
                worker.life, worker.crawl, worker.id, lease_seconds=worker.config.lease_seconds
            )
            if status is not None:
                await self.obey(status)
                await lifecycle.reclaim(worker.life)
            elif not await self._take_again():
                logger.warning("Crawl %s is over, or paused by now; this worker stops", worker.crawl.name)
                # Whoever sealed it found nothing left to do, as this worker would have a moment later.
                now = await lifecycle.read(worker.life, worker.crawl)
                worker.close_spider("finished" if now.status is CrawlStatus.SEALED else "lease_lost")
                return

    async def obey(self, status: CrawlStatus) -> None:
        """Pause the frontier of a paused run, should whoever paused it not have come that far."""
        worker = self._worker
        if status is not CrawlStatus.PAUSED:
            return
        if not (await worker.frontier.refresh()).paused:
            status = await follow_row(worker.frontier, status, self._status)
        if status is CrawlStatus.PAUSED and worker.config.leave_when_paused:
            logger.info("Crawl %s is paused; this worker leaves it", worker.crawl.name)
            worker.close_spider("paused")

    async def leave_when_paused(self) -> None:
        """Leave the run as soon as it is paused, if that is wanted, until cancelled.

        A frontier that rests of its own accord, at its start or its finish, is for a person to look at: its
        run is paused then, or whoever comes next would find nothing to do either.
        """
        worker, looks = self._worker, 0
        while worker.config.leave_when_paused and not worker.stopping:
            await asyncio.sleep(PAUSED_SECONDS)
            if not worker.frontier.figures.paused:
                looks = 0
                continue
            looks += 1
            knobs = worker.frontier.knobs
            if looks > PAUSED_LOOKS and (knobs["pause_at_start"] or knobs["pause_at_finish"]):
                why = "the crawl pauses at its start or its finish"
                await lifecycle.pause(worker.life, worker.crawl, why=why)
            await self.obey(await self._status())

    async def _status(self) -> CrawlStatus:
        return (await lifecycle.read(self._worker.life, self._worker.crawl)).status

    async def _take_again(self) -> bool:
        """Claim the run again, if all that happened is that a renewal came too late."""
        worker = self._worker
        crawl = await lifecycle.claim_again(
            worker.life, worker.crawl, worker.id, lease_seconds=worker.config.lease_seconds
        )
        if crawl is None:
            return False
        worker.crawl = crawl
        await self._taken_again()
        return True
