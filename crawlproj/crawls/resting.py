"""A frontier rests while its run is paused; the row in PostgreSQL decides.

Who pauses or resumes a run changes its row first and its frontier then. Between the two somebody else may do
both, so that a frontier that is changed late would be left as nobody wants it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from crawlproj.crawls import rows
from crawlproj.crawls.lifecycle import CrawlStatus

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from psycopg import Connection


class Restable(Protocol):
    """What can rest, as a frontier."""

    async def pause(self) -> None:
        """Hand out nothing until `resume`."""

    async def resume(self) -> None:
        """Hand out again."""


async def follow_row(
    frontier: Restable, status: CrawlStatus, read_status: Callable[[], Awaitable[CrawlStatus]]
) -> CrawlStatus:
    """Let a frontier rest or go on, as the row's *status* is; return what that is once both agree.

    The row is read again after each change: who changes the frontier last sees the last state of the row. A
    frontier whose run is sealed is left alone.
    """
    while status is not CrawlStatus.SEALED:
        rests = status is CrawlStatus.PAUSED
        await (frontier.pause() if rests else frontier.resume())
        status = await read_status()
        if (status is CrawlStatus.PAUSED) is rests:
            break
    return status


def status_of(connection: Connection[Any], crawl_id: int) -> Callable[[], Awaitable[CrawlStatus]]:
    """Return what reads a run's status, for a command: it holds the event loop meanwhile."""

    async def read() -> CrawlStatus:
        return CrawlStatus(rows.crawl(connection, crawl_id).status)

    return read
