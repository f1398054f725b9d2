"""A `scrapy` to call, and crawls to ask about."""

import asyncio
import json
import os
import pty
import subprocess
import sys
import threading
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import pytest
import zstandard
from scrapy.cmdline import execute
from scrapy.settings import Settings
from scrapy.utils.project import get_project_settings

from crawlproj.config import Config
from crawlproj.connections import connect_database, open_redis
from crawlproj.frontier.canonical import canonical, page_key
from crawlproj.frontier.frontier import Frontier
from crawlproj.scripts import Scripts

PROJECT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Done:
    """What a process left behind."""

    code: int
    out: str
    err: str

    @property
    def lines(self):
        return self.out.splitlines()

    @property
    def json(self):
        return [json.loads(line) for line in self.lines]


def on_terminal(environment, *args, code=0, columns=100, until=None, then=None):
    """Return what a command shows on a terminal, by default 100 columns wide.

    As soon as *until* is shown the signal *then* is sent to it.
    """
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "scrapy", *args],
        cwd=PROJECT,
        env=environment | {"TERM": "xterm", "COLUMNS": str(columns)},
        stdout=slave,
        stderr=slave,
        stdin=slave,
    )
    os.close(slave)
    shown = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not part:
            break
        shown += part
        if until is not None and until.encode() in shown:
            process.send_signal(then)
            until = None
    os.close(master)
    assert process.wait(60) == code
    return shown.decode()


@pytest.fixture
def environment(redis_url, database_url, tmp_path):
    """Return the environment of a process that finds the test's servers and no others."""
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG"}}
    return kept | {
        "REDIS_URL": redis_url,
        "DATABASE_URL": database_url,
        "CRAWLPROJ_HOME": str(tmp_path / "home"),
        "PYTHONPATH": str(PROJECT),
    }


@pytest.fixture
def scrapy(environment, preloaded):
    """Return a function that runs a `scrapy` command as a process of its own."""

    def run(*args, cwd=PROJECT, timeout=100, text=True, **changed):
        env = environment | changed
        if text and preloaded and preloaded.fits(env):
            process = preloaded.start(args, folder=cwd, env=env)
            try:
                out, err = process.communicate(timeout)
            finally:
                process.kill()
            return Done(process.returncode, out, err)
        process = subprocess.run(
            [sys.executable, "-m", "scrapy", *args],
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        out = process.stdout.decode() if text else process.stdout
        return Done(process.returncode, out, process.stderr.decode())

    return run


@pytest.fixture
def scrapy_here(redis_url, database_url, tmp_path, monkeypatch, capfd):
    """Return a function that runs a command in this process: quicker, and enough for one that only asks."""
    monkeypatch.chdir(PROJECT)

    def run(*args):
        settings = get_project_settings()
        servers = {"REDIS_URL": redis_url, "DATABASE_URL": database_url, "CRAWLPROJ_HOME": str(tmp_path)}
        settings.setdict(servers, priority="project")
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            execute(["scrapy", *args], settings)
        sys.stdout.flush()
        return Done(ended.value.code or 0, *capfd.readouterr())

    return run


@dataclass(frozen=True, slots=True)
class HeldPages:
    """A site whose start page leads to fifty others, which are under way until somebody says `go_on`."""

    url: str
    go_on: threading.Event


@pytest.fixture
def held_pages(site):
    """Return the site, so that a worker is in mid-page for as long as a test likes."""
    go_on = threading.Event()

    async def hold(request):
        await asyncio.to_thread(go_on.wait, 60)
        return "<p>Words.</p>"

    site.add("/", "".join(f'<a href="/{n}">{n}</a>' for n in range(50)))
    for n in range(50):
        site.add(f"/{n}", hold)
    yield HeldPages(f"{site.url}/", go_on)
    go_on.set()


@pytest.fixture
def database(database_url):
    """Return a connection to the test's database."""
    with connect_database(database_url) as connection:
        yield connection


@pytest.fixture
def add_crawl(database):
    """Return a function that adds a run of a crawl and returns its number."""

    def add(name, *, run=1, status="started", counts=None, **columns):
        fixed = {"paused": "'9999-01-01Z'", "sealed": "NULL"}.get(status, "now()")
        columns = {"spider": "site", **columns}
        names = "".join(f", {column}" for column in columns)
        values = "".join(", %s" for _ in columns)
        row = database.execute(
            f"INSERT INTO crawl (name, run, status, retry_at, started_at, frontier, counts{names})"
            f" VALUES (%s, %s, %s, {fixed}, now() - interval '90 s', %s, %s{values}) RETURNING id",
            [name, run, status, f"{name}.{run}", json.dumps(counts) if counts else None, *columns.values()],
        ).fetchone()
        return row[0]

    return add


@pytest.fixture
def add_page(database):
    """Return a function that adds a page to a run."""

    def add(crawl_id, url, **columns):
        host = url.split("/")[2]
        row = {
            "crawl_name": database.execute("SELECT name FROM crawl WHERE id = %s", [crawl_id]).fetchone()[0],
            "url_key": page_key(canonical(url)),
            "crawl_id": crawl_id,
            "first_crawl_id": crawl_id,
            "url": url,
            "canonical_url": url,
            "host": host,
            "depth": 0,
            "fetch_status": "done",
            "schedule_status": "succeeded",
            "attempts": 1,
            "reported_at": "2026-01-02T03:04:05Z",
            "fetched_at": "2026-01-02T03:04:05Z",
            **columns,
        }
        names, marks = ", ".join(row), ", ".join(["%s"] * len(row))
        database.execute(f"INSERT INTO page ({names}) VALUES ({marks})", list(row.values()))
        return row["url_key"].hex()

    return add


@pytest.fixture
def add_content(database):
    """Return a function that gives a page a content, and returns the id of the page object."""

    def add(page_id, body, *, text=None, links=(), kind="text/html"):
        pack = zstandard.ZstdCompressor().compress
        name, object_id = blake2b(body, digest_size=32).digest(), blake2b(body, digest_size=16).digest()
        key = bytes.fromhex(page_id)
        database.execute(
            "INSERT INTO body (body_hash, size, data) VALUES (%s, %s, %s)", [name, len(body), pack(body)]
        )
        database.execute(
            "INSERT INTO page_object (object_id, crawl_name, url_key, crawl_id, fetched_at, url,"
            " fetch_status, http_status, body_hash, body_size, content_type, title, text_length, headers,"
            " text, outlinks)"
            " SELECT %s, crawl_name, url_key, crawl_id, fetched_at, url,"
            " 'done', 200, %s, %s, %s, 'A title', %s, '[]', %s, %s FROM page WHERE url_key = %s",
            [
                object_id,
                name,
                len(body),
                kind,
                None if text is None else len(text),
                None if text is None else pack(text.encode()),
                pack("\n".join(links).encode()) if links else None,
                key,
            ],
        )
        database.execute(
            "UPDATE page SET object_id = %s, content_id = %s, content_status = 'done' WHERE url_key = %s",
            [object_id, object_id, key],
        )
        return object_id.hex()

    return add


@pytest.fixture
async def made_frontier(redis_url, add_crawl):
    """Return a function that makes the frontier of a started crawl `a`, by some settings of its own."""
    redis = open_redis(redis_url)
    scripts = Scripts(redis, "test")

    async def make(**changed):
        add_crawl("a")
        settings = Settings()
        settings.setmodule("crawlproj.settings")
        settings.update(changed)
        frontier = Frontier(redis, scripts, "a.1")
        await frontier.create(Config.from_settings(settings))
        return frontier

    yield make
    await scripts.close()
    await redis.aclose()
