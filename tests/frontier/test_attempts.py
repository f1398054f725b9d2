"""An entry that comes from elsewhere brings its attempts along."""

from __future__ import annotations

from tests.frontier.conftest import lease_one, link


async def test_an_entry_takes_its_attempts_along(frontier):
    """Whoever lets a URL in again that had been tried before can say so; it is leased as a later attempt."""
    await frontier.schedule([link("a.test/1", attempts=3)])
    (pending,) = [each async for each in frontier.dump_pending()]
    assert pending.attempts == 3
    assert (await lease_one(frontier)).attempts == 3


async def test_attempts_do_not_pass_the_seen_filter(frontier):
    """They are no reason to queue a URL twice."""
    await frontier.schedule([link("a.test/1")])
    assert await frontier.schedule([link("a.test/1", attempts=3)], counted=True) == 0
    assert (await lease_one(frontier)).attempts == 0
