"""The embedded Valkey."""

from __future__ import annotations

import os
import stat

import pytest

from crawlproj.connections import open_redis_sync
from crawlproj.exceptions import ServerUnreachable
from crawlproj.servers.embedded import join, leave
from crawlproj.servers.valkey import Valkey


def test_it_keeps_what_it_is_told_and_listens_to_its_owner_alone(new_home):
    """Append-only file, no eviction, no TCP, a socket for the owner."""
    with open_redis_sync(join(new_home, postgres=False).redis_url) as client:
        wanted = {
            "appendonly": "yes", "appendfsync": "everysec", "save": "", "port": "0",
            "maxmemory-policy": "noeviction", "set-max-intset-entries": "1024",
        }  # fmt: skip
        assert client.config_get(*wanted) == wanted
    socket = Valkey(new_home).socket
    assert stat.S_IMODE(socket.stat().st_mode) == 0o700
    assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
    assert socket.stat().st_uid == os.geteuid()


def test_stop_keeps_what_was_written_last(new_home):
    """An orderly stop loses nothing, not even of the last second."""
    with open_redis_sync(join(new_home, postgres=False).redis_url) as client:
        client.set("word", "kept")
    leave(new_home, now=True)
    with open_redis_sync(join(new_home, postgres=False).redis_url) as client:
        assert client.get("word") == b"kept"


def test_failed_start_says_what_the_server_said(new_home):
    """The tail of its log is in the sentence."""
    join(new_home, postgres=False)
    leave(new_home, now=True)
    (new_home / "valkey/appendonlydir/appendonly.aof.manifest").write_text("rubbish")
    with pytest.raises(
        ServerUnreachable, match=r"^the embedded Valkey at .* it did not start: .*manifest"
    ) as caught:
        join(new_home, postgres=False)
    assert "\n" not in str(caught.value)


def test_log_does_not_grow_for_ever(new_home):
    """A large log makes room at the next start; the one before is kept."""
    join(new_home, postgres=False)
    leave(new_home, now=True)
    server = Valkey(new_home)
    os.truncate(server.log, 2_000_000)
    join(new_home, postgres=False)
    assert server.log.stat().st_size < 100_000
    assert server.log.with_suffix(".log.1").stat().st_size == 2_000_000
