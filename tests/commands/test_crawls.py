"""`scrapy crawls`."""


def test_no_crawl_is_no_error(scrapy):
    """A project without a crawl: nothing on stdout, a word on stderr."""
    done = scrapy("crawls")
    assert (done.code, done.out) == (0, "")
    assert "no crawl" in done.err


def test_lines_for_pipes(scrapy_here, add_crawl, add_page):
    """Piped, a crawl is one tab-separated line, the latest first, and null is a dash."""
    first = add_crawl("a", status="sealed", counts={"fetch_status": {"done": 12_345, "failed": 2}})
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
