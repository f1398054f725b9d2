"""Calls of Lua operations on their way to one server: sent in batches, patient with an outage."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from hiredis import pack_command
from redis import exceptions as errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from redis.asyncio import Redis

logger = logging.getLogger(__name__)

BATCH = 256  # calls in one round trip: enough to pay for it, few enough to stay short
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0  # seconds between tries while the server is away or refuses
WARN_SECONDS = 60.0  # a server at the edge of its memory refuses and takes by turns

#: Nobody answers: no call can pass.
OUTAGE = (errors.ConnectionError, errors.TimeoutError, OSError)  # loading its data is the first, too
#: The server answers and will not do this one now: it is full, read-only, without its peers. One that is
#: handing the slot over to another has half of its keys: nothing of it can be done until it has them all.
REFUSAL = (
    errors.OutOfMemoryError,
    errors.ReadOnlyError,
    errors.ClusterDownError,
    errors.MasterDownError,
    errors.TryAgainError,
    errors.AskError,
)
_REFUSAL_WORDS = ("MISCONF ", "BUSY ", "NOREPLICAS ")  # those redis-py has no class for

Argument: TypeAlias = str | bytes | int | float


@dataclass(frozen=True, slots=True)
class Script:
    """One operation: its text and the name the server knows it by."""

    name: str
    text: bytes
    sha: str


class Call:
    """One operation on the keys of one slot, and whoever waits for its reply."""

    __slots__ = ("answer", "key", "packed", "script")

    def __init__(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument]) -> None:
        # Packed here, so that what cannot be sent is its caller's error and nobody else's.
        self.packed = pack("EVALSHA", script.sha, len(keys), *keys, *arguments)  #: as it goes over the wire
        self.script = script
        self.key = keys[0] if keys else ""  #: which names the slot
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def settle(self, reply: Any) -> None:
        """Hand a reply to whoever waits, an error as such."""
        if self.answer.done():
            return
        if isinstance(reply, Exception):
            self.answer.set_exception(reply)
        else:
            self.answer.set_result(reply)


class Router(Protocol):
    """Knows which of several servers a call belongs to."""

    def redirect(self, call: Call, moved: errors.MovedError) -> None:
        """Send a call to the server that has its slot now."""

    async def reconsider(self, lane: Lane, calls: list[Call]) -> list[Call]:
        """Send calls elsewhere that the lane's silent server has no longer; return the others."""


class Lane:
    """The way to one server; *server* is its name in messages, without a password."""

    def __init__(self, redis: Redis, server: str, router: Router | None = None) -> None:
        self.lost_at = float("-inf")  #: monotonic, when a connection was lost the last time
        self.away = False  #: whether the server did not answer the last time
        self._pool = redis.connection_pool
        self._server = server
        self._router = router
        self._waiting: list[Call] = []
        self._batch: list[Call] = []  #: under way
        self._refused: list[Call] = []  #: by a server that answers; the others do not wait for them
        self._loaded: set[str] = set()  #: what the server should know
        self._sender: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._retry_pause = FIRST_PAUSE
        self._warned_at = float("-inf")
        self._refusing = False

    def take(self, call: Call) -> None:
        """Send a call with the next batch."""
        self._waiting.append(call)
        self._wake()

    @property
    def unanswered(self) -> Iterable[Call]:
        """The calls that are on their way."""
        return (*self._batch, *self._waiting, *self._refused)

    async def close(self) -> None:
        """Send nothing any more."""
        if self._retry is not None:
            self._retry.cancel()
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait([self._sender])

    def _wake(self) -> None:
        if self._sender is None or self._sender.done():
            self._sender = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        failures = 0
        while self._waiting:
            self._batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
            try:
                self._hand_out(await self._exchange())
                failures = 0
                self._note_return()
            except OUTAGE as exc:
                self._waiting = self._batch + self._waiting
                self._batch = []
                self._note_loss(exc, failures)
                await asyncio.sleep(min(FIRST_PAUSE * 2.0 ** min(failures, 10), LONGEST_PAUSE))
                failures += 1
                if self._router is not None:
                    await self._reconsider(self._router)
            except Exception as exc:  # noqa: BLE001  # whatever it is, nobody may wait for ever
                for call in self._batch:
                    call.settle(exc)
            self._batch = []

    async def _reconsider(self, router: Router) -> None:
        # Under way meanwhile, so that nobody who looks finds them nowhere.
        self._batch, self._waiting = self._waiting, []
        self._batch = await router.reconsider(self, self._batch)
        self._waiting = self._batch + self._waiting

    async def _exchange(self) -> list[Any]:
        """Send the batch, and ahead of it the scripts that are new; return the replies, errors among them."""
        new = {call.script.sha: call.script for call in self._batch if call.script.sha not in self._loaded}
        packed = [pack("SCRIPT", "LOAD", each.text) for each in new.values()]
        packed += [call.packed for call in self._batch]
        replies: list[Any] = []
        connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
        try:
            await connection.send_packed_command(packed)
            while len(replies) < len(packed):
                try:
                    replies.append(await connection.read_response())
                except errors.ResponseError as exc:
                    replies.append(exc)
        finally:
            await self._pool.release(connection)
        for sha, reply in zip(new, replies, strict=False):
            if isinstance(reply, Exception):
                raise reply  # else it would be found missing again, and again
            self._loaded.add(sha)
        return replies[len(new) :]

    def _hand_out(self, replies: list[Any]) -> None:
        again: list[Call] = []
        for call, reply in zip(self._batch, replies, strict=True):
            if isinstance(reply, errors.NoScriptError):
                self._loaded.discard(call.script.sha)
                again.append(call)
            elif isinstance(reply, errors.MovedError) and self._router is not None:
                self._router.redirect(call, reply)
            elif _refuses_for_now(reply):
                self._hold_back(call, reply)
            else:
                call.settle(reply)
        self._waiting = again + self._waiting

    def _hold_back(self, call: Call, why: Any) -> None:
        """Keep a call that was refused, to be sent again after a while."""
        self._refused.append(call)
        if self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(self._retry_pause, self._send_refused)
        if time.monotonic() - self._warned_at > WARN_SECONDS:
            self._warned_at = time.monotonic()
            self._refusing = True
            logger.warning("Redis at %s refuses writes (%s); they wait", self._server, why)

    def _send_refused(self) -> None:
        self._retry = None
        self._retry_pause = min(self._retry_pause * 2, LONGEST_PAUSE)
        self._waiting = self._refused + self._waiting
        self._refused = []
        self._wake()

    def _note_loss(self, exc: BaseException, failures: int) -> None:
        self.lost_at = time.monotonic()
        if failures > 0 and not self.away:  # once is a connection that was closed while it lay idle
            self.away = True
            logger.warning("Redis at %s does not serve us (%s); waiting for it", self._server, exc)

    def _note_return(self) -> None:
        if self.away:
            self.away = False
            logger.info("Redis at %s serves us again", self._server)
        if not self._refused:
            self._retry_pause = FIRST_PAUSE
            if self._refusing:
                self._refusing = False
                logger.info("Redis at %s takes writes again", self._server)


def pack(*parts: Argument) -> bytes:
    """Return a command as it goes over the wire. Raises what redis-py raises for what cannot."""
    packed: bytes = pack_command(parts)  # type: ignore[arg-type]  # its stub knows one-tuples only
    return packed


def _refuses_for_now(reply: Any) -> bool:
    if isinstance(reply, errors.MovedError):
        return False
    return isinstance(reply, REFUSAL) or (
        isinstance(reply, errors.ResponseError) and str(reply).startswith(_REFUSAL_WORDS)
    )
