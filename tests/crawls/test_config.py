"""What of a crawl is kept with its run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from scrapy.crawler import Crawler
from scrapy.settings import Settings

from crawlproj.config import Config
from crawlproj.crawls import config as crawls_config
from crawlproj.crawls.config import (
    CrawlConfig,
    crawl_config,
    differing,
    remember_arguments,
    typed_settings,
)
from spiders.site import SiteSpider


def settings_of(**typed: Any) -> Settings:
    settings = Settings()
    settings.setmodule("crawlproj.settings")
    settings.setdict(typed, priority="cmdline")
    return settings


def kept(arguments: dict[str, str], *, remembered: bool = True, **typed: Any) -> dict[str, Any]:
    """Return what is kept of a crawl with the site spider."""
    settings = settings_of(**typed)
    crawler = Crawler(SiteSpider, settings)
    spider = SiteSpider.from_crawler(crawler, **arguments)
    if remembered:
        remember_arguments(crawler, arguments)
    return crawl_config(spider, settings, Config.from_settings(settings))


def test_what_is_kept():
    """Arguments and settings as they were given, and the rules under names of their own."""
    arguments = {"seeds": "https://a.example/ http://b.example/", "depth": "2", "deny": "[?&]token=.*"}
    found = kept(
        arguments,
        MAX_TARGET="7",
        CRAWL_ALLOW='["a.example"]',
        CRAWL_DENY="(x)\n(y)",
        MAX_DEPTH="3",
        COOKIES_ENABLED="False",
        FRONTIER_RECOVERY_LOG="False",
    )
    assert found == {
        "arguments": arguments,
        "settings": {"COOKIES_ENABLED": "False", "FRONTIER_RECOVERY_LOG": "False", "MAX_TARGET": "7"},
        "allow": ["a.example"],
        "deny": ["(x)", "(y)"],
        "max_depth": 3,
        "redacted": [],
        "recovery_log": False,
    }
    assert CrawlConfig.from_json(found).as_json() == found


def test_what_belongs_to_a_process_is_not_kept():
    """Where the servers are, how it logs, who it is: another machine has its own."""
    found = kept(
        {"seeds": "https://a.example/", "_job": "1f"},
        REDIS_URL="redis://:pw@r.example",
        DATABASE_URL="postgresql://d.example",
        CRAWLPROJ_HOME="/tmp/x",
        WORKER_ID="w",
        CRAWL_NAME="news",
        CRAWL_JOIN="0",
        LOG_LEVEL="DEBUG",
        LOG_FILE="/tmp/log",
        FEEDS={"x.jsonl": {}},
        PROGRESS_ENABLED="False",
        JOBDIR="/tmp/job",
        LEAVE_WHEN_PAUSED="True",
    )
    assert found["settings"] == {}
    assert found["arguments"] == {"seeds": "https://a.example/"}
    assert found["redacted"] == []


def test_settings_of_the_project_are_not_kept():
    """Only what was given for this crawl; the rest is that of whoever goes on."""
    settings = settings_of()
    settings.set("MAX_TARGET", 5, "project")
    settings.set("MAX_RESULT", 5, "spider")
    assert crawls_config.typed_settings(settings) == {}


def test_secrets_are_not_kept():
    """What is called a secret, or has one in it, is left out and told by its name."""
    found = CrawlConfig.of(
        {"api_key": "hunter2", "seeds": "https://u:hunter2@a.example/ http://b.example/", "tag": "x"},
        settings_of(FTP_PASSWORD="hunter2", MY_HEADER="Authorization: Bearer hunter2", MAX_TARGET="7"),
        Config.from_settings(settings_of()),
    )
    assert "hunter2" not in str(found.as_json())
    assert found.redacted == ("api_key", "seeds", "FTP_PASSWORD", "MY_HEADER")
    assert found.arguments == {"api_key": "***", "seeds": "https://a.example/ http://b.example/", "tag": "x"}
    assert found.settings["MAX_TARGET"] == "7"


def test_seeds_of_a_file_are_kept(tmp_path, monkeypatch):
    """The URLs of a file, not its name: another machine has no such file. Of too many the name is kept."""
    file = tmp_path / "seeds.txt"
    file.write_text("https://a.example\n# not this\n\nhttps://b.example/a b\n")
    found = kept({"seeds": f"@{file}"})
    assert found["arguments"]["seeds"] == "https://a.example/\nhttps://b.example/a%20b"
    assert SiteSpider(**found["arguments"]).start_urls == ["https://a.example/", "https://b.example/a%20b"]
    monkeypatch.setattr(crawls_config, "MOST_SEEDS", 10)
    assert kept({"seeds": f"@{file}"})["arguments"]["seeds"] == f"@{file}"


def test_spider_that_was_started_otherwise():
    """Of a crawl from a script its spider's own words are kept."""
    found = kept({"seeds": "https://a.example/"}, remembered=False)
    assert found["arguments"] == {"seeds": "https://a.example/", "scope": "host"}


@pytest.mark.parametrize("row", [{}, {"arguments": {"seeds": "s"}, "recovery_log": False}])
def test_config_of_an_older_row(row):
    """A row that was made before there was more reads as one without rules."""
    found = CrawlConfig.from_json(row)
    assert (found.arguments, found.recovery_log) == (row.get("arguments", {}), row.get("recovery_log", True))
    assert (found.allow, found.deny, found.max_depth, found.seeds, found.redacted) == ((), (), None, (), ())


def test_what_a_worker_wants_otherwise():
    """Arguments that are others, missing or more; lists only where the worker brings some."""
    kept = {"arguments": {"seeds": "a", "depth": "1"}, "allow": [], "deny": ["x"], "max_depth": None}
    same = {"arguments": {"seeds": "a", "depth": "1"}, "allow": [], "deny": [], "max_depth": None}
    assert differing(same, kept) == []
    other = {"arguments": {"seeds": "b", "deny": "c"}, "allow": ["y"], "deny": ["x"], "max_depth": 3}
    assert differing(other, kept) == ["deny", "depth", "seeds", "CRAWL_ALLOW", "MAX_DEPTH"]
    assert differing(same, {}) == ["depth", "seeds"]


def test_a_setting_that_is_a_dictionary():
    """It is kept as one, and taken back as it was given: as JSON on the command line, say."""
    given = {"EXTENSIONS": '{"a.B": 5}', "DOWNLOAD_HANDLERS": {"ftp": None}}
    typed = typed_settings(settings_of(**given))
    assert typed == {"EXTENSIONS": {"a.B": 5}, "DOWNLOAD_HANDLERS": {"ftp": None}}
    back = settings_of(**json.loads(json.dumps(typed)))
    assert back.getdict("EXTENSIONS") == {"a.B": 5}
