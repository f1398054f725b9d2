"""Tags of pages that no parser is to see."""

from __future__ import annotations

import time

import pytest
from scrapy.http import HtmlResponse

from crawlproj.items import Links
from crawlproj.pages.flat import FlatTree
from crawlproj.pages.links import FLAT, LinkRules, LinkScope, extract_links

URL = "http://e.test/a/"
SCOPE = LinkScope(scope="host", seeds=(URL,))
PAGE = """
<html><head><base href="/b/"><meta name=robots content="index">
<style>a { content: "<a href=/style>" }</style><script>document.write('<a href="/script">')</script>
<script src="/app.js"></script></head>
<body><!-- <a href="/comment">no</a> -->
<a href="one">1</a><A HREF='two?a=1&amp;b=2'>2</A><a class="x" data-y
 href=/three>3</a><a/href=/four>4</a><area href="/five"><a name="six">6</a><abbr href="/seven">7</abbr>
<a rel="nofollow" href="/eight">8</a><a href="/nine" href="/ten">9</a><a href="one">1</a><img src="/i.png">
"""


def links(html: str, *flags: str, **rules: int) -> Links:
    """Return the links of a page, by a parser or without."""
    response = HtmlResponse(URL, body=html.encode(), encoding="utf-8", flags=list(flags))
    return extract_links(response, SCOPE, LinkRules(**rules), embeds=True)


def test_an_ordinary_page_has_the_same_links_as_by_a_parser() -> None:
    """Comments, scripts, quotes, entities, base, nofollow and what a page shows."""
    assert links(PAGE, FLAT) == links(PAGE)
    assert len(links(PAGE).urls) == 6


def test_a_page_may_forbid_to_follow_its_links() -> None:
    """As it may to a parser."""
    assert links(PAGE.replace("index", "nofollow"), FLAT).urls == ()


ODD = {
    "nested": "<div>" * 390_000 + "<a href=/x>",
    "attributes": "<a " + " ".join(f"a{n}=1" for n in range(200_000)) + " href=/no><a href=/x>",
    "links without end": "<a " * 600_000 + "<a href=/x>",
    "quotes without end": "<a href='" * 200_000 + "'><a href=/x>",
    "comments without end": "<a href=/x>" + "<!--" * 500_000,
    "scripts without end": "<a href=/x>" + "<script>" * 250_000,
    "script tags without end": "<script " * 240_000 + "<a href=/x>",
    "equals signs": "<a " + "=" * 4000 + ">" + "<a " + "a=" * 900 + "><a href=/x>",
}


@pytest.mark.parametrize("html", ODD.values(), ids=ODD)
def test_an_odd_page_takes_no_longer_than_its_length(html: str) -> None:
    """What a parser works on for minutes is done in a moment."""
    began = time.thread_time()
    assert links(html, FLAT).urls == ("http://e.test/x",)
    assert time.thread_time() - began < 2  # seconds; 0.1 on a quiet machine


def test_no_more_links_are_taken_than_may_be() -> None:
    """Neither found, nor looked at: twice and three times as many as the crawl takes of a page."""
    many = "".join(f"<a href='/{n}'>" for n in range(100))
    for flags in ((), (FLAT,)):
        assert len(links(many, *flags, most=10).urls) == 20
        assert len(links("<a href='/x'>" * 29 + many, *flags, most=10).urls) == 2


def test_values_are_what_stands_between_the_quotes() -> None:
    """The first of a name counts."""
    (tag,) = FlatTree("""<a href='x"y' title="it's" class=z a href=no>""").tags("a")
    assert tag.attributes == {"href": 'x"y', "title": "it's", "class": "z", "a": ""}
