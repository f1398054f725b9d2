"""What comes of a run whose worker ends, however it ends. The workers are programs that only end."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from crawlproj import supervisor
from crawlproj.connections import connect_database
from crawlproj.crawls import control
from crawlproj.supervisor import Supervisor
from tests.postgres import sql

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from psycopg import Connection

__all__ = ["sql"]


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return a function that says what workers do; it returns the file that gets their arguments."""
    program = tmp_path / "worker"
    monkeypatch.setattr(supervisor.sys, "executable", str(program))

    def does(what: str) -> Path:
        program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n{what}\n')
        program.chmod(0o755)
        return tmp_path / "calls"

    return does


@pytest.fixture
def supervise(database_url: str) -> Callable[..., tuple[int, list[str]]]:
    """Return a function that runs a supervisor; it returns its exit code and what it said."""

    def run(*options: str, **more: Any) -> tuple[int, list[str]]:
        said: list[str] = []
        connect = more.pop("connect", lambda: connect_database(database_url))
        return Supervisor(connect, options, say=said.append, **more).run(), said

    return run


def rest(sql: Connection) -> float:
    """Return for how many seconds the run waits, in steps of 10."""
    (seconds,) = sql.execute("SELECT extract(epoch FROM retry_at - now())::float8 FROM crawl").fetchone()
    return round(seconds, -1)


def notes(sql: Connection) -> list[tuple[Any, ...]]:
    return sql.execute("SELECT namespace, message, fields FROM note ORDER BY id").fetchall()


def add(sql: Connection, name: str = "news") -> int:
    return control.create(sql, name=name, spider="site", config={})


def test_what_a_worker_is_started_with(sql, worker, supervise):
    """Our program and our options, and the crawl's name, which may look like one."""
    calls = worker("exit 0")
    add(sql, "-x y")
    supervise("-s", "A=1", "--nolog")
    assert calls.read_text() == "-m scrapy run -s A=1 --nolog -- -x y\n"


@pytest.mark.parametrize(
    ("does", "how"),
    [
        ("exit 1", "exitCode 1"),
        ("exit 2", "exitCode 2"),
        ("exit 4", "exitCode 4"),
        ("exit 5", "exitCode 5"),
        ("kill -9 $$", "exitCode -9"),
    ],
)
def test_worker_that_fails(sql, worker, supervise, does, how):
    """The run waits for a minute, and its note says why; it is tried once, and the exit code is 1."""
    calls = worker(does)
    add(sql)
    code, said = supervise()
    assert (code, len(calls.read_text().splitlines()), rest(sql)) == (1, 1, 60)
    ((namespace, message, fields),) = notes(sql)
    assert (namespace, fields) == ("RUN_FAILED", {"exitCode": how.split()[1], "restSeconds": "60"})
    assert said[-1] == f"news, run 1: {message}"


def test_longer_each_time(sql, worker, database_url):
    """Twice as long after each failure of one run, a quarter of an hour at most."""
    worker("exit 1")
    add(sql)
    one = Supervisor(lambda: connect_database(database_url), (), say=lambda _: None)
    rests = []
    for _ in range(6):
        sql.execute("UPDATE crawl SET retry_at = now()")
        one.run()
        rests.append(rest(sql))
    assert rests == [60, 120, 240, 480, 900, 900]


def test_worker_that_has_had_enough(sql, worker, supervise):
    """A spider may end its worker and not its run: that is no failure, and no hot loop."""
    calls = worker("exit 0")
    add(sql)
    code, _ = supervise()
    assert (code, rest(sql), notes(sql)) == (0, 60, [])
    assert len(calls.read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("code", "state", "columns"),
    [
        (4, "paused", "status = 'paused', retry_at = '9999-01-01 00:00:00+00'"),
        (11, "paused", "status = 'paused', retry_at = '9999-01-01 00:00:00+00'"),
        (4, "sealed, cancelled", "status = 'sealed', retry_at = NULL, stop_reason = 'cancelled'"),
    ],
)
def test_run_that_was_paused_or_ended_meanwhile(sql, worker, supervise, database_url, code, state, columns):
    """That is no failure of its worker, and the run is left alone."""
    worker(f"exit {code}")
    add(sql)
    connections = []

    def connect() -> Connection:
        connections.append(connect_database(database_url))
        if len(connections) > 1:  # the worker is back
            sql.execute(f"UPDATE crawl SET {columns}")
        return connections[-1]

    ended, said = supervise(connect=connect)
    assert (ended, notes(sql)) == (0, [])
    assert said[-1].startswith(f"news, run 1: {state}")
    assert all(connection.closed for connection in connections)


def test_database_that_is_away(sql, worker, supervise, database_url, monkeypatch):
    """Who stays anyway waits for it, and says so once; others end.

    A signal that finds a worker at its end interrupts nothing, and nobody hears signals afterwards.
    """
    monkeypatch.setattr(supervisor, "POLL_SECONDS", 0.02)
    worker("trap '' TERM; kill -TERM $PPID; exit 0")
    add(sql)
    gone = [psycopg.OperationalError("gone")] * 4

    def connect() -> Connection:
        if gone:
            raise gone.pop()
        return connect_database(database_url)

    handler = signal.getsignal(signal.SIGTERM)
    with pytest.raises(psycopg.OperationalError):
        supervise(connect=connect)
    code, said = supervise(connect=connect, forever=True)
    assert (code, gone) == (0, [])
    assert said.count("the database is away, and is waited for: gone") == 1
    assert signal.getsignal(signal.SIGTERM) is handler
