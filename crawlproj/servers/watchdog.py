"""The process that waits for the last user of the embedded servers and then stops them."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from pathlib import Path

from crawlproj.servers import locks, process, sockets


def main(home: str, ready: int, grace: float) -> None:
    """Watch over the servers below *home*.

    Writes a byte to the descriptor *ready* when it begins. The servers stop *grace* seconds after
    their last user.
    """
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
        time.sleep(grace)
        fcntl.flock(start, fcntl.LOCK_EX)
        if locks.try_lock(users) and os.fstat(users).st_mtime_ns == last_joined:
            break
        locks.unlock(users)
        locks.unlock(start)  # somebody has joined meanwhile
    for lock, kind in servers:
        if not process.stop(lock, kind):
            print(f"{kind.label} cannot be stopped", file=sys.stderr)  # noqa: T201
        sockets.remove(folder / kind.name)
    # `start` is still locked, so whoever comes next sees that there is no watchdog any more.
    os.close(_OWN_LOCK)
    os._exit(0)


_OWN_LOCK = 3  # where `process.detach` puts it
