"""What the tests of the embedded servers share."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar

import crawlproj
from crawlproj.connections import connect_database, open_redis_sync
from crawlproj.servers import locks, process

ROOT = Path(crawlproj.__path__[0]).parent
PATIENCE = 60.0  # a bound for what hangs, not a promise
GRACE = 0.3  # shorter than the real one, which is tried once

_USER = """
import subprocess, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from typing import ClassVar
from crawlproj.servers import embedded
embedded.GRACE_SECONDS = float(sys.argv[3])
joined = embedded.join(Path(sys.argv[2]))
print(joined.redis_url, joined.database_url, flush=True)
sys.stdin.read()
"""


class User:
    """A process that uses the servers of *home* until it is told to go."""

    all: ClassVar[list[User]] = []

    def __init__(self, home, *, root=ROOT, grace=GRACE, **options):
        self.process = subprocess.Popen(
            [sys.executable, "-c", _USER, str(root), str(home), str(grace)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            **options,
        )
        self.all.append(self)

    def joined(self):
        """Wait until it has joined; return the addresses of Redis and of PostgreSQL."""
        return self.process.stdout.readline().split()

    def kill(self):
        """End it as the kernel does when memory runs out."""
        self.process.kill()
        self.done()

    def done(self):
        """End it in the ordinary way, or see it off."""
        self.all.remove(self)
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(PATIENCE)


def until(what, seconds=PATIENCE):
    """Wait until *what* says yes, and return its answer."""
    deadline = time.monotonic() + seconds
    while not (answer := what()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.01)
    return answer


def running(home):
    """The names of what runs for *home*: each holds its lock, with all its children."""
    found = set()
    for name in ("valkey", "postgres", "watchdog"):
        path = home / f"{name}.lock"
        if path.exists():
            lock = locks.opened(path)
            if locks.is_held(lock):
                found.add(name)
            os.close(lock)
    return found


def pid(home, kind):
    """The pid of a running server."""
    lock = locks.opened(home / f"{kind.name}.lock")
    try:
        return process.pid_of(lock, kind.program)
    finally:
        os.close(lock)


def pids(home):
    """The pids of both servers."""
    return pid(home, process.VALKEY), pid(home, process.POSTGRES)


def remember(redis_url, database_url, word):
    """Write *word* into both servers."""
    with open_redis_sync(redis_url) as client:
        client.set("word", word)
        client.execute_command("WAITAOF", 1, 0, 5000)
    with connect_database(database_url) as connection:
        connection.execute("create table if not exists words (word text)")
        connection.execute("truncate words")
        connection.execute("insert into words values (%s)", [word])


def recall(redis_url, database_url):
    """What `remember` has written, from both servers."""
    with open_redis_sync(redis_url) as client, connect_database(database_url) as connection:
        return client.get("word").decode(), connection.execute("select word from words").fetchone()[0]


def as_nobody(*command):
    """The exit code of *command*, run as an account that has no right to anything of ours."""
    return subprocess.run(
        command, user="nobody", group="nogroup", extra_groups=[], cwd="/", capture_output=True, check=False
    ).returncode
