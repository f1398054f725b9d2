"""Lua operations on Redis: loaded by package, sent in batches, patient with an outage.

Calls that are made while an earlier batch is under way travel together, so that a busy worker pays
for few round trips and an idle one for no waiting. Each call is one script on the keys of one hash
tag, so it works on a cluster, too.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeAlias

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
#: The server answers and will not do this one now: it is full, read-only, without its peers.
REFUSAL = (
    errors.OutOfMemoryError,
    errors.ReadOnlyError,
    errors.ClusterDownError,
    errors.MasterDownError,
    errors.TryAgainError,
)
_REFUSAL_WORDS = ("MISCONF ", "BUSY ", "NOREPLICAS ")  # those redis-py has no class for

Argument: TypeAlias = str | bytes | int | float


@dataclass(frozen=True, slots=True)
class Script:
    """One operation: its text and the name the server knows it by."""

    name: str
    text: bytes
    sha: str


@cache
def script(package: str, name: str, *, before: tuple[str, ...] = (), allow_oom: bool = False) -> Script:
    """Return the operation in `lua/<name>.lua` of *package*, with the files named in *before* ahead of it.

    *allow_oom* lets it run on a full server: what frees memory must not wait for free memory.
    """
    folder = files(package).joinpath("lua")
    parts = [folder.joinpath(f"{part}.lua").read_bytes() for part in (*before, name)]
    if allow_oom:
        parts.insert(0, b"#!lua flags=allow-oom")
    text = b"\n".join(parts)
    return Script(name, text, sha1(text, usedforsecurity=False).hexdigest())


@dataclass(slots=True, eq=False)
class _Call:
    script: Script
    packed: bytes  #: as it goes over the wire
    answer: asyncio.Future[Any]


class Scripts:
    """Runs operations on one server; *server* is its name in messages, without a password."""

    def __init__(self, redis: Redis, server: str) -> None:
        self.lost_at = float("-inf")  #: monotonic, when a connection was lost the last time
        self._pool = redis.connection_pool
        self._server = server
        self._waiting: list[_Call] = []
        self._batch: list[_Call] = []  #: under way
        self._refused: list[_Call] = []  #: by a server that answers; the others do not wait for them
        self._loaded: set[str] = set()  #: what the server should know
        self._sender: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._retry_pause = FIRST_PAUSE
        self._warned_at = float("-inf")
        self._refusing = False
        self._away = False
        self._closed = False

    def call(self, operation: Script, keys: Sequence[str], *arguments: Argument) -> asyncio.Future[Any]:
        """Return the future reply of an operation. An outage only delays it."""
        # Packed here, so that what cannot be sent is its caller's error and nobody else's.
        packed = _pack("EVALSHA", operation.sha, len(keys), *keys, *arguments)
        call = _Call(operation, packed, asyncio.get_running_loop().create_future())
        if self._closed:
            call.answer.cancel()
        else:
            self._waiting.append(call)
            self._wake()
        return call.answer

    @property
    def away(self) -> bool:
        """Say whether the server did not answer the last time."""
        return self._away

    async def flush(self) -> None:
        """Wait until every call made so far has been answered."""
        answers = [call.answer for call in self._unanswered()]
        if answers:
            await asyncio.wait(answers)

    async def close(self) -> None:
        """Give up what has not been answered, and whatever is called from now on."""
        self._closed = True
        if self._retry is not None:
            self._retry.cancel()
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait([self._sender])
        for call in self._unanswered():
            call.answer.cancel()

    def _unanswered(self) -> Iterable[_Call]:
        return (*self._batch, *self._waiting, *self._refused)

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
            except Exception as exc:  # noqa: BLE001  # whatever it is, nobody may wait for ever
                for call in self._batch:
                    _settle(call, exc)
            self._batch = []

    async def _exchange(self) -> list[Any]:
        """Send the batch, and ahead of it the scripts that are new; return the replies, errors among them."""
        new = {call.script.sha: call.script for call in self._batch if call.script.sha not in self._loaded}
        packed = [_pack("SCRIPT", "LOAD", each.text) for each in new.values()]
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
        again: list[_Call] = []
        for call, reply in zip(self._batch, replies, strict=True):
            if isinstance(reply, errors.NoScriptError):
                self._loaded.discard(call.script.sha)
                again.append(call)
            elif _refuses_for_now(reply):
                self._hold_back(call, reply)
            else:
                _settle(call, reply)
        self._waiting = again + self._waiting

    def _hold_back(self, call: _Call, why: Any) -> None:
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
        if failures > 0 and not self._away:  # once is a connection that was closed while it lay idle
            self._away = True
            logger.warning("Redis at %s does not serve us (%s); waiting for it", self._server, exc)

    def _note_return(self) -> None:
        if self._away:
            self._away = False
            logger.info("Redis at %s serves us again", self._server)
        if not self._refused:
            self._retry_pause = FIRST_PAUSE
            if self._refusing:
                self._refusing = False
                logger.info("Redis at %s takes writes again", self._server)


def _pack(*parts: Argument) -> bytes:
    packed: bytes = pack_command(parts)  # type: ignore[arg-type]  # its stub knows one-tuples only
    return packed


def _refuses_for_now(reply: Any) -> bool:
    return isinstance(reply, REFUSAL) or (
        isinstance(reply, errors.ResponseError) and str(reply).startswith(_REFUSAL_WORDS)
    )


def _settle(call: _Call, reply: Any) -> None:
    if call.answer.done():
        return
    if isinstance(reply, Exception):
        call.answer.set_exception(reply)
    else:
        call.answer.set_result(reply)
