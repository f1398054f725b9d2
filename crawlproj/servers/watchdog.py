"""The process that waits for the last user of the embedded servers and then stops them."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from crawlproj.servers import locks, process, sockets

GRACE_SECONDS = 2.0  # commands typed or scripted one after the other find the servers running


def main(home: str, ready: int) -> None:
    """Watch over the servers below *home*; write a byte to the descriptor *ready* when it begins."""
    folder = Path(home)
    # Opened once and for all: the folder may be deleted while its servers still run.
    start, users = (locks.opened(folder / name) for name in ("start.lock", "users.lock"))
    servers = [
        (locks.opened(folder / f"{kind.name}.lock"), kind) for kind in (process.VALKEY, process.POSTGRES)
    ]
    os.chdir("/")
    os.write(ready, b"1")
    os.close(ready)
    while True:
        fcntl.flock(users, fcntl.LOCK_EX)
        locks.unlock(users)
        last_joined = os.fstat(users).st_mtime_ns
        time.sleep(GRACE_SECONDS)
        fcntl.flock(start, fcntl.LOCK_EX)
        if locks.try_lock(users) and os.fstat(users).st_mtime_ns == last_joined:
            break
        locks.unlock(users)
        locks.unlock(start)  # somebody has joined meanwhile
    for lock, kind in servers:
        if not process.stop(lock, kind):
            print(f"{kind.label} cannot be stopped", file=sys.stderr)  # noqa: T201
        with suppress(OSError):  # only one outside of home is empty now
            sockets.socket_folder(folder / kind.name).rmdir()
    # `start` is still locked, so whoever comes next sees that there is no watchdog any more.
    os.close(_OWN_LOCK)
    os._exit(0)


_OWN_LOCK = 3  # where `process.detach` puts it
