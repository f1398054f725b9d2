"""Starts a worker of its own for each crawl that is due, one after the other."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, replace
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

_DUE_AGAIN = "interrupted, and due again"


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """How the worker of a run has ended."""

    taken: Taken
    code: int  #: its exit code, negative for a signal
    seconds: float  #: after its start

    @property
    def how(self) -> str:
        """The end, in words."""
        return f"with exit code {self.code}" if self.code > 0 else f"by signal {-self.code}"


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
        self._told = say
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

    def _say(self, words: str) -> None:
        # A terminal that was closed, or a full disk: the crawls go on, and say themselves how they end.
        with contextlib.suppress(OSError):
            self._told(words)

    def _work(self, taken: Taken) -> None:
        """Start a worker for a run, wait for its end, and see to what comes of it."""
        if self._signals:  # while the run was taken
            self._asked(lambda connection: dispatch.put_back(connection, taken))
            return
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
        end = _End(taken=taken, code=code, seconds=time.monotonic() - began)
        if self._signals and code:
            self._code = INTERRUPTED
            end = replace(end, code=INTERRUPTED)
        told = self._asked(lambda connection: self._seen_to(connection, end))
        if told or end.code == INTERRUPTED:  # the database may be away
            self._say(f"{taken.name}, run {taken.run}: {told or _DUE_AGAIN}")

    def _seen_to(self, connection: Connection[Any], end: _End) -> str:
        """Say when a run is due whose worker has ended without doing so; return what is told of it."""
        try:
            run = rows.crawl(connection, end.taken.id)
        except NotFound as error:
            return str(error)
        rests = run.status in {"paused", "sealed"}
        failed = end.code not in {0, INTERRUPTED} and not (rests and end.code == REFUSED)
        if failed:
            self._code = self._code or 1
        else:
            self._failures.pop(run.id, None)
        if rests:
            parts = ["paused"]
            if run.status == "sealed":
                parts = [f"sealed, {run.stop_reason}", duration(end.seconds)]
            if failed:
                parts.append(f"its worker was ended {end.how}")
            return " · ".join(parts)
        if end.code == INTERRUPTED:
            if self._signals:  # one that was interrupted by others has its hold: no hot loop
                dispatch.put_back(connection, end.taken)
            return _DUE_AGAIN
        # It may be paused or sealed by now.
        return self._put_off(connection, end, failed=failed) or self._seen_to(connection, end)

    def _put_off(self, connection: Connection[Any], end: _End, *, failed: bool) -> str | None:
        """Let a run wait whose worker has failed, or has had enough; None if it is paused or sealed."""
        if not failed:
            waits = dispatch.put_off(connection, end.taken.id, seconds=REST_SECONDS)
            return f"goes on in {duration(REST_SECONDS)}" if waits else None
        rest = min(REST_SECONDS * 2 ** self._failures[end.taken.id], REST_SECONDS_MAX)
        why = f"its worker was ended {end.how}, the next one starts in {duration(rest)} or later"
        if not dispatch.put_off(
            connection,
            end.taken.id,
            seconds=rest,
            message=why,
            fields={"exitCode": str(end.code), "restSeconds": f"{rest:.0f}"},
            within_seconds=end.seconds + HOLD_SECONDS,
        ):
            return None
        self._failures[end.taken.id] += 1
        return why

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
                if self._signals:
                    return None
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
