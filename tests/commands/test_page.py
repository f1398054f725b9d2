"""`scrapy page`."""

import json

import pytest
import zstandard

from crawlproj.pages.bodies import body_hash
from tests.commands.conftest import on_terminal


@pytest.fixture
def add_fetch(database):
    """Return a function that logs an attempt at a page."""

    def add(crawl_id, page_id, at, attempt, status, http, reason=None):
        database.execute(
            'INSERT INTO "fetch" (at, crawl_id, url_key, worker, attempt, fetch_status, schedule_status,'
            " http_status, reason, duration_ms) VALUES (%s, %s, %s, 'w', %s, %s, %s, %s, %s, 120)",
            [
                at,
                crawl_id,
                bytes.fromhex(page_id),
                attempt,
                status,
                "retry" if reason else "succeeded",
                http,
                reason,
            ],
        )

    return add


def test_story(scrapy, environment, add_crawl, add_page, add_content, add_fetch):
    """The story has every attempt with its time, the content that stands and the health signal."""
    crawl = add_crawl("a")
    signal = {"render_duration_ms": None, "raw_text_length": 12, "text_length": 7}
    page = add_page(crawl, "http://h/1", http_status=200, attempts=2, health_signal=json.dumps(signal))
    add_fetch(crawl, page, "2026-01-02T03:04:01Z", 1, "failed", 502, "http_502")
    add_fetch(crawl, page, "2026-01-02T03:04:05Z", 2, "done", 200)
    content = add_content(page, b"<p>Hello</p>", text="Hello")
    (row,) = scrapy("page", "http://h/1", "--json").json
    assert (row["url"], row["crawl"], row["run"], row["fetch_status"]) == ("http://h/1", "a", 1, "done")
    assert [fetch["http_status"] for fetch in row["fetches"]] == [502, 200]
    assert row["first_seen"] == "2026-01-02T03:04:01Z"
    assert row["content_id"] == row["object_id"] == row["objects"][0]["object_id"] == content
    assert row["health_signal"] == signal | dict.fromkeys(set(row["health_signal"]) - set(signal))
    values = dict(line.split("\t") for line in scrapy("page", "http://h/1").lines)
    assert (values["fetches.0.reason"], values["health_signal.text_length"]) == ("http_502", "7")
    shown = on_terminal(environment | {"NO_COLOR": "1"}, "page", "http://h/1")
    assert "attempt 1" in shown
    assert "http_502" in shown
    assert "A title" in shown


@pytest.mark.parametrize("digits", [8, 32])
def test_ids(scrapy_here, add_crawl, add_page, add_content, digits):
    """A page is found by its own id and by its object's, whole or by the first digits."""
    page = add_page(add_crawl("a"), "http://h/1")
    content = add_content(page, b"x")
    for known in (page, content):
        (row,) = scrapy_here("page", known[:digits], "--json").json
        assert row["id"] == page


def test_ambiguous_id(scrapy_here, add_crawl, add_page):
    """Digits that begin several ids are no answer: give more."""
    crawl = add_crawl("a")
    for n in range(40):
        add_page(crawl, f"http://h/{n}")
    done = scrapy_here("page", "0")
    assert done.code in {2, 0}  # with 40 pages, two of them nearly always begin with the same digit
    codes = {scrapy_here("page", digit).code for digit in "0123"}
    assert 2 in codes


def test_spellings_of_one_url(scrapy_here, add_crawl, add_page):
    """Any spelling of the URL means the same page."""
    add_page(add_crawl("a"), "http://h/?a=1&b=2")
    assert scrapy_here("page", "HTTP://H:80/?b=2&a=1#top", "--json").json[0]["url"] == "http://h/?a=1&b=2"


def test_text_and_body(scrapy, add_crawl, add_page, add_content):
    """--text and --body print what stands as content, also after a failure, and nothing else."""
    page = add_page(add_crawl("a"), "http://h/1", fetch_status="failed", schedule_status="failed")
    add_content(page, b"<p>caf\xe9</p>", text="café")
    assert scrapy("page", "http://h/1", "--text").out == "café\n"
    assert scrapy("page", "http://h/1", "--body", text=False).out == b"<p>caf\xe9</p>"
    done = scrapy("page", "http://h/1", "--body", "--text")
    assert done.code == 2
    assert done.err.count("\n") == 1


def test_binary_has_no_text(scrapy, add_crawl, add_page, add_content):
    """A binary page has a body and no text: exit code 3."""
    page = add_page(add_crawl("a"), "http://h/x.png")
    add_content(page, b"\x89PNG\0\0", kind="image/png")
    assert scrapy("page", "http://h/x.png", "--body", text=False).out == b"\x89PNG\0\0"
    done = scrapy("page", "http://h/x.png", "--text")
    assert (done.code, done.out) == (3, "")
    assert "--body" in done.err


def test_body_in_another_place(scrapy, add_crawl, add_page, add_content, database, tmp_path):
    """A damaged file is an error of that body, exit code 1; a place that does not give it is away, 5."""
    page = add_page(add_crawl("a"), "http://h/1")
    add_content(page, b"<p>one", text="one")
    name, place = body_hash(b"<p>one").hex(), f"file://{tmp_path}/bodies"
    database.execute("UPDATE body SET data = NULL, store = %s", [place])
    done = scrapy("page", "http://h/1", "--body")
    assert (done.code, done.out, done.err.count("\n")) == (5, "", 1)
    path = tmp_path / "bodies" / name[:2] / f"{name}.zst"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"?")
    done = scrapy("page", "http://h/1", "--body")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        f"scrapy page: the body {name} in {place} is damaged: its file cannot be decompressed\n"
    )
    path.write_bytes(zstandard.compress(b"<p>one"))
    assert scrapy("page", "http://h/1", "--body").out == "<p>one"


def test_nothing_stored(scrapy_here, add_crawl, add_page):
    """A page that failed has no content: exit code 3, and why."""
    add_page(add_crawl("a"), "http://h/1", fetch_status="failed", schedule_status="failed", reason="http_404")
    done = scrapy_here("page", "http://h/1", "--text")
    assert (done.code, done.out) == (3, "")
    assert "http_404" in done.err


def test_several_crawls(scrapy_here, add_crawl, add_page):
    """Without --crawl it is the crawl that touched the page last; --crawl picks another."""
    add_page(add_crawl("old"), "http://h/1", reported_at="2026-01-01T00:00:00Z")
    add_page(add_crawl("new"), "http://h/1", reported_at="2026-01-02T00:00:00Z")
    assert scrapy_here("page", "http://h/1", "--json").json[0]["crawl"] == "new"
    assert scrapy_here("page", "http://h/1", "--crawl", "old", "--json").json[0]["crawl"] == "old"
    assert scrapy_here("page", "http://h/1", "--crawl", "none").code == 3


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://h/linked", "linked from http://h/1"),
        ("http://h/private/1", "deny /private"),
        ("http://elsewhere/", "none of the seeds'"),
        ("http://h/nowhere", "no page of the run links to it"),
        ("http://h/seed", "it is a seed"),
        ("http://bare/", "it is a seed"),
        ("http://h/print/1", "out of the crawl's scope: denied by rule 2: /print/"),
        ("http://own/", "it is a seed"),
    ],
)
def test_why_never_fetched(scrapy_here, add_crawl, add_page, add_content, url, why):
    """A URL without a page: exit code 3, and the reason in one sentence."""
    arguments = {"seeds": "http://h/1 http://h/seed http://BARE", "scope": "host", "deny": "/private"}
    more = {"deny": ["ads.example", "/print/"], "seeds": ["http://own/"]}
    crawl = add_crawl("a", config=json.dumps({"arguments": arguments, **more}))
    add_content(add_page(crawl, "http://h/1"), b"x", text="x", links=["http://h/2", "http://h/linked"])
    done = scrapy_here("page", url)
    assert (done.code, done.out) == (3, "")
    assert done.err.count("\n") == 1
    assert "was never fetched by crawl 'a'" in done.err
    assert why in done.err


@pytest.mark.parametrize(("word", "code"), [("ftp://h/", 2), ("nonsense", 2), ("abcdef", 3), ("http://", 2)])
def test_no_url_and_no_id(scrapy_here, add_crawl, word, code):
    """What is neither a URL nor an id is wrong usage; an unknown id is not found."""
    add_crawl("a")
    done = scrapy_here("page", word)
    assert done.code == code
    assert done.err.count("\n") == 1
