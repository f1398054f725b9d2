"""The next run of a crawl asks for what has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from tests.crawl.support import linking

if TYPE_CHECKING:
    from crawlproj.testing.plugin import Crawl
    from crawlproj.testing.site import Site


def test_unchanged_pages_keep_their_links(site: Site, crawl: Crawl) -> None:
    """A 304 brings the stored links in again, also those that another page had brought in before."""
    bodies = {"/": linking("/a", "/b"), "/a": linking("/b", "/c"), "/b": linking("/c"), "/c": linking("/")}

    def answer(request: web.Request) -> web.Response:
        tag = f'"{hash(bodies[request.path])}"'
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers={"ETag": tag})
        return web.Response(text=bodies[request.path], content_type="text/html", headers={"ETag": tag})

    for path in bodies:
        site.add(path, answer)
    first = crawl("site", {"CRAWL_NAME": "again"}, seeds=site.url + "/")
    assert first.status["counts"]["fetch_status"] == {"done": 4, "not_modified": 0, "empty": 0, "failed": 0}

    bodies["/"] = linking("/a")  # /b and /c can be reached through what has not changed alone
    second = crawl("site", {"CRAWL_NAME": "again"}, seeds=site.url + "/")
    assert second.returncode == 0, second.stderr
    assert second.status["run"] == 2
    assert second.status["counts"]["fetch_status"] == {"done": 1, "not_modified": 3, "empty": 0, "failed": 0}
    assert {row["url"] for row in second.pages if row["health_signal"] is None} == {
        site.url + path for path in ("/a", "/b", "/c")
    }


def test_an_empty_page_is_asked_for_whole(site: Site, crawl: Crawl) -> None:
    """The validators of an empty page are never sent: whether it is filled now must be seen."""
    site.add("/", "<html><body></body></html>", headers={"ETag": '"nothing"'})
    for _ in range(2):
        result = crawl("site", {"CRAWL_NAME": "empty"}, seeds=site.url + "/")
        assert result.page("/")["fetch_status"] == "empty"
    assert ["If-None-Match" in hit.headers for hit in site.requests if hit.path == "/"] == [False, False]


def test_a_page_that_was_done_and_is_empty_may_come_back(site: Site, crawl: Crawl) -> None:
    """It is asked for with the validators of its done content, not those of the empty answer, nor none."""
    now = ['"full"', linking()]

    def answer(request: web.Request) -> web.Response:
        tag, body = now
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers={"ETag": tag})
        return web.Response(text=body, content_type="text/html", headers={"ETag": tag})

    site.add("/", answer)
    for tag, body, status in (
        ('"full"', linking(), "done"),
        ('"nothing"', "<html><body></body></html>", "empty"),
        ('"nothing"', "<html><body></body></html>", "empty"),
        ('"full"', linking(), "not_modified"),
    ):
        now[:] = tag, body
        result = crawl("site", {"CRAWL_NAME": "again"}, seeds=site.url + "/")
        assert result.page("/")["fetch_status"] == status, result.stderr
    sent = [hit.headers.get("If-None-Match") for hit in site.requests if hit.path == "/"]
    assert sent == [None, '"full"', '"full"', '"full"']


def test_without_a_recovery_log_every_page_is_asked_for_whole(site: Site, crawl: Crawl) -> None:
    """A run that kept no links is revisited without validators: a 304 would end the crawl at its seeds."""
    for path, links in {"/": ["/a"], "/a": ["/b"], "/b": []}.items():
        site.add(path, linking(*links), headers={"ETag": '"1"'})
    settings = {"CRAWL_NAME": "forgetful", "FRONTIER_RECOVERY_LOG": "false"}
    for run in (1, 2):
        result = crawl("site", settings, seeds=site.url + "/")
        assert (result.returncode, result.status["run"]) == (0, run), result.stderr
        assert result.status["counts"]["fetch_status"]["done"] == 3
    assert not any("If-None-Match" in hit.headers for hit in site.requests)
