"""Lua operations on Redis: loaded by package, sent in batches, patient with an outage.

Calls that are made while an earlier batch is under way travel together as one pipeline, so that a
busy worker pays for few round trips and an idle one for no waiting. Each call is one script on the
keys of one hash tag, so a pipeline works on a cluster, too.
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

from redis.exceptions import BusyLoadingError, ConnectionError, NoScriptError, ResponseError, TimeoutError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redis.asyncio import Redis

logger = logging.getLogger(__name__)

BATCH = 256  # calls in one pipeline: enough to pay for a round trip, few enough to stay short
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0  # seconds between tries while the server is away
OUTAGE = (ConnectionError, TimeoutError, BusyLoadingError, OSError)

Argument: TypeAlias = str | bytes | int | float


@dataclass(frozen=True, slots=True)
class Script:
    """One operation: its text and the name the server knows it by."""

    name: str
    text: bytes
    sha: str


@cache
def script(package: str, name: str, *, common: str | None = None, allow_oom: bool = False) -> Script:
    """Return the operation in `lua/<name>.lua` of *package*, with `lua/<common>.lua` before it.

    *allow_oom* lets it run on a full server: what frees memory must not wait for free memory.
    """
    folder = files(package).joinpath("lua")
    parts = [folder.joinpath(f"{part}.lua").read_bytes() for part in (common, name) if part]
    if allow_oom:
        parts.insert(0, b"#!lua flags=allow-oom")
    text = b"\n".join(parts)
    return Script(name, text, sha1(text, usedforsecurity=False).hexdigest())


@dataclass(slots=True)
class _Call:
    script: Script
    arguments: tuple[Argument, ...]  #: number of keys, keys, arguments
    answer: asyncio.Future[Any]


class Scripts:
    """Runs operations on one server; *server* is its name in messages, without a password."""

    def __init__(self, redis: Redis, server: str) -> None:
        self._redis = redis
        self._server = server
        self._waiting: list[_Call] = []
        self._sender: asyncio.Task[None] | None = None
        self._away = False
        self.lost_at = float("-inf")  #: monotonic, when the last outage was noticed

    def call(self, operation: Script, keys: Sequence[str], *arguments: Argument) -> asyncio.Future[Any]:
        """Return the future reply of an operation. An outage only delays it."""
        loop = asyncio.get_running_loop()
        call = _Call(operation, (len(keys), *keys, *arguments), loop.create_future())
        self._waiting.append(call)
        if self._sender is None or self._sender.done():
            self._sender = loop.create_task(self._send())
        return call.answer

    @property
    def away(self) -> bool:
        """Say whether the server did not answer the last time."""
        return self._away

    async def flush(self) -> None:
        """Wait until every call made so far has been answered."""
        while self._sender is not None and not self._sender.done():
            await asyncio.wait([self._sender])

    async def close(self) -> None:
        """Give up what has not been answered."""
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait([self._sender])
        for call in self._waiting:
            call.answer.cancel()

    async def _send(self) -> None:
        pause = FIRST_PAUSE
        while self._waiting:
            batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
            try:
                again = await self._send_batch(batch)
            except OUTAGE as exc:
                self._note_outage(exc)
                again = batch
            except BaseException:
                self._waiting = batch + self._waiting
                raise
            self._waiting = again + self._waiting
            if self._away and again:
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            elif not again:
                self._note_return()
                pause = FIRST_PAUSE

    async def _send_batch(self, batch: list[_Call]) -> list[_Call]:
        """Send calls and hand out the replies. Returns those to be sent again."""
        pipe = self._redis.pipeline(transaction=False)
        for call in batch:
            pipe.execute_command("EVALSHA", call.script.sha, *call.arguments)
        replies = await pipe.execute(raise_on_error=False)
        again: list[_Call] = []
        for call, reply in zip(batch, replies, strict=True):
            if isinstance(reply, NoScriptError):
                await self._redis.script_load(call.script.text)
                again.append(call)
            elif isinstance(reply, Exception):
                if isinstance(reply, OUTAGE) or _refuses_for_now(reply):
                    self._note_outage(reply)
                    again.append(call)
                elif not call.answer.done():
                    call.answer.set_exception(reply)
            elif not call.answer.done():
                call.answer.set_result(reply)
        return again

    def _note_outage(self, exc: Exception) -> None:
        if not self._away:
            self._away = True
            self.lost_at = time.monotonic()
            logger.warning("Redis at %s does not serve us (%s); waiting for it", self._server, exc)

    def _note_return(self) -> None:
        if self._away:
            self._away = False
            logger.info("Redis at %s serves us again", self._server)


def _refuses_for_now(reply: Exception) -> bool:
    """Say whether the server is there and will do it later: full, read-only, its disk failed."""
    kinds = ("OOM", "MISCONF", "READONLY", "LOADING", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "BUSY")
    # The client takes the first word off errors that it has a class for. A script's error comes
    # wrapped in where it happened.
    text = f"{getattr(reply, 'status_code', None)} {reply}"
    return isinstance(reply, ResponseError) and any(f"{kind} " in text[:200] for kind in kinds)
