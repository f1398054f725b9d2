"""Commands that start at once, each in a process that is forked off one with all packages imported.

A `scrapy` spends three quarters of its start on importing what others wrote, and a suite starts hundreds. The
project's own code is imported by each command for itself, in a process of its own, in its own environment.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from crawlproj.testing.forking import NUMBER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PROGRAM = Path(__file__).with_name("forking.py")
_OF_ITS_OWN = ("PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")  # a fork can still heed these


class Forked:
    """A running command: as much of `subprocess.Popen` as a test needs, with texts as streams."""

    def __init__(self, name: str, connection: socket.socket, stdout: int, stderr: int) -> None:
        self.returncode: int | None = None
        self.stdout: IO[str] = open(stdout, encoding="utf-8")  # noqa: SIM115  # a descriptor
        self.stderr: IO[str] = open(stderr, encoding="utf-8")  # noqa: SIM115
        self._name = name
        self._connection = connection
        self._read: dict[Any, bytearray] = {self.stdout: bytearray(), self.stderr: bytearray()}
        self.pid = self._number(None)

    def poll(self) -> int | None:
        """Return the exit code, or None while the command runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code; negative, the signal that ended it. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            self.returncode = self._number(timeout)
            self._connection.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read what the command prints to its end. Raises subprocess.TimeoutExpired; may be called again."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            for stream in self._read:
                if not stream.closed:
                    selector.register(stream, selectors.EVENT_READ)
            while selector.get_map():
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise subprocess.TimeoutExpired(self._name, timeout or 0)
                for key, _ in selector.select(left):
                    part = os.read(key.fd, 65536)
                    self._read[key.fileobj] += part
                    if not part:
                        selector.unregister(key.fileobj)
                        key.fileobj.close()  # type: ignore[union-attr]  # it is one of the streams
        self.wait(None if deadline is None else max(deadline - time.monotonic(), 0))
        stdout, stderr = (bytes(read).decode() for read in self._read.values())
        return stdout, stderr

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the command has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _number(self, timeout: float | None) -> int:
        self._connection.settimeout(timeout)
        try:
            packed = self._connection.recv(NUMBER.size)
        except (TimeoutError, BlockingIOError):
            raise subprocess.TimeoutExpired(self._name, timeout or 0) from None
        if not packed:
            raise RuntimeError(f"what forks commands ended before {self._name}")
        return int(NUMBER.unpack(packed)[0])


class Preloaded:
    """A process that starts commands by forking."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="crawlproj-fork-")
        self._address = str(Path(self._folder.name) / "socket")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self._address)
        listener.listen(32)
        self._env = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self._process = subprocess.Popen(
            [sys.executable, str(_PROGRAM), str(listener.fileno())],
            stdin=subprocess.PIPE,
            env=self._env,
            pass_fds=[listener.fileno()],
        )
        listener.close()

    def __enter__(self) -> Self:
        """Take commands; the first waits for the imports."""
        return self

    def __exit__(self, *_: object) -> None:
        """Take no more; what runs goes on."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._folder.cleanup()

    @staticmethod
    def possible() -> bool:
        """Return whether forks are safe here: other systems' own libraries do not stand them."""
        try:
            os.close(os.pidfd_open(os.getpid()))
        except (AttributeError, OSError):
            return False
        return sys.platform == "linux" and _PROGRAM.is_file()

    def fits(self, env: Mapping[str, str]) -> bool:
        """Return whether a command in *env* needs no interpreter of its own."""
        return _of_the_interpreter(env) == _of_the_interpreter(self._env)

    def start(
        self,
        args: Sequence[str],
        *,
        folder: Path,
        env: Mapping[str, str],
        module: str = "scrapy",
        stdin: IO[bytes] | None = None,
        output: IO[bytes] | None = None,
    ) -> Forked:
        """Start `python -m module` with *args* in *folder*.

        Without a *stdin* there is nothing to read; with an *output* all that is printed goes there.
        """
        wish = {"module": module, "args": list(args), "env": dict(env), "folder": str(folder)}
        request = json.dumps(wish).encode()
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._address)
        (out, its_out), (err, its_err) = os.pipe(), os.pipe()
        with Path(os.devnull).open("rb") as nothing:
            written = [its_out, its_err] if output is None else [output.fileno()] * 2
            streams = [(stdin or nothing).fileno(), *written]
            socket.send_fds(connection, [NUMBER.pack(len(request))], streams)
        os.close(its_out)
        os.close(its_err)
        connection.sendall(request)
        return Forked(" ".join((module, *args)), connection, out, err)


def _of_the_interpreter(env: Mapping[str, str]) -> dict[str, str]:
    """Return what Python reads once, before anything is imported."""
    return {
        name: value
        for name, value in env.items()
        if (name.startswith(("PYTHON", "LC_")) or name in {"LANG", "TZ"}) and name not in _OF_ITS_OWN
    }
