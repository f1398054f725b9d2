"""The project runs from a zipped egg, as scrapyd runs it: no checkout, no scrapy.cfg."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from crawlproj.demo import EXPECTED
from crawlproj.testing import project
from crawlproj.testing.site import Hits
from tests.crawl.test_demo_site import FAST, found, outcome, wanted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from crawlproj.demo import DemoSite

# An editable install would lend the checkout's files to an egg that lacks them.
RUNNER = """
import atexit, os, sys

sys.meta_path = [each for each in sys.meta_path if "__editable__" not in getattr(each, "__module__", "")]
sys.path_hooks = [each for each in sys.path_hooks if "__editable__" not in getattr(each, "__module__", "")]

def strangers():
    tops = ("crawlproj", "middlewares", "extensions", "pipelines", "spiders")
    for name, module in sys.modules.items():
        where = getattr(module, "__file__", None) or ""
        if name.partition(".")[0] in tops and where and not where.startswith(os.environ["EGG"]):
            print("not from the egg:", name, where, file=sys.stderr)

atexit.register(strangers)
from scrapy.cmdline import execute
execute()
"""


@pytest.fixture
def deployed(egg: Path, tmp_path: Path, redis_url: str, database_url: str) -> Iterator[project.Project]:
    """The project, zipped, on the path of an empty folder."""
    empty = tmp_path / "empty"
    empty.mkdir()
    runner = tmp_path / "runner.py"
    runner.write_text(RUNNER)
    commands = project.Project(
        empty,
        work=tmp_path,
        env={
            "REDIS_URL": redis_url,
            "DATABASE_URL": database_url,
            "CRAWLPROJ_HOME": str(tmp_path / "home"),
            "SCRAPY_SETTINGS_MODULE": "crawlproj.settings",
            "PYTHONPATH": str(egg),
            "EGG": str(egg),
        },
        command=(sys.executable, "-P", str(runner)),
    )
    yield commands
    commands.close()


def test_an_egg_lists_its_spiders(deployed: project.Project) -> None:
    """`scrapy list`, which scrapyd calls at every deploy, finds the spiders and starts nothing."""
    listed = deployed("list")
    assert (listed.returncode, "site" in listed.stdout.split()) == (0, True), listed.stderr
    assert "not from the egg" not in listed.stderr
    assert not (deployed.work / "home").exists()


@pytest.mark.timeout(180)
def test_an_egg_crawls(deployed: project.Project, demo_site: DemoSite) -> None:
    """A whole crawl and a command after it need no file that the egg does not hold."""
    crawled = project.crawl(deployed, Hits(), "site", FAST, seeds=demo_site.url + "/")

    assert crawled.returncode == 0, crawled.stderr
    assert "not from the egg" not in crawled.stderr
    outcomes = {path: outcome(row) for path, row in found(crawled, demo_site).items()}
    assert outcomes == {path: wanted(expected) for path, expected in EXPECTED.items()}
    assert crawled.status["status"] == "sealed"
