"""Settings of the frontier that cannot be: one sentence, exit code 2, and nothing is made."""

import pytest

CRAWL = ("crawl", "site", "-a", "seeds=http://127.0.0.1:9/")


@pytest.mark.parametrize(
    ("name", "value", "want"),
    [
        ("FRONTIER_COST_POLICY", "dear", "one of zero, unit, wag, anti-calendar"),
        ("FRONTIER_COST_POLICY", "2", "one of zero, unit, wag, anti-calendar"),
        ("FRONTIER_SEEN_FILTER", "cuckoo", "one of exact, bloom"),
        ("FRONTIER_DELAY_PRESET", "polite", "one of none, heritrix"),
        ("FRONTIER_QUEUE_ASSIGNMENT", "bucket:0", "hostname"),
        ("FRONTIER_CANONICAL_RULES", "www,nonsense", "nonsense"),
        ("FRONTIER_TOTAL_BUDGET", "-2", "a whole number, at least -1"),
        ("FRONTIER_SESSION_BALANCE", "-1", "a whole number, at least 0"),
        ("FRONTIER_PRECEDENCE", "1024", "a whole number from 0 to 1023"),
        ("FRONTIER_PRECEDENCE_FLOOR", "-1", "a whole number from 0 to 1024"),
        ("FRONTIER_DELAY_FACTOR", "nan", "a number from 0 to 1000"),
        ("FRONTIER_HOLD_QUEUES", "perhaps", "one of off, on"),
        ("HOST_MAX_IN_FLIGHT", "0", "a whole number, at least 1"),
        ("FRONTIER_FORCED_QUEUE", "a\nb", "1 to 255 printable characters"),
        ("FRONTIER_FORCED_QUEUE", "a\x00b", "1 to 255 printable characters"),
        ("FRONTIER_FORCED_QUEUE", "\x1b[31m", "1 to 255 printable characters"),
        ("FRONTIER_PARTITIONS", "0", "a number, at least 1"),
        ("FRONTIER_PARTITIONS", "1025", "a number, at most 1024"),
        ("FRONTIER_PARTITIONS", "1.5", "a whole number"),
        ("FRONTIER_SEEN_SHARDS", "0", "a number, at least 1"),
        ("FRONTIER_BLOOM_ERROR", "0", "a number from 1e-9 to 0.1"),
        ("FRONTIER_BLOOM_CAPACITY", "1e11", "a number, at most 10000000000"),
    ],
)
def test_a_crawl_is_refused(scrapy_here, database, valkey_client, name, value, want):
    """Before a run or a frontier is made; control characters are never printed."""
    done = scrapy_here(*CRAWL, "-s", f"{name}={value}")
    assert done.code == 2, done.err
    assert done.out == ""
    assert done.err.count("\n") == 1, done.err
    assert done.err.startswith(f"scrapy crawl: setting {name} must be ")
    assert want in done.err
    assert done.err.rstrip("\n").isprintable()
    assert database.execute("SELECT count(*) FROM crawl").fetchone() == (0,)
    assert list(valkey_client.scan_iter("frontier:*")) == []
