"""Starts a worker of its own for each crawl that is due, one after the other."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from crawlproj.crawls import dispatch, rows
from crawlproj.exceptions import INTERRUPTED, NotFound, ServerUnreachable
from crawlproj.output import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from psycopg import Connection

    from crawlproj.crawls.dispatch import Taken

    T = TypeVar("T")

REFUSED = 4
POLL_SECONDS = 1.0
HOLD_SECONDS = 15.0  # what a worker may need until it has claimed its crawl
REST_SECONDS = 60.0  # before a crawl that failed is tried again; twice as long after each failure
REST_SECONDS_MAX = 900.0


class Supervisor:
    """Works what is due, each crawl in a process of its own, until nothing is or a signal comes.

    *connect* opens the database, and starts it if it is ours; *options* are those of the workers; *say*
    tells people; *name*: only runs of that crawl. A signal goes on to the worker, which ends as it does by
    itself. A supervisor that is killed leaves its worker alone.
    """

    def __init__(
        self,
        connect: Callable[[], Connection[Any]],
        options: Sequence[str],
        *,
        say: Callable[[str], None],
        name: str | None = None,
        forever: bool = False,
    ) -> None:
        self._connect = connect
        self._options = options
        self._say = say
        self._name = name
        self._forever = forever
        self._connection: Connection[Any] | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._signals: list[int] = []
        self._early: list[int] = []  # those that came while a worker was being started
        self._stopped = threading.Event()
        self._failures: Counter[int] = Counter()  # in a row, by run
        self._code = 0

    def run(self) -> int:
        """Return 11 when a worker was interrupted, 1 when one failed, else 0."""
        with self._listening():
            try:
                while not self._signals:
                    if (taken := self._asked(self._take)) is not None:
                        self._work(taken)
                    elif self._forever:
                        self._stopped.wait(POLL_SECONDS)
                    else:
                        break
            finally:
                self._disconnect()
        return self._code

    def _work(self, taken: Taken) -> None:
        """Start a worker for a run, wait for its end, and see to what comes of it."""
        self._say(f"{taken.name}, run {taken.run}: starts, spider {taken.spider}")
        self._disconnect()  # until then: no connection is kept for hours
        began = time.monotonic()
        # A group of its own: Ctrl-C on a terminal reaches us alone, and the worker through us.
        self._child = subprocess.Popen(  # noqa: S603  # our own program, by a name that is no option
            [sys.executable, "-m", "scrapy", "run", *self._options, "--", taken.name],
            stdin=subprocess.DEVNULL,
            process_group=0,
        )
        for number in self._early:
            self._child.send_signal(number)
        code = self._child.wait()
        self._child = None
        if self._signals and code:
            self._code = INTERRUPTED
            self._say(f"{taken.name}, run {taken.run}: interrupted, and due again")
            return
        self._asked(lambda connection: self._ended(connection, taken, code, time.monotonic() - began))

    def _ended(self, connection: Connection[Any], taken: Taken, code: int, seconds: float) -> None:
        name = f"{taken.name}, run {taken.run}"
        try:
            run = rows.crawl(connection, taken.id)
        except NotFound as error:
            self._say(f"{name}: {error}")
            return
        if run.status == "sealed" and code in {0, REFUSED, INTERRUPTED}:
            self._say(f"{name}: sealed, {run.stop_reason} · {duration(seconds)}")
        elif run.status == "paused" and code in {0, REFUSED, INTERRUPTED}:
            self._say(f"{name}: paused")
        elif code == INTERRUPTED:
            self._say(f"{name}: interrupted, and due again")
        elif code == 0:  # its worker has had enough, not the run
            dispatch.put_off(connection, taken.id, seconds=REST_SECONDS)
            self._say(f"{name}: goes on in {duration(REST_SECONDS)}")
        else:
            self._failed(connection, taken, code, seconds)

    def _failed(self, connection: Connection[Any], taken: Taken, code: int, seconds: float) -> None:
        rest = min(REST_SECONDS * 2 ** self._failures[taken.id], REST_SECONDS_MAX)
        self._failures[taken.id] += 1
        self._code = self._code or 1
        how = f"with exit code {code}" if code > 0 else f"by signal {-code}"
        why = f"its worker was ended {how}, the next one starts in {duration(rest)} or later"
        dispatch.put_off(
            connection,
            taken.id,
            seconds=rest,
            message=why,
            fields={"exitCode": str(code), "restSeconds": f"{rest:.0f}"},
            within_seconds=seconds + HOLD_SECONDS,
        )
        self._say(f"{taken.name}, run {taken.run}: {why}")

    def _take(self, connection: Connection[Any]) -> Taken | None:
        return dispatch.take(connection, hold_seconds=HOLD_SECONDS, name=self._name)

    def _asked(self, work: Callable[[Connection[Any]], T]) -> T | None:
        """Ask the database; one that is away is waited for if we stay anyway."""
        told = False
        while True:
            try:
                if self._connection is None:
                    self._connection = self._connect()
                return work(self._connection)
            except (psycopg.OperationalError, ServerUnreachable) as error:
                self._disconnect()
                if not self._forever:
                    raise
                if not told:
                    told = True
                    self._say(f"the database is away, and is waited for: {error}")
            if self._stopped.wait(POLL_SECONDS):
                return None

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        """Hand signals on meanwhile; what the process ignores stays ignored."""
        before = {
            number: signal.signal(number, self._signalled)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _signalled(self, number: int, _: object) -> None:
        # Scrapy knows no SIGHUP, which would kill the worker; for us it is a terminal that has gone.
        number = signal.SIGTERM if number == signal.SIGHUP else number
        self._signals.append(number)
        self._stopped.set()
        if self._child is None:
            self._early.append(number)
        else:
            self._child.send_signal(number)
