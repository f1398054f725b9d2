"""A Redis Cluster: which server has a key, and the way of operations to it.

redis-py keeps the map of the slots and sends plain commands. Operations go by lanes of our own, one for each
server, because there they travel in batches and wait out an outage instead of failing.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from redis.asyncio import RedisCluster
from redis.exceptions import MovedError, RedisClusterException, RedisError

from crawlproj.lane import FIRST_PAUSE, LONGEST_PAUSE, OUTAGE, Call, Lane

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from redis.asyncio import Redis

logger = logging.getLogger(__name__)

#: Nobody can say which server has which slots.
_LOST = (*OUTAGE, RedisClusterException, RedisError)


class ClusterClient(RedisCluster):
    """A client of a cluster that can open one of each of its servers as well."""

    def __init__(self, *, open_node: Callable[[str, int], Redis], **options: Any) -> None:
        super().__init__(**options)
        self.open_node = open_node
        self._has_map = False

    def server_of(self, key: str) -> tuple[str, int] | None:
        """Return the address of the server that has a key, as far as is known."""
        nodes = self.nodes_manager.slots_cache.get(self.keyslot(key))
        return (str(nodes[0].host), int(nodes[0].port)) if nodes else None

    async def relearn(self) -> None:
        """Ask the servers for the map of the slots."""
        if self._has_map:
            await self.nodes_manager.initialize()
        else:
            await self.initialize()  # it asks for the commands that there are, too
            self._has_map = True

    async def note(self, moved: MovedError) -> bool:
        """Take one slot's new place from the server that has it no longer; False: it was nobody's before."""
        if moved.slot_id not in self.nodes_manager.slots_cache:
            return False
        await self.nodes_manager.move_slot(moved)
        return True


class ClusterLanes:
    """The lanes to the servers of a cluster; the router of all of them."""

    def __init__(self, client: ClusterClient, name: str) -> None:
        self._client = client
        self._name = name
        self._lanes: dict[tuple[str, int], Lane] = {}
        self._clients: list[Redis] = []
        self._lost: list[Call] = []  #: nobody knows where they belong, yet
        self._moved: list[MovedError] = []
        self._finder: asyncio.Task[None] | None = None
        self._warned = False

    @property
    def all(self) -> Iterable[Lane]:
        """The lanes there are."""
        return self._lanes.values()

    @property
    def unanswered(self) -> Iterator[Call]:
        """The calls that are on their way."""
        yield from tuple(self._lost)
        for lane in self._lanes.values():
            yield from lane.unanswered

    def take(self, call: Call) -> None:
        """Send a call to the server that has its slot."""
        lane = None if self._lost else self._lane_of(call)
        if lane is not None:
            lane.take(call)
        else:
            self._lose(call)

    def are_together(self, keys: Sequence[str]) -> bool:
        """Say whether these keys are in one slot."""
        return len({self._client.keyslot(key) for key in keys}) == 1

    def redirect(self, call: Call, moved: MovedError) -> None:
        """Send a call to the server that has its slot now."""
        self._moved.append(moved)
        self._lose(call)

    async def reconsider(self, lane: Lane, calls: list[Call]) -> list[Call]:
        """Send calls elsewhere that the lane's silent server has no longer; return the others."""
        with suppress(*_LOST):
            await self._client.relearn()
        staying = []
        for call in calls:
            now = self._lane_of(call)
            if now is None or now is lane:
                staying.append(call)
            else:
                now.take(call)
        return staying

    async def close(self) -> None:
        """Send nothing any more."""
        if self._finder is not None:
            self._finder.cancel()
            await asyncio.wait([self._finder])
        for lane in self._lanes.values():
            await lane.close()
        for client in self._clients:
            await client.aclose()

    def _lane_of(self, call: Call) -> Lane | None:
        address = self._client.server_of(call.key)
        if address is None:
            return None
        if address not in self._lanes:
            client = self._client.open_node(*address)
            self._clients.append(client)
            self._lanes[address] = Lane(client, f"{address[0]}:{address[1]}", self)
        return self._lanes[address]

    def _lose(self, call: Call) -> None:
        self._lost.append(call)
        if self._finder is None or self._finder.done():
            self._finder = asyncio.get_running_loop().create_task(self._find())

    async def _find(self) -> None:
        """Learn where the lost calls belong, for as long as that takes, and send them there."""
        failures = 0
        while True:
            try:
                await self._learn()
                self._send_found()
            except _LOST as exc:
                if failures and not self._warned:
                    self._warned = True
                    logger.warning("The Redis Cluster at %s does not say who has what: %s", self._name, exc)
            except Exception as exc:  # noqa: BLE001  # whatever it is, nobody may wait for ever
                lost, self._lost = self._lost, []
                for call in lost:
                    call.settle(exc)
            if not self._lost:
                self._warned = False
                return
            await asyncio.sleep(min(FIRST_PAUSE * 2.0 ** min(failures, 10), LONGEST_PAUSE))
            failures += 1

    def _send_found(self) -> None:
        calls, self._lost = self._lost, []
        for call in calls:
            lane = self._lane_of(call)
            if lane is None:
                self._lost.append(call)  # its slot is nobody's
            else:
                lane.take(call)

    async def _learn(self) -> None:
        moved, self._moved = self._moved, []
        known = bool(moved)
        for each in moved:
            known = await self._client.note(each) and known
        if not known:
            await self._client.relearn()
