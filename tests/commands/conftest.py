"""A `scrapy` to call, and crawls to ask about."""

import json
import os
import pty
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from crawlproj.connections import connect_database

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


def on_terminal(environment, *args, code=0):
    """Return what a command shows on a terminal 100 columns wide."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "scrapy", *args],
        cwd=PROJECT,
        env=environment | {"TERM": "xterm", "COLUMNS": "100"},
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
    os.close(master)
    assert process.wait(30) == code
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
        "PYTHONDONTWRITEBYTECODE": "1",
    }


@pytest.fixture
def scrapy(environment):
    """Return a function that runs a `scrapy` command as a process of its own."""

    def run(*args, cwd=PROJECT, timeout=50, text=True, **changed):
        process = subprocess.run(
            [sys.executable, "-m", "scrapy", *args],
            cwd=cwd,
            env=environment | changed,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        out = process.stdout.decode() if text else process.stdout
        return Done(process.returncode, out, process.stderr.decode())

    return run


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
            "url_key": url.encode().ljust(16, b"\0")[-16:],
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
        return row["url_key"]

    return add
