"""How a lease ends: well, badly, late, or not at all."""

from __future__ import annotations

import asyncio

import pytest

from crawlproj.frontier.partition import CHUNK
from crawlproj.frontier.records import Outcome
from tests.frontier.conftest import crawl, lease, lease_one, link, links, name_of, succeed


async def expire(frontier):
    """Let leases of a millisecond run out, and give their URLs back."""
    while not await frontier.reclaim():  # noqa: ASYNC110  # the server's clock is what is waited for
        await asyncio.sleep(0.001)


# --- finish ---------------------------------------------------------------------------------------


async def test_outlinks_enter_with_the_report(frontier):
    """In the same step: no other worker sees the page done and its links not there."""
    await frontier.schedule(links("a.test", 1))
    grant = await lease_one(frontier)
    given = [
        link("a.test/0"),
        link("a.test/1"),
        link("b.test/1"),
        link("b.test/1"),
        link("b.test/f", forced=True),
    ]
    assert await frontier.finish(grant.token, Outcome.SUCCEEDED, outlinks=given) == (True, 3)
    figures = frontier.figures
    assert (figures.queued, figures.leased, figures.seen) == (3, 0, 4)


@pytest.mark.parametrize("n", [CHUNK, CHUNK + 1, 3 * CHUNK + 50])
async def test_a_page_may_have_any_number_of_outlinks(frontier, n):
    """Those beyond one script's share go ahead; all of them are counted."""
    await frontier.schedule([link("a.test/")])
    token = (await lease_one(frontier)).token
    assert await frontier.finish(token, Outcome.SUCCEEDED, outlinks=links("b.test", n)) == (True, n)
    assert frontier.figures.queued == n


async def test_results_are_distinct(frontier):
    """A result counts once, whichever page reports it."""
    await frontier.schedule([link(f"h{n}.test/") for n in range(4)])
    for grant, results in zip(await lease(frontier), ([1, 2], [2], [-(2**63), 2**63 - 1], []), strict=True):
        await frontier.finish(grant.token, Outcome.SUCCEEDED, results=results)
    assert frontier.figures.results == 4


async def test_a_late_report_changes_nothing(frontier, fleet):
    """Its token is stale: it is counted as late, and neither links nor results nor host hear of it."""
    await frontier.schedule(links("a.test", 2))
    late = await lease_one(frontier, seconds=0.001)
    await expire(frontier)
    (mine,) = await lease(frontier)
    assert name_of(mine) == name_of(late)
    before = await fleet.snapshot(":ctr")
    for n in (3, 2 * CHUNK):
        for outcome in Outcome:
            reply = await frontier.finish(
                late.token,
                outcome,
                outlinks=[*links("b.test", n), *links("a.test", n)],
                results=[1, 2],
                retry_after_ms=50,
                host_incident=True,
            )
            assert reply == (False, 0)
    assert await fleet.snapshot(":ctr") == before
    assert frontier.figures.late == 2 * len(Outcome)
    await succeed(frontier, mine)


async def test_a_report_counts_once(frontier):
    """However many times, and from however many sides, it comes at once."""
    await frontier.schedule(links("a.test", 1))
    token = (await lease_one(frontier)).token
    reports = [frontier.finish(token, Outcome.SUCCEEDED, outlinks=[link(f"b.test/{n}")]) for n in range(20)]
    replies = await asyncio.gather(*reports)
    assert sorted(replies) == [(False, 0)] * 19 + [(True, 1)]
    figures = frontier.figures
    assert (figures.leased, figures.queued, figures.late) == (0, 1, 19)


async def test_an_unreadable_entry_is_put_aside(frontier, fleet):
    """It is a dead letter, with its reason, and the crawl goes on without it."""
    await frontier.schedule(links("a.test", 2))
    grant = await lease_one(frontier)
    await frontier.finish(grant.token, Outcome.UNREADABLE)
    assert frontier.figures.dead == 1
    ((_, letter),) = await fleet.redis.xrange(frontier.prefix + "dead")
    assert (letter[b"host"], letter[b"entry"], letter[b"reason"]) == (b"a.test", grant.entry, b"unreadable")
    assert await crawl(frontier) == ["a.test/1"]
    assert frontier.figures.idle


# --- again ----------------------------------------------------------------------------------------


async def test_a_page_is_tried_again_later(fleet):
    """Its host serves others meanwhile, and the crawl does not end before."""
    frontier = await fleet(retry_delay_ms=60_000)
    await frontier.schedule(links("a.test", 3))
    grant = await lease_one(frontier)
    assert (grant.attempts, name_of(grant)) == (0, "a.test/0")
    await frontier.finish(grant.token, Outcome.RETRY)
    assert await crawl(frontier) == ["a.test/1", "a.test/2"]
    assert not frontier.figures.idle
    granted = await frontier.next("w", 1, 60)
    assert granted.grants == []
    await fleet.forward(granted.wait_ms)
    again = await lease_one(frontier)
    assert (again.attempts, name_of(again)) == (1, "a.test/0")
    assert again.token > grant.token
    assert frontier.figures.started == 3


@pytest.mark.parametrize(
    ("asked", "attempts", "least", "most"),
    [
        (None, 0, 750, 1250),
        (None, 1, 1500, 2500),
        (None, 3, 6000, 8000),
        (None, 9, 8000, 8000),
        (0, 0, 750, 1250),
        (5000, 0, 5000, 5000),
        (100, 0, 100, 100),
        (60_000, 0, 8000, 8000),
    ],
)
async def test_how_long_a_page_waits(fleet, asked, attempts, least, most):
    """Twice as long each time, but what the server asked for wins; no wait is longer than the cap."""
    frontier = await fleet(retry_delay_ms=0)
    await frontier.schedule(links("a.test", 1))
    for _ in range(attempts):
        await frontier.finish((await lease_one(frontier)).token, Outcome.RETRY)
    frontier = await fleet(retry_delay_ms=1000, retry_delay_max_ms=8000)
    await frontier.finish((await lease_one(frontier)).token, Outcome.RETRY, retry_after_ms=asked)
    wait = (await frontier.next("w", 0, 60)).wait_ms
    assert least - 100 <= wait <= most


async def test_a_retry_keeps_its_priority(fleet):
    """And goes before the others of it, for it has waited longest."""
    frontier = await fleet(retry_delay_ms=0)
    await frontier.schedule([link(f"a.test/{n}", priority=n % 2) for n in range(4)])
    grant = await lease_one(frontier)
    await frontier.finish(grant.token, Outcome.RETRY)
    await asyncio.sleep(0.002)
    assert await crawl(frontier) == ["a.test/1", "a.test/3", "a.test/0", "a.test/2"]


async def test_an_incident_makes_the_whole_host_wait(fleet):
    """Nothing of it is served; the page is its next, one attempt older."""
    frontier = await fleet(retry_delay_ms=60)
    await frontier.schedule([*links("a.test", 2), *links("b.test", 1)])
    grant = await lease_one(frontier)
    await frontier.finish(grant.token, Outcome.RETRY, host_incident=True)
    assert await crawl(frontier) == ["b.test/0"]
    granted = await frontier.next("w", 1, 60)
    assert granted.grants == []
    await fleet.forward(granted.wait_ms)
    again = await lease_one(frontier)
    assert (name_of(again), again.attempts) == ("a.test/0", 1)


async def due(frontier, host="a.test"):
    return (await frontier.host(host)).next_due_ms


async def test_one_step_per_incident(fleet):
    """Eight answers to what was in flight together are one incident, even within a millisecond."""
    frontier = await fleet(retry_delay_ms=10_000, host_max_in_flight=8)
    await frontier.schedule(links("a.test", 9))
    grants = await lease(frontier)
    assert len(grants) == 8
    reports = (frontier.finish(grant.token, Outcome.RETRY, host_incident=True) for grant in grants)
    await asyncio.gather(*reports)
    assert 7_000 < await due(frontier) <= 12_500


SAME_MILLISECOND = """
local key, size = KEYS[1] .. 'h:a.test', struct.size('<c1IIddd')
local packed = redis.call('GET', key)
local more = cmsgpack.unpack(packed:sub(size + 1))
more.ba = struct.unpack('<d', redis.call('HGET', KEYS[1] .. 'inproc', ARGV[1]))  -- when the lease was given
redis.call('SET', key, packed:sub(1, size) .. cmsgpack.pack(more))
"""


async def test_a_lease_of_the_incidents_own_millisecond_is_part_of_it(fleet):
    """A refused connection is quick."""
    frontier = await fleet(retry_delay_ms=10_000, host_max_in_flight=2)
    await frontier.schedule(links("a.test", 2))
    one, other = await lease(frontier)
    await frontier.finish(one.token, Outcome.RETRY, host_incident=True)
    await fleet.redis.eval(SAME_MILLISECOND, 1, frontier.prefix, other.token)
    await frontier.finish(other.token, Outcome.RETRY, host_incident=True)
    assert 7_000 < await due(frontier) <= 12_500


FORGET_THE_WAIT = """
local key, fixed = KEYS[1] .. 'h:a.test', '<c1IIddd'
local packed = redis.call('GET', key)
local st, f, lv, nd, sp, ss, rest = struct.unpack(fixed, packed)
if st == 's' then
  local more = rest <= #packed and cmsgpack.unpack(packed:sub(rest)) or { er = 0, bo = 0, cd = 0, k = false }
  nd, more.ba = 1, 1  -- due, and since when it had to wait: long ago
  redis.call('SET', key, struct.pack(fixed, st, f, lv, nd, sp, ss) .. cmsgpack.pack(more))
  redis.call('ZADD', KEYS[1] .. 'snoozed', 1, 'a.test')
end
"""


@pytest.fixture
async def incident(fleet):
    """Have one more incident on a host, without waiting for the end of the one before; returns its wait."""
    frontier = await fleet(retry_delay_ms=1000, retry_delay_max_ms=6000)
    await frontier.schedule(links("a.test", 20))

    async def one_more(outcome=Outcome.RETRY, asked=None):
        await fleet.redis.eval(FORGET_THE_WAIT, 1, frontier.prefix)
        grant = await lease_one(frontier)
        bad = outcome is not Outcome.SUCCEEDED
        await frontier.finish(grant.token, outcome, host_incident=bad, retry_after_ms=asked)
        return await due(frontier)

    return one_more


async def test_incidents_double_the_wait(incident):
    """Up to the cap; the first success begins anew."""
    waits = [await incident() for _ in range(5)]
    for wait, step in zip(waits, (1000, 2000, 4000, 6000, 6000), strict=True):
        assert step * 0.75 - 100 <= wait <= min(step * 1.25, 6000)
    await incident(Outcome.SUCCEEDED)
    assert 650 <= await incident() <= 1250


async def test_what_the_server_asks_for_wins(incident):
    """Longer or shorter than the step, up to the cap; zero is not asked for at all."""
    assert 4900 <= await incident(asked=5000) <= 5000
    assert 100 <= await incident(asked=200) <= 200
    assert 5900 <= await incident(asked=3_600_000) <= 6000
    assert 650 <= await incident(asked=0) <= 1250


async def test_a_final_failure_is_an_incident_too(incident):
    """The page is given up, its host waits all the same."""
    assert 650 <= await incident(Outcome.FAILED) <= 1250


# --- leases ---------------------------------------------------------------------------------------


async def test_renewed_leases_are_kept(frontier):
    """Those that are lost, or another's, are named."""
    await frontier.schedule([link(f"h{n}.test/") for n in range(3)])
    mine = await lease(frontier, 2, seconds=0.05)
    other = await lease_one(frontier, worker="other")
    lost = await frontier.renew("w", [mine[0].token, other.token, 12345], 60)
    assert lost == [other.token, 12345]
    await asyncio.sleep(0.06)
    assert await frontier.reclaim() == 1
    assert await frontier.renew("w", [each.token for each in mine], 60) == [mine[1].token]
    await succeed(frontier, mine[0], other)


async def test_a_lease_that_ran_out_is_kept_if_nobody_noticed(frontier):
    """A worker that was only slow loses nothing as long as nobody else wants the URL."""
    await frontier.schedule(links("a.test", 1))
    grant = await lease_one(frontier, seconds=0.001)
    await asyncio.sleep(0.005)
    assert await frontier.renew("w", [grant.token], 60) == []
    assert await frontier.reclaim() == 0
    await succeed(frontier, grant)


async def test_released_leases_never_were(frontier):
    """The URL is its host's next again, no attempt older; the target is not counted."""
    await frontier.schedule(links("a.test", 2))
    grant = await lease_one(frontier)
    assert frontier.figures.started == 1
    assert await frontier.release("other", [grant.token]) == 0
    assert await frontier.release("w", [grant.token, grant.token, 999]) == 1
    assert await frontier.release("w", []) == 0
    assert (await frontier.refresh()).started == 0
    again = await lease_one(frontier)
    assert (name_of(again), again.attempts) == ("a.test/0", 0)
    assert frontier.figures.started == 1


async def test_several_that_are_released_keep_their_order(fleet):
    """Given back together, the first of a host is its first again."""
    frontier = await fleet(host_max_in_flight=3)
    await frontier.schedule(links("a.test", 4))
    grants = [await lease_one(frontier) for _ in range(3)]
    assert await frontier.release("w", [grant.token for grant in grants]) == 3
    assert await crawl(frontier) == [f"a.test/{n}" for n in range(4)]


async def test_a_released_retry_is_still_counted(fleet):
    """It was started before."""
    frontier = await fleet(retry_delay_ms=0)
    await frontier.schedule(links("a.test", 1))
    await frontier.finish((await lease_one(frontier)).token, Outcome.RETRY)
    await asyncio.sleep(0.002)
    assert await frontier.release("w", [(await lease_one(frontier)).token]) == 1
    assert (await frontier.refresh()).started == 1
    assert (await lease_one(frontier)).attempts == 1


async def test_a_lease_that_ran_out_goes_to_another(fleet):
    """At the next `next`, as it was: no attempt older, no second target, and first of its host."""
    frontier = await fleet()
    await frontier.schedule(links("a.test", 2))
    late = await lease_one(frontier, seconds=0.02, worker="dead")
    granted = await frontier.next("w", 1, 60)
    assert granted.grants == []
    assert granted.wait_ms <= 20
    await asyncio.sleep(granted.wait_ms / 1000 + 0.001)
    again = await lease_one(frontier)
    assert (name_of(again), again.attempts, again.entry) == (name_of(late), 0, late.entry)
    assert again.token != late.token
    assert (frontier.figures.started, frontier.figures.leased) == (1, 1)


async def test_a_host_keeps_its_interval_after_a_worker_died(fleet):
    """The dead worker may have asked it just before."""
    frontier = await fleet(min_interval_ms=60_000)
    await frontier.schedule(links("a.test", 1))
    await frontier.set_host("a.test", interval_ms=0)
    await lease_one(frontier, seconds=0.001)
    await frontier.set_host("a.test", interval_ms=None)
    await expire(frontier)
    assert 59_000 < await due(frontier) <= 60_000


async def test_many_leases_run_out_at_once(frontier):
    """All come back, a few with every call."""
    await frontier.schedule([link(f"h{n}.test/") for n in range(100)])
    assert len(await lease(frontier, 100, seconds=0.001)) == 100
    await asyncio.sleep(0.005)
    given = [await frontier.reclaim() for _ in range(5)]
    assert (sum(given), given[-1], max(given) < 100) == (100, 0, True)
    assert len(await crawl(frontier)) == 100


async def test_a_url_that_kills_its_workers_is_put_aside(fleet):
    """After so many of them, with its reason; retries in between do not forgive it."""
    frontier = await fleet(max_kills=3, retry_delay_ms=0)
    await frontier.schedule(links("a.test", 1))
    for n in range(3):
        assert frontier.figures.dead == 0
        await lease_one(frontier, seconds=0.001)
        await expire(frontier)
        if n == 1:
            await frontier.finish((await lease_one(frontier)).token, Outcome.RETRY)
            await asyncio.sleep(0.002)
    assert await lease(frontier) == []
    assert (frontier.figures.dead, frontier.figures.idle) == (1, True)
    ((_, letter),) = await fleet.redis.xrange(frontier.prefix + "dead")
    assert (letter[b"reason"], letter[b"attempts"]) == (b"killed_its_worker", b"1")


FORGET_TOKENS = """
local ctr = cmsgpack.unpack(redis.call('GET', KEYS[1] .. 'ctr'))
ctr.token = nil
redis.call('SET', KEYS[1] .. 'ctr', cmsgpack.pack(ctr))
"""


async def test_a_token_is_never_given_twice(frontier, fleet):
    """Not even by a server that has forgotten the last ones."""
    await frontier.schedule([link(f"h{n}.test/") for n in range(30)])
    tokens = [grant.token for grant in await lease(frontier, 10)]
    tokens += [grant.token for grant in await lease(frontier, 10)]
    await asyncio.sleep(0.002)
    await fleet.redis.eval(FORGET_TOKENS, 1, frontier.prefix)
    tokens += [grant.token for grant in await lease(frontier, 10)]
    assert tokens == sorted(set(tokens))
    assert len(tokens) == 30
