"""`scrapy cancel`: ends a crawl, asks before, and keeps what is stored."""

import asyncio
import os
import pty
import subprocess
import sys
import time

import pytest

from crawlproj.connections import open_redis_sync
from crawlproj.crawls import control
from crawlproj.frontier.codec import Codec
from tests.commands.conftest import PROJECT

CODEC = Codec()


@pytest.fixture
def keys(redis_url):
    """Return a function that lists what is left in Redis of the frontiers."""
    client = open_redis_sync(redis_url)
    yield lambda: client.keys("frontier:*")
    client.close()


def state(database):
    return database.execute("SELECT name, status, stop_reason FROM crawl ORDER BY id").fetchall()


def asked(environment, *args, answer):
    """Run a command on a terminal and answer its question; return its exit code and what it showed."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "scrapy", *args],
        cwd=PROJECT, env=environment | {"TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "100"},
        stdin=slave, stdout=slave, stderr=slave,
    )  # fmt: skip
    os.close(slave)
    shown = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        shown += part
        if b"to go on: " in shown and answer is not None:
            os.write(master, f"{answer}\n".encode())
            answer = None
    os.close(master)
    return process.wait(60), shown.decode()


async def test_cancelled(scrapy_here, made_frontier, add_page, database, keys):
    """The row is sealed with its figures, the frontier is gone, and who did it is a note."""
    frontier = await made_frontier()
    await frontier.schedule([CODEC.encode_link(f"https://{name}.example/", 1) for name in "ab"])
    (crawl_id,) = database.execute("SELECT id FROM crawl").fetchone()
    add_page(crawl_id, "https://a.example/done", fetch_status="done", schedule_status="succeeded")
    assert keys()
    done = await asyncio.to_thread(scrapy_here, "cancel", "a", "--yes")
    assert (done.code, done.err) == (0, "")
    assert done.out == "cancelled a, run 1 · 2 queued URLs forgotten · 1 stored page stays\n"
    assert state(database) == [("a", "sealed", "cancelled")]
    assert database.execute("SELECT counts -> 'queued' FROM crawl").fetchone() == (2,)
    assert keys() == []
    ((namespace, fields),) = database.execute("SELECT namespace, fields FROM note").fetchall()
    assert namespace == "CANCELLED"
    assert "@" in fields["by"]
    again = await asyncio.to_thread(scrapy_here, "cancel", "a", "--yes")
    assert (again.code, again.err) == (
        4, "scrapy cancel: crawl 'a', run 1, is sealed and cannot be cancelled\n"
    )  # fmt: skip


def test_nobody_to_ask(scrapy_here, database):
    """Without a terminal and without --yes nothing is changed; nor is it for a crawl that is not there."""
    control.create(database, name="news", spider="site", config={})
    done = scrapy_here("cancel", "news")
    assert (done.code, done.out) == (2, "")
    assert "--yes cancels without asking" in done.err
    assert scrapy_here("cancel", "nws", "--yes").code == 3
    assert state(database) == [("news", "queued", None)]


def test_asked_on_a_terminal(environment, database):
    """It says what is lost and what stays, and wants the crawl's name; another word changes nothing."""
    control.create(database, name="news", spider="site", config={}, paused=True)
    code, shown = asked(environment, "cancel", "news", answer="yes")
    assert code == 2
    assert "0 queued URLs will be forgotten; 0 stored pages stay" in shown
    assert "Type news to go on: " in shown
    assert "that is not its name: nothing is changed" in shown
    assert state(database) == [("news", "paused", None)]
    code, shown = asked(environment, "cancel", "news", answer="news")
    assert (code, state(database)) == (0, [("news", "sealed", "cancelled")]), shown


def test_worker_in_mid_page(scrapy, scrapy_here, environment, site, database, keys):
    """A worker learns of it at once: it asks for no further page, says so, and ends with exit code 0."""
    site.add("/", "".join(f'<a href="/{n}">{n}</a>' for n in range(50)))
    for n in range(50):
        site.add(f"/{n}", "<p>Words.</p>", delay=0.3)
    process = subprocess.Popen(
        [sys.executable, "-m", "scrapy", "crawl", "site", "-a", f"seeds={site.url}/", "-s", "CRAWL_NAME=a",
         "-s", "MIN_INTERVAL_MS=0"],
        cwd=PROJECT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not site.hits["/1"] and time.monotonic() < deadline:
        time.sleep(0.02)
    began = time.monotonic()
    assert scrapy_here("cancel", "a", "--yes").code == 0
    fetched = sum(map(len, site.hits.values()))
    out, _ = process.communicate(timeout=100)
    assert sum(map(len, site.hits.values())) <= fetched + 1, out
    assert time.monotonic() - began < 15
    assert process.returncode == 0, out
    assert "Traceback" not in out
    assert state(database) == [("a", "sealed", "cancelled")]
    assert keys() == []
    assert database.execute("SELECT count(*) FROM worker_lease").fetchone() == (0,)
