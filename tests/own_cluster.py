"""A Redis Cluster of several servers, whose slots a test may move and whose servers it may kill."""

from __future__ import annotations

import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import redis
from redis.crc import key_slot

from crawlproj.connections import open_redis_sync

SLOTS = 16384
SECONDS = 30  # until the servers agree


class OwnCluster:
    """*masters* servers with a share of the slots each; the first has a replica if *replica* is set."""

    def __init__(self, folder: Path, program: Path, masters: int = 3, *, replica: bool = False) -> None:
        self._folder = folder
        self._program = program
        self._processes: list[subprocess.Popen[bytes]] = []
        self.urls: list[str] = []
        for number in range(masters + replica):
            self._start(number)
        self._nodes = [open_redis_sync(url) for url in self.urls]
        self._found(masters)
        if replica:
            self._until(lambda: self._replicates(masters), "the replica has heard of its master")
            self._until(lambda: self._is_replica(masters), "the replica has what its master has")
        self._until(self._agree, "all servers say that the cluster is well")

    def kill(self, number: int) -> None:
        """Take a server away without a chance to say goodbye."""
        self._processes[number].kill()
        self._processes[number].wait(10)

    def close(self) -> None:
        """Take all of them away."""
        for node in self._nodes:
            node.close()
        for number in range(len(self._processes)):
            self.kill(number)

    def slot_of(self, key: str) -> int:
        """Return the slot of a key."""
        return key_slot(key.encode())

    def owner_of(self, key: str) -> int:
        """Return the number of the server that has a key's slot."""
        slot = self.slot_of(key)
        for start, end, master, *_ in self._slots():
            if start <= slot <= end:
                port = int(master[1])
                return next(n for n, url in enumerate(self.urls) if f":{port}/" in url)
        raise AssertionError(f"nobody has slot {slot}")

    def begin_to_move(self, key: str, to: int) -> None:
        """Let the owner of a key's slot hand it over to another server, and come no further."""
        slot, here = self.slot_of(key), self.owner_of(key)
        self._say(to, "SETSLOT", slot, "IMPORTING", self._id(here))
        self._say(here, "SETSLOT", slot, "MIGRATING", self._id(to))

    def move(self, key: str, to: int) -> None:
        """Hand a key's slot over to another server, with all that is in it."""
        slot, here = self.slot_of(key), self.owner_of(key)
        host, port = "127.0.0.1", self.urls[to].rpartition(":")[2].partition("/")[0]
        self.begin_to_move(key, to)
        while names := self._say(here, "GETKEYSINSLOT", slot, 100):
            self._nodes[here].execute_command("MIGRATE", host, port, "", 0, 5000, "KEYS", *names)
        for number in {to, here, *range(len(self._nodes))}:
            with suppress(redis.ResponseError):  # a replica
                self._say(number, "SETSLOT", slot, "NODE", self._id(to))

    def replicated(self) -> None:
        """Return when the replica of the first server has what that has."""
        first, replica = self._nodes[0], self._nodes[-1]
        self._until(
            lambda: (
                replica.info("replication")["slave_repl_offset"]
                >= first.info("replication")["master_repl_offset"]
            ),
            "the replica has what its master has",
        )

    def empty(self) -> None:
        """Drop all keys."""
        for node in self._nodes:
            with suppress(redis.ReadOnlyError):  # a replica
                node.flushall()

    def keys(self) -> list[int]:
        """Return how many keys each server has."""
        return [int(node.dbsize()) for node in self._nodes]

    def _start(self, number: int) -> None:
        ports = []
        for _ in range(2):
            with socket.create_server(("127.0.0.1", 0)) as free:
                ports.append(free.getsockname()[1])
        folder = self._folder / str(number)
        folder.mkdir()
        options = {
            "port": ports[0], "cluster-port": ports[1], "bind": "127.0.0.1", "dir": folder, "save": "",
            "cluster-enabled": "yes", "cluster-node-timeout": 1000,
        }  # fmt: skip
        words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
        self._processes.append(subprocess.Popen([self._program, *words], stdout=subprocess.DEVNULL))
        self.urls.append(f"redis://127.0.0.1:{ports[0]}/0")
        self._until(lambda: self._answers(number), "it answers")
        if number:
            with open_redis_sync(self.urls[0]) as first:
                first.execute_command("CLUSTER", "MEET", "127.0.0.1", ports[0], ports[1])

    def _answers(self, number: int) -> bool:
        with suppress(redis.RedisError), open_redis_sync(self.urls[number]) as client:
            return bool(client.ping())
        return False

    def _found(self, masters: int) -> None:
        edges = [SLOTS * n // masters for n in range(masters + 1)]
        for number in range(masters):
            self._say(number, "ADDSLOTSRANGE", edges[number], edges[number + 1] - 1)

    def _replicates(self, number: int) -> bool:
        with suppress(redis.ResponseError):
            return bool(self._say(number, "REPLICATE", self._id(0)))
        return False

    def _is_replica(self, number: int) -> bool:
        return self._nodes[number].info("replication").get("master_link_status") == "up"

    def _agree(self) -> bool:
        states = [str(self._say(number, "INFO")) for number in range(len(self._nodes))]
        return all(
            "cluster_state:ok" in each and f"cluster_known_nodes:{len(states)}" in each for each in states
        )

    def _slots(self) -> list[list[object]]:
        for node, process in zip(self._nodes, self._processes, strict=True):
            if process.poll() is None:
                return list(node.execute_command("CLUSTER SLOTS"))
        raise AssertionError("no server is left")

    def _id(self, number: int) -> str:
        return str(self._nodes[number].execute_command("CLUSTER MYID").decode())

    def _say(self, number: int, *words: object) -> object:
        return self._nodes[number].execute_command("CLUSTER", *words)

    def _until(self, is_so, what: str) -> None:
        until = time.monotonic() + SECONDS
        while not is_so():
            assert time.monotonic() < until, f"not within {SECONDS} s: {what}"
            time.sleep(0.02)
