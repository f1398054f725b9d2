"""Three revisits of a site of 500 pages that changes between them."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from tests.crawl.support import WORDS

if TYPE_CHECKING:
    from crawlproj.testing.plugin import Crawl
    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site

PAGES = 500
CHANGED, GONE, EMPTIED, NEW = PAGES // 10, PAGES // 20, PAGES // 20, 12
LINKS = 8


class Living:
    """A site whose pages change, go, lose their text and come, and which counts what it sends."""

    def __init__(self, site: Site) -> None:
        self.url = site.url
        self.versions = dict.fromkeys(range(PAGES), 0)
        self.gone: set[int] = set()
        self.emptied: set[int] = set()
        self.sent = 0  #: bytes of bodies
        self.spared = 0  #: bytes of bodies that a 304 has stood for
        self.answers: dict[str, int] = {}
        site.add("/*", self.answer)

    def body(self, n: int) -> bytes:
        """Return a page: its links to pages further on, and its version."""
        if n in self.emptied:
            return b"<html><body></body></html>"
        # As in a tree, and across it; pages that have come since hang on those that they came with.
        links = {n * 2 + 1, n * 2 + 2, *(n * 7 + k for k in range(LINKS))}
        known = "".join(f"<a href='/{other}'>x</a>" for other in sorted(links) if other in self.versions)
        return f"<html><body>{WORDS}<p>version {self.versions[n]} of {n}</p>{known}</body></html>".encode()

    def answer(self, request: web.Request) -> web.Response:
        """Answer with a page, 304 or 404."""
        n = int(request.path[1:])
        if n in self.gone or n not in self.versions:
            self._count("404", 0)
            return web.Response(status=404)
        body = self.body(n)
        tag = f'"{hash(body)}"'
        if request.headers.get("If-None-Match") == tag:
            self.spared += len(body)
            self._count("304", 0)
            return web.Response(status=304, headers={"ETag": tag})
        self._count("200", len(body))
        return web.Response(body=body, content_type="text/html", headers={"ETag": tag})

    def _count(self, status: str, size: int) -> None:
        self.answers[status] = self.answers.get(status, 0) + 1
        self.sent += size

    def live_on(self, chance: random.Random) -> dict[str, set[int]]:
        """Change as much as is said above; return the numbers of the pages, by what becomes of them."""
        # The front page stays, and those with new links count among the changed ones.
        there = [n for n in sorted(self.versions) if n and n not in self.gone and n not in self.emptied]
        first_new = len(self.versions)
        coming = set(range(first_new, first_new + NEW))
        parents = {(n - 1) // 2 for n in coming} & set(there)
        assert parents, "somebody has to link to them"
        others = [n for n in there if n not in parents]
        chosen = chance.sample(others, CHANGED - len(parents) + GONE + EMPTIED)
        gone, emptied = set(chosen[:GONE]), set(chosen[GONE : GONE + EMPTIED])
        changed = set(chosen[GONE + EMPTIED :]) | parents
        before = {n: self.body(n) for n in there}
        for n in changed:
            self.versions[n] += 1
        self.gone |= gone
        self.emptied |= emptied
        self.versions |= dict.fromkeys(coming, 0)
        # A page that links to a new one by chance has changed, too.
        changed |= {n for n in there if n not in gone | emptied and self.body(n) != before[n]}
        return {"new": coming, "gone": gone, "changed": changed, "emptied": emptied}


@pytest.mark.timeout(300)
def test_three_revisits(site: Site, crawl: Crawl, scrapy: Project) -> None:
    """Every run has the counts that it must have, a 304 costs no body, `scrapy diff` says what there was."""
    living, chance = Living(site), random.Random(5)
    settings = {"CRAWL_NAME": "site", "HOST_MAX_IN_FLIGHT": 16, "ROBOTSTXT_OBEY": False}
    events: list[dict[str, set[int]]] = [{}]
    for run in (1, 2, 3, 4):
        if run > 1:
            events.append(living.live_on(chance))
        living.answers, living.sent, living.spared = {}, 0, 0
        result = crawl("site", settings, seeds=site.url + "/0")
        assert result.returncode == 0, result.stderr
        assert result.status["run"] == run
        known = len(living.versions)
        there = known - len(living.gone) - len(living.emptied)
        # An empty page is asked for whole. One that is new, or has changed, is done.
        done = known if run == 1 else len(events[-1]["changed"]) + NEW
        assert result.status["counts"]["fetch_status"] == {
            "done": done,
            "not_modified": there - done,
            "empty": len(living.emptied),
            "failed": len(living.gone),
        }
        assert result.status["started_targets"] == known
        expected = {"200": done + len(living.emptied), "304": there - done, "404": len(living.gone)}
        assert living.answers == {status: n for status, n in expected.items() if n}
        saved = re.search(r"'page/bytes_saved': (\d+)", result.stderr)
        assert (int(saved[1]) if saved else 0) == living.spared
        assert run == 1 or living.spared > 4 * living.sent
    for run in (2, 3, 4):
        told = scrapy("diff", "site", str(run - 1), str(run), "--json")
        rows = told.json
        found = {
            change: {int(row["url"].rpartition("/")[2]) for row in rows if row["change"] == change}
            for change in ("new", "gone", "changed", "emptied")
        }
        assert found == events[run - 1]
        assert len(rows) == sum(map(len, found.values()))
        before = PAGES + (run - 2) * (NEW - GONE)
        assert f"· {before - GONE - EMPTIED - len(found['changed'])} unchanged\n" in told.stderr
