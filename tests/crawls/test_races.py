"""Two races of a crawl's life: shown against what one would write first, and not to be had against ours.

Sealing while something is found: whoever checks that nothing is left does not see what is just being written.
A limit on URLs: whoever counts and then adds has counted what others are about to add to.
"""

from __future__ import annotations

import asyncio
import random
import threading
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from crawlproj.connections import connect_database
from crawlproj.crawls import lifecycle
from crawlproj.frontier.records import Outcome
from tests.crawls.test_lifecycle import claim, one, seal
from tests.frontier.conftest import Fleet, lease_one, link

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg import Connection

    from crawlproj.connections import Database

CLIENTS = 8
LIMIT = 20
NAIVE = """
CREATE TABLE naive_crawl (sealed boolean NOT NULL);
CREATE TABLE naive_page (url text PRIMARY KEY, waits boolean NOT NULL);
INSERT INTO naive_crawl VALUES (false);
"""


@pytest.fixture
def naive(database_url: str, sql: Connection) -> Callable[[], Connection]:
    """Return a function that opens a connection to tables as one would write them first."""
    sql.execute(NAIVE)
    return lambda: connect_database(database_url)


# --- sealing while something is found -------------------------------------------------------------


def test_who_checks_and_then_seals_seals_over_what_is_being_found(naive, sql):
    """What is not committed yet is not seen, even by one statement: the crawl is sealed with an open page."""
    with naive() as finder, finder.transaction():
        finder.execute("INSERT INTO naive_page VALUES ('http://a.test/', true)")
        sealed = sql.execute(
            "UPDATE naive_crawl SET sealed = true WHERE NOT EXISTS (SELECT FROM naive_page WHERE waits)"
        )
        assert sealed.rowcount == 1
    assert one(sql, "SELECT sealed FROM naive_crawl")
    assert one(sql, "SELECT count(*) FROM naive_page WHERE waits") == 1


async def test_no_run_is_sealed_while_anything_is_left_of_it(redis_url, databases):
    """Each page leads to the next, and three workers try to seal all the time; one does, at the end.

    Of a frontier with several partitions `tests/frontier/test_partitions.py` shows it.
    """
    pages, done = 400, 0
    async with AsyncExitStack() as stack:
        fleet = Fleet(redis_url, stack)
        worker, *sealers = [await fleet() for _ in range(4)]
        crawl = await claim(databases())
        await worker.schedule([link("h0.test/0")])

        async def work() -> None:
            nonlocal done
            for number in range(1, pages + 1):
                grant = await lease_one(worker)
                # The last page leads to one that was seen.
                outlinks = [link(f"h{number}.test/{number}" if number < pages else "h0.test/0")]
                done += 1
                assert (await worker.finish(grant.token, Outcome.SUCCEEDED, outlinks=outlinks))[0]

        async def end(frontier: Any, database: Database) -> bool:
            tries = 0
            while not await frontier.seal():
                tries += 1
            assert (done, frontier.figures.queued, frontier.figures.leased) == (pages, 0, 0)
            assert tries > 0
            return await seal(database, crawl)

        async with asyncio.timeout(60):
            _, *ended = await asyncio.gather(work(), *(end(each, databases()) for each in sealers))
        assert sorted(ended) == [False, False, True]
        assert (await lifecycle.read(databases(), crawl)).status == lifecycle.CrawlStatus.SEALED
        assert await worker.check() == []


# --- a limit on URLs ------------------------------------------------------------------------------


def at_once(work: Callable[[int], int]) -> list[int]:
    """Run *work* in as many threads as there are clients; return what each of them says."""
    found = [0] * CLIENTS

    def run(number: int) -> None:
        found[number] = work(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_who_counts_and_then_adds_passes_the_limit(naive, sql):
    """Eight that have all counted sixteen add eight more."""
    turn = threading.Barrier(CLIENTS, timeout=30)

    def work(number: int) -> int:
        added = 0
        with naive() as connection:
            for n in range(5):
                counted = one(connection, "SELECT count(*) FROM naive_page")
                turn.wait()
                if counted < LIMIT:
                    url = f"http://{number}.test/{n}"
                    connection.execute("INSERT INTO naive_page VALUES (%s, true)", [url])
                    added += 1
                turn.wait()
        return added

    assert sum(at_once(work)) == one(sql, "SELECT count(*) FROM naive_page") == 24


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("seen_filter", ["exact", "bloom"])
def test_as_many_urls_are_let_in_as_may_and_the_others_are_not_seen(redis_url, partitions, seen_filter):
    """By eight clients that find the same ones; raised, the limit lets in as many more, of those."""
    found = [link(f"h{n}.test/") for n in range(60)]

    async def schedule(number: int, knobs: dict[str, int]) -> int:
        mine = random.Random(number).sample(found, len(found))
        async with AsyncExitStack() as stack:
            fleet = Fleet(redis_url, stack)
            frontier = await fleet(
                partitions=partitions, seen_filter=seen_filter, bloom_capacity=10_000, **knobs
            )
            return sum([await frontier.schedule(mine[start : start + 3]) for start in range(0, len(mine), 3)])

    async def raise_to(limit: int) -> tuple[int, ...]:
        async with AsyncExitStack() as stack:
            fleet = Fleet(redis_url, stack)
            frontier = await fleet(partitions=partitions, seen_filter=seen_filter, bloom_capacity=10_000)
            figures = await frontier.refresh()
            await frontier.set_crawl(max_urls=limit)
            assert await frontier.check() == []
            return figures.admitted, figures.seen, figures.queued

    for limit, now, then in ((LIMIT, LIMIT, 30), (30, 30, 0), (0, 60, 0)):
        knobs = {"max_urls": limit} if limit == LIMIT else {}
        added = at_once(lambda number, knobs=knobs: asyncio.run(schedule(number, knobs)))
        before = 0 if limit == LIMIT else LIMIT if limit else 30
        assert sum(added) == now - before
        assert asyncio.run(raise_to(then)) == (now, now, now)
