"""Whole crawls whose bodies lie outside of the database."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import psycopg
import pytest
import zstandard

from crawlproj.testing.project import TIMEOUT
from tests.crawl.support import linking, poll

if TYPE_CHECKING:
    from pathlib import Path

    from crawlproj.testing.plugin import Crawl
    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "bodies"


def stored(folder: Path) -> dict[str, bytes]:
    """Return the bodies of a folder by their names."""
    return {path.stem: zstandard.decompress(path.read_bytes()) for path in folder.rglob("*.zst")}


def referred(database_url: str) -> set[str]:
    """Return the names of the bodies that rows say are elsewhere."""
    with psycopg.connect(database_url) as connection:
        query = "SELECT encode(body_hash, 'hex') FROM body WHERE store IS NOT NULL"
        return {name for (name,) in connection.execute(query)}


def body(scrapy: Project, url: str) -> str:
    """Return what `scrapy page --body` prints."""
    done = scrapy("page", url, "--body")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_bodies_lie_where_the_setting_says(
    site: Site, crawl: Crawl, scrapy: Project, folder: Path, database_url: str
) -> None:
    """Each distinct body is one file, read back from there; with the setting changed, it still is."""
    page = linking("/same", "/other")
    site.add("/", page)
    site.add("/same", page)
    site.add("/other", linking())
    store = {"CRAWL_NAME": "kept", "BODY_STORE": f"file://{folder}"}
    assert crawl("site", store, seeds=site.url + "/").returncode == 0
    kept = stored(folder)
    assert sorted(kept.values()) == sorted(
        [b"", page.encode(), linking().encode()]
    )  # the empty one: the check
    assert referred(database_url) == {name for name, content in kept.items() if content}
    assert body(scrapy, site.url + "/same") == page
    site.add("/other", linking("/"))
    assert crawl("site", {"CRAWL_NAME": "kept"}, seeds=site.url + "/").returncode == 0
    assert stored(folder) == kept
    assert body(scrapy, site.url + "/other") == linking("/")
    assert body(scrapy, site.url + "/same") == page
    for path in folder.rglob("*.zst"):
        path.unlink()
    done = scrapy("page", site.url + "/same", "--body")
    assert (done.returncode, done.stdout) == (5, "")
    assert "there is no body" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_place_that_is_away_is_waited_for(site: Site, scrapy: Project, folder: Path) -> None:
    """One warning, no page without its body, and the crawl goes on when the place is back."""
    for n in range(20):
        site.add(f"/{n}", linking(f"/{n + 1}"), delay=0.1)
    settings = {"CRAWL_NAME": "away", "BODY_STORE": f"file://{folder}", "MIN_INTERVAL_MS": 0}
    process = scrapy.start("crawl", "site", "-a", f"seeds={site.url}/0", settings=settings)
    assert poll(lambda: len(site.requests) > 5)
    folder.rename(folder.with_name("elsewhere"))
    folder.touch()  # what stands in a folder's place takes no files
    time.sleep(2)  # the outage
    assert len(site.requests) < 18  # nothing is reported, and a page leads to the next one only when it is
    folder.unlink()
    folder.with_name("elsewhere").rename(folder)
    stderr = process.communicate(timeout=TIMEOUT)[1]
    assert process.returncode == 0, stderr
    assert stderr.count("Bodies cannot be kept") == 1
    assert stderr.count("Bodies can be kept again") == 1
    pages = scrapy("pages", "away", "--json").json
    assert [page["fetch_status"] for page in pages].count("done") == 20
    assert len(stored(folder)) == 21


def test_kill_9_between_body_and_commit(site: Site, scrapy: Project, folder: Path, database_url: str) -> None:
    """The page is fetched again; every body that a row names is there, and none is there twice."""
    site.add("/", linking())
    settings = {"CRAWL_NAME": "killed", "BODY_STORE": f"file://{folder}", "MIN_INTERVAL_MS": 0}
    settings["LEASE_SECONDS"] = 2
    arguments = ("crawl", "site", "-a", f"seeds={site.url}/")
    with psycopg.connect(database_url) as connection:
        connection.execute("LOCK TABLE page IN EXCLUSIVE MODE")
        process = scrapy.start(*arguments, settings=settings)
        assert poll(lambda: linking().encode() in stored(folder).values())
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert referred(database_url) == set()
    done = scrapy(*arguments, settings=settings)
    assert done.returncode == 0, done.stderr
    assert len(site.hits["/"]) == 2
    assert body(scrapy, site.url + "/") == linking()
    (name,) = referred(database_url)
    assert stored(folder)[name] == linking().encode()
    assert len(stored(folder)) == 2
    assert not list(folder.rglob("*.part"))


def test_a_place_that_cannot_be_used_stops_before_anything_is_fetched(site: Site, scrapy: Project) -> None:
    """One sentence and exit code 2, from the process that a shell sees."""
    for address in ("file:///proc/bodies", "nosuch://bodies", "s3://bucket/bodies"):
        done = scrapy("crawl", "site", "-a", f"seeds={site.url}/", settings={"BODY_STORE": address})
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1, done.stderr
        assert "BODY_STORE" in done.stderr
    assert site.requests == []
