"""`scrapy demo`."""


def test_twice(scrapy, database):
    """The built-in site is crawled as `demo`; the second run finds pages that were not modified."""
    first, second = scrapy("demo"), scrapy("demo")
    assert (first.code, second.code) == (0, 0), first.err
    assert "crawl demo, run 1: sealed" in first.err
    assert "crawl demo, run 2: sealed" in second.err
    assert "not_modified" not in first.err.partition("run 1: sealed")[2]
    assert "not_modified" in second.err.partition("run 2: sealed")[2]
    counts = dict(
        database.execute("SELECT fetch_status, count(*) FROM page GROUP BY fetch_status").fetchall()
    )
    assert {"not_modified", "done", "empty", "failed"} <= set(counts)
