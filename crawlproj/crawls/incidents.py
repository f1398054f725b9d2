"""Hosts that are in trouble: which of it is worth a note, and that they answer again.

    answers ── 3 in a row, or a long wait asked for ──► HOST_INCIDENT ── an answer ──► HOST_RECOVERED

Each worker counts for itself; what it finds is written if no worker has written the same before.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from crawlproj.clean import as_jsonb, clean
from crawlproj.crawls.statements import query
from crawlproj.later import Later
from crawlproj.output import duration

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from psycopg import AsyncConnection

    from crawlproj.connections import Database

HOST_INCIDENT = "HOST_INCIDENT"
HOST_RECOVERED = "HOST_RECOVERED"
IN_A_ROW = 3
LONG_MS = 60_000  # a host that asks for as much is in trouble, whatever came before
AGAIN_SECONDS = 600  # a host that comes and goes is noted once in this time
MOST_HOSTS = 10_000  # in trouble at once, that a worker keeps in mind: 3 MB
MOST_NOTES = 100  # of a run; whoever reads so many reads no more

_Note: TypeAlias = tuple[str, str, dict[str, Any]]  # namespace, message, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A host that is worth a note."""

    host: str
    incidents: int  #: in a row
    reason: str  #: of the last one, in one word


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """A host that answers again."""

    host: str


@dataclass(slots=True)
class _Row:
    """Incidents of one host, without an answer in between."""

    incidents: int = 0
    told: bool = False


class Incidents:
    """Counts incidents by host; of more than *most* hosts it forgets those that had none for longest."""

    def __init__(self, most: int = MOST_HOSTS) -> None:
        self._most = most
        self._rows: OrderedDict[str, _Row] = OrderedDict()

    def incident(self, host: str, reason: str, *, asked_ms: int | None = None) -> Trouble | None:
        """Note one, and return what is to be told of it. *asked_ms* is the wait that the host asked for."""
        row = self._rows.setdefault(host, _Row())
        self._rows.move_to_end(host)
        if len(self._rows) > self._most:
            self._rows.popitem(last=False)
        row.incidents += 1
        if row.told or (row.incidents < IN_A_ROW and (asked_ms or 0) < LONG_MS):
            return None
        row.told = True
        return Trouble(host=host, incidents=row.incidents, reason=reason)

    def answered(self, host: str) -> Recovery | None:
        """Note an answer, and return what is to be told of it."""
        row = self._rows.pop(host, None)
        return Recovery(host=host) if row is not None and row.told else None


class HostNotes:
    """Tells of hosts in the background: in the order of what happened, and nothing waits for it.

    *write* writes one note, *wait_ms* asks the frontier for how long a host is left alone by now.
    """

    def __init__(
        self,
        write: Callable[[Trouble | Recovery, int | None], Awaitable[None]],
        wait_ms: Callable[[str], Awaitable[int | None]],
        *,
        incidents: Incidents | None = None,
    ) -> None:
        self._write = write
        self._wait_ms = wait_ms
        self._incidents = incidents or Incidents()
        self._found: deque[Trouble | Recovery] = deque(maxlen=MOST_HOSTS)
        self._later = Later(self._tell, seconds=0.0, what="noting hosts in trouble")

    def incident(self, host: str, reason: str, *, asked_ms: int | None = None) -> None:
        """Take in that a host has had one."""
        self._take(self._incidents.incident(host, reason, asked_ms=asked_ms))

    def answered(self, host: str) -> None:
        """Take in that a host has answered."""
        self._take(self._incidents.answered(host))

    async def close(self, seconds: float) -> None:
        """Tell what is left to tell, if that takes no longer than *seconds*."""
        await self._later.close(seconds)

    def _take(self, found: Trouble | Recovery | None) -> None:
        if found is not None:
            self._found.append(found)
            self._later.now()

    async def _tell(self) -> None:
        while self._found:
            found = self._found.popleft()
            wait_ms = await self._wait_ms(found.host) if isinstance(found, Trouble) else None
            await self._write(found, wait_ms)


async def write(database: Database, crawl_id: int, found: Trouble | Recovery, wait_ms: int | None) -> bool:
    """Write the note on a host, unless a worker has lately, or there are too many; say whether it was.

    *wait_ms* is for how long the host is left alone.
    """

    async def work(connection: AsyncConnection[Any]) -> bool:
        # Of several workers that find the same the second one has to see what the first has written.
        await query(connection, "lock", crawl_id=crawl_id)
        before = await query(connection, "host_notes", crawl_id=crawl_id, host=clean(found.host))
        assert before is not None, "it counts"
        note = _trouble(found, wait_ms, before) if isinstance(found, Trouble) else _recovery(found, before)
        if note is None:
            return False
        namespace, message, fields = note
        await query(
            connection,
            "write_note",
            crawl_id=crawl_id,
            namespace=namespace,
            message=clean(message),
            fields=as_jsonb(fields),
        )
        return True

    return await database.run(work)


def _trouble(found: Trouble, wait_ms: int | None, before: Mapping[str, Any]) -> _Note | None:
    lately = before["seconds"] is not None and before["seconds"] < AGAIN_SECONDS
    if lately or before["incidents"] > MOST_NOTES:
        return None
    if before["incidents"] == MOST_NOTES:
        nothing = {"host": None, "incidents": None, "reason": "too_many", "wait_seconds": None}
        return HOST_INCIDENT, f"more than {MOST_NOTES} hosts in trouble: further ones are not noted", nothing
    after = f"{found.incidents} \N{MULTIPLICATION SIGN} {found.reason}"
    message = f"{found.host} is in trouble: {after}"
    if wait_ms:
        message = f"{found.host} is left alone for {duration(wait_ms / 1000)} after {after}"
    fields = {
        "host": found.host,
        "incidents": found.incidents,
        "reason": found.reason,
        "wait_seconds": round(wait_ms / 1000) if wait_ms else None,
    }
    return HOST_INCIDENT, message, fields


def _recovery(found: Recovery, before: Mapping[str, Any]) -> _Note | None:
    if before["trouble"] is None or before["trouble"] < (before["recovery"] or 0):
        return None
    seconds = round(max(before["seconds"], 0))
    message = f"{found.host} answers again, after {duration(seconds)}"
    return HOST_RECOVERED, message, {"host": found.host, "seconds": seconds}
