"""`scrapy status`."""

import asyncio
import json
import re
import signal
import time
from types import SimpleNamespace

import pytest

from crawlproj.commands import status
from crawlproj.commands.status import for_people, look
from crawlproj.connections import Addresses
from crawlproj.frontier.codec import Codec
from tests.commands.conftest import on_terminal

FIELDS = [
    "name",
    "run",
    "status",
    "retry_at",
    "stop_reason",
    "counts",
    "queued",
    "leased",
    "started_targets",
    "results",
    "hosts",
    "workers",
    "started_at",
    "finished_at",
]
STATES = {"ready", "inactive", "snoozed", "in-process", "retired", "exhausted"}


@pytest.fixture
def add_worker(database):
    """Return a function that gives a run a worker."""

    def add(crawl_id, name, seconds, pace=None):
        database.execute(
            "INSERT INTO worker_lease (crawl_id, worker, epoch, expires_at, pace, paced_at)"
            " VALUES (%s, %s, 1, now() + %s * interval '1 s', %s, now())",
            [crawl_id, name, seconds, json.dumps(pace) if pace else None],
        )

    return add


@pytest.fixture
def told(redis_url, database_url, database):
    """Return a function that returns what people are told of a run, by the names of the lines."""
    addresses = Addresses(
        redis_url=redis_url, database_url=database_url, redis_embedded=False, database_embedded=False
    )

    def read(crawl_id):
        found = {}
        for name, value in for_people(look(database, addresses, crawl_id)):
            found.setdefault(name, []).append(value)
        return {name: values[0] if len(values) == 1 else values for name, values in found.items()}

    return read


@pytest.fixture
def add_note(database):
    """Return a function that writes a note on a run."""

    def add(crawl_id, namespace, message):
        database.execute(
            "INSERT INTO note (crawl_id, namespace, message) VALUES (%s, %s, %s)",
            [crawl_id, namespace, message],
        )

    return add


def test_started_crawl(scrapy, add_crawl, add_page, add_worker):
    """The contract's fields, both enumerations complete and apart, and only workers that live."""
    crawl = add_crawl("a")
    add_page(crawl, "http://h/1")
    add_page(crawl, "http://h/2", fetch_status="failed", schedule_status="failed")
    add_page(crawl, "http://h/3", fetch_status=None, schedule_status="disregarded")
    add_worker(crawl, "w1", 60)
    add_worker(crawl, "gone", -60)
    (row,) = scrapy("status", "a", "--json").json
    assert list(row) == FIELDS
    assert row["counts"]["fetch_status"] == {"done": 1, "not_modified": 0, "empty": 0, "failed": 1}
    assert row["counts"]["schedule_status"]["disregarded"] == 1
    assert row["counts"]["schedule_status"]["failed"] == 1
    assert [worker["worker"] for worker in row["workers"]] == ["w1"]
    assert set(row["hosts"]) == STATES
    assert (row["stop_reason"], row["finished_at"]) == (None, None)


def test_sealed_crawl_without_frontier(scrapy, add_crawl, add_page):
    """When the frontier is gone, the figures that were written when it was sealed stand."""
    counts = {"started_targets": 7, "results": 6, "queued": 3}
    crawl = add_crawl("a", status="sealed", counts=counts, stop_reason="done")
    add_page(crawl, "http://h/1")
    (row,) = scrapy("status", str(crawl), "--json").json
    assert (row["started_targets"], row["results"], row["queued"], row["leased"]) == (7, 6, 3, 0)
    assert row["counts"]["fetch_status"]["done"] == 1
    assert row["hosts"]["exhausted"] == 1
    assert (row["status"], row["retry_at"], row["stop_reason"]) == ("sealed", None, "done")


def test_piped_is_name_and_value(scrapy, add_crawl, add_page):
    """Piped, every figure is one line: its path, a tab, its value."""
    add_page(add_crawl("a"), "http://h/1")
    values = dict(line.split("\t") for line in scrapy("status").lines)
    assert values["name"] == "a"
    assert values["counts.fetch_status.done"] == "1"
    assert values["stop_reason"] == "-"
    assert values["workers"] == "-"


def test_watch_ends_with_the_crawl(scrapy_here, add_crawl, database, monkeypatch):
    """--watch prints again and again, and stops by itself when the run is sealed."""
    crawl = add_crawl("a")
    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 2:
            seal = "UPDATE crawl SET status = 'sealed', retry_at = NULL, finished_at = now() WHERE id = %s"
            database.execute(seal, [crawl])

    monkeypatch.setattr(status, "time", SimpleNamespace(sleep=pause, monotonic=time.monotonic))
    done = scrapy_here("status", "a", "--watch", "--json")
    assert (done.code, done.err) == (0, "")
    assert [row["status"] for row in done.json] == ["started", "started", "sealed"]
    assert min(pauses) >= status.WATCH_SECONDS


def test_watch_ends_with_ctrl_c(environment, add_crawl):
    """Ctrl-C is how a person ends --watch: exit code 0, no traceback, and the cursor is there again."""
    add_crawl("a")
    shown = on_terminal(
        environment, "status", "a", "--watch", columns=80, until="frontier", then=signal.SIGINT
    )
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1
    assert "Traceback" not in shown


def test_terminal(environment, add_crawl, add_page):
    """On a terminal people get words and thousands, in colour; NO_COLOR takes the colour away."""
    add_page(add_crawl("a"), "http://h/1")
    coloured, plain = (
        on_terminal(environment, "status"),
        on_terminal(environment | {"NO_COLOR": "1"}, "status"),
    )
    assert "\x1b[" in coloured
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", plain)
    assert "run 1" in plain
    assert "done 1" in plain


def test_all_workers_together(told, add_crawl, add_worker):
    """Rate, durations and verdict are those of all who say something; of many workers the number is told."""
    crawl = add_crawl("a")
    add_worker(crawl, "w0", 60)
    assert not {"speed", "limited by"} & set(told(crawl))
    for n in (1, 2):
        causes = {"host pace": 0.9, "nothing": 0.1} if n == 1 else {"workers": 0.7, "host pace": 0.3}
        pace = {"rate": 3.25, "durations": {"40": 10 * n}, "causes": causes, "pages": 9, "in_flight": 1}
        add_worker(crawl, f"w{n}", 60, pace)
    add_worker(crawl, "gone", -1, {"rate": 99, "causes": {"database": 1}})
    lines = told(crawl)
    assert lines["speed"] == "6.5 pages/s · P50 1,121 ms · P95 1,208 ms"
    assert lines["limited by"] == "host pace (60%): more workers would not help"
    assert [line.split(" · ")[0] for line in lines["worker"]] == ["w0", "w1", "w2"]
    for n in range(3, 6):
        add_worker(crawl, f"w{n}", 60)
    assert told(crawl)["workers"] == "6"


@pytest.mark.parametrize(
    ("cause", "line"),
    [
        ("database", "database (100%): the store is behind"),
        ("workers", "workers (100%): more of them would help"),
        ("nothing", "nothing (100%)"),
    ],
)
def test_verdicts(cause, line, told, add_crawl, add_worker):
    """Each cause says what would help."""
    crawl = add_crawl("a")
    add_worker(crawl, "w", 60, {"causes": {cause: 1.0}})
    assert told(crawl)["limited by"] == line


async def filled(make, *, queued, **settings):
    frontier = await make(**settings)
    await frontier.schedule(
        [Codec().encode_link(f"http://{host}.test/{n}", 0) for host in "ab" for n in range(queued)]
    )
    await frontier.schedule([Codec().encode_link("http://b.test/one/more", 0)])
    return frontier


async def test_limits_and_time_left(told, made_frontier, database, add_worker):
    """Limits that are set with what is used of them; the time is that of queue or host, or a limit's."""
    frontier = await filled(made_frontier, queued=20, MIN_INTERVAL_MS=2000, MAX_TARGET=5000)
    (crawl,) = database.execute("SELECT id FROM crawl").fetchone()
    await frontier.next("w", 1, 60)
    lines = await asyncio.to_thread(told, crawl)
    assert lines["limits"].startswith("targets 1 of 5,000")
    assert lines["slowest host"] == "b.test needs 42 s alone (21 \N{MULTIPLICATION SIGN} 2,000 ms)"
    assert lines["time left"] == "42 s, if no new links are found"
    add_worker(crawl, "w", 60, {"rate": 0.5})
    assert (await asyncio.to_thread(told, crawl))["time left"] == "80 s, if no new links are found"
    await frontier.set_crawl(max_target=6)
    lines = await asyncio.to_thread(told, crawl)
    assert (lines["limits"].split(" · ")[0], lines["time left"]) == (
        "targets 1 of 6",
        "10 s, then a limit stops it",
    )
    await frontier.block("b.test")
    await frontier.set_crawl(max_target=0)
    lines = await asyncio.to_thread(told, crawl)
    assert lines["time left"] == "38 s, if no new links are found"  # what is blocked is not waited for
    assert "limits" not in lines


def test_stopping_early(told, add_crawl, add_note, database):
    """A run that drains is started, and says why it stops; once it is sealed, that is its last note."""
    crawl = add_crawl("a")
    add_note(crawl, "STOP_EARLY_REASON", "targets count 10 exceeds limit 10")
    lines = told(crawl)
    assert lines["status"] == "started, stopping: targets count 10 exceeds limit 10"
    assert "last note" not in lines
    sealed = add_crawl("b", status="sealed", stop_reason="ExceedTargetsCountLimit")
    add_note(sealed, "STOP_EARLY_REASON", "targets count 10 exceeds limit 10")
    database.execute("UPDATE crawl SET started_at = now() - interval '5 min'")
    lines = told(sealed)
    assert lines["status"] == "sealed (ExceedTargetsCountLimit) · started 5 min ago"
    database.execute("UPDATE note SET time = time - interval '3 min'")
    assert told(sealed)["last note"] == "3 min ago: targets count 10 exceeds limit 10"
    database.execute("UPDATE note SET time = now() + interval '10 min'")  # by a clock that is ahead
    assert told(sealed)["last note"] == "just now: targets count 10 exceeds limit 10"


def test_a_run_that_was_never_started(told, add_crawl, database):
    """When it is due and how often, or when it was cancelled; label and tags stand below its name."""
    crawl = add_crawl("a", status="queued", label="Autumn news", tags=["jp", "news"], repeat_seconds=43_200)
    database.execute(
        "UPDATE crawl SET started_at = NULL, retry_at = now() + interval '3 h' WHERE id = %s", [crawl]
    )
    lines = told(crawl)
    assert lines["label"] == "Autumn news · tags jp, news"
    assert lines["status"] == "queued · due in 3 h · again every 12 h"
    database.execute(
        "UPDATE crawl SET status = 'sealed', retry_at = NULL, stop_reason = 'cancelled',"
        " finished_at = now() - interval '5 min' WHERE id = %s",
        [crawl],
    )
    assert told(crawl)["status"] == "sealed (cancelled) 5 min ago"


def test_a_run_without_workers_and_its_last_note(told, add_crawl, add_note, database):
    """A started run that nobody works on says so; the last note is there, whatever it is of."""
    crawl = add_crawl("a")
    add_note(crawl, "PRICE_CHECK", "three prices are odd")
    add_note(crawl, "HOST_RECOVERED", "h answers again, after 5 min")
    database.execute("UPDATE note SET time = time - interval '3 min'")
    lines = told(crawl)
    assert lines["worker"] == "none"
    assert lines["last note"] == "3 min ago: h answers again, after 5 min"
