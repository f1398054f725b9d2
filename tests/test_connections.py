"""What is promised of connections: they come back, they lose nothing, they keep secrets."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
import redis
from psycopg import errors
from psycopg.conninfo import make_conninfo
from scrapy.settings import Settings

from crawlproj.config import Config
from crawlproj.connections import (
    Database,
    check_redis,
    connect_database,
    ensure_servers,
    open_redis,
    open_redis_sync,
    reconnect_delay,
    redact,
)
from crawlproj.exceptions import BadSetting, ServerUnreachable
from crawlproj.servers.embedded import join, leave
from crawlproj.servers.postgres import Postgres
from crawlproj.servers.valkey import Valkey
from crawlproj.testing.servers import fast_folder

SECRET = "open-sesame"


@pytest.fixture(scope="module")
def own_home():
    """Servers that the tests of this module may stop and break."""
    with tempfile.TemporaryDirectory(
        prefix="crawlproj-own-", dir=fast_folder(), ignore_cleanup_errors=True
    ) as folder:
        home = Path(folder).resolve()
        yield home
        leave(home, now=True)


@pytest.fixture(scope="module")
def own_postgres(own_home):
    """A PostgreSQL that may be stopped and started."""
    join(own_home, valkey=False)
    return Postgres(own_home)


@pytest.fixture
async def database(database_url):
    """A Database on an empty table `t`."""
    with connect_database(database_url) as connection:
        connection.execute("create table t (n integer primary key)")
    database = Database(database_url, name="test")
    yield database
    await database.close()


def insert(*numbers):
    """Work that inserts *numbers*."""

    async def work(connection):
        for number in numbers:
            await connection.execute("insert into t values (%s)", [number])

    return work


def rows_of(url):
    """What is in `t`, seen from outside."""
    with connect_database(url) as connection:
        return [n for (n,) in connection.execute("select n from t order by n")]


async def backend_of(database):
    """The server process that serves *database*."""

    async def work(connection):
        return connection.info.backend_pid

    return await database.run(work)


def end_backend(url, pid):
    """End a session from the server's side."""
    with connect_database(url) as connection:
        assert connection.execute("select pg_terminate_backend(%s, 5000)", [pid]).fetchone() == (True,)


async def until(what, seconds=10.0):
    """Wait until *what* says yes."""
    async with asyncio.timeout(seconds):
        while not what():  # noqa: ASYNC110  # what it waits for may be in another process
            await asyncio.sleep(0.01)


# --- secrets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:pw@h:1/0", "redis://:***@h:1/0"),
        ("rediss://u:p%40w@h/0?ssl_password=pw&db=1", "rediss://u:***@h/0?ssl_password=***&db=1"),
        ("unix:///a/b.sock?db=0&password=pw", "unix:///a/b.sock?db=0&password=***"),
        (
            "postgresql://u:pw@h1:1,h2:2/db?sslpassword=pw&x=1",
            "postgresql://u:***@h1:1,h2:2/db?sslpassword=***&x=1",
        ),
        ("postgresql://u:p@w@h/db", "postgresql://u:***@h/db"),
        ("postgresql://u:p/w@h/db", "postgresql://***@h/db"),
        ("postgresql://h/db?password=p@w", "postgresql://h/db?password=***"),
        ("postgresql://h/db?user=u&pass%77ord=pw", "postgresql://h/db?user=u&pass%77ord=***"),
        ("host=h password = 'p w' user=u", "host=h password=*** user=u"),
        (r"host=h PASSWORD=p\ w user=u", "host=h PASSWORD=*** user=u"),
        ("u:pw@h/db", "***@h/db"),
        ("password='pw", "***"),
        ("postgres//u:pw@h/db?sslmode=require", "***@h/db?sslmode=require"),
        ("redis://[::1]:6379/0", "redis://[::1]:6379/0"),
        ("redis://u@h", "redis://u@h"),
        ("redis://:pw", "redis://:***"),
        ("unix:///home/a@b/c.sock", "unix:///home/a@b/c.sock"),
    ],
)
def test_an_address_is_shown_without_its_secrets(url, shown):
    """User, host and database may be read; a password never, however it was written."""
    assert redact(url) == shown


@pytest.mark.parametrize("opener", [open_redis, open_redis_sync, check_redis])
@pytest.mark.parametrize("url", [f"redis://:{SECRET}x", f"redis://:{SECRET}/1@h:x", f"http://u:{SECRET}@h/"])
def test_a_bad_redis_address_is_refused_without_its_password(opener, url):
    """Not even the library's own complaint, which quotes what it cannot read, gets out."""
    with pytest.raises(BadSetting, match="REDIS_URL") as caught:
        opener(url)
    assert SECRET not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("opener", [connect_database, lambda url: Database(url, name="test")])
@pytest.mark.parametrize(
    "url", [f"u:{SECRET}@h/db", f"postgresql://u:{SECRET}@h/db?nonsense=1", f"password='{SECRET}"]
)
def test_a_bad_database_address_is_refused_without_its_password(opener, url):
    """Not even the library's own complaint, which quotes what it cannot read, gets out."""
    with pytest.raises(BadSetting, match="DATABASE_URL") as caught:
        opener(url)
    assert SECRET not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.fixture(scope="module")
def locked_valkey(own_home):
    """A Valkey that wants a password."""
    (own_home / "locked").mkdir()
    server = Valkey(own_home / "locked")
    lock = os.open(server.lock, os.O_CREAT | os.O_RDWR)
    process = subprocess.Popen(
        [*server.prepare(lock), "--requirepass", SECRET], cwd=server.folder, stdout=subprocess.DEVNULL
    )
    os.close(lock)
    yield server.url
    process.terminate()
    process.wait(10)


async def test_a_wrong_redis_password_is_never_shown(locked_valkey):
    """The right password opens, a wrong one is refused in one sentence that does not show it."""
    good = f"{locked_valkey}&password={SECRET}"
    for _ in range(500):
        with suppress(ServerUnreachable):
            check_redis(good)
            break
        await asyncio.sleep(0.01)
    client = open_redis(good)
    assert await client.ping()
    await client.aclose()
    with pytest.raises(
        ServerUnreachable, match=r"^Redis at unix:.*password=\*\*\* cannot be reached: "
    ) as caught:
        check_redis(f"{locked_valkey}&password=not-{SECRET}")
    assert SECRET not in str(caught.value)


def test_a_wrong_database_password_is_never_shown(own_postgres):
    """The right password opens, a wrong one is refused in one sentence that does not show it."""
    with connect_database(own_postgres.url) as connection:
        connection.execute(f"create role guarded login password '{SECRET}'")
        hba = own_postgres.data / "pg_hba.conf"
        hba.write_text("local all guarded scram-sha-256\n" + hba.read_text())
        connection.execute("select pg_reload_conf()")
    right = make_conninfo(own_postgres.url, user="guarded", password=SECRET)
    wrong = make_conninfo(own_postgres.url, user="guarded", password=f"not-{SECRET}")
    connect_database(right).close()
    with pytest.raises(
        ServerUnreachable, match=r"password=\*\*\*.* cannot be reached: .*authentication failed"
    ) as caught:
        connect_database(wrong)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


# --- Redis ----------------------------------------------------------------------------------------


async def test_redis_answers_in_bytes(redis_url):
    """Nothing is decoded on the way: keys and members are bytes."""
    client = open_redis(redis_url)
    await client.set("k", b"\xff\x00")
    assert await client.get("k") == b"\xff\x00"
    await client.aclose()


async def test_redis_connection_ended_by_the_server_is_replaced(redis_url):
    """A connection that died while it was idle costs nobody a command."""
    client = open_redis(redis_url)
    for _ in range(3):
        mine = await client.client_id()
        with open_redis_sync(redis_url) as other:
            other.client_kill_filter(_id=mine)
        assert await client.ping()
        assert await client.client_id() != mine
    await client.aclose()


async def test_redis_command_that_timed_out_is_not_sent_again(redis_url):
    """The server may have done it: only the caller knows whether it may happen twice."""
    url = redis_url + ("&" if "?" in redis_url else "?") + "socket_timeout=0.2"
    client = open_redis(url)
    await client.ping()
    with open_redis_sync(redis_url) as other:
        other.client_pause(600)
        with pytest.raises(redis.TimeoutError):
            await client.incr("n")
        other.client_unpause()
        other.ping()
        assert other.get("n") in {None, b"1"}
    await client.aclose()


def test_redis_that_is_not_there_is_named_soon():
    """A refused connection is tried a few times within a second, not for ever."""
    with pytest.raises(
        ServerUnreachable, match=r"^Redis at redis://127\.0\.0\.1:1/0 cannot be reached: .*refused"
    ):
        check_redis("redis://127.0.0.1:1/0")


async def test_redis_urls_with_tls_use_tls():
    """rediss:// and its options reach the client as they are."""
    client = open_redis("rediss://:pw@h:1/2?ssl_cert_reqs=none")
    pool = client.connection_pool
    assert pool.connection_class is redis.asyncio.SSLConnection
    assert pool.connection_kwargs["ssl_cert_reqs"] == "none"
    assert pool.connection_kwargs["password"] == "pw"


# --- PostgreSQL -----------------------------------------------------------------------------------


def test_database_that_is_not_there_is_named():
    """One sentence: who, where, why."""
    with pytest.raises(
        ServerUnreachable, match=r"^PostgreSQL at postgresql://u:\*\*\*@127\.0\.0\.1:1/db cannot be"
    ):
        connect_database("postgresql://u:pw@127.0.0.1:1/db")


async def test_work_is_committed_and_its_result_returned(database, database_url):
    """What `run` has returned of can be seen by everybody."""

    async def work(connection):
        cursor = await connection.execute("insert into t values (7) returning n")
        return (await cursor.fetchone())[0]

    assert await database.run(work) == 7
    assert rows_of(database_url) == [7]


async def test_session_is_recognisable_and_in_utc(database):
    """An operator sees whose session it is; times come in UTC whatever the server's own zone."""

    async def work(connection):
        cursor = await connection.execute(
            "select current_setting('application_name'), current_setting('TimeZone')"
        )
        return await cursor.fetchone()

    assert await database.run(work) == ("crawlproj:test", "UTC")


async def test_failed_work_leaves_nothing_and_spoils_nothing(database, database_url):
    """One bad page does not stop the next nine."""
    await database.run(insert(1))
    reported = 0
    for n in range(1, 11):
        try:
            await database.run(insert(100 + n, n))
        except errors.UniqueViolation:
            reported += 1
    assert reported == 1
    assert rows_of(database_url) == [*range(1, 11), *range(102, 111)]


async def test_work_that_hides_a_failed_statement_is_no_success(database, database_url):
    """The server turns such a commit into a rollback without a word; we do not."""

    async def work(connection):
        await connection.execute("insert into t values (1)")
        with suppress(errors.UniqueViolation):
            await connection.execute("insert into t values (1)")

    with pytest.raises(errors.InFailedSqlTransaction):
        await database.run(work)
    await database.run(insert(2))
    assert rows_of(database_url) == [2]


async def test_session_ended_while_idle_is_replaced(database, database_url, caplog):
    """A connection that died while the crawl waited for slow hosts costs no row."""
    caplog.set_level(logging.INFO)
    await database.run(insert(1))
    end_backend(database_url, await backend_of(database))
    await database.run(insert(2))
    assert rows_of(database_url) == [1, 2]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


async def test_session_ended_in_the_middle_runs_the_work_again(database, database_url):
    """The work starts anew in a new transaction: every row once."""
    tries = 0

    async def work(connection):
        nonlocal tries
        tries += 1
        await connection.execute("insert into t values (1)")
        if tries <= 2:
            await asyncio.to_thread(end_backend, database_url, connection.info.backend_pid)
        await connection.execute("insert into t values (2)")

    await database.run(work)
    assert tries == 3
    assert rows_of(database_url) == [1, 2]


async def test_outage_is_waited_out_and_told_once(own_postgres, caplog):
    """While the server is away nothing is lost, nothing spins, and the log stays short."""
    caplog.set_level(logging.INFO)
    database = Database(own_postgres.url, name="test")
    tries = 0

    async def work(connection):
        nonlocal tries
        tries += 1
        await connection.execute("create table if not exists outage (n integer)")
        await connection.execute("insert into outage values (1)")

    await database.run(work)
    await asyncio.to_thread(own_postgres.stop)
    tasks = [asyncio.create_task(database.run(work)) for _ in range(3)]
    await until(lambda: caplog.records)
    await asyncio.sleep(0.5)  # long enough for several tries: they must not show
    assert not any(task.done() for task in tasks)
    await asyncio.to_thread(own_postgres.begin)
    await asyncio.gather(*tasks)
    await database.close()
    with connect_database(own_postgres.url) as connection:
        assert connection.execute("select count(*) from outage").fetchone() == (4,)
    assert tries <= 5  # one that broke, and the four that count
    assert [(r.name, r.levelname) for r in caplog.records] == [
        ("crawlproj.connections.database", "WARNING"),
        ("crawlproj.connections.database", "INFO"),
    ]
    assert all(str(own_postgres.folder) in record.getMessage() for record in caplog.records)


async def test_close_ends_waiting_for_a_server_that_is_away():
    """Nobody has to kill a worker because its database is gone."""
    database = Database("postgresql://u:pw@127.0.0.1:1/db", name="test")
    task = asyncio.create_task(database.run(insert(1)))
    await until(lambda: database._out)
    await asyncio.wait_for(database.close(), 3)
    with pytest.raises(ServerUnreachable):
        await task
    with pytest.raises(ServerUnreachable):
        await database.run(insert(1))


async def test_cancelled_work_leaves_a_usable_connection(database, database_url):
    """A worker that stops in the middle of a statement leaves no half transaction behind."""

    async def work(connection):
        await connection.execute("insert into t values (1)")
        await connection.execute("select pg_sleep(60)")

    task = asyncio.create_task(database.run(work))
    with connect_database(database_url) as watcher:
        seen = "select count(*) from pg_stat_activity where query = 'select pg_sleep(60)'"
        await until(lambda: watcher.execute(seen).fetchone() == (1,))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(database.run(insert(2)), 5)
    assert rows_of(database_url) == [2]


async def test_workers_that_deadlock_lose_no_row(database, database_url):
    """Two workers that write the same rows in opposite order both succeed."""
    other = Database(database_url, name="other")
    await database.run(insert(1, 2))
    met = asyncio.Barrier(2)
    tries = 0

    def work(first, second):
        async def update(connection):
            nonlocal tries
            tries += 1
            await connection.execute("set local deadlock_timeout = '20ms'")
            await connection.execute("update t set n = n + 10 where n %% 10 = %s", [first])
            if tries <= 2:
                await met.wait()
            await connection.execute("update t set n = n + 10 where n %% 10 = %s", [second])

        return update

    await asyncio.gather(database.run(work(1, 2)), other.run(work(2, 1)))
    await other.close()
    assert tries == 3
    assert rows_of(database_url) == [21, 22]


async def test_a_conflict_without_end_is_reported(database):
    """Trying again is for accidents: what conflicts every time comes out."""
    tries = 0

    async def work(connection):
        nonlocal tries
        tries += 1
        await connection.execute("do $$ begin raise serialization_failure; end $$")

    with pytest.raises(errors.SerializationFailure):
        await database.run(work)
    assert 2 <= tries <= 10


async def test_statements_lost_by_a_pooler_are_not_prepared_again(database, database_url, caplog):
    """A pooler that swaps sessions below us costs one try, once, and is no outage."""

    async def work(connection):
        for n in range(10):
            await connection.execute("insert into t values (%s) on conflict do nothing", [n])

    await database.run(work)  # prepared by now
    await database.run(lambda c: c.execute("do $$ begin execute 'deallocate all'; end $$"))
    await database.run(work)
    assert rows_of(database_url) == list(range(10))
    assert not caplog.records


async def test_work_runs_one_at_a_time(database, database_url):
    """One connection, one transaction: nothing of two pieces of work is mixed."""

    async def work(connection):
        cursor = await connection.execute("select coalesce(max(n), 0) from t")
        (highest,) = await cursor.fetchone()
        await asyncio.sleep(0)
        await connection.execute("insert into t values (%s)", [highest + 1])

    await asyncio.gather(*(database.run(work) for _ in range(10)))
    assert rows_of(database_url) == list(range(1, 11))


@pytest.mark.parametrize("chance", [0.0, 0.5, 0.999])
def test_reconnect_delay_grows_to_a_cap(chance):
    """From a tenth of a second to two, never more, never nothing."""
    delays = [reconnect_delay(breaks, chance) for breaks in range(2000)]
    assert delays == sorted(delays)
    assert 0.05 <= delays[0] <= 0.1
    assert 1.0 <= delays[-1] <= 2.0


# --- both -----------------------------------------------------------------------------------------


def config_of(**settings):
    """A Config of the project's settings and *settings*."""
    base = Settings()
    base.setmodule("crawlproj.settings")
    base.update({"REDIS_URL": None, "DATABASE_URL": None, **settings}, priority="cmdline")
    return Config.from_settings(base)


def test_without_addresses_the_embedded_servers_are_used(own_home, own_postgres):
    """No setting, no server installed: both are there, and are told apart from given ones."""
    addresses = ensure_servers(config_of(CRAWLPROJ_HOME=str(own_home)))
    assert addresses.redis_embedded
    assert addresses.database_embedded
    check_redis(addresses.redis_url)
    with connect_database(addresses.database_url) as connection:
        assert connection.execute("select current_database()").fetchone() == ("crawlproj",)


def test_given_addresses_are_used_as_they_are(redis_url, database_url, tmp_path):
    """Nothing is started, no folder is made."""
    home = tmp_path / "home"
    addresses = ensure_servers(
        config_of(REDIS_URL=redis_url, DATABASE_URL=database_url, CRAWLPROJ_HOME=str(home))
    )
    assert (addresses.redis_url, addresses.database_url) == (redis_url, database_url)
    assert not addresses.redis_embedded
    assert not addresses.database_embedded
    assert not home.exists()


def test_a_given_server_that_does_not_answer_is_reported(redis_url, tmp_path):
    """Exit code 5 and one sentence, before anything else is tried."""
    with pytest.raises(ServerUnreachable, match=r"^PostgreSQL at ") as caught:
        ensure_servers(
            config_of(
                REDIS_URL=redis_url, DATABASE_URL="postgresql://127.0.0.1:1/db", CRAWLPROJ_HOME=str(tmp_path)
            )
        )
    assert caught.value.exit_code == 5
    with pytest.raises(ServerUnreachable, match=r"^Redis at "):
        ensure_servers(
            config_of(
                REDIS_URL="redis://127.0.0.1:1/0",
                DATABASE_URL="postgresql://127.0.0.1:1/db",
                CRAWLPROJ_HOME=str(tmp_path),
            )
        )


def test_commands_get_a_connection_in_autocommit(database_url):
    """A command that only reads holds no transaction open."""
    with connect_database(database_url) as connection:
        connection.execute("select 1")
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
