"""Projects the events of a crawl's life on its row in PostgreSQL.

CrawlService is a consumer and nothing else: it sends no event, leases nothing and fetches nothing. Each event
is one transaction under the lock of the run's row, and counts once: a second one of the same worker, stint
and kind changes nothing, nor does one that comes when the run is paused or sealed.

    crawl_setup, crawl_start   started, for as long as the worker's lease is
    crawl_cleanup              started, and due at once unless others are at it: this worker fetches no more
    crawl_completed            sealed if nothing is left to do anywhere, else due

Cleanup never seals: only when a worker is done with all that it had to store can be said whether anything is
left.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from crawlproj.crawls import lifecycle
from crawlproj.crawls.statements import query
from crawlproj.signals import EVENTS

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from scrapy.signalmanager import SignalManager

    from crawlproj.connections import Database
    from crawlproj.signals import CrawlEvent

    Connection = AsyncConnection[Any]

#: Reasons for closing that are errors of the worker: whoever comes next had better wait a little.
ERRORS = frozenset(
    {"worker_failed", "scheduler_failed", "pipeline_failed", "frontier_lost", "start_error", "setup_failed"}
)

_KEPT = ("reason", "error", "through", "stop_reason", "keeps", "counts")  # of an event, in its row


class CrawlService:
    """Keeps the rows of runs as their events tell. *lease_seconds* is how long a worker's word counts."""

    def __init__(self, database: Database, *, lease_seconds: float) -> None:
        self._database = database
        self._lease_seconds = lease_seconds

    def subscribe(self, signals: SignalManager) -> None:
        """Listen to the four events."""
        for kind, signal in EVENTS.items():
            signals.connect(getattr(self, kind), signal=signal)

    async def crawl_setup(self, event: CrawlEvent) -> None:
        """Project that a worker has joined."""
        await self._project(event, self._active)

    async def crawl_start(self, event: CrawlEvent) -> None:
        """Project that a worker leases."""
        await self._project(event, self._active)

    async def crawl_cleanup(self, event: CrawlEvent) -> None:
        """Project that a worker fetches no more."""
        await self._project(event, self._cleanup)

    async def crawl_completed(self, event: CrawlEvent) -> None:
        """Decide: sealed or due."""
        await self._project(event, self._completed)

    async def _project(self, event: CrawlEvent, change: Any) -> None:
        told = {name: value for name, value in asdict(event).items() if name in _KEPT and value}

        async def work(connection: Connection) -> None:
            await lifecycle.lock(connection, event.crawl_id)
            if await lifecycle.record(connection, event, told):
                await change(connection, event)

        await self._database.run(work)

    async def _active(self, connection: Connection, event: CrawlEvent) -> None:
        await query(connection, "project_active", **self._lease(event))

    async def _cleanup(self, connection: Connection, event: CrawlEvent) -> None:
        await query(connection, "project_cleanup", **self._lease(event))

    async def _completed(self, connection: Connection, event: CrawlEvent) -> None:
        if event.through and await lifecycle.seal_locked(
            connection,
            event.crawl_id,
            stop_reason=event.stop_reason or "done",
            counts=event.counts,
            kept=event.keeps,
        ):
            return
        failed = event.reason in ERRORS
        if failed:
            await query(
                connection,
                "note_failure",
                crawl_id=event.crawl_id,
                worker=event.worker,
                reason=event.reason,
                error=event.error or "",
            )
        await lifecycle.release_locked(
            connection,
            event.crawl_id,
            event.worker,
            event.epoch,
            wait_seconds=self._lease_seconds if failed else 0.0,
        )

    def _lease(self, event: CrawlEvent) -> dict[str, Any]:
        return {
            "crawl_id": event.crawl_id,
            "worker": event.worker,
            "epoch": event.epoch,
            "phase": lifecycle.PHASES[event.kind],
            "lease_seconds": self._lease_seconds,
        }
