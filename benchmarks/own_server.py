"""A Redis or Valkey of a benchmark's own, set as the embedded one is."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from crawlproj.connections import open_redis_sync
from crawlproj.servers.valkey import Valkey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from redis import Redis

KINDS = ("redis", "valkey")
START_SECONDS = 20


class Usage(NamedTuple):
    """What a server has used so far, in seconds of its processor and in bytes of its memory."""

    cpu: float
    memory: int  #: without the buffers of clients and of the append-only file


class OwnServer:
    """A running server: its address, a client, and what it uses."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client: Redis = open_redis_sync(url)

    @property
    def label(self) -> str:
        """Its name and version."""
        facts = self.client.info("server")
        if "valkey_version" in facts:
            return f"valkey {facts['valkey_version']}"
        return f"redis {facts['redis_version']}"

    def usage(self) -> Usage:
        """Read what it has used."""
        facts = self.client.info("all")
        buffers = int(facts["mem_clients_normal"]) + int(facts["mem_aof_buffer"])
        cpu = float(facts["used_cpu_user"]) + float(facts["used_cpu_sys"])
        return Usage(cpu, int(facts["used_memory"]) - buffers)

    def settled_memory(self) -> int:
        """Return the bytes in use once nothing is rewritten or freed in the background."""
        while True:
            facts = self.client.info("all")
            if not facts["aof_rewrite_in_progress"] and not facts["lazyfree_pending_objects"]:
                return self.usage().memory
            time.sleep(0.05)


@contextmanager
def own_server(kind: str, folder: Path) -> Iterator[OwnServer]:
    """Run a server in *folder* with the embedded server's options, whichever program it is."""
    home = folder / "home"
    home.mkdir(parents=True)
    embedded = Valkey(home)
    embedded.lock.touch()
    program, *options = embedded.prepare(os.open(embedded.lock, os.O_RDWR))
    if kind == "redis":
        found = shutil.which("redis-server")
        if found is None:
            raise SystemExit("there is no redis-server in PATH; run with --server valkey")
        program = found
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen([program, *options], cwd=embedded.folder, stdout=log, stderr=log)
    try:
        until = time.monotonic() + START_SECONDS
        while not embedded.answers():
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit((folder / "server.log").read_text())
            time.sleep(0.01)
        server = OwnServer(embedded.url)
        yield server
        server.client.close()
    finally:
        process.terminate()
        process.wait()
