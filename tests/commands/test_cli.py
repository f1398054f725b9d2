"""What holds for every command: what it refuses, what it prints where, what it exits with."""

import os
import subprocess
import sys

import pytest

from tests.commands.conftest import PROJECT

COMMANDS = ("crawl", "crawls", "demo", "doctor", "hosts", "migrate", "notes", "page", "pages", "status")

# command line -> exit code, and what the one line on stderr has to name
REFUSED = [
    ("crawls --bogus", 2, "--bogus"),
    ("crawls --stat started", 2, "--stat"),  # no abbreviations: they change meaning with every new option
    ("crawls extra", 2, "extra"),
    ("crawls --status started,asleep", 2, "asleep"),
    ("crawls --limit many", 2, "many"),
    ("crawls --limit -1", 2, "--limit: must be 0 or more, not '-1'"),
    ("crawls -s nonsense", 2, "-s NAME=VALUE"),
    ("crawls -s MAX_TARGET=abc", 2, "MAX_TARGET"),
    ("status one two", 2, "two"),
    ("status nosuch", 3, "nosuch"),
    ("status 12345", 3, "12345"),
    ("notes nosuch", 3, "nosuch"),
    ("hosts nosuch", 3, "nosuch"),
    ("hosts --state awake", 2, "awake"),
    ("hosts --sort colour", 2, "colour"),
    ("migrate now", 2, "now"),
    ("doctor --fast", 2, "--fast"),
    ("crawl", 2, "SPIDER"),
    ("crawl site another", 2, "another"),
    ("crawl nosuch", 3, "nosuch"),
    ("crawl site --bogus -a seeds=http://127.0.0.1:9/", 2, "--bogus"),
    ("crawl site -a seeds", 2, "-a NAME=VALUE"),
    ("crawl site -a seeds=http://127.0.0.1:9/ -a self=1", 2, "self"),
    ("crawl site -a seeds=http://127.0.0.1:9/ -s MAX_TARGET=abc", 2, "MAX_TARGET"),
    ("crawl site -a seeds=http://127.0.0.1:9/ -s MAX_RESULT=-1", 2, "MAX_RESULT"),
    ("crawl site -a seeds=http://127.0.0.1:9/ -s MAX_TIME_SECONDS=nan", 2, "MAX_TIME_SECONDS"),
    ("crawl site -a seeds=http://127.0.0.1:9/ -s CRAWL_JOIN=maybe", 2, "CRAWL_JOIN"),
    ("crawl site -a seeds=http://127.0.0.1:9/ -s DOWNLOAD_TIMEOUT=soon", 2, "DOWNLOAD_TIMEOUT"),
    ("crawl site -a seeds=http://127.0.0.1:9/ -s COOKIES_ENABLED=perhaps", 2, "COOKIES_ENABLED"),
    ("crawl site -a seeds=http://127.0.0.1:9/ -L LOUD", 2, "LOG_LEVEL"),
    ("crawl site -a seeds=http://127.0.0.1:9/ -s LOG_FILE=/nosuch/x.log", 2, "LOG_FILE must be a file"),
    ("crawl site -a seeds=http://127.0.0.1:9/ -s LOG_FILE=/tmp", 2, "(Is a directory)"),
    ("crawl site -a seeds=http://127.0.0.1:9/ --logfile /proc/x.log", 2, "'/proc/x.log'"),
    ("demo -s LOG_FILE=/nosuch/x.log", 2, "LOG_FILE must be a file"),
    ("run nosuch -s LOG_FILE=/nosuch/x.log", 2, "(No such file or directory)"),
    ("run -s LOG_FILE=/nosuch/x.log", 2, "LOG_FILE must be a file"),
    ("crawl site -a seeds=http://127.0.0.1:9/ -o items.bogus", 2, "bogus"),
    ("crawl site -a seeds=http://127.0.0.1:9/ -s CRAWL_JOIN=1", 2, "CRAWL_NAME"),
    ("crawl site -a seeds=http://127.0.0.1:9/ -s CRAWL_JOIN=1 -s CRAWL_NAME=none", 3, "none"),
    ("crawl site -a seeds=http://127.0.0.1:9/ -a scope=planet", 2, "planet"),
    ("crawl site -a seeds=http://127.0.0.1:9/ -a deny=(", 2, "deny"),
    ("crawl site -a seeds=http://127.0.0.1:9/ -a deph=3", 2, "'deph'"),
    ("crawl site -a seeds=http://127.0.0.1:9/ -s BODY_STORE=/tmp/bodies", 2, "file:///tmp/bodies"),
    ("crawl site -a seeds=http://127.0.0.1:9/ -s BODY_STORE=nosuch://bodies", 2, "Protocol not known"),
    ("crawl site -a seeds=http://127.0.0.1:9/ -s BODY_STORE=s3://bucket/bodies", 2, "s3fs"),
    ("crawl site -a seeds=http://127.0.0.1:9/ -s BODY_STORE=file:///proc/bodies", 2, "/proc/bodies"),
    ("crawl site -a seeds=http://127.0.0.1:9/ -s BODY_STORE=file:///proc/bodies", 2, "written to"),
    ("crawl site -a seeds=http://127.0.0.1:9/ -s EMPTY_BELOW_CHARACTERS=-1", 2, "EMPTY_BELOW_CHARACTERS"),
    ("crawl site -a seeds=http://127.0.0.1:9/ -s FRONTIER_SEEN_SHARDS=1e12", 2, "at most 1048576"),
    ("crawl site -a seeds=http://127.0.0.1:9/ -s PROGRESS_ENABLED=maybe", 2, "PROGRESS_ENABLED"),
    ("crawl site -a seeds=a.example/b", 2, "write https://a.example/b"),
    ("crawl site -a seeds=@/nosuch/seeds.txt", 2, "'/nosuch/seeds.txt' cannot be read: No such file"),
    ("crawl site", 2, "seeds"),
    ("crawl site -a seeds=ftp://a.example/", 2, "ftp://a.example/"),
]


@pytest.mark.parametrize(("line", "code", "names"), REFUSED, ids=[line for line, _, _ in REFUSED])
def test_wrong_input_costs_one_line(scrapy_here, database, line, code, names):
    """Wrong input ends with its exit code and one sentence on stderr, and creates nothing."""
    done = scrapy_here(*line.split())
    assert done.code == code, done.err
    assert done.out == ""
    assert done.err.count("\n") == 1, done.err
    assert done.err.startswith(f"scrapy {line.split()[0]}: ")
    assert names in done.err
    assert database.execute("SELECT count(*) FROM crawl").fetchone() == (0,)


def test_a_log_file_is_made_by_no_check(scrapy_here, tmp_path):
    """What can be written is let through, and not made before the rest is right; a pipe is not opened."""
    os.mkfifo(tmp_path / "pipe")
    for name in ("new.log", "pipe"):
        done = scrapy_here("crawl", "site", "-s", f"LOG_FILE={tmp_path / name}")
        assert (done.code, "seeds" in done.err) == (2, True), done.err
    assert not (tmp_path / "new.log").exists()


def test_what_asks_postgresql_alone_needs_no_redis(scrapy_here, add_crawl, add_page):
    """Lists, a page, notes and a new crawl work while Redis is away; what needs it says that it is."""
    page = add_page(add_crawl("a", status="sealed"), "http://h/1")
    add_crawl("a", run=2)
    gone = ("-s", "REDIS_URL=redis://127.0.0.1:1/0")
    for words in (
        ("crawls",),
        ("notes", "a"),
        ("pages", "a"),
        ("page", page),
        ("diff", "a", "1", "2", "--count"),
        ("add", "b", "http://h/"),
        ("migrate", "--check"),
    ):
        done = scrapy_here(*words, *gone)
        assert done.code == 0, (words, done.err)
    for words in (("page", "http://h/2"), ("tune", "a"), ("pages", "a", "--host", "other")):
        done = scrapy_here(*words, *gone)
        assert (done.code, done.err.count("\n"), "Redis" in done.err) == (5, 1, True), (words, done.err)


@pytest.mark.parametrize(("line", "code"), [("crawls --bogus", 2), ("crawl nosuch", 3), ("crawl site", 2)])
def test_exit_code_of_the_process(scrapy, line, code):
    """What a shell sees is the same."""
    done = scrapy(*line.split())
    assert done.code == code
    assert done.out == ""
    assert done.err.count("\n") == 1, done.err


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(scrapy_here, command):
    """Every command explains itself with an example that names it."""
    done = scrapy_here(command, "--help")
    assert done.code == 0
    assert "Examples" in done.out
    assert f"  scrapy {command}" in done.out.partition("Examples")[2]


@pytest.mark.parametrize("command", ["crawls", "status"])
def test_database_that_is_away(scrapy, command):
    """A database that does not answer is exit code 5; its password is not shown."""
    done = scrapy(command, DATABASE_URL="postgresql://me:s3cret@127.0.0.1:1/x")
    assert done.code == 5
    assert done.err.count("\n") == 1
    assert "127.0.0.1:1" in done.err
    assert "s3cret" not in done.err


def test_redis_that_is_away(scrapy):
    """So is a Redis that does not answer."""
    done = scrapy("hosts", REDIS_URL="redis://:s3cret@127.0.0.1:1/0")
    assert done.code == 5
    assert done.err.count("\n") == 1
    assert "s3cret" not in done.err


@pytest.mark.parametrize(("line", "names"), [("site", "paused"), ("other", "spider 'other'")])
def test_crawl_that_may_not_be_joined(scrapy_here, add_crawl, database, line, names):
    """A paused crawl, or another spider's, is refused before Scrapy says a word: exit code 4."""
    crawl = add_crawl("a", status="paused", spider=line)
    done = scrapy_here("crawl", "site", "-a", "seeds=http://127.0.0.1:9/", "-s", "CRAWL_NAME=a")
    assert done.code == 4
    assert done.err.count("\n") == 1, done.err
    assert names in done.err
    assert database.execute("SELECT id, status FROM crawl").fetchall() == [(crawl, "paused")]


def test_database_without_schema(scrapy, database):
    """A given database is never migrated behind its owner's back: exit code 4, and what to do."""
    database.execute("UPDATE schema_version SET number = -number")
    done = scrapy("crawls")
    assert done.code == 4
    assert "scrapy migrate" in done.err


def test_reader_that_leaves(environment, add_crawl, database):
    """A broken pipe is no error: nothing on stderr."""
    database.execute(
        "INSERT INTO crawl (name, run, spider, status, frontier)"
        " SELECT 'c' || n, 1, 'site', 'queued', 'c' || n FROM generate_series(1, 3000) AS n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "scrapy", "crawls"],
        cwd=PROJECT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(30) == 0
    assert err == b""


def test_commands_start_nothing_on_import():
    """Loading every command imports neither driver nor reactor: `scrapy` stays quick to start."""
    program = (
        "import sys; from scrapy.cmdline import _get_commands_from_module as load;"
        "load('crawlproj.commands', True);"
        "print([m for m in ('psycopg', 'redis', 'rich', 'twisted.internet.reactor') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_help_fits_the_terminal(scrapy_here, monkeypatch):
    """What a command says is wrapped at the terminal's width, without ragged halves; examples stay whole."""
    monkeypatch.setenv("COLUMNS", "60")
    told, _, rest = scrapy_here("add", "--help").out.partition("Options")
    lines = told.splitlines()
    assert max(map(len, lines)) <= 60
    assert "spider starts as ever (`site` needs some)." in lines
    assert "scrapy add shop --spider shop -a category=books --label 'Books only' --paused" in rest
