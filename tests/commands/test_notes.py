"""`scrapy notes`."""

import json


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
