"""The frontier's own tests, on a Redis Cluster."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from redis.exceptions import ResponseError

from crawlproj.scripts import Script
from tests.frontier import test_frontier, test_leases, test_limits, test_run, test_wishes
from tests.frontier.cluster import StrictScripts, collected, sha
from tests.frontier.conftest import links

globals().update(collected(test_frontier))
globals().update(collected(test_leases, "incident"))
globals().update(collected(test_limits))
globals().update(collected(test_run))
globals().update(collected(test_wishes, "spent"))


async def test_a_script_that_leaves_its_slot_is_refused(fleet):
    """So that the tests below can fail."""
    await fleet("crawl")
    scripts = StrictScripts(fleet.redis, "test")
    for key, is_refused in (("KEYS[1] .. 'x'", False), ("'frontier:{another}:x'", True)):
        text = f"return redis.call('GET', {key})".encode()
        call = scripts.call(Script("x", text, sha(text)), ["frontier:{crawl}:"])
        with pytest.raises(ResponseError, match="slot") if is_refused else nullcontext():
            await call
    await scripts.close()


async def test_partitions_lie_in_slots_of_their_own(fleet):
    """All keys of one together, and those of several apart."""
    made = await fleet(partitions=3)
    await made.schedule([entry for n in range(9) for entry in links(f"h{n}.test", 1)])
    slots = {await fleet.redis.execute_command("CLUSTER", "KEYSLOT", part.prefix) for part in made.parts}
    assert len(slots) == 3
    for key in await fleet.snapshot():
        assert await fleet.redis.execute_command("CLUSTER", "KEYSLOT", key) in slots
