"""What the embedded servers have in common."""

from __future__ import annotations

import os
import subprocess
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from crawlproj.exceptions import ServerUnreachable
from crawlproj.servers import locks, process, sockets

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

START_SECONDS = 120.0  # a large append-only file takes its time to load, and so does crash recovery
_LOG_SIZE = 1_000_000  # a log larger than this makes room at the next start
_TAIL_LINES = 5


class Server(ABC):
    """One embedded server below *home*. Whoever calls `begin` or `wait` holds the start lock."""

    kind: ClassVar[process.Kind]

    def __init__(self, home: Path) -> None:
        self.folder = home / self.kind.name
        self.log = self.folder / "server.log"
        self.lock = home / f"{self.kind.name}.lock"
        self._started = False
        self._log_from = 0

    @property
    @abstractmethod
    def url(self) -> str:
        """The address for clients."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether it serves requests."""

    @abstractmethod
    def prepare(self, lock: int) -> Sequence[str | Path]:
        """Make everything ready for a start, data included; return the command.

        *lock* is for programs that must not run beside the server: they get it handed on.
        """

    @property
    def owner(self) -> tuple[int, int]:
        """The user and the group that it runs as."""
        return os.geteuid(), os.getegid()

    @property
    def number(self) -> int:
        """A number that no other living server has.

        When home is deleted and made anew, the server of the old one runs on for a moment and
        removes its socket in the end: it must not be the new one's.
        """
        return self.lock.stat().st_ino

    def begin(self) -> None:
        """Start it, unless a process of it is there."""
        lock = locks.opened(self.lock)
        try:
            if not locks.try_lock(lock):
                return
            command = self.prepare(lock)
            self._make_room()
            with self.log.open("ab") as log:
                self._log_from = log.tell()
                process.detach(command, lock=lock, log=log, folder=self.folder, owner=self.owner)
            self._started = True
        except (OSError, subprocess.SubprocessError) as error:
            raise self.failure(str(error)) from error
        finally:
            os.close(lock)  # the server has it too, and keeps it

    def wait(self) -> None:
        """Wait until it answers; start it again when what was there was only on its way out."""
        deadline = time.monotonic() + START_SECONDS
        pause = 0.002
        while not self.answers():
            if not self.is_there():
                if self._started:
                    raise self.failure(f"it did not start: {self.log_tail() or 'its log is empty'}")
                self.begin()
            elif time.monotonic() > deadline:
                raise self.failure(f"it has not answered for {START_SECONDS:.0f} s: {self.log_tail()}")
            time.sleep(pause)
            pause = min(pause * 1.5, 0.05)

    def is_there(self) -> bool:
        """Whether a process of it is there."""
        lock = locks.opened(self.lock)
        try:
            return locks.is_held(lock)
        finally:
            os.close(lock)

    def stop(self) -> None:
        """Stop it when it is there."""
        lock = locks.opened(self.lock)
        try:
            if not process.stop(lock, self.kind):
                raise self.failure("it cannot be stopped")
            sockets.remove(self.folder)
        finally:
            os.close(lock)

    def failure(self, why: str) -> ServerUnreachable:
        """Return the error that says *why* it is not there."""
        return ServerUnreachable(f"the embedded {self.kind.label}", str(self.folder), why)

    def not_installed(self) -> ServerUnreachable:
        """Return the error that says how to get it, or how to do without."""
        return self.failure(f"it is not installed; install crawlproj[embedded], or set {self.kind.setting}")

    def log_tail(self) -> str:
        """Return the last lines that it has written since we started it."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(self._log_from, log.seek(0, os.SEEK_END) - 4000))
                lines = log.read().decode("utf-8", "replace").split("\n")
        except OSError:
            return ""
        return " | ".join([line.strip() for line in lines if line.strip()][-_TAIL_LINES:])[-600:]

    def _make_room(self) -> None:
        if self.log.exists() and self.log.stat().st_size > _LOG_SIZE:
            self.log.replace(self.log.with_suffix(".log.1"))
