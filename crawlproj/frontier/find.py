"""Frontiers that are there, by their ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crawlproj.frontier.frontier import Frontier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crawlproj.connections import Client
    from crawlproj.scripts import Scripts

_BATCH = 500


async def find(redis: Client, scripts: Scripts, frontier_id: str) -> Frontier | None:
    """Return a frontier with as many partitions as it has; None when its keys are gone."""
    frontier = Frontier(redis, scripts, frontier_id)
    if not await frontier.exists():
        return None
    partitions = int((await frontier.parts[0].tune({})).get("partitions", 1))
    return frontier if partitions == 1 else Frontier(redis, scripts, frontier_id, partitions)


async def drop_all(redis: Client, scripts: Scripts, frontier_ids: Sequence[str]) -> list[str]:
    """Remove the keys of those that are still there; return their ids.

    They belong to runs that are sealed: whoever sealed one died before it came to this.
    """
    left: list[str] = []
    for start in range(0, len(frontier_ids), _BATCH):
        names = frontier_ids[start : start + _BATCH]
        pipe = redis.pipeline(transaction=False)
        for name in names:
            pipe.exists(f"{Frontier(redis, scripts, name).prefix}ctl")
        there = await pipe.execute()
        left += [name for name, found in zip(names, there, strict=True) if found]
    for name in left:
        frontier = await find(redis, scripts, name)
        if frontier is not None:
            await frontier.drop()
    return left
