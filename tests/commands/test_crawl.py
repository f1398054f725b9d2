"""`scrapy crawl`: what it exits with, what it prints where, and what it keeps to itself."""

import signal
import subprocess
import sys
import time

import psycopg
import pytest

from crawlproj.connections import open_redis_sync
from tests.commands.conftest import PROJECT, on_terminal

QUICK = ["-s", "MIN_INTERVAL_MS=0", "-s", "CRAWL_NAME=a"]


@pytest.fixture
def three_pages(site):
    """Return the address of a site of three pages, one of them missing."""
    site.add("/", '<p>Some words to read.</p><a href="/two">2</a><a href="/gone">3</a>')
    site.add("/two", "<p>Some other words to read.</p>")
    return f"{site.url}/"


@pytest.fixture
def slow_pages(site):
    """Return the address of a site that takes its time."""
    site.add("/", "".join(f'<a href="/{n}">{n}</a>' for n in range(50)))
    for n in range(50):
        site.add(f"/{n}", "<p>Words.</p>", delay=0.3)
    return f"{site.url}/"


@pytest.fixture
def started(environment):
    """Return a function that starts a crawl and does not wait for it."""
    running = []

    def start(*args):
        process = subprocess.Popen(
            [sys.executable, "-m", "scrapy", "crawl", *args],
            cwd=PROJECT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


def until_fetched(site, path):
    """Wait until a path has been asked for."""
    deadline = time.monotonic() + 90
    while not site.hits[path] and time.monotonic() < deadline:
        time.sleep(0.02)
    assert site.hits[path]


def until_it_ends(process):
    """Wait until a worker says that it has begun to end."""
    assert any("shutting down gracefully" in line for line in process.stderr)


def test_done(scrapy, three_pages, database):
    """A crawl that is through: exit code 0, nothing on stdout, the summary in the log on stderr."""
    done = scrapy("crawl", "site", "-a", f"seeds={three_pages}", *QUICK)
    assert done.code == 0, done.err
    assert done.out == ""
    assert "crawl a, run 1: sealed" in done.err
    assert "fetch_status: 2 done, 1 failed" in done.err
    assert f"scrapy page {three_pages} --text" in done.err
    assert database.execute("SELECT status FROM crawl").fetchall() == [("sealed",)]


def test_log_file(scrapy, three_pages, tmp_path):
    """With LOG_FILE, as under scrapyd, everything goes there, a job's number does no harm."""
    log = tmp_path / "log"
    done = scrapy(
        "crawl", "site", "-a", f"seeds={three_pages}", "-a", "_job=1f", *QUICK, "--logfile", str(log)
    )
    assert (done.code, done.out, done.err) == (0, "", "")
    assert "crawl a, run 1: sealed" in log.read_text()


def test_limit_is_no_error(scrapy, three_pages):
    """A crawl that a limit stops has exit code 0."""
    done = scrapy("crawl", "site", "-a", f"seeds={three_pages}", *QUICK, "-s", "MAX_TARGET=1")
    assert done.code == 0, done.err
    (note,) = scrapy("notes", "a", "--json").json
    assert note["fields"]["r"] == "ExceedTargetsCountLimit"


def test_signal(started, site, held_pages, database):
    """One SIGINT: what runs finishes, exit code 11, and the run is due at once."""
    process = started("site", "-a", f"seeds={held_pages.url}", *QUICK)
    until_fetched(site, "/0")
    process.send_signal(signal.SIGINT)
    until_it_ends(process)
    held_pages.go_on.set()
    _, err = process.communicate(timeout=100)
    assert process.returncode == 11, err
    row = database.execute("SELECT status, retry_at <= now() FROM crawl").fetchone()
    assert row == ("started", True)


def test_two_signals(started, site, held_pages):
    """Two signals end it at once, also with exit code 11 and a sentence."""
    process = started("site", "-a", f"seeds={held_pages.url}", *QUICK)
    until_fetched(site, "/0")
    process.send_signal(signal.SIGINT)
    until_it_ends(process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 11, err
    assert "Received SIGINT twice" in err
    assert "scrapy crawl: " in err
    assert "not through, due again · " in err
    assert " in 0 ms" not in err


def test_passwords_stay_out_of_the_log(scrapy, three_pages, redis_url, database_url, tmp_path):
    """No password of a server reaches log, stdout or stderr, not even with LOG_LEVEL=DEBUG."""
    client = open_redis_sync(redis_url)
    client.config_set("requirepass", "s3cretR")
    parts = psycopg.conninfo.conninfo_to_dict(database_url)
    given = psycopg.conninfo.make_conninfo("", **parts | {"password": "s3cretP"})
    secret_redis = f"{redis_url}{'&' if '?' in redis_url else '?'}password=s3cretR"
    log = tmp_path / "log"
    try:
        done = scrapy(
            "crawl", "site", "-a", f"seeds={three_pages}", *QUICK, "-L", "DEBUG", "--logfile", str(log),
            REDIS_URL=secret_redis,
            DATABASE_URL=given,
        )  # fmt: skip
    finally:
        client.config_set("requirepass", "")
        client.close()
    assert done.code == 0, log.read_text()
    assert "s3cret" not in log.read_text() + done.out + done.err


def test_items_of_a_plain_spider(scrapy, three_pages, tmp_path):
    """-O and -a work as in Scrapy; what goes to stdout is the items alone."""
    (tmp_path / "plain_spiders.py").write_text(
        "from scrapy import Spider\n"
        "class Plain(Spider):\n"
        "    name = 'plain'\n"
        "    def __init__(self, url, tag, **arguments):\n"
        "        super().__init__(**arguments)\n"
        "        self.start_urls, self.tag = [url], tag\n"
        "    def parse(self, response):\n"
        "        yield {'url': response.url, 'tag': self.tag}\n"
        "        yield from response.follow_all(css='a')\n"
    )
    done = scrapy(
        "crawl", "plain", "-a", f"url={three_pages}", "-a", "tag=x", *QUICK, "-O", "-:jsonlines",
        "-s", "SPIDER_MODULES=plain_spiders",
        PYTHONPATH=str(tmp_path),
    )  # fmt: skip
    assert done.code == 0, done.err
    assert sorted(item["url"] for item in done.json) == [three_pages, f"{three_pages}two"]
    assert {item["tag"] for item in done.json} == {"x"}


def test_spider_that_cannot_start(scrapy, tmp_path, database):
    """A spider that raises in its constructor is exit code 1 with its traceback, and no crawl."""
    (tmp_path / "broken.py").write_text(
        "from scrapy import Spider\n"
        "class Broken(Spider):\n"
        "    name = 'broken'\n"
        "    def __init__(self, *args, **kwargs):\n"
        "        raise RuntimeError('boom')\n"
    )
    done = scrapy("crawl", "broken", "-s", "SPIDER_MODULES=broken", PYTHONPATH=str(tmp_path))
    assert done.code == 1
    assert "RuntimeError: boom" in done.err
    assert database.execute("SELECT count(*) FROM crawl").fetchone() == (0,)


def test_misspelt_setting(scrapy, three_pages):
    """A setting that looks like a known one is pointed at; the crawl goes on."""
    done = scrapy("crawl", "site", "-a", f"seeds={three_pages}", *QUICK, "-s", "MAX_TARGETS=1")
    assert done.code == 0
    assert "MAX_TARGETS; is MAX_TARGET meant?" in done.err


def test_terminal(environment, site, slow_pages):
    """On a terminal: a live line, then the summary; no log but warnings."""
    arguments = ["site", "-a", f"seeds={slow_pages}", *QUICK, "-s", "MAX_TARGET=8"]
    shown = on_terminal(environment | {"NO_COLOR": "1"}, "crawl", *arguments)
    assert "\r\x1b[2Ka   " in shown
    assert " queued" in shown
    assert "crawl a, run 1: sealed" in shown
    assert "scrapy status a" in shown
    assert "INFO" not in shown
    loud = on_terminal(environment | {"NO_COLOR": "1"}, "crawl", *arguments, "-L", "INFO")
    assert "INFO" in loud
