"""How much text makes a page one that is done, in whole crawls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.crawl.support import linking

if TYPE_CHECKING:
    from crawlproj.testing.plugin import Crawl
    from crawlproj.testing.site import Site

TWELVE = "<p>" + " ".join(["word"] * 12) + "</p>"


def statuses(crawl: Crawl, site: Site, **settings: object) -> dict[str, str]:
    """Return the fetch status of every page by its path."""
    result = crawl("site", settings, seeds=site.url + "/")
    assert result.returncode == 0, result.stderr
    return {page["url"].removeprefix(site.url): page["fetch_status"] for page in result.pages}


def test_the_setting_draws_the_line(site: Site, crawl: Crawl) -> None:
    """One word and twelve follow the setting; pages without any text are empty whatever it says."""
    site.add("/", linking("/one", "/twelve", "/none", "/204", "/json"))
    site.add("/one", "<p>Simplest.</p>")
    site.add("/twelve", TWELVE)
    site.add("/none", "<html><body><img src=x></body></html>")
    site.add("/204", status=204)
    site.add("/json", "{}", headers={"Content-Type": "application/json"})
    by_default = {
        "/": "done",
        "/one": "done",
        "/twelve": "done",
        "/none": "empty",
        "/204": "empty",
        "/json": "done",
    }
    assert statuses(crawl, site, CRAWL_NAME="default") == by_default
    assert statuses(crawl, site, CRAWL_NAME="strict", EMPTY_BELOW_CHARACTERS=20) == {
        **by_default, "/one": "empty", "/json": "empty"
    }  # fmt: skip
    assert statuses(crawl, site, CRAWL_NAME="stricter", EMPTY_BELOW_CHARACTERS=60)["/twelve"] == "empty"
    assert statuses(crawl, site, CRAWL_NAME="lax", EMPTY_BELOW_CHARACTERS=0) == {
        **by_default,
        "/none": "done",
    }


def test_validators_of_what_counts_as_empty_are_not_sent(site: Site, crawl: Crawl) -> None:
    """Whether a page has been filled meanwhile must be seen, however many characters it had."""
    site.add("/", linking("/one", "/twelve"), headers={"ETag": '"0"'})
    site.add("/one", "<p>Simplest.</p>", headers={"ETag": '"1"'})
    site.add("/twelve", TWELVE, headers={"ETag": '"12"'})
    settings = {"CRAWL_NAME": "again", "EMPTY_BELOW_CHARACTERS": 20}
    statuses(crawl, site, **settings)
    before = len(site.requests)
    statuses(crawl, site, **settings)
    sent = {hit.path: hit.headers.get("If-None-Match") for hit in site.requests[before:]}
    assert (sent["/"], sent["/one"], sent["/twelve"]) == ('"0"', None, '"12"')
