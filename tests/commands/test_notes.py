"""`scrapy notes`."""

import json
import signal
import threading

from crawlproj.commands import notes
from crawlproj.connections import connect_database
from tests.commands.conftest import on_terminal


def test_oldest_first(scrapy, add_crawl, database):
    """Notes come in the order they were made, and control characters cannot reach a terminal."""
    crawl = add_crawl("a")
    fields = {"r": "ExceedTargetsCountLimit", "limitTargets": "1", "currentStartedTargets": "2"}
    for namespace, message in (
        ("HOST", "m.example\x1b[2J waits\n"),
        ("STOP_EARLY_REASON", "targets count 2"),
    ):
        database.execute(
            "INSERT INTO note (crawl_id, namespace, message, fields) VALUES (%s, %s, %s, %s)",
            [crawl, namespace, message, json.dumps(fields)],
        )
    lines = scrapy("notes", "a").lines
    assert [line.split("\t")[1] for line in lines] == ["HOST", "STOP_EARLY_REASON"]
    assert "\x1b" not in lines[0]
    rows = scrapy("notes", str(crawl), "--json").json
    assert rows[1] == {
        "time": rows[1]["time"],
        "namespace": "STOP_EARLY_REASON",
        "message": "targets count 2",
        "fields": fields,
    }
    assert rows[0]["message"] == "m.example\x1b[2J waits\n"


def test_name_goes_before_number(scrapy_here, add_crawl, database):
    """A crawl named like a number is found by it, although another crawl has that number."""
    other = add_crawl("other")
    named = add_crawl(str(other))
    for crawl, message in ((other, "wrong"), (named, "right")):
        database.execute(
            "INSERT INTO note (crawl_id, namespace, message) VALUES (%s, 'N', %s)", [crawl, message]
        )
    assert [row["message"] for row in scrapy_here("notes", str(other), "--json").json] == ["right"]
    assert [row["message"] for row in scrapy_here("notes", "--json").json] == ["right"]


def test_a_name_of_very_many_digits(scrapy_here):
    """What is too long for a number is a name, and there is no such crawl."""
    for digits in (19, 5_000):
        missing = scrapy_here("notes", "9" * digits)
        assert (missing.code, "there is no crawl '999" in missing.err) == (3, True)


def test_none(scrapy_here, add_crawl):
    """A crawl without notes is no error."""
    add_crawl("quiet")
    done = scrapy_here("notes", "quiet")
    assert (done.code, done.out) == (0, "")
    assert "quiet" in done.err


def test_near_name(scrapy_here, add_crawl):
    """A misspelt name is answered with the nearest one."""
    add_crawl("newspapers")
    done = scrapy_here("notes", "newspaper")
    assert done.code == 3
    assert "'newspapers'" in done.err


def test_follow_ends_with_the_crawl(scrapy, add_crawl, database):
    """--follow prints what there is and what comes, each once, with what comes with the seal."""
    crawl = add_crawl("a")
    write = "INSERT INTO note (crawl_id, namespace, message) VALUES (%s, 'N', %s)"
    database.execute(write, [crawl, "before"])

    def go_on():
        database.execute(write, [crawl, "later"])
        with database.transaction():
            database.execute(write, [crawl, "with the seal"])
            database.execute(
                "UPDATE crawl SET status = 'sealed', retry_at = NULL, finished_at = now() WHERE id = %s",
                [crawl],
            )

    timer = threading.Timer(3, go_on)
    timer.start()
    done = scrapy("notes", "a", "--follow")
    timer.join()
    assert (done.code, done.err) == (0, "")
    assert [line.split("\t")[2] for line in done.lines] == ["before", "later", "with the seal"]


def test_follow_sees_a_note_that_comes_out_of_turn(add_crawl, database, database_url, monkeypatch):
    """A note that another session had numbered before one that was seen is told all the same."""
    crawl = add_crawl("a")
    write = "INSERT INTO note (crawl_id, namespace, message) VALUES (%s, 'N', %s)"
    following = notes._following(database, crawl)
    with connect_database(database_url) as other:
        with other.transaction():
            other.execute(write, [crawl, "first by number"])
            database.execute(write, [crawl, "second"])
            assert next(following)["message"] == "second"
        monkeypatch.setattr(notes.time, "sleep", lambda _: None)
        assert next(following)["message"] == "first by number"


def test_follow_ends_with_ctrl_c(environment, add_crawl, database):
    """Ctrl-C is how a person ends it: exit code 0, no traceback; on a terminal a note is a line."""
    crawl = add_crawl("a")
    database.execute("INSERT INTO note (crawl_id, namespace, message) VALUES (%s, 'N', 'one')", [crawl])
    shown = on_terminal(environment, "notes", "a", "--follow", until="one", then=signal.SIGINT)
    assert [line.split()[3:] for line in shown.splitlines() if "one" in line] == [["N", "one"]]
    assert "Traceback" not in shown


def test_follow_of_a_crawl_without_notes(scrapy_here, add_crawl):
    """It says so at the end."""
    add_crawl("quiet", status="sealed")
    done = scrapy_here("notes", "quiet", "--follow")
    assert (done.code, done.out) == (0, "")
    assert "has no notes" in done.err
