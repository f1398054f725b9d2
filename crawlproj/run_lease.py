"""A worker's place on its run: renewed, taken again when it was lost, given up when the run is paused."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from crawlproj.crawls import lifecycle
from crawlproj.crawls.lifecycle import CrawlStatus

if TYPE_CHECKING:
    from crawlproj.worker import Worker

logger = logging.getLogger(__name__)

PAUSED_SECONDS = 1.0  # between two looks at a frontier that rests
PAUSED_LOOKS = 3  # after which it rests of its own accord: people pause a run first, then its frontier


class RunLease:
    """Keeps a worker on its run for as long as it is to be there.

    Settings: LEASE_SECONDS, LEAVE_WHEN_PAUSED.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

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
            await worker.frontier.pause()
            # It may have been resumed between the two looks, and nobody would do it again.
            if (await lifecycle.read(worker.life, worker.crawl)).status is not CrawlStatus.PAUSED:
                await worker.frontier.resume()
                return
        if worker.config.leave_when_paused:
            logger.info("Crawl %s is paused; this worker leaves it", worker.crawl.name)
            worker.close_spider("paused")

    async def leave_when_paused(self) -> None:
        """Leave the run as soon as it is paused, if that is wanted, until cancelled.

        A frontier that rests of its own accord, at its start or its finish, is what a person is to look at
        first: its run is paused then, or whoever comes next would find nothing to do either.
        """
        worker, looks = self._worker, 0
        while worker.config.leave_when_paused and not worker.stopping:
            await asyncio.sleep(PAUSED_SECONDS)
            if not worker.frontier.figures.paused:
                looks = 0
                continue
            looks += 1
            if looks > PAUSED_LOOKS:
                await lifecycle.pause(
                    worker.life, worker.crawl, why="its frontier rests, at its start or its finish"
                )
            await self.obey((await lifecycle.read(worker.life, worker.crawl)).status)

    async def _take_again(self) -> bool:
        """Claim the run again, if all that happened is that a renewal came too late."""
        worker = self._worker
        crawl = await lifecycle.claim_again(
            worker.life, worker.crawl, worker.id, lease_seconds=worker.config.lease_seconds
        )
        if crawl is None:
            return False
        worker.crawl = crawl
        return True
