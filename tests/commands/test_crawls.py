"""`scrapy crawls`."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from crawlproj.commands import crawls
from crawlproj.crawls import control
from crawlproj.output import Output
from tests.commands.conftest import on_terminal


def test_no_crawl_is_no_error(scrapy):
    """A project without a crawl: nothing on stdout, a word on stderr."""
    done = scrapy("crawls")
    assert (done.code, done.out) == (0, "")
    assert "no crawl" in done.err


def test_lines_for_pipes(scrapy_here, add_crawl, add_page):
    """Piped, a crawl is one tab-separated line, the latest first, and null is a dash."""
    counts = {"done": 12_345, "failed": 2, "not_modified": 100, "empty": 10}
    first = add_crawl("a", status="sealed", counts={"fetch_status": counts})
    second = add_crawl("b")
    add_page(second, "http://h/1")
    done = scrapy_here("crawls")
    assert done.code == 0
    rows = [line.split("\t") for line in done.lines]
    assert [row[:7] for row in rows] == [
        [str(second), "b", "1", "site", "started", "1", "0"],
        [str(first), "a", "1", "site", "sealed", "12345", "2"],
    ]
    assert rows[0][9] == "-"
    assert [row[10] for row in rows] == ["1", "12457"]


NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("age", "missing"),
    [
        (timedelta(seconds=90), set()),
        (timedelta(minutes=5), {"done"}),
        (timedelta(hours=-47, minutes=-30), {"done"}),  # "due in 48 h"
        (timedelta(minutes=47), {"done"}),
    ],
)
def test_a_name_is_whole_on_80_columns(capsys, monkeypatch, age, missing):
    """A name of twenty letters is not cut, however long ago it began: other columns give way."""
    monkeypatch.setenv("COLUMNS", "80")
    counts = {"not_modified": 1_207_400, "empty": 6, "done": 0, "failed": 0}
    row = {
        "id": 12, "name": "the-shop-of-a-friend", "run": 12, "spider": "site", "workers": 0, "tags": [],
        "status": "sealed" if age > timedelta(0) else "queued", "counts": {"fetch_status": counts},
        "started_at": NOW - age, "retry_at": NOW - age, "label": None, "note": "a note",
    }  # fmt: skip
    out = Output()
    out.for_people = True
    out.rows(crawls._columns(out, NOW), [crawls._flat(row)])
    head, line = (re.sub(r"\x1b\[[0-9;]*m", "", line) for line in capsys.readouterr().out.splitlines())
    wanted = ["id", "name", "run", "status", "fetched", "done", "failed", "started", "note"]
    assert head.split() == [title for title in wanted if title not in missing]
    assert line.split()[:3] == ["12", "the-shop-of-a-friend", "12"]
    assert ("1,207,406" in line, len(line) <= 80) == (True, True)


def test_json_is_one_object_a_line(scrapy_here, add_crawl, database):
    """With --json both enumerations are complete and apart, and times are UTC."""
    crawl = add_crawl("a", status="paused")
    database.execute(
        "INSERT INTO note (crawl_id, namespace, message) VALUES (%s, 'HOST', 'first'), (%s, 'HOST', 'last')",
        [crawl, crawl],
    )
    (row,) = scrapy_here("crawls", "--json").json
    assert row["id"] == crawl
    assert row["note"] == "last"
    assert row["counts"]["fetch_status"] == {"done": 0, "not_modified": 0, "empty": 0, "failed": 0}
    assert set(row["counts"]["schedule_status"]) >= {"succeeded", "failed", "disregarded", "dead", "retry"}
    assert row["started_at"].endswith("Z")
    assert row["finished_at"] is None


def test_filters(scrapy_here, add_crawl):
    """--status takes several, --limit counts from the latest; 0 is all."""
    for number, status in enumerate(["queued", "paused", "sealed", "queued"]):
        add_crawl(f"c{number}", status=status)
    names = [line.split("\t")[1] for line in scrapy_here("crawls", "--status", "queued,paused").lines]
    assert names == ["c3", "c1", "c0"]
    assert len(scrapy_here("crawls", "--limit", "1").lines) == 1
    assert len(scrapy_here("crawls", "--limit=0").lines) == 4


def test_a_screen_of_crawls(environment, add_crawl):
    """A terminal shows the latest twenty, and says so only where there are more."""
    for number in range(20):
        add_crawl(f"c{number}")
    assert "shows all" not in on_terminal(environment, "crawls")
    add_crawl("c20")
    shown = on_terminal(environment, "crawls")
    assert "the latest 20; --limit 0 shows all" in shown
    assert ("c20" in shown, "c0 " in shown) == (True, False)


def test_tags_labels_and_times(scrapy_here, environment, database):
    """--tag finds whatever the case; a queued run says when it is due; labels show if there are any."""
    hour, past = (datetime.now(UTC) + timedelta(minutes=minutes) for minutes in (60, -1))
    control.create(database, name="a", spider="site", config={}, tags=["daily", "tw"], label="News", at=hour)
    control.create(database, name="b", spider="site", config={}, tags=["daily"], at=past)
    control.create(database, name="c", spider="site", config={})
    database.execute(
        "INSERT INTO note (crawl_id, namespace, message) SELECT min(id), 'HOST', 'a note' FROM crawl"
    )
    (row,) = scrapy_here("crawls", "--tag", "TW", "--json").json
    assert (row["name"], row["tags"], row["label"]) == ("a", ["daily", "tw"], "News")
    lines = [line.split("\t") for line in scrapy_here("crawls", "--tag", "Daily").lines]
    assert [(line[1], *line[12:]) for line in lines] == [("b", "-", "daily"), ("a", "News", "daily,tw")]
    assert datetime.fromisoformat(lines[1][11]) == hour
    done = scrapy_here("crawls", "--tag", "none")
    assert (done.code, done.out, done.err) == (0, "", "there is no such crawl\n")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal(environment, "crawls", columns=100))
    head, *rows = (" ".join(line.split()) for line in shown.splitlines())
    assert head == "id name run spider status fetched done failed workers started note"
    assert rows[2].endswith("a 1 site queued 0 0 0 0 due in 60 min News · a note")
    assert rows[1].endswith("b 1 site queued 0 0 0 0 due -")
