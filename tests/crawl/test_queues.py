"""Whole crawls whose queues, canonical URLs and tags are not the default ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.crawl.support import linking

if TYPE_CHECKING:
    from collections.abc import Callable

    from crawlproj.testing.plugin import Crawl
    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site


def queues(scrapy: Project, name: str) -> dict[str, dict[str, Any]]:
    """Return the crawl's queues by their names."""
    return {row["host"]: row for row in scrapy("hosts", name, "--json").json}


def test_hosts_of_one_server_share_a_clock(site: Site, crawl: Crawl, scrapy: Project) -> None:
    """Three hosts are asked as one would be, and the longest crawl-delay is for all of them."""
    site.add("/*", linking("/a"))
    hosts = [site.host(n) for n in (1, 2, 3)]
    site.add("/robots.txt", "User-agent: *\nCrawl-delay: 0.4\n", host="127.0.0.2")
    site.add("/robots.txt", "User-agent: *\nCrawl-delay: 0.1\n", host="127.0.0.3")
    groups = {"farm": [url.removeprefix("http://") for url in hosts]}

    result = crawl(
        "site", {"FRONTIER_HOST_GROUPS": groups, "MIN_INTERVAL_MS": 0}, seeds=[f"{url}/" for url in hosts]
    )

    assert result.returncode == 0, result.stderr
    assert {row["url"] for row in result.pages} == {f"{url}/{path}" for url in hosts for path in ("", "a")}
    assert list(queues(scrapy, "site")) == ["farm"]


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"FRONTIER_FORCED_QUEUE": "one"}, {"one"}),
        ({"FRONTIER_QUEUE_ASSIGNMENT": "ip"}, {"127.0.0.1", "127.0.0.2"}),
        ({"FRONTIER_QUEUE_ASSIGNMENT": "bucket:1"}, {"bucket-0"}),
        ({"FRONTIER_QUEUE_ASSIGNMENT": "surt"}, {"127.0.0.1#", "127.0.0.2#", "localhost,#"}),
    ],
)
def test_a_crawl_by_any_policy(
    site: Site, crawl: Crawl, scrapy: Project, settings: dict[str, str], names: set[str]
) -> None:
    """Seeds, links and redirects all find their queue, and every page is fetched once."""
    site.add("/", linking("/a", "/b", "/from"))
    site.add("/*", linking())
    hosts = [site.url, site.host(2), f"http://localhost:{site.port}"]
    site.add("/from", "", status=302, headers={"Location": f"{site.host(2)}/to"})

    result = crawl("site", settings, seeds=[f"{url}/" for url in hosts], scope="any")

    assert result.returncode == 0, result.stderr
    wanted = {f"{url}{path}" for url in hosts for path in ("/", "/a", "/b", "/from")}
    assert {row["url"] for row in result.pages} == wanted | {f"{site.host(2)}/to"}
    assert {row["schedule_status"] for row in result.pages} == {"succeeded"}
    assert {name.removesuffix(str(site.port)) for name in queues(scrapy, "site")} == names
    assert result.status["status"] == "sealed"


def test_what_the_rules_make_one_is_fetched_once_as_it_was_found(site: Site, crawl: Crawl) -> None:
    """The first spelling goes on the wire; the page has its canonical URL, and a result is counted once."""
    site.add("/", linking("/a?utm_source=x&b=1", "/a?b=1", "/a?b=1&gclid=2", "/A?b=1"))
    site.add("/*", linking())

    result = crawl("site", {"FRONTIER_CANONICAL_RULES": "tracking,lowercase_path"}, seeds=f"{site.url}/")

    assert result.returncode == 0, result.stderr
    assert [hit.path for hit in site.requests if hit.path.lower().startswith("/a")] == ["/a?utm_source=x&b=1"]
    (page,) = [row for row in result.pages if row["url"] != f"{site.url}/"]
    assert page["canonical_url"] == f"{site.url}/a?b=1"
    assert result.status["results"] == len(result.pages)


def test_tags_and_embeds(site: Site, crawl: Crawl, spider_source: Callable[[str], None]) -> None:
    """Everything found from a seed has its tag; what a page shows is fetched before what it links to."""
    site.add("/one", linking(*(f"/1/{n}" for n in range(5))) + '<img src="/1/i"><img src="/1/j">')
    site.add("/two", linking("/2/a"))
    site.add("/*", linking())

    result = crawl(
        "site",
        {"FRONTIER_SOURCE_TAG_SEEDS": True, "MAX_CONCURRENT_COUNT": 1},
        seeds=[f"{site.url}/one", f"{site.url}/two"],
        embeds=1,
    )

    assert result.returncode == 0, result.stderr
    tags = {row["url"].removeprefix(site.url): row["source_tag"] for row in result.pages}
    assert set(tags) == {"/one", "/two", "/2/a", "/1/i", "/1/j", *(f"/1/{n}" for n in range(5))}
    assert {tags[path] for path in tags if path.startswith(("/1", "/one"))} == {f"{site.url}/one"}
    assert {tags[path] for path in tags if path.startswith(("/2", "/two"))} == {f"{site.url}/two"}
    asked = [hit.path for hit in site.requests]
    assert max(asked.index("/1/i"), asked.index("/1/j")) < min(asked.index(f"/1/{n}") for n in range(1, 5))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FRONTIER_QUEUE_ASSIGNMENT", "nonsense"),
        ("FRONTIER_FORCED_QUEUE", "x" * 256),
        ("FRONTIER_HOST_GROUPS", '{"a": "b"}'),
        ("FRONTIER_HOST_GROUPS", "nonsense"),
        ("FRONTIER_CANONICAL_RULES", "www,nonsense"),
        ("FRONTIER_NOFOLLOW", "maybe"),
        ("FRONTIER_SOURCE_TAG_SEEDS", "maybe"),
    ],
)
def test_a_setting_that_makes_no_sense_ends_in_one_sentence(
    site: Site, crawl: Crawl, scrapy: Project, name: str, value: str
) -> None:
    """With exit code 2, and no crawl is made."""
    result = crawl("site", {name: value}, seeds=f"{site.url}/")
    assert result.returncode == 2
    assert f"setting {name} must be" in result.stderr
    assert "Traceback" not in result.stderr
    assert scrapy("crawls", "--json").json == []


def test_policies_are_fixed_with_the_crawl(site: Site, crawl: Crawl) -> None:
    """A crawl that is under way is not joined with others, and goes on with its own."""
    site.add("/", linking("/a", "/b"))
    site.add("/*", linking())
    own = {"FRONTIER_QUEUE_ASSIGNMENT": "surt"}
    assert crawl("site", {**own, "CLOSESPIDER_PAGECOUNT": 1}, seeds=f"{site.url}/").returncode == 0
    refused = crawl("site", {"FRONTIER_QUEUE_ASSIGNMENT": "ip"}, seeds=f"{site.url}/")
    assert refused.returncode == 2
    assert "setting FRONTIER_QUEUE_ASSIGNMENT must be surt, as this crawl has it, not 'ip'" in refused.stderr
    done = crawl("site", own, seeds=f"{site.url}/")
    assert done.returncode == 0, done.stderr
    assert done.status["status"] == "sealed"
