"""Join the embedded servers of a project, or be the one who starts them."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import crawlproj
from crawlproj.exceptions import ServerUnreachable
from crawlproj.servers import locks, process
from crawlproj.servers.postgres import Postgres
from crawlproj.servers.valkey import Valkey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crawlproj.servers.base import Server

# A script's next command takes a second to load: it finds the servers running.
GRACE_SECONDS = 2.0
_INSTANT = 0.2  # seconds
_TURN_SECONDS = 180.0  # longer than any start or stop takes
_WATCHDOG_SECONDS = 30.0
_WATCHDOG = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from crawlproj.servers.watchdog import main; main(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))"
)

_users: dict[Path, int] = {}  # what makes this process a user: home -> descriptor of users.lock
_mutex = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The addresses of the embedded servers that were asked for."""

    redis_url: str | None
    database_url: str | None


def join(home: Path, *, valkey: bool = True, postgres: bool = True) -> Joined:
    """Make this process a user of the servers below *home*, until it ends or leaves.

    Starts what does not run. Also brings back a server that died under a running process.
    Raises ServerUnreachable.
    """
    with _mutex, _turn(home) as folder:
        chosen: list[Server] = [
            *([Postgres(folder)] if postgres else []),
            *([Valkey(folder)] if valkey else []),
        ]
        _enter(folder)
        watchdog = _start_watchdog(folder)
        for server in chosen:  # all at once, then wait for all
            server.begin()
        for server in chosen:
            server.wait()
        _await_watchdog(folder, watchdog)
        urls = {server.kind.name: server.url for server in chosen}
    return Joined(redis_url=urls.get("valkey"), database_url=urls.get("postgres"))


def leave(home: Path, *, now: bool = False) -> None:
    """Stop being a user. The servers stop after the last one: *now*, or in a moment."""
    with _mutex, _turn(home) as folder:
        if (users := _users.pop(folder, None)) is not None:
            os.close(users)
        if now:
            users = locks.opened(folder / "users.lock")
            try:
                # The watchdog holds it for an instant, to find out that the last user has left.
                if locks.lock_within(users, _INSTANT):
                    Valkey(folder).stop()
                    Postgres(folder).stop()
            finally:
                os.close(users)


@contextmanager
def _turn(home: Path) -> Iterator[Path]:
    """Hold the right to start and stop; yield *home* as everybody knows it."""
    try:
        if not home.exists():
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            (home / ".gitignore").write_text("*\n", "utf-8")
        folder = home.resolve()
        start = locks.opened(folder / "start.lock")
    except OSError as error:
        raise _failure(home, str(error)) from error
    try:
        if not locks.lock_within(start, _TURN_SECONDS):
            raise _failure(
                home, f"another process has been starting or stopping them for {_TURN_SECONDS:.0f} s"
            )
        yield folder
    finally:
        os.close(start)


def _enter(folder: Path) -> None:
    """Hold users.lock, shared, for as long as this process lives."""
    path = folder / "users.lock"
    if (users := _users.get(folder)) is not None:
        if path.exists() and path.stat().st_ino == os.fstat(users).st_ino:
            os.utime(users)
            return
        os.close(_users.pop(folder))  # home has been deleted below us
    users = locks.opened(path)
    os.utime(users)  # tells a watchdog in its grace that we were here, however short
    if not locks.lock_within(users, _TURN_SECONDS, shared=True):
        os.close(users)
        raise _failure(folder, "users.lock is held by a stranger")
    _users[folder] = users


def _start_watchdog(folder: Path) -> int | None:
    """Start the watchdog unless it is there; return where it will say that it is ready."""
    lock = locks.opened(folder / "watchdog.lock")
    try:
        if not locks.try_lock(lock):
            return None
        answer, ready = os.pipe()
        root = Path(crawlproj.__path__[0]).absolute().parent  # a folder, or a zipped egg
        # -I and -S: it needs nothing but the standard library, and starts in a few milliseconds.
        command: list[str | Path] = [
            sys.executable,
            "-I",
            "-S",
            "-c",
            _WATCHDOG,
            root,
            folder,
            str(ready),
            str(GRACE_SECONDS),
        ]
        with (folder / "watchdog.log").open("wb") as log:
            process.detach(command, lock=lock, log=log, folder=folder, keep=[ready])
        os.close(ready)
        return answer
    except (OSError, subprocess.SubprocessError) as error:
        raise _failure(folder, f"no watchdog can be started: {error}") from error
    finally:
        os.close(lock)


def _await_watchdog(folder: Path, answer: int | None) -> None:
    # It must have loaded itself before we may end: scrapyd deletes the egg that it comes from.
    if answer is None:
        return
    try:
        readable = select.select([answer], [], [], _WATCHDOG_SECONDS)[0]
        if not readable or not os.read(answer, 1):
            text = (folder / "watchdog.log").read_text("utf-8", "replace").strip()
            raise _failure(folder, f"the watchdog did not start: {text[-300:]}")
    finally:
        os.close(answer)


def _failure(home: Path, why: str) -> ServerUnreachable:
    return ServerUnreachable("the folder of the embedded servers", str(home), why)
