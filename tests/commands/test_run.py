"""`scrapy run`: one crawl in this process, or all that are due."""

import os
import signal
import subprocess
import sys
import time

import pytest

from crawlproj.crawls import control
from tests.commands.conftest import PROJECT, on_terminal

QUICK = {"MIN_INTERVAL_MS": "0"}


@pytest.fixture
def pages(site):
    """Return the address of a site of three pages."""
    site.add("/", '<p>Some words to read.</p><a href="/two">2</a><a href="/three">3</a>')
    site.add("/two", "<p>Some other words to read.</p>")
    site.add("/three", "<p>Still other words to read.</p>")
    return f"{site.url}/"


@pytest.fixture
def add(database):
    """Return a function that queues a run."""

    def make(
        name, *, spider="site", settings=None, redacted=(), repeat_seconds=None, paused=False, **arguments
    ):
        config = {"arguments": arguments, "settings": QUICK | (settings or {}), "redacted": [*redacted]}
        return control.create(
            database, name=name, spider=spider, config=config, repeat_seconds=repeat_seconds, paused=paused
        )

    return make


@pytest.fixture
def started(environment):
    """Return a function that starts a command and does not wait for it."""
    running = []

    def start(*args, **changed):
        process = subprocess.Popen(
            [sys.executable, "-m", "scrapy", *args],
            cwd=PROJECT,
            env=environment | changed,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


def until(what, seconds=60.0):
    """Wait until something is so; return it."""
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def ends(database):
    return database.execute("SELECT name, run, status, stop_reason FROM crawl ORDER BY id").fetchall()


def notes(database):
    return database.execute("SELECT namespace, message, fields FROM note ORDER BY id").fetchall()


def test_one_crawl(scrapy, add, pages, site, database):
    """It is worked with its own arguments and settings, by its number too; this command line goes first."""
    crawl_id = add("news", seeds=pages, depth="1", settings={"MAX_TARGET": "1", "USER_AGENT": "mine"})
    # What is let in is the run's own, whatever settings.py or this command line says by now.
    done = scrapy("run", str(crawl_id), "-s", "MAX_TARGET=2", "-s", "CRAWL_DENY=127.0.0.1")
    assert done.code == 0, done.err
    assert ends(database) == [("news", 1, "sealed", "ExceedTargetsCountLimit")]
    assert len([path for path in site.hits if path != "/robots.txt"]) == 2
    assert database.execute("SELECT config -> 'settings' ->> 'MAX_TARGET' FROM crawl").fetchone() == ("1",)


@pytest.mark.parametrize(
    ("name", "code", "sentence"),
    [
        ("nobody", 3, "there is no crawl 'nobody'"),
        ("over", 4, "crawl 'over', run 1, is over"),
        ("resting", 4, "crawl 'resting' is paused: `scrapy resume resting` lets it go on"),
        (
            "secret",
            4,
            "was started with what is not stored: api_key; go on with: scrapy crawl site … -s CRAWL",
        ),
        ("lost", 3, "there is no spider 'gone'"),
        ("wrong", 2, "setting MAX_TARGET must be"),
    ],
)
def test_refused(scrapy_here, add, database, name, code, sentence):
    """What cannot be worked costs one sentence, and nothing is changed."""
    control.cancel(database, add("over"), counts={})
    add("resting", paused=True)
    add("secret", redacted=["api_key"])
    add("lost", spider="gone")
    add("wrong", settings={"MAX_TARGET": "many"}, seeds="https://a.example/")
    before = database.execute("SELECT * FROM crawl ORDER BY id").fetchall()
    done = scrapy_here("run", name)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1), done.err
    assert sentence in done.err
    assert database.execute("SELECT * FROM crawl ORDER BY id").fetchall() == before


def test_what_resume_says(scrapy_here, add):
    """It names the command that goes on: `run`, or `crawl` where arguments are not stored."""
    add("resting", paused=True)
    add("secret", paused=True, redacted=["api_key"])
    assert scrapy_here("resume", "resting").out.endswith("go on with: scrapy run resting\n")
    assert scrapy_here("resume", "secret").out.endswith("scrapy crawl site … -s CRAWL_NAME=secret\n")


def test_nothing_to_do(scrapy_here, add, database):
    """Without anything due it ends at once; wrong settings are told first."""
    add("resting", paused=True)
    add("secret", redacted=["api_key"])
    assert scrapy_here("run").code == 0
    done = scrapy_here("run", "-s", "LEASE_SECONDS=x")
    assert (done.code, done.err) == (
        2,
        "scrapy run: setting LEASE_SECONDS must be a number, at least 1, not 'x'\n",
    )
    assert scrapy_here("run", "nobody", "--forever").code == 3


def test_all_that_are_due(scrapy, scrapy_here, add, pages, site, database):
    """One after the other, the longest waiting first; one that fails is put off with a note, and exit code 1.

    The next run of a series is queued for its time.
    """
    add("later", seeds=pages, repeat_seconds=3600)
    add("broken", spider="gone")
    add("first", seeds=f"{pages}two")
    database.execute("UPDATE crawl SET retry_at = now() - interval '1 hour' WHERE name = 'first'")
    done = scrapy("run", "-s", "MAX_TARGET=1", "--nolog")
    assert done.code == 1, done.err
    assert ends(database) == [
        ("later", 1, "sealed", "ExceedTargetsCountLimit"),
        ("broken", 1, "queued", None),
        ("first", 1, "sealed", "done"),
        ("later", 2, "queued", None),
    ]
    assert [path for path in site.hits if path != "/robots.txt"] == ["/two", "/"]
    told = [line for line in done.err.splitlines() if ", run " in line]
    assert [line.partition(":")[0] for line in told] == [
        "first, run 1", "first, run 1", "later, run 1", "later, run 1", "broken, run 1", "broken, run 1",
    ]  # fmt: skip
    assert "starts, spider site" in told[0]
    assert "sealed, done" in told[1]
    (note,) = [note for note in notes(database) if note[0] == "RUN_FAILED"]
    assert note[1].startswith("there is no spider 'gone'; there are: ")
    assert note[2] == {"exitCode": "3", "error": note[1]}
    due = "SELECT name, retry_at > now() + interval '30 s' FROM crawl WHERE status = 'queued' ORDER BY id"
    assert database.execute(due).fetchall() == [("broken", True), ("later", True)]
    assert scrapy_here("run").code == 0


def test_paused_crawl_holds_up_no_other(
    started, scrapy_here, site, held_pages, database, tmp_path, monkeypatch
):
    """Its worker leaves it, and the next crawl has its turn: any spider, with URLs of its own."""
    (tmp_path / "run_plain.py").write_text(
        "from scrapy import Spider\n"
        "class Plain(Spider):\n"
        "    name = 'plain'\n"
        "    start_urls = ['http://127.0.0.1:9/never']\n"
        "    def parse(self, response):\n"
        "        yield {'url': response.url}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    site.add("/own", "<p>Some words to read.</p>")
    more = ["--spider", "plain", "--set", "SPIDER_MODULES=run_plain", "--tag", "x", "--deny", "/own/"]
    quick = ["--set", "MIN_INTERVAL_MS=0", "--set", "LEASE_SECONDS=2"]
    assert scrapy_here("add", "slow", held_pages.url, *quick).code == 0
    assert scrapy_here("add", "next", f"{site.url}/own", f"{site.url}/own/denied", *more).code == 0
    process = started("run", PYTHONPATH=f"{PROJECT}{os.pathsep}{tmp_path}")
    until(lambda: site.hits["/0"])
    assert scrapy_here("pause", "slow").code == 0
    held_pages.go_on.set()
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, out
    assert "slow, run 1: paused" in out
    assert ends(database) == [("slow", 1, "paused", None), ("next", 1, "sealed", "done")]
    pages = "SELECT url, schedule_status FROM page WHERE crawl_name = 'next' ORDER BY url"
    assert (f"{site.url}/own", "succeeded") in database.execute(pages).fetchall()
    assert not site.hits["/own/denied"]
    assert database.execute("SELECT data ->> 'url' FROM item").fetchall() == [(f"{site.url}/own",)]


def asked_to_end(process):
    """Return what a worker has said until it said that it ends."""
    said = []
    for line in process.stdout:
        said.append(line)
        if "shutting down gracefully" in line:
            break
    return "".join(said)


def test_signal(started, add, site, held_pages, database):
    """A signal goes on to the worker: what runs finishes, the run is due, exit code 11."""
    process = started("run", "--forever")
    add("news", seeds=held_pages.url)
    until(lambda: site.hits["/0"])
    process.send_signal(signal.SIGTERM)
    begun = asked_to_end(process)
    held_pages.go_on.set()
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 11, begun + out
    assert "news, run 1: interrupted, and due again" in out
    row = database.execute("SELECT status, retry_at <= now() FROM crawl").fetchone()
    assert row == ("started", True)
    assert database.execute("SELECT count(*) FROM worker_lease").fetchone() == (0,)
    page = "SELECT schedule_status FROM page WHERE url LIKE '%/0'"
    assert database.execute(page).fetchall() == [("succeeded",)]


def test_two_signals(started, add, site, held_pages, database):
    """A second signal reaches the worker, too: it is gone at once, and exit code 11."""
    add("news", seeds=held_pages.url)
    process = started("run")
    until(lambda: site.hits["/0"])
    process.send_signal(signal.SIGINT)
    begun = asked_to_end(process)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 11, begun + out
    assert "Received SIGINT twice" in out
    assert ends(database) == [("news", 1, "started", None)]


def test_killed_supervisor(started, add, site, held_pages, database):
    """Its worker ends its crawl in peace; nobody is left then, and the next one has not been taken."""
    add("news", seeds=held_pages.url, settings={"MAX_TARGET": "5"})
    add("next", seeds=held_pages.url)
    process = started("run", "--forever")
    until(lambda: site.hits["/0"])
    os.kill(process.pid, signal.SIGKILL)
    held_pages.go_on.set()
    process.communicate(timeout=60)  # its output ends with the last process that could start another
    assert ends(database)[0][2:] == ("sealed", "ExceedTargetsCountLimit")
    row = database.execute("SELECT status, retry_at <= now() FROM crawl WHERE name = 'next'").fetchone()
    assert row == ("queued", True)


def test_forever(started, add, pages, database):
    """It waits for more of its crawl, or of any, and takes it within a second or so; idle it ends with 0."""
    add("other", seeds=pages)
    waiting = add("news", seeds=pages, paused=True)
    process = started("run", "news", "--forever")
    asked = (
        "SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        " AND state = 'idle' AND query LIKE '%held_until%'"
    )
    until(lambda: database.execute(asked).fetchone() is not None)  # it has been told that nothing is due
    control.resume(database, waiting)
    for line in process.stdout:
        if line.startswith("news, run 1: sealed, done"):
            break
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, out
    assert ends(database) == [("other", 1, "queued", None), ("news", 1, "sealed", "done")]


def test_terminal(environment, add, pages):
    """On a terminal there are the worker's live line and summary, and a line when it starts and ends."""
    add("news", seeds=pages)
    shown = on_terminal(environment | {"NO_COLOR": "1"}, "run")
    assert "news, run 1: starts, spider site" in shown
    assert "\r\x1b[2Knews   " in shown
    assert "crawl news, run 1: sealed" in shown
    assert "news, run 1: sealed, done" in shown
    assert "INFO" not in shown
