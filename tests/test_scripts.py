"""What is promised of operations on Redis: each caller gets its reply, whatever happens to the server."""

from __future__ import annotations

import asyncio
import logging
from hashlib import sha1

import pytest
import redis
from redis.exceptions import ResponseError

from crawlproj import lane as module
from crawlproj.connections import open_redis, open_redis_sync
from crawlproj.scripts import Script, Scripts, script
from tests.redis_server import OwnRedis


def made_of(text: str) -> Script:
    return Script("test", text.encode(), sha1(text.encode(), usedforsecurity=False).hexdigest())


ECHO = made_of("return ARGV[1]")
COUNT = made_of("return redis.call('INCR', KEYS[1])")
APPEND = made_of("return redis.call('RPUSH', KEYS[1], ARGV[1])")
FREE = made_of("#!lua flags=allow-oom\nreturn redis.call('RPUSH', KEYS[1], ARGV[1])")
FAIL = made_of("return redis.error_reply('CLOSED for good')")
BROKEN = made_of("return nonsense(")


@pytest.fixture
async def scripts(redis_url):
    """Scripts on the session's server."""
    client = open_redis(redis_url)
    scripts = Scripts(client, "the test's server")
    yield scripts
    await scripts.close()
    await client.aclose()


@pytest.fixture
def own(tmp_path, valkey_url):
    """A server of this test's own."""
    server = OwnRedis(tmp_path, valkey_url)
    server.start()
    yield server
    server.kill()


@pytest.fixture
async def on_own(own):
    """Scripts on the server of this test's own."""
    client = open_redis(own.url)
    scripts = Scripts(client, "the own server")
    yield scripts
    await scripts.close()
    await client.aclose()


@pytest.fixture
def server(redis_url):
    """The session's server as an operator sees it."""
    with open_redis_sync(redis_url) as client:
        yield client


@pytest.fixture
def said(caplog):
    """What is logged, from INFO on."""
    caplog.set_level(logging.INFO, logger=module.__name__)
    return caplog


def lines(caplog, level):
    return [record.getMessage() for record in caplog.records if record.levelno == level]


async def test_replies_reach_their_own_callers(scripts):
    """A thousand calls at once: each gets its own reply, in far fewer round trips."""
    wanted = [str(n).encode() for n in range(1000)]
    assert await asyncio.gather(*(scripts.call(ECHO, (), n) for n in range(1000))) == wanted


async def test_calls_run_in_the_order_they_were_made(scripts, server):
    """Also the first calls, whose scripts the server does not know yet."""
    await asyncio.gather(*(scripts.call(APPEND if n % 2 else FREE, ("k",), n) for n in range(600)))
    assert [int(each) for each in server.lrange("k", 0, -1)] == list(range(600))


async def test_a_server_that_forgets_scripts_is_told_again(scripts, server):
    """SCRIPT FLUSH between and during calls costs nobody a reply, and no call runs twice."""
    for _ in range(20):
        calls = [scripts.call(COUNT, ("k",)) for _ in range(20)]
        await asyncio.to_thread(server.script_flush)
        await asyncio.gather(*calls)
    assert server.get("k") == b"400"


async def test_an_error_is_its_own_callers(scripts):
    """A script that answers with an error raises where it was called; the calls beside it go on."""
    before, failed, after = (scripts.call(each, ("k",), "x") for each in (ECHO, FAIL, ECHO))
    assert await before == await after == b"x"
    with pytest.raises(ResponseError, match="CLOSED for good"):
        await failed


async def test_a_script_that_does_not_compile_is_no_endless_loop(scripts):
    """It raises; the next call works."""
    with pytest.raises(ResponseError):
        await asyncio.wait_for(scripts.call(BROKEN, ()), 5)
    assert await scripts.call(ECHO, (), "x") == b"x"


@pytest.mark.parametrize("argument", ["\ud800", None, object()])
async def test_an_argument_that_cannot_be_sent_raises_at_once(scripts, argument):
    """It is its caller's error, and the calls of others do not hang on it."""
    beside = scripts.call(ECHO, (), "x")
    with pytest.raises((UnicodeEncodeError, TypeError)):
        scripts.call(ECHO, (), argument)
    assert await asyncio.wait_for(beside, 5) == b"x"


async def test_a_caller_that_gives_up_disturbs_nobody(scripts):
    """A cancelled call is answered to nobody; the others get their own."""
    calls = [scripts.call(ECHO, (), n) for n in range(10)]
    for call in calls[::2]:
        call.cancel()
    assert await asyncio.gather(*calls[1::2]) == [b"1", b"3", b"5", b"7", b"9"]


async def test_an_outage_only_delays(own, on_own, said):
    """Kill the server among calls and start it again: all are answered, with one warning."""
    assert await on_own.call(COUNT, ("k",)) == 1
    own.kill()
    calls = [on_own.call(COUNT, ("k",)) for _ in range(300)]
    while not on_own.away:  # noqa: ASYNC110  # what is waited for is that it is noticed
        await asyncio.sleep(0.01)
    assert not any(call.done() for call in calls)
    await asyncio.to_thread(own.start)
    assert sorted(await asyncio.wait_for(asyncio.gather(*calls), 20)) == list(range(2, 302))
    assert not on_own.away
    (warning,) = lines(said, logging.WARNING)
    assert "the own server" in warning
    assert lines(said, logging.INFO) == ["Redis at the own server serves us again"]


async def test_nothing_answered_is_lost_with_the_server(own, on_own):
    """Kill it again and again under load: every call is answered, and what was answered is kept."""
    done = 0

    async def work(n):
        nonlocal done
        for each in range(100):
            await on_own.call(APPEND, ("k",), f"{n}.{each}")
            done += 1

    async def trouble():
        for share in (300, 600):
            while done < share:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            own.kill()
            await asyncio.to_thread(own.start)

    await asyncio.wait_for(asyncio.gather(trouble(), *(work(n) for n in range(10))), 30)
    with open_redis_sync(own.url) as client:
        kept = client.lrange("k", 0, -1)
    assert {each.decode() for each in kept} == {f"{n}.{each}" for n in range(10) for each in range(100)}


async def test_a_server_that_hangs_is_an_outage(own, said):
    """One that is there and says nothing is waited for like one that is gone."""
    client = open_redis(f"{own.url}?socket_timeout=0.2")
    scripts = Scripts(client, "the own server")
    assert await scripts.call(ECHO, (), "x") == b"x"
    own.freeze()
    call = scripts.call(ECHO, (), "y")
    while not scripts.away:  # noqa: ASYNC110  # what is waited for is that it is noticed
        await asyncio.sleep(0.01)
    own.thaw()
    assert await asyncio.wait_for(call, 10) == b"y"
    assert len(lines(said, logging.WARNING)) == 1
    await scripts.close()
    await client.aclose()


async def test_a_connection_that_was_cut_while_idle_is_no_outage(scripts, server, said):
    """Firewalls do that; nobody needs to read about it."""
    await scripts.call(ECHO, (), "x")
    lost = scripts.lost_at
    for client in server.client_list(_type="normal"):
        if int(client["id"]) != server.client_id():
            server.client_kill_filter(_id=client["id"])
    assert await scripts.call(ECHO, (), "y") == b"y"
    assert lines(said, logging.WARNING) == []
    assert scripts.lost_at >= lost


async def test_a_full_server_is_waited_for(own, on_own, said):
    """What needs memory waits, what frees it does not, and then all pass; one warning."""
    admin = redis.Redis.from_url(own.url)
    await on_own.call(APPEND, ("k",), "first")
    admin.config_set("maxmemory", 1)
    held = [on_own.call(APPEND, ("k",), n) for n in range(20)]
    began = asyncio.get_running_loop().time()
    for n in range(50):
        await on_own.call(FREE, ("free",), n)
    assert asyncio.get_running_loop().time() - began < 1  # they did not wait for the others' next try
    assert not any(call.done() for call in held)
    assert admin.lrange("k", 0, -1) == [b"first"]
    admin.config_set("maxmemory", 0)
    await asyncio.wait_for(asyncio.gather(*held), 10)
    assert sorted(admin.lrange("k", 1, -1), key=int) == [str(n).encode() for n in range(20)]
    (warning,) = lines(said, logging.WARNING)
    assert "refuses writes" in warning
    assert lines(said, logging.INFO) == ["Redis at the own server takes writes again"]
    assert not on_own.away
    admin.close()


async def test_a_server_that_became_a_replica_is_waited_for(own, on_own):
    """A failover that turns round is no error of the callers'."""
    admin = redis.Redis.from_url(own.url)
    await on_own.call(APPEND, ("k",), 1)
    admin.replicaof("127.0.0.1", "1")
    held = on_own.call(APPEND, ("k",), 2)
    await on_own.call(ECHO, (), "x")
    assert not held.done()
    admin.replicaof("no", "one")
    assert await asyncio.wait_for(held, 10) == 2
    admin.close()


async def test_flush_waits_for_every_call_made_so_far(own, on_own):
    """Also for those that a full server has refused."""
    admin = redis.Redis.from_url(own.url)
    await on_own.call(APPEND, ("k",), 0)
    admin.config_set("maxmemory", 1)
    on_own.call(APPEND, ("k",), 1)
    await on_own.call(ECHO, (), "x")
    flushed = asyncio.create_task(on_own.flush())
    await on_own.call(ECHO, (), "x")
    assert not flushed.done()
    admin.config_set("maxmemory", 0)
    await asyncio.wait_for(flushed, 10)
    assert admin.llen("k") == 2
    admin.close()


@pytest.mark.parametrize("trouble", ["away", "full"])
async def test_close_gives_up_what_waits(own, on_own, trouble):
    """Nobody waits for ever at the end: what waits is cancelled, and so is what is called later."""
    await on_own.call(APPEND, ("k",), 0)
    if trouble == "away":
        own.kill()
    else:
        with open_redis_sync(own.url) as admin:
            admin.config_set("maxmemory", 1)
    calls = [on_own.call(APPEND, ("k",), n) for n in range(300)]
    await asyncio.sleep(0.1)
    await asyncio.wait_for(on_own.close(), 5)
    calls.append(on_own.call(ECHO, (), "x"))
    replies = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(reply, asyncio.CancelledError) for reply in replies)


async def test_close_in_mid_flight_leaves_the_connection_usable(redis_url):
    """A reply that nobody waits for any more is not taken for that of the next command."""
    client = open_redis(redis_url)
    scripts = Scripts(client, "test")
    await scripts.call(ECHO, (), "x")
    scripts.call(made_of("for i = 1, 3e6 do end return 'late'"), ())
    await asyncio.sleep(0.005)
    await scripts.close()
    assert await client.set("k", "v")
    assert await client.get("k") == b"v"
    await client.aclose()


def test_operations_are_read_from_their_package():
    """A script is `lua/<name>.lua`, after what it shares with others and after its flags."""
    plain = script("crawlproj.frontier", "renew", before=("common",))
    free = script("crawlproj.frontier", "renew", before=("common",), allow_oom=True)
    assert plain is script("crawlproj.frontier", "renew", before=("common",))
    assert free.text == b"#!lua flags=allow-oom\n" + plain.text
    assert free.sha == sha1(free.text, usedforsecurity=False).hexdigest()
