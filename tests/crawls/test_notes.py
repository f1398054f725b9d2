from __future__ import annotations

import asyncio

import pytest

from crawlproj.crawls import lifecycle, notes


@pytest.fixture
async def crawl_id(database) -> int:
    crawl = await lifecycle.claim(
        database, name="news", spider="site", worker="w1", lease_seconds=60, config={}
    )
    return crawl.id


async def write(database, crawl_id: int, note: notes.StopNote) -> bool:
    return await notes.write(
        database, crawl_id, namespace=note.namespace, message=note.message, fields=note.fields
    )


def test_note_on_running_time():
    """The note on a time limit, word for word."""
    note = notes.running_time_note(limit=60.0, used=69.3)
    assert note.namespace == "STOP_EARLY_REASON"
    assert note.message == "running time 70s exceeds limit 60s"
    assert note.fields == {"r": "ExceedRunningTime", "mostSeconds": "60", "usedSeconds": "70"}


@pytest.mark.parametrize(
    ("limit", "used", "message"),
    [
        (60, 60.001, "running time 61s exceeds limit 60s"),
        (60.0, 60.0, "running time 60s exceeds limit 60s"),
        (0.5, 0.512, "running time 0.6s exceeds limit 0.5s"),
        (1_000_000, 1_234_567.2, "running time 1234568s exceeds limit 1000000s"),
    ],
)
def test_used_time_is_never_below_the_limit(limit, used, message):
    """What was used is rounded up: a time that reads as within the limit would be a riddle."""
    assert notes.running_time_note(limit=limit, used=used).message == message


def test_note_on_targets():
    """The note on a limit of targets, word for word."""
    note = notes.targets_note(limit=1, started=2)
    assert note.message == "targets count 2 exceeds limit 1"
    assert note.fields == {
        "r": "ExceedTargetsCountLimit",
        "limitTargets": "1",
        "currentStartedTargets": "2",
    }


def test_note_on_results():
    """The note on a limit of results, word for word."""
    note = notes.results_note(limit=1, results=71)
    assert note.message == "results count 71 exceeds limit 1"
    assert note.fields == {"r": "ExceedResultsCountLimit", "limitResults": "1", "currentResults": "71"}


async def test_stop_reason_is_told_once(databases, crawl_id, sql):
    """Of all workers that hit a limit, the first one says so; the others learn that it was said."""
    found = [notes.targets_note(limit=1, started=n) for n in range(2, 10)]
    first = await asyncio.gather(*[write(databases(), crawl_id, note) for note in found])
    assert first.count(True) == 1
    rows = sql.execute("SELECT message, fields FROM note").fetchall()
    assert rows == [(found[first.index(True)].message, found[first.index(True)].fields)]


async def test_other_notes_are_all_kept(database, crawl_id, sql):
    """Only the stop reason is unique; notes may say the same twice."""
    for _ in range(2):
        assert await notes.write(database, crawl_id, namespace="AUDIT", message="seen", fields={"n": 1})
    assert sql.execute("SELECT count(*) FROM note").fetchone() == (2,)


async def test_note_holds_anything(database, crawl_id, sql):
    """A note about a dirty page is stored, cleaned."""
    await notes.write(database, crawl_id, namespace="X", message="a\0b", fields={"k\0": "\ud800"})
    assert sql.execute("SELECT message, fields FROM note").fetchone() == ("a\ufffdb", {"k\ufffd": "\ufffd"})


def test_note_on_bytes():
    """The note on a limit of bytes, in the manner of the others."""
    note = notes.bytes_note(limit=1000, received=1234)
    assert note.message == "bytes count 1234 exceeds limit 1000"
    assert note.fields == {"r": "ExceedBytesLimit", "limitBytes": "1000", "currentBytes": "1234"}


async def test_one_of_a_kind_is_enough(databases, crawl_id, sql):
    """Of eight workers that say once for the run what all of them see, one does."""
    said = await asyncio.gather(
        *[
            notes.write(databases(), crawl_id, namespace="FULL", message=f"{n}", fields={}, once=True)
            for n in range(8)
        ]
    )
    assert said.count(True) == 1
    assert sql.execute("SELECT message FROM note").fetchall() == [(str(said.index(True)),)]


async def test_stop_reason_is_read_back(database, crawl_id):
    """Whoever joins a run learns why it stops; of a run that does not, nothing."""
    assert await notes.stop_reason(database, crawl_id) is None
    await write(database, crawl_id, notes.results_note(limit=1, results=2))
    assert await notes.stop_reason(database, crawl_id) == "ExceedResultsCountLimit"
