"""Whoever listens to a crawl's life hears all of it, and cannot hold it up."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

from tests.crawl.support import linking, status

if TYPE_CHECKING:
    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site

DOCS = Path(__file__).parents[2] / "docs"

HANGING = """
import asyncio
from crawlproj.signals import crawl_completed, crawl_start

class Hanging:
    @classmethod
    def from_crawler(cls, crawler):
        self = cls()
        for signal in (crawl_start, crawl_completed):
            crawler.signals.connect(self.hang, signal=signal)
        return self

    async def hang(self):
        await asyncio.Event().wait()
"""


def test_an_audit_log_and_a_webhook(site: Site, scrapy: Project, tmp_path: Path) -> None:
    """The documented services, as they stand there; what hangs beside them costs time alone."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "how-to/events.md").read_text(), re.DOTALL)
    (tmp_path / "audit.py").write_text("\n".join(blocks) + HANGING)
    scrapy.env["PYTHONPATH"] = str(tmp_path)
    posted: list[object] = []

    async def hook(request: web.Request) -> str:
        posted.append(await request.json())
        return ""

    site.add("/", linking("/1"))
    site.add("/1", linking())
    site.add("/hook", hook)
    log = tmp_path / "audit.jsonl"
    done = scrapy(
        "crawl", "site", "-a", f"seeds={site.url}/",
        settings={
            "CRAWL_NAME": "watched", "MIN_INTERVAL_MS": 0, "CRAWL_PHASE_SECONDS": 2,
            "AUDIT_LOG": str(log), "WEBHOOK": f"{site.url}/hook",
            "EXTENSIONS": json.dumps({"audit.AuditLog": 1, "audit.Webhook": 2, "audit.Hanging": 3}),
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for kind in ("crawl_start", "crawl_completed"):
        assert f"Those who listen to {kind} take longer" in done.stderr
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(event["kind"], event["reason"], event["through"]) for event in events] == [
        ("crawl_setup", None, False),
        ("crawl_start", None, False),
        ("crawl_cleanup", "finished", False),
        ("crawl_completed", "finished", True),
    ]
    assert {(event["crawl"], event["run"], event["spider"], event["epoch"]) for event in events} == {
        ("watched", 1, "site", 1)
    }
    assert events[-1]["counts"] == {"started_targets": 2, "results": 2, "queued": 0, "dead": 0}
    assert posted == [{"text": "watched, run 1: done"}]
    assert status(scrapy, "watched")["status"] == "sealed"
