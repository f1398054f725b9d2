"""`scrapy status`."""

import re
import signal
import subprocess
import sys
import threading

import pytest

from tests.commands.conftest import PROJECT, on_terminal

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

    def add(crawl_id, name, seconds):
        database.execute(
            "INSERT INTO worker_lease (crawl_id, worker, epoch, expires_at)"
            " VALUES (%s, %s, 1, now() + %s * interval '1 s')",
            [crawl_id, name, seconds],
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


def test_watch_ends_with_the_crawl(scrapy, add_crawl, database):
    """--watch prints again and again, and stops by itself when the run is sealed."""
    crawl = add_crawl("a")
    seal = "UPDATE crawl SET status = 'sealed', retry_at = NULL, finished_at = now() WHERE id = %s"
    timer = threading.Timer(8, database.execute, (seal, [crawl]))
    timer.start()
    done = scrapy("status", "a", "--watch", "--json")
    timer.join()
    statuses = [row["status"] for row in done.json]
    assert done.code == 0
    assert statuses[0] == "started"
    assert statuses[-1] == "sealed"
    assert statuses.count("sealed") == 1


def test_watch_ends_with_ctrl_c(environment, add_crawl):
    """Ctrl-C is how a person ends --watch: exit code 0, no traceback."""
    add_crawl("a")
    process = subprocess.Popen(
        [sys.executable, "-m", "scrapy", "status", "a", "--watch", "--json"],
        cwd=PROJECT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (0, b"")


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
