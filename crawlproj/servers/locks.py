"""File locks that end with the process that holds them."""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def opened(path: Path) -> int:
    """Return a descriptor of the lock file *path*, not locked, not passed on to children."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def try_lock(fd: int, *, shared: bool = False) -> bool:
    """Lock *fd* unless somebody else holds it; say whether it is ours now."""
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock_within(fd: int, seconds: float, *, shared: bool = False) -> bool:
    """Lock *fd*, waiting for it up to *seconds*."""
    deadline = time.monotonic() + seconds
    while not try_lock(fd, shared=shared):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def unlock(fd: int) -> None:
    """Give the lock back and keep the file open."""
    fcntl.flock(fd, fcntl.LOCK_UN)


def is_held(fd: int) -> bool:
    """Whether another process holds the lock that *fd* is open on."""
    if try_lock(fd):
        unlock(fd)
        return False
    return True
