"""The referrer policy answers as Scrapy's own, whatever leads to whatever."""

from __future__ import annotations

from itertools import product

import pytest
from scrapy.settings import Settings
from scrapy.spidermiddlewares.referer import DefaultReferrerPolicy, RefererMiddleware

from crawlproj.referrer import ReferrerPolicy

URLS = (
    "http://site.example/page?q=1#top",
    "https://site.example/page;p?q=1#top",
    "HTTPS://site.example:443/",
    "https://user:secret@other.example:8443/a%20b",
    "http://site.example:80/",
    "ftp://site.example/file",
    "ftps://site.example/file",
    "file:///home/page.html",
    "s3://bucket/page.html",
    "data:text/html,hello",
    "about:blank",
    "httpsx://site.example/",
    "",
)


@pytest.mark.parametrize(("page", "link"), list(product(URLS, URLS)))
def test_it_sends_what_scrapys_default_sends(page: str, link: str) -> None:
    assert ReferrerPolicy().referrer(page, link) == DefaultReferrerPolicy().referrer(page, link)


def test_the_project_uses_it() -> None:
    settings = Settings()
    settings.setmodule("crawlproj.settings")

    assert isinstance(RefererMiddleware(settings).default_policy(), ReferrerPolicy)
