"""Hosts in trouble: what is worth a note, and who writes it."""

from __future__ import annotations

import asyncio

import pytest

from crawlproj.crawls import incidents, lifecycle
from crawlproj.crawls.incidents import HostNotes, Incidents, Recovery, Trouble


@pytest.fixture
async def crawl_id(database) -> int:
    crawl = await lifecycle.claim(
        database, name="news", spider="site", worker="w1", lease_seconds=60, config={}
    )
    return crawl.id


def notes(sql):
    return sql.execute("SELECT namespace, message, fields FROM note ORDER BY id").fetchall()


def test_the_third_in_a_row_is_told_once():
    """Two may happen to any host; what comes after the third says nothing new."""
    seen = Incidents()
    told = [seen.incident("h", "http_503") for _ in range(5)]
    assert told == [None, None, Trouble(host="h", incidents=3, reason="http_503"), None, None]


def test_an_answer_in_between_begins_anew():
    """Incidents that are not in a row are none; nor is an answer of a host that is well worth a note."""
    seen = Incidents()
    for _ in range(3):
        assert seen.incident("h", "timeout") is None
        assert seen.incident("h", "timeout") is None
        assert seen.answered("h") is None
    assert seen.answered("other") is None


def test_a_long_wait_is_told_at_once():
    """A host that asks for a minute or more; a shorter wait is one incident as any other."""
    seen = Incidents()
    assert seen.incident("short", "http_429", asked_ms=59_999) is None
    assert seen.incident("long", "http_429", asked_ms=60_000) == Trouble(
        host="long", incidents=1, reason="http_429"
    )


def test_a_host_that_was_told_recovers_once():
    """The next answer says so, and the one after it nothing; then everything counts from the start."""
    seen = Incidents()
    for _ in range(3):
        seen.incident("h", "refused")
    assert seen.answered("h") == Recovery(host="h")
    assert seen.answered("h") is None
    assert seen.incident("h", "refused") is None


def test_memory_is_bounded():
    """Beyond so many hosts those are forgotten that had no incident for longest."""
    seen = Incidents(most=2)
    for host in ("a", "a", "b", "b", "a", "c"):
        seen.incident(host, "dns")
    assert seen.incident("b", "dns") is None  # its two were forgotten when c came
    assert seen.answered("a") is None  # and so was a's note when b came back: nothing is told without it


async def test_a_note_names_host_wait_and_reason(database, crawl_id, sql):
    """The fields hold what the message says; a host that may be asked again waits for nothing."""
    ill = Trouble(host="m.example.hk", incidents=5, reason="http_502")
    assert await incidents.write(database, crawl_id, ill, 600_000)
    assert await incidents.write(database, crawl_id, Trouble(host="b", incidents=3, reason="dns"), 0)
    assert notes(sql) == [
        (
            "HOST_INCIDENT",
            "m.example.hk is left alone for 10 min after 5 \N{MULTIPLICATION SIGN} http_502",
            {"host": "m.example.hk", "incidents": 5, "reason": "http_502", "wait_seconds": 600},
        ),
        (
            "HOST_INCIDENT",
            "b is in trouble: 3 \N{MULTIPLICATION SIGN} dns",
            {"host": "b", "incidents": 3, "reason": "dns", "wait_seconds": None},
        ),
    ]


async def test_several_workers_write_one(databases, crawl_id, sql):
    """Eight that find the same at the same time; another host is another note."""
    ill = Trouble(host="h", incidents=3, reason="timeout")
    writes = [incidents.write(databases(), crawl_id, ill, 5_000) for _ in range(8)]
    assert (await asyncio.gather(*writes)).count(True) == 1
    well = [incidents.write(databases(), crawl_id, Recovery(host="h"), None) for _ in range(8)]
    assert (await asyncio.gather(*well)).count(True) == 1
    assert [row[0] for row in notes(sql)] == ["HOST_INCIDENT", "HOST_RECOVERED"]


async def test_a_host_that_comes_and_goes_is_told_every_ten_minutes(database, crawl_id, sql):
    """Trouble within ten minutes of a note is not told again, recovered in between or not."""
    ill, well = Trouble(host="h", incidents=3, reason="http_503"), Recovery(host="h")
    assert not await incidents.write(database, crawl_id, well, None)  # of what, nobody would know
    assert await incidents.write(database, crawl_id, ill, 5_000)
    assert await incidents.write(database, crawl_id, well, None)
    assert not await incidents.write(database, crawl_id, ill, 5_000)
    assert not await incidents.write(database, crawl_id, well, None)
    sql.execute("UPDATE note SET time = time - interval '9 min 50 s'")
    assert not await incidents.write(database, crawl_id, ill, 5_000)
    sql.execute("UPDATE note SET time = time - interval '20 s'")
    assert await incidents.write(database, crawl_id, ill, 5_000)
    sql.execute("UPDATE note SET time = time - interval '5 min'")
    assert await incidents.write(database, crawl_id, well, None)
    namespace, message, fields = notes(sql)[-1]
    assert (namespace, message) == ("HOST_RECOVERED", "h answers again, after 5 min")
    assert fields == {"host": "h", "seconds": fields["seconds"]}
    assert 300 <= fields["seconds"] < 330  # what the test takes comes on top


async def test_a_hundred_are_enough(database, crawl_id, sql):
    """Then one more says that there are no more; hosts that were noted are still told to be well."""
    hosts = [Trouble(host=f"h{n}", incidents=3, reason="refused") for n in range(105)]
    assert [await incidents.write(database, crawl_id, each, 0) for each in hosts] == [True] * 101 + [
        False
    ] * 4
    assert notes(sql)[-1] == (
        "HOST_INCIDENT",
        "more than 100 hosts in trouble: further ones are not noted",
        {"host": None, "incidents": None, "reason": "too_many", "wait_seconds": None},
    )
    assert await incidents.write(database, crawl_id, Recovery(host="h99"), None)
    assert not await incidents.write(database, crawl_id, Recovery(host="h100"), None)


async def test_notes_are_written_beside_the_crawl():
    """Nobody waits for them, they keep their order, and a database that says no costs the note alone."""
    written = []
    refused = asyncio.Event()

    async def write(found, wait_ms):
        if isinstance(found, Trouble) and found.host == "bad":
            refused.set()
            raise RuntimeError("no")
        written.append((found, wait_ms))

    async def wait_ms(host):
        return 7_000

    telling = HostNotes(write, wait_ms)
    for host in ("bad", "h"):
        for _ in range(3):
            telling.incident(host, "dns")
    assert written == []
    async with asyncio.timeout(5):
        await refused.wait()
    telling.answered("h")
    await telling.close(5)
    assert written == [(Trouble(host="h", incidents=3, reason="dns"), 7_000), (Recovery(host="h"), None)]


async def test_a_lost_worker_is_noted_on_its_run(databases, database, crawl_id, sql):
    """Whoever takes it off says so, once however many look, and names phase and time; a live one stays."""
    await lifecycle.claim(database, name="news", spider="site", worker="w2", lease_seconds=60, config={})
    sql.execute(
        "UPDATE worker_lease SET phase = 'running', expires_at = '2026-01-02 03:04:05Z' WHERE worker = 'w1'"
    )
    taken = await asyncio.gather(*[lifecycle.reclaim(databases()) for _ in range(4)])
    assert [each for each in taken if each] == [[(crawl_id, "w1")]]
    assert notes(sql) == [
        (
            "WORKER_LOST",
            "worker w1 is lost: its lease ran out at 2026-01-02T03:04:05Z (phase running)",
            {"worker": "w1", "phase": "running", "lost_since": "2026-01-02T03:04:05Z"},
        )
    ]
    assert sql.execute("SELECT worker FROM worker_lease").fetchall() == [("w2",)]
