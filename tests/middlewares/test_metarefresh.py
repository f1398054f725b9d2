"""A page that leads elsewhere by its head does so as in Scrapy, and no other page is decoded for it."""

from __future__ import annotations

import pytest
from scrapy import Request
from scrapy.downloadermiddlewares.redirect import MetaRefreshMiddleware as ScrapyMetaRefreshMiddleware
from scrapy.http import HtmlResponse
from scrapy.spiders import Spider
from scrapy.utils.test import get_crawler

from middlewares.metarefresh import MetaRefreshMiddleware

URL = "http://site.test/"
REFRESH = '<meta http-equiv="refresh" content="0; url=/next">'


def made(kind: type[ScrapyMetaRefreshMiddleware]) -> ScrapyMetaRefreshMiddleware:
    crawler = get_crawler(Spider)
    crawler.spider = crawler._create_spider("leading")
    return kind.from_crawler(crawler)


def led(kind: type[ScrapyMetaRefreshMiddleware], body: bytes, encoding: str = "utf-8") -> str:
    """Return where a page leads."""
    response = HtmlResponse(URL, body=body, encoding=encoding)
    return made(kind).process_response(Request(URL), response).url


@pytest.mark.parametrize(
    ("text", "encoding", "where"),
    [
        (REFRESH, "utf-8", "next"),
        (REFRESH.upper().replace("/NEXT", "/next"), "utf-8", "next"),
        (REFRESH, "utf-16-le", "next"),
        (REFRESH, "utf-32-be", "next"),
        ("é" * 4000 + REFRESH, "utf-8", "next"),
        ("\U0001f600" * 4000 + REFRESH, "utf-8", "next"),
        ("x" * 4096 + REFRESH, "utf-8", ""),
        ("<p>refresh yourself</p>", "utf-8", ""),
        ("<p>a page</p>", "utf-8", ""),
        ("", "utf-8", ""),
    ],
)
def test_pages_lead_where_scrapy_follows(text: str, encoding: str, where: str) -> None:
    """Whatever the case and the encoding of the tag; Scrapy looks at 4096 characters."""
    body = text.encode(encoding)
    assert led(MetaRefreshMiddleware, body, encoding) == URL + where
    assert led(ScrapyMetaRefreshMiddleware, body, encoding) == URL + where


def test_a_page_without_the_word_is_not_decoded() -> None:
    """Decoding it is what this middleware saves."""

    class Undecoded(HtmlResponse):
        @property
        def text(self) -> str:
            raise AssertionError

    response = Undecoded(URL, body=b"<p>a page</p>", encoding="utf-8")
    assert made(MetaRefreshMiddleware).process_response(Request(URL), response) is response
