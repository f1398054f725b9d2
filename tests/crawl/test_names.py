"""Names of crawls, workers and spiders are names: no path, no pattern, no part of a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crawl.support import linking, status

if TYPE_CHECKING:
    from collections.abc import Callable

    from crawlproj.testing.plugin import Crawl
    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site

ODD = ("../../tmp/x: {a} b*", "a*", "x" * 200)


def test_odd_names_are_kept_apart(
    site: Site, crawl: Crawl, scrapy: Project, spider_source: Callable[[str], None]
) -> None:
    """A crawl, a worker and a spider may be called anything printable; ending one ends no other."""
    site.add("/", linking())
    spider_source(
        "from scrapy import Spider\n"
        f"for n, given in enumerate({ODD!r}):\n"
        "    globals()[f'S{n}'] = type(f'S{n}', (Spider,), {'name': given, '__module__': __name__})\n"
    )
    scrapy("crawl", "site", "-a", f"seeds={site.url}/", settings={"CRAWL_NAME": "ab", "MAX_TARGET": 1})
    for name in ODD:
        spider = name if name != ODD[-1] else "site"
        arguments = {"start_urls": ""} if spider != "site" else {"seeds": f"{site.url}/"}
        result = crawl(spider, {"CRAWL_NAME": name, "WORKER_ID": name}, **arguments)
        assert result.returncode == 0, result.stderr
        assert "Traceback" not in result.stderr
        state = status(scrapy, name)
        assert (state["name"], state["status"]) == (name, "sealed")
    assert status(scrapy, "ab")["counts"]["fetch_status"]["done"] == 1


@pytest.mark.parametrize("setting", ["CRAWL_NAME", "WORKER_ID"])
@pytest.mark.parametrize("name", ["x" * 300, "a\nb", " a", "a\u202eb", "a\x1b[2J"])
def test_what_is_no_name_is_refused(setting: str, name: str, site: Site, scrapy: Project) -> None:
    """Too long, more than one line, or what a terminal would obey: one sentence, and nothing is asked for."""
    done = scrapy("crawl", "site", "-a", f"seeds={site.url}/", settings={setting: name})
    assert done.returncode == 2
    assert f"setting {setting} must be 1 to 200 printable characters" in done.stderr
    assert site.requests == []
