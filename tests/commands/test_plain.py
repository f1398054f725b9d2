"""Scrapy's own tools in this project."""

import pytest


@pytest.fixture
def page(site):
    """Return the address of a page with a link."""
    return site.add("/page", '<p>Words.</p><a href="/other">other</a>')


@pytest.mark.parametrize(
    ("command", "shows"),
    [
        (["fetch", "--nolog", "PAGE"], "<p>Words.</p>"),
        (["shell", "--nolog", "-c", "response.css('p::text').get()", "PAGE"], "Words."),
        (["parse", "--nolog", "--spider", "plain", "PAGE"], "'title': 'Words.'"),
        (["check", "plain"], ""),
    ],
    ids=["fetch", "shell", "parse", "check"],
)
def test_works_as_in_any_project(scrapy, page, tmp_path, database, command, shows):
    """Scrapy's tools show what they always show, and leave no crawl behind."""
    (tmp_path / "plain_spiders.py").write_text(
        "from scrapy import Spider\n"
        "class Plain(Spider):\n"
        "    name = 'plain'\n"
        "    def parse(self, response):\n"
        f"        '''@url {page}\n"
        "        @returns items 1 1\n"
        "        '''\n"
        "        yield {'title': response.css('p::text').get()}\n"
    )
    line = [page if word == "PAGE" else word for word in command]
    line[1:1] = ["-s", "SPIDER_MODULES=plain_spiders"]
    done = scrapy(*line, PYTHONPATH=str(tmp_path))
    assert done.code == 0, done.err
    assert shows in done.out
    if command[0] == "check":
        assert "Ran 1 contract" in done.err
        assert "OK" in done.err
    assert database.execute("SELECT count(*) FROM crawl").fetchone() == (0,)
