"""A Redis or Valkey that a test may stop, kill and fill."""

from __future__ import annotations

import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import redis

from crawlproj.connections import open_redis_sync


class OwnRedis:
    """A server in *folder* that keeps what it was told in an append-only file.

    It runs the program *like*, or that of the server at the address *like*.
    """

    def __init__(self, folder: Path, like: str | Path) -> None:
        if isinstance(like, str):
            with open_redis_sync(like) as client:
                like = Path(client.info("server")["executable"])
        self._program = shutil.which(like) or shutil.which(like.name)
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"unix://{folder}/r.sock"

    def start(self, *, wait: bool = True) -> None:
        """Start it, and return when it answers."""
        options = {
            "port": "0",
            "unixsocket": f"{self._folder}/r.sock",
            "dir": str(self._folder),
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",  # by default it puts off even writing while the disk is slow
        }
        self._process = subprocess.Popen(
            [self._program, *(word for name, value in options.items() for word in (f"--{name}", value))],
            stdout=subprocess.DEVNULL,
        )
        while wait:
            with suppress(redis.RedisError), open_redis_sync(self.url) as client:
                client.ping()
                break

    def kill(self) -> None:
        """Take it away without a chance to say goodbye."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def freeze(self) -> None:
        """Let it accept connections and answer nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)
