"""The addresses of hosts, looked up beside the crawl for the queues that are called by them."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

REMEMBERED = 50_000  # names
FAILED_SECONDS = 60.0  # how long a name that has no address is not asked for again
WAIT_SECONDS = 5.0  # what URLs wait for the addresses of their hosts, all together
THREADS = 8


def look_up(name: str) -> str | None:
    """Return the address of a host name without port: the least one, so that all workers agree. Blocks."""
    try:
        found = socket.getaddrinfo(name.strip("[]"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    addresses = {ipaddress.ip_address(str(each[4][0]).partition("%")[0]) for each in found}
    return str(min(addresses, key=lambda each: (each.version, each.packed))) if addresses else None


class Addresses:
    """What names resolve to: each asked for once, by threads; the oldest are forgotten."""

    def __init__(
        self,
        look_up: Callable[[str], str | None] = look_up,
        *,
        remembered: int = REMEMBERED,
        wait_seconds: float = WAIT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look_up = look_up
        self._remembered = remembered
        self._wait_seconds = wait_seconds
        self._clock = clock
        self._known: dict[str, tuple[str | None, float]] = {}  # name -> address, when it was found
        self._under_way: dict[str, asyncio.Future[str | None]] = {}
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="addresses")

    async def of(self, names: Iterable[str]) -> dict[str, str]:
        """Return name -> address, less the names that have none or whose server takes too long."""
        wanted = set(names)
        searches = [self._search(name) for name in wanted if not self._is_known(name)]
        if searches:
            await asyncio.wait(searches, timeout=self._wait_seconds)
        return {name: address for name in wanted if (address := self.known(name)) is not None}

    def known(self, name: str) -> str | None:
        """Return the address of a name if it has been found."""
        return self._known.get(name, (None, 0.0))[0]

    def close(self) -> None:
        """Ask for nothing more; nobody waits for what is under way."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _is_known(self, name: str) -> bool:
        address, found_at = self._known.get(name, (None, -FAILED_SECONDS))
        return address is not None or self._clock() - found_at < FAILED_SECONDS

    def _search(self, name: str) -> asyncio.Future[str | None]:
        search = self._under_way.get(name)
        if search is None:
            search = asyncio.get_running_loop().run_in_executor(self._threads, self._look_up, name)
            self._under_way[name] = search
            search.add_done_callback(lambda done: self._found(name, done))
        return search

    def _found(self, name: str, search: asyncio.Future[str | None]) -> None:
        del self._under_way[name]
        if search.cancelled():
            return
        self._known.pop(name, None)
        self._known[name] = (search.result(), self._clock())
        if len(self._known) > self._remembered:
            del self._known[next(iter(self._known))]
