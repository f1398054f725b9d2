"""The embedded PostgreSQL."""

from __future__ import annotations

import os
import signal
import stat

import pytest

from crawlproj.connections import connect_database
from crawlproj.exceptions import ServerUnreachable
from crawlproj.servers import sockets
from crawlproj.servers.embedded import join, leave
from crawlproj.servers.postgres import Postgres
from crawlproj.servers.process import POSTGRES
from tests.servers.support import as_nobody, pid, until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for other accounts")


def test_it_is_durable_modest_and_listens_to_its_owner_alone(new_home):
    """Safe settings, UTF-8, UTC, no TCP, and files that nobody else reads."""
    with connect_database(join(new_home, valkey=False).database_url) as connection:
        wanted = {
            "fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "listen_addresses": "",
            "shared_buffers": "64MB", "server_encoding": "UTF8", "unix_socket_permissions": "0700",
        }  # fmt: skip
        found = {name: connection.execute(f"show {name}").fetchone()[0] for name in wanted}
        assert found == wanted
        zone = "select reset_val from pg_settings where name = 'TimeZone'"
        assert connection.execute(zone).fetchone() == ("UTC",)
        assert connection.execute("select current_database()").fetchone() == ("crawlproj",)
    server = Postgres(new_home)
    assert stat.S_IMODE(server.socket.stat().st_mode) == 0o700
    for folder in (server.socket.parent, server.folder, server.data):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@needs_root
def test_no_other_account_gets_in_and_folders_on_the_way_stay_closed(new_home):
    """Root's PostgreSQL runs as its own account: that one passes through, and nobody else."""
    new_home.parent.chmod(0o700)
    join(new_home, valkey=False)
    for folder in (new_home.parent, new_home):
        assert folder.stat().st_mode & 0o007 == 0
        assert as_nobody("/bin/sh", "-c", f"cd {folder}") != 0
    server = Postgres(new_home)
    new_home.parent.chmod(0o755)
    new_home.chmod(0o755)  # even then
    assert as_nobody("/bin/sh", "-c", f"cd {server.socket.parent}") != 0


def test_stale_pid_of_another_program_does_not_confuse_it(home):
    """After kill -9 the number in the pid file may belong to anybody."""
    join(home, valkey=False)
    os.kill(pid(home, POSTGRES), signal.SIGKILL)
    server = Postgres(home)
    until(lambda: not server.is_there())
    lines = (server.data / "postmaster.pid").read_text().split("\n")
    (server.data / "postmaster.pid").write_text("\n".join([str(os.getpid()), *lines[1:]]))
    connect_database(join(home, valkey=False).database_url).close()


def test_stale_pid_of_another_postgres_does_not_confuse_it(home, folder):
    """Another PostgreSQL that has got the number works in another folder."""
    other = folder / "other"
    join(other, valkey=False)
    join(home, valkey=False)
    server = Postgres(home)
    leave(home, now=True)
    stale = (Postgres(other).data / "postmaster.pid").read_text()
    (server.data / "postmaster.pid").write_text(stale)
    connect_database(join(home, valkey=False).database_url).close()
    leave(other, now=True)


def test_server_that_somebody_else_started_on_the_data_is_left_alone(home):
    """Two servers on one data directory would destroy it."""
    join(home, valkey=False)
    leave(home, now=True)
    server = Postgres(home)
    lock = os.open(server.lock, os.O_RDWR)
    command = server.prepare(lock)
    os.close(lock)
    own = os.fork()
    if not own:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(server.owner[1])
            os.setuid(server.owner[0])
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.execv(command[0], [str(word) for word in command])
    until(server.answers)
    with pytest.raises(ServerUnreachable, match=rf"somebody else has started process {own} on its data"):
        join(home, valkey=False)
    os.kill(own, signal.SIGINT)
    os.waitpid(own, 0)


def test_failed_start_says_what_the_server_said(home):
    """The tail of its log is in the sentence."""
    join(home, valkey=False)
    leave(home, now=True)
    (Postgres(home).data / "postgresql.auto.conf").write_text("nonsense = 1\n")
    with pytest.raises(
        ServerUnreachable, match=r"^the embedded PostgreSQL at .* it did not start: .*nonsense"
    ):
        join(home, valkey=False)


def test_data_of_another_version_is_refused(home):
    """Upgrading is somebody's decision; starting it anyway is not."""
    join(home, valkey=False)
    leave(home, now=True)
    (Postgres(home).data / "PG_VERSION").write_text("16\n")
    with pytest.raises(ServerUnreachable, match=r"its data is of PostgreSQL 16 and the installed one is 18"):
        join(home, valkey=False)


@pytest.mark.parametrize("name", ["d" * 100, "a, b"])
def test_paths_that_no_socket_can_have_work_too(folder, name):
    """Long paths and paths with commas get a socket elsewhere, private as well, and gone in the end."""
    home = folder / name / "home"
    joined = join(home)
    connect_database(joined.database_url).close()
    server = Postgres(home)
    place = server.socket.parent
    assert place != server.folder
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert place.stat().st_uid == server.owner[0]
    leave(home, now=True)
    until(lambda: not place.exists())


@needs_root
def test_place_for_sockets_that_somebody_else_has_taken_is_refused(folder):
    """In /tmp anybody can make a folder of any name: we do not talk to what is in there."""
    home = folder / ("d" * 100)
    home.mkdir()
    place = sockets.socket_folder(home / "postgres")
    place.mkdir()
    os.chown(place, 65534, 65534)
    try:
        with pytest.raises(ServerUnreachable, match=r"belongs to somebody else"):
            join(home, valkey=False)
    finally:
        place.rmdir()
