"""Processes that outlive the one that starts them, each known by the lock it holds."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGQUIT, SIGTERM, Signals
from typing import IO, TYPE_CHECKING, Any

from crawlproj.servers.locks import is_held, lock_within, unlock

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of server: what it is called and how it is stopped."""

    name: str  #: of its folder and its lock
    label: str  #: for people
    program: str
    setting: str  #: what names another server instead
    stopping: tuple[tuple[Signals, float], ...]  #: signals, and the seconds each is given


VALKEY = Kind(
    name="valkey",
    label="Valkey",
    program="valkey-server",
    setting="REDIS_URL",
    stopping=((SIGTERM, 30.0), (SIGKILL, 5.0)),  # SIGTERM writes the append-only file out
)
POSTGRES = Kind(
    name="postgres",
    label="PostgreSQL",
    program="postgres",
    setting="DATABASE_URL",
    stopping=((SIGINT, 30.0), (SIGQUIT, 5.0), (SIGKILL, 5.0)),  # SIGINT: "fast", with a checkpoint
)

_REPEAT_SECONDS = 0.5

# The outer shell ends at once, so that the program is nobody's child: no zombie stays in a worker,
# and its session is its own, so that Ctrl-C in a terminal does not reach it. The inner one writes
# its pid into the lock file before it becomes the program, whatever happens to us meanwhile.
_DETACH = """/bin/sh -c 'echo $$; exec "$@" 3>&1 1>&2' sh "$@" &"""


def detach(
    command: Sequence[str | Path],
    *,
    lock: int,
    log: IO[bytes],
    folder: Path,
    owner: tuple[int, int] | None = None,
    keep: Sequence[int] = (),
) -> None:
    """Start *command* as a process of its own that holds *lock*, which we have locked.

    *owner* is the user and group to run as, *keep* are further descriptors to hand on.
    """
    os.ftruncate(lock, 0)  # no pid of an earlier one
    subprocess.run(  # noqa: S603
        ["/bin/sh", "-c", _DETACH, "sh", *command],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=lock,
        stderr=log,
        cwd=folder,
        env=environment(),
        start_new_session=True,
        umask=0o077,
        pass_fds=keep,
        **identity(owner),
    )


def identity(owner: tuple[int, int] | None) -> dict[str, Any]:
    """Return what makes `subprocess` run a program as *owner*; nothing unless we may."""
    if owner is None or os.geteuid() != 0:
        return {}
    return {"user": owner[0], "group": owner[1], "extra_groups": []}


def environment() -> dict[str, str]:
    """Return what a server needs of our environment: it must not carry addresses and passwords."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "TMPDIR") if name in os.environ}
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC", **kept}


def pid_of(lock: int, program: str) -> int | None:
    """Return the pid of the process that holds *lock*, if it can be told."""
    text = os.pread(lock, 32, 0).strip()
    if not text.isdigit():
        return None
    pid = int(text)
    # The main process may be gone and its number reused while a child still holds the lock.
    return pid if name_of(pid) == program else None


def name_of(pid: int) -> str | None:
    """Return the name of the program that process *pid* runs, or None when there is no such process."""
    if Path("/proc/self/comm").exists():
        with suppress(OSError):
            return Path(f"/proc/{pid}/comm").read_text("utf-8").strip()
        return None
    command = ["/bin/ps", "-o", "comm=", "-p", str(pid)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return Path(found.stdout.strip()).name or None


def stop(lock: int, kind: Kind) -> bool:
    """Stop the server that holds *lock*, politely first; say whether it is gone."""
    for signal, seconds in kind.stopping:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            # Again and again: one that has just been started does not listen to signals yet.
            if (pid := pid_of(lock, kind.program)) is not None and is_held(lock):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal)
            if lock_within(lock, _REPEAT_SECONDS):
                unlock(lock)
                return True
    return False
