"""Lua operations on Redis: loaded by package, sent in batches, patient with an outage.

Calls that are made while an earlier batch is under way travel together, so that a busy worker pays
for few round trips and an idle one for no waiting. Each call is one script on the keys of one hash
tag; on a cluster it goes to the server that has its slot, wherever that moves.
"""

from __future__ import annotations

import asyncio
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from crawlproj.cluster import ClusterClient, ClusterLanes
from crawlproj.lane import Argument, Call, Lane, Script

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from redis.asyncio import Redis

__all__ = ["Argument", "Script", "Scripts", "script"]


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


class Scripts:
    """Runs operations on one server, or a cluster; *server* is its name in messages, without a password."""

    def __init__(self, redis: Redis | ClusterClient, server: str) -> None:
        self._closed = False
        self._lanes: _OneLane | ClusterLanes
        if isinstance(redis, ClusterClient):
            self._lanes = ClusterLanes(redis, server)
        else:
            self._lanes = _OneLane(Lane(redis, server))

    def call(self, operation: Script, keys: Sequence[str], *arguments: Argument) -> asyncio.Future[Any]:
        """Return the future reply of an operation. An outage only delays it."""
        call = Call(operation, keys, arguments)
        if self._closed:
            call.answer.cancel()
        else:
            self._lanes.take(call)
        return call.answer

    def are_together(self, *keys: str) -> bool:
        """Say whether one operation may use all of these keys."""
        return self._lanes.are_together(keys)

    @property
    def away(self) -> bool:
        """Say whether a server did not answer the last time."""
        return any(lane.away for lane in self._lanes.all)

    @property
    def lost_at(self) -> float:
        """Return when a connection was lost the last time, monotonic; -inf if none was."""
        return max((lane.lost_at for lane in self._lanes.all), default=float("-inf"))

    async def flush(self) -> None:
        """Wait until every call made so far has been answered."""
        answers = [call.answer for call in self._lanes.unanswered]
        if answers:
            await asyncio.wait(answers)

    async def close(self) -> None:
        """Give up what has not been answered, and whatever is called from now on."""
        self._closed = True
        await self._lanes.close()
        for call in self._lanes.unanswered:
            call.answer.cancel()


class _OneLane:
    """The way to the one server that there is."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self.all = (lane,)
        self.take = lane.take

    @property
    def unanswered(self) -> Iterable[Call]:
        return self._lane.unanswered

    def are_together(self, keys: Sequence[str]) -> bool:
        return True

    async def close(self) -> None:
        await self._lane.close()
