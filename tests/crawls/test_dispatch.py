"""Which run gets a worker next."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from crawlproj.connections import connect_database
from crawlproj.crawls import control, dispatch, lifecycle

if TYPE_CHECKING:
    from psycopg import Connection


def add(sql: Connection, name: str, config: dict[str, Any] | None = None, **more: Any) -> int:
    return control.create(sql, name=name, spider="site", config=config or {}, **more)


def take(sql: Connection) -> str | None:
    taken = dispatch.take(sql, hold_seconds=15)
    return taken and taken.name


def test_the_run_that_waits_longest(sql):
    """Runs come in the order in which they became due; a paused one does not come, a taken one not again."""
    add(sql, "b")
    first = add(sql, "a")
    add(sql, "paused", paused=True)
    sql.execute("UPDATE crawl SET retry_at = now() - interval '1 hour' WHERE id = %s", [first])
    assert [take(sql), take(sql), take(sql)] == ["a", "b", None]
    sql.execute("UPDATE crawl SET retry_at = retry_at - interval '15 s' WHERE id = %s", [first])
    assert take(sql) == "a"  # whoever took it has not come that far


def test_a_run_of_one_crawl_alone(sql):
    """Others may have waited for longer."""
    add(sql, "b")
    add(sql, "a")
    assert dispatch.take(sql, hold_seconds=15, name="c") is None
    assert dispatch.take(sql, hold_seconds=15, name="a").name == "a"


async def test_a_run_with_a_worker_is_nobodys(sql, database):
    """Until its lease runs out."""
    add(sql, "a")
    await lifecycle.claim(database, name="a", spider="site", worker="w", lease_seconds=60, config={})
    assert take(sql) is None
    sql.execute("UPDATE crawl SET retry_at = now()")
    assert take(sql) == "a"


def test_a_run_whose_secrets_are_not_kept_is_left_to_people(sql):
    """It could not be gone on with."""
    add(sql, "a", {"redacted": ["api_key"]})
    add(sql, "b", {"redacted": []})
    assert [take(sql), take(sql)] == ["b", None]


def test_two_supervisors_never_take_the_same(sql, database_url):
    """Eight at once: every run is taken once."""
    for n in range(40):
        add(sql, str(n))

    def work(_: int) -> list[str]:
        taken = []
        with connect_database(database_url) as connection:
            while (name := take(connection)) is not None:
                taken.append(name)
        return taken

    with ThreadPoolExecutor(8) as threads:
        taken = [name for names in threads.map(work, range(8)) for name in names]
    assert sorted(taken, key=int) == [str(n) for n in range(40)]


def notes(sql: Connection) -> list[tuple[Any, ...]]:
    return sql.execute("SELECT namespace, message, fields FROM note ORDER BY id").fetchall()


def test_put_off(sql):
    """A run whose worker fails waits, and its note says why; the note of the worker itself is enough."""
    crawl_id = add(sql, "a")
    assert dispatch.put_off(sql, crawl_id, seconds=60, message="no\0", fields={"exit": "1"})
    assert notes(sql) == [("RUN_FAILED", "no\ufffd", {"exit": "1"})]
    waits = "SELECT retry_at > now() + interval '50 s' FROM crawl"
    assert sql.execute(waits).fetchone() == (True,)
    assert dispatch.put_off(sql, crawl_id, seconds=1, message="again", within_seconds=60)
    assert dispatch.put_off(sql, crawl_id, seconds=1)
    assert len(notes(sql)) == 1
    assert sql.execute(waits).fetchone() == (True,)


def test_what_rests_or_is_over_is_not_put_off(sql):
    """A paused or sealed run stays as it is, and gets no note."""
    paused, sealed = add(sql, "a", paused=True), add(sql, "b")
    control.cancel(sql, sealed, counts={})
    before = sql.execute("SELECT * FROM crawl ORDER BY id").fetchall(), notes(sql)
    assert not dispatch.put_off(sql, paused, seconds=60, message="no")
    assert not dispatch.put_off(sql, sealed, seconds=60, message="no")
    assert (sql.execute("SELECT * FROM crawl ORDER BY id").fetchall(), notes(sql)) == before
