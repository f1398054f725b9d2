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

PAUSED = "status = 'paused', retry_at = '9999-01-01 00:00:00+00'"
SEALED = "status = 'sealed', retry_at = NULL, stop_reason = 'cancelled'"


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


@pytest.fixture
def back(sql: Connection, database_url: str) -> Callable[[str], Back]:
    """Return a function that makes a `connect` which changes columns of the run while its worker is at it."""
    return lambda columns: Back(sql, database_url, columns)


class Back:
    """Opens connections; the second one comes when a worker has ended."""

    def __init__(self, sql: Connection, url: str, columns: str) -> None:
        self.made: list[Connection] = []
        self._sql, self._url, self._columns = sql, url, columns

    def __call__(self) -> Connection:
        self.made.append(connect_database(self._url))
        if len(self.made) == 2:
            self._sql.execute(f"UPDATE crawl SET {self._columns}")
        return self.made[-1]


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


def test_failures_in_a_row(sql, worker, database_url):
    """After an end without one, be it for a signal, the next failure counts as the first."""
    add(sql)
    one = Supervisor(lambda: connect_database(database_url), (), say=lambda _: None)
    rests = []
    for code in (1, 1, 0, 1, 1, 11, 1):
        worker(f"exit {code}")
        sql.execute("UPDATE crawl SET retry_at = now()")
        one.run()
        rests.append(rest(sql))
    assert [each for each in rests if each > 20] == [60, 120, 60, 60, 120, 60]


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
        (4, "paused", PAUSED),
        (11, "paused", PAUSED),
        (4, "sealed, cancelled", SEALED),
    ],
)
def test_run_that_was_paused_or_ended_meanwhile(sql, worker, supervise, back, code, state, columns):
    """That is no failure of its worker, and the run is left alone."""
    worker(f"exit {code}")
    add(sql)
    connect = back(columns)
    ended, said = supervise(connect=connect)
    assert (ended, notes(sql)) == (0, [])
    assert said[-1].startswith(f"news, run 1: {state}")
    assert all(connection.closed for connection in connect.made)


@pytest.mark.parametrize(
    ("columns", "told"), [(SEALED, "sealed, cancelled · "), (PAUSED, "paused · its worker was ended")]
)
def test_worker_that_fails_after_the_end_of_its_run(sql, worker, supervise, back, columns, told):
    """Nobody starts a next one, and nobody says so; that a worker has failed is told, and is exit code 1."""
    worker("exit 1")
    add(sql)
    code, said = supervise(connect=back(columns))
    assert (code, notes(sql)) == (1, [])
    assert said[-1].startswith(f"news, run 1: {told}")
    assert said[-1].endswith("its worker was ended with exit code 1")


def test_run_that_is_sealed_while_it_is_put_off(sql, worker, supervise, monkeypatch):
    """The row decides, not what was read of it a moment before."""
    worker("exit 1")
    add(sql)
    put_off = supervisor.dispatch.put_off

    def late(*args: Any, **more: Any) -> bool:
        sql.execute(f"UPDATE crawl SET {SEALED}")
        return put_off(*args, **more)

    monkeypatch.setattr(supervisor.dispatch, "put_off", late)
    _, said = supervise()
    assert said[-1].startswith("news, run 1: sealed, cancelled")


@pytest.mark.parametrize("forever", [False, True])
def test_signal_while_a_run_is_taken(sql, worker, supervise, monkeypatch, forever):
    """No worker is started that would only be ended, and the run is due at once, for others."""
    calls = worker("exit 0")
    add(sql)
    take = supervisor.dispatch.take

    def interrupted(*args: Any, **more: Any) -> Any:
        taken = take(*args, **more)
        signal.raise_signal(signal.SIGTERM)
        return taken

    monkeypatch.setattr(supervisor.dispatch, "take", interrupted)
    assert supervise(forever=forever) == (0, [])
    assert not calls.exists()
    assert sql.execute("SELECT status, retry_at <= now() FROM crawl").fetchone() == ("queued", True)


def test_signal_before_the_worker_has_claimed_its_run(sql, worker, supervise):
    """It ends the worker, which knows no signals yet, and the run is due at once."""
    worker("kill -TERM $PPID; sleep 20")
    add(sql)
    code, said = supervise()
    assert (code, said[-1]) == (11, "news, run 1: interrupted, and due again")
    assert sql.execute("SELECT status, retry_at <= now() FROM crawl").fetchone() == ("queued", True)


def test_signal_after_the_worker_has_claimed_its_run(sql, worker, supervise, back):
    """It has said itself when the run is due: that stays."""
    worker("trap '' TERM; kill -TERM $PPID; exit 1")
    add(sql)
    code, said = supervise(connect=back("status = 'started', retry_at = now() + interval '100 s'"))
    assert (code, said[-1], rest(sql)) == (11, "news, run 1: interrupted, and due again", 100)


def test_nobody_to_tell(sql, worker, database_url):
    """A terminal that was closed, or a full disk, keeps no crawl from its worker."""

    def say(_: str) -> None:
        raise OSError("nobody listens")

    calls = worker("exit 0")
    for name in ("news", "more"):
        add(sql, name)
    assert Supervisor(lambda: connect_database(database_url), [], say=say).run() == 0
    assert len(calls.read_text().splitlines()) == 2


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
