"""`scrapy migrate`."""


def test_check_says_no_and_changes_nothing(scrapy, database):
    """--check on a database without schema is exit code 6, and it stays without."""
    database.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    done = scrapy("migrate", "--check")
    assert done.code == 6
    assert "scrapy migrate" in done.out
    assert database.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)


def test_migrates_once(scrapy, database):
    """It applies what is missing, and a second time finds nothing to do."""
    database.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    first, second, check = scrapy("migrate"), scrapy("migrate"), scrapy("migrate", "--check")
    assert (first.code, second.code, check.code) == (0, 0, 0)
    assert "0 →" in first.out
    assert "nothing to do" in second.out
    assert database.execute("SELECT count(*) FROM crawl").fetchone() == (0,)


def test_newer_database_is_left_alone(scrapy, database):
    """A schema newer than this code is refused, exit code 4."""
    database.execute("INSERT INTO schema_version (number, name) VALUES (9999, 'later')")
    for done in (scrapy("migrate"), scrapy("migrate", "--check")):
        assert done.code == 4
        assert "9999" in done.err
