"""`scrapy diff`."""

from __future__ import annotations

import pytest

from crawlproj.frontier.canonical import page_key
from tests.commands.conftest import on_terminal

A, B, C = (letter * 16 for letter in (b"A", b"B", b"C"))
EMPTY = b"E" * 16
USE = "scrapy diff NAME RUN RUN [--count] [--limit N] [--json]"
CHANGES = ("new", "gone", "changed", "emptied", "unchanged")

DONE, OTHER, THIRD = ("done", 200, A), ("done", 200, B), ("done", 200, C)
EMPTIED = ("empty", 200, EMPTY)
TOO_SHORT = ("empty", 200, A)  # the body of DONE, by another EMPTY_BELOW_CHARACTERS
SAME = ("not_modified", 304, None)
GONE, GONE_FOR_GOOD = ("failed", 404, None), ("failed", 410, None)
BROKEN, SILENT, FORBIDDEN = ("failed", 500, None), ("failed", None, None), ("failed", 403, None)
MOVED, REFUSED = (None, None, None), ("disregarded", None, None)

#: What a page's visits found, by run, and what becomes of it from run 1 to 2, from 2 to 3 and from 1 to 3.
STORIES = {
    "same": ({1: DONE, 2: SAME, 3: DONE}, "unchanged", "unchanged", "unchanged"),
    "never-due": ({1: DONE}, "unchanged", "unchanged", "unchanged"),
    "changed": ({1: DONE, 2: OTHER, 3: SAME}, "changed", "unchanged", "changed"),
    "changed-twice": ({1: DONE, 2: OTHER, 3: THIRD}, "changed", "changed", "changed"),
    "and-back": ({1: DONE, 2: OTHER, 3: DONE}, "changed", "changed", "unchanged"),
    "new": ({2: DONE}, "new", "unchanged", "new"),
    "late": ({3: DONE}, None, "new", "new"),
    "new-and-empty": ({2: EMPTIED, 3: EMPTIED}, "new", "unchanged", "new"),
    "gone": ({1: DONE, 2: GONE, 3: GONE}, "gone", None, "gone"),
    "gone-for-good": ({1: DONE, 3: GONE_FOR_GOOD}, "unchanged", "gone", "gone"),
    "comes-back": ({1: DONE, 2: GONE, 3: SAME}, "gone", "new", "unchanged"),
    "never-there": ({1: GONE, 2: GONE}, None, None, None),
    "came-and-went": ({2: DONE, 3: GONE}, "new", "gone", None),
    "moved": ({1: DONE, 2: MOVED, 3: MOVED}, "gone", None, "gone"),
    "emptied": ({1: DONE, 2: EMPTIED}, "emptied", "unchanged", "emptied"),
    "filled": ({1: DONE, 2: EMPTIED, 3: SAME}, "emptied", "changed", "unchanged"),
    "filled-anew": ({1: EMPTIED, 2: OTHER, 3: EMPTIED}, "changed", "emptied", "unchanged"),
    "counts-as-empty": ({1: DONE, 2: TOO_SHORT, 3: TOO_SHORT}, "emptied", "unchanged", "emptied"),
    "counts-as-text": ({1: TOO_SHORT, 2: DONE, 3: SAME}, "changed", "unchanged", "changed"),
    "counts-again": ({1: DONE, 2: TOO_SHORT, 3: DONE}, "emptied", "changed", "unchanged"),
    "broken": ({1: DONE, 2: BROKEN, 3: SILENT}, "unchanged", "unchanged", "unchanged"),
    "broken-then-changed": ({1: DONE, 2: FORBIDDEN, 3: OTHER}, "unchanged", "changed", "changed"),
    "refused": ({1: DONE, 2: REFUSED}, "unchanged", "unchanged", "unchanged"),
    "never-answered": ({1: SILENT, 2: SILENT}, None, None, None),
}


@pytest.fixture
def runs(database, add_crawl, add_page):
    """Make three runs of crawl `news` in which the stories happen, and one of another name."""
    ids = [add_crawl("news", run=run, status="sealed", counts={"started_targets": 9}) for run in (1, 2, 3)]
    add_crawl("other", run=4, status="sealed")
    objects = {A: ("done", 100), B: ("done", 200), C: ("done", 300), EMPTY: ("empty", 0)}
    for name, (visits, *_) in STORIES.items():
        url = f"http://h/{name}"
        add_page(ids[max(visits) - 1], url)
        key = page_key(url)
        for run, (status, http_status, content) in visits.items():
            schedule = {"failed": "failed", "disregarded": "disregarded"}.get(status, "succeeded")
            object_id = None if content is None else bytes(x ^ y for x, y in zip(content, key, strict=True))
            database.execute(
                'INSERT INTO "fetch" (at, crawl_id, url_key, worker, attempt, fetch_status, schedule_status,'
                " http_status, object_id) VALUES (now(), %s, %s, 'w', 1, %s, %s, %s, %s)",
                [
                    *(ids[run - 1], key, None if status == "disregarded" else status),
                    *(schedule, http_status, object_id),
                ],
            )
            if content is not None:
                kind, length = objects[content]
                database.execute(
                    "INSERT INTO page_object (object_id, crawl_name, url_key, crawl_id, fetched_at, url,"
                    " fetch_status, body_hash, body_size, text_length, headers) VALUES"
                    " (%s, 'news', %s, 1, now(), %s, %s, '', 1, %s, '[]') ON CONFLICT DO NOTHING",
                    [object_id, key, url, kind, length],
                )
    return ids


@pytest.mark.parametrize(("before", "after", "place"), [(1, 2, 1), (2, 3, 2), (1, 3, 3)])
def test_every_story(scrapy_here, runs, before, after, place):
    """The state as of one run against that as of another, also where a run has not visited a page."""
    expected = {name: story[place] for name, story in STORIES.items()}
    done = scrapy_here("diff", "news", str(before), str(after), "--json")
    found = {row["url"].removeprefix("http://h/"): row["change"] for row in done.json}
    assert found == {name: change for name, change in expected.items() if change not in (None, "unchanged")}
    counts = {change: list(expected.values()).count(change) for change in CHANGES}
    assert scrapy_here("diff", "news", str(before), str(after), "--json", "--count").json == [counts]
    words = " · ".join(f"{n} {change}" for change, n in counts.items())
    assert done.err == f"crawl news, from run {before} to run {after}: {words}\n"
    assert [row["change"] for row in done.json] == sorted(found.values(), key=CHANGES.index)


def test_backwards(scrapy_here, runs):
    """From a later run to an earlier one what is new is gone, and the other way round."""
    there = scrapy_here("diff", "news", "1", "2", "--json").json
    back = scrapy_here("diff", "news", "2", "1", "--json").json
    for one, other in (("new", "gone"), ("gone", "new")):
        assert [row["url"] for row in there if row["change"] == one] == [
            row["url"] for row in back if row["change"] == other
        ]


def test_a_row(scrapy_here, runs):
    """It says what was there before and what is there now."""
    rows = {row["url"]: row for row in scrapy_here("diff", "news", "1", "2", "--json").json}
    row = rows["http://h/emptied"]
    assert len(row.pop("object_before")) == len(row.pop("object_after")) == 32
    assert row == {
        "change": "emptied", "url": "http://h/emptied", "status_before": "done", "status_after": "empty",
        "http_status": 200, "text_before": 100, "text_after": 0,
    }  # fmt: skip
    gone = rows["http://h/gone"]
    assert (gone["status_after"], gone["http_status"], gone["object_after"]) == ("failed", 404, None)


def test_lines_for_pipes_and_limits(scrapy_here, runs):
    """Piped, a page is one tab-separated line; --limit cuts the list, not the figures."""
    done = scrapy_here("diff", "news", "1", "3")
    assert done.lines[0] == "new\thttp://h/late\t-\tdone\t200\t-\t100"
    cut = scrapy_here("diff", "news", "1", "3", "--limit", "2")
    assert cut.lines == done.lines[:2]
    assert cut.err == done.err
    assert scrapy_here("diff", "news", "1", "3", "--count").lines[0] == "new\t3"


def test_a_table_for_people(environment, runs):
    """On a terminal it is a table with a head, and the figures below it."""
    shown = on_terminal(environment, "diff", "news", "1", "2")
    assert "change" in shown
    assert "http://h/emptied" in shown
    assert "3 new · 3 gone · 5 changed · 4 emptied · 6 unchanged" in shown


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("news", "1", "9"), 3, "crawl 'news' has no run 9; `scrapy crawls` lists what there is"),
        (("nws", "1", "2"), 3, "there is no crawl 'nws'; the nearest name is 'news'"),
        (("news", "2", "2"), 2, "run 2 is compared with itself: give the numbers of two runs"),
        (("news", "2", "02"), 2, "run 2 is compared with itself: give the numbers of two runs"),
        (("news", "one", "2"), 2, "RUN must be the number of a run, 1 or more, not 'one'"),
        (("news", "0", "2"), 2, "RUN must be the number of a run, 1 or more, not '0'"),
        (("news", "1", "2" * 30), 2, f"RUN must be the number of a run, 1 or more, not '{'2' * 30}'"),
        (
            ("news", "1"),
            2,
            f"an argument is missing; use: {USE}",
        ),
    ],
)
def test_bad_input(scrapy_here, runs, arguments, code, sentence):
    """One clear sentence, nothing on stdout, and its exit code."""
    done = scrapy_here("diff", *arguments)
    assert (done.code, done.out, done.err) == (code, "", f"scrapy diff: {sentence}\n")


def test_a_run_without_a_log_is_refused(scrapy_here, runs, database):
    """Days of the fetch log that have been dropped are no pages that are new."""
    database.execute('DELETE FROM "fetch" WHERE crawl_id = %s', [runs[0]])
    done = scrapy_here("diff", "news", "1", "2")
    assert (done.code, done.out) == (4, "")
    assert "its days of the fetch log are gone" in done.err


def test_a_run_that_goes_on(scrapy_here, runs, database):
    """It is compared as it is now, and that is said."""
    database.execute("UPDATE crawl SET status = 'started', retry_at = now() WHERE id = %s", [runs[2]])
    assert "run 3 is not over; it is taken as it is now" in scrapy_here("diff", "news", "1", "3").err
