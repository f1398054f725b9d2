"""Links of a page: which there are, and which a crawl follows."""

from __future__ import annotations

import re

import ada_url
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy.http import HtmlResponse, TextResponse

from crawlproj.domains import registered_domain
from crawlproj.pages.links import _PLAIN_PATH, LinkScope, extract_links

HERE = "http://www.site.test/dir/page"
EVERYWHERE = LinkScope("any", (HERE,))


def links(html: str, scope: LinkScope = EVERYWHERE, url: str = HERE) -> list[str]:
    """Return the links of *html* as a page at *url*."""
    return list(extract_links(HtmlResponse(url, body=html, encoding="utf-8"), scope))


@pytest.mark.parametrize(
    ("href", "found"),
    [
        ("/a/b.html?x=1&y=2", "http://www.site.test/a/b.html?x=1&y=2"),
        ("c", "http://www.site.test/dir/c"),
        ("../d", "http://www.site.test/d"),
        (" e ", "http://www.site.test/dir/e"),
        ("//other.test/f", "http://other.test/f"),
        ("HTTPS://OTHER.test:443/g", "https://other.test/g"),
        ("/h#part", "http://www.site.test/h"),
        ("/./i/../j", "http://www.site.test/j"),
        ("?k=1", "http://www.site.test/dir/page?k=1"),
        ("/sp ace", "http://www.site.test/sp%20ace"),
        ("/ü", "http://www.site.test/%C3%BC"),
        ("#part", None),
        ("", None),
        ("mailto:a@b.test", None),
        ("javascript:void(0)", None),
        ("data:text/html,x", None),
        ("http://", None),
        ("/file.PDF", None),
        ("/get?file=x.pdf", "http://www.site.test/get?file=x.pdf"),
    ],
)
def test_links_are_resolved_as_a_browser_does(href: str, found: str | None) -> None:
    """One href, one URL in its wire form, or none."""
    assert links(f'<a href="{href}">x</a>') == ([found] if found else [])


@given(st.from_regex(_PLAIN_PATH, fullmatch=True))
def test_the_short_way_is_the_long_way(path: str) -> None:
    """What is taken for a plain path is what resolving it would give."""
    assert ada_url.join_url(HERE, path) == "http://www.site.test" + path


def test_base_areas_order_and_repeats() -> None:
    """`<base>` counts, areas count, each link once, anchors first in their order."""
    html = '<base href="/b/"><map><area href="z"></map><a href="2">x</a><a href="1">x</a><a href="2">x</a>'
    assert links(html) == [f"http://www.site.test/b/{name}" for name in ("2", "1", "z")]


def test_what_is_no_html_has_no_links() -> None:
    """Text with tags in it is text."""
    assert extract_links(TextResponse(HERE, body=b'<a href="/x">'), EVERYWHERE) == ()


@pytest.mark.parametrize(
    ("scope", "inside", "outside"),
    [
        (LinkScope("host", ("http://site.test/",)), "http://www.site.test/x", "http://blog.site.test/x"),
        (LinkScope("host", ("http://site.test:81/",)), "http://site.test:81/x", "http://site.test/x"),
        (LinkScope("domain", ("http://a.site.co.uk/",)), "https://b.site.co.uk/", "https://other.co.uk/"),
        (LinkScope("any", ("http://a/",), allow=re.compile("/in/")), "http://b/in/x", "http://b/out/x"),
        (LinkScope("any", ("http://a/",), deny=re.compile("/p")), "http://b/x", "http://b/p"),
    ],
)
def test_scope(scope: LinkScope, inside: str, outside: str) -> None:
    """Host (with or without www), domain, allow and deny; deny wins."""
    assert inside in scope
    assert outside not in scope


def test_a_host_without_a_registered_domain_is_its_own() -> None:
    """Addresses and single names are compared whole."""
    for host in ("127.0.0.1", "localhost", "[::1]"):
        assert registered_domain(host) is None
        scope = LinkScope("domain", (f"http://{host}:8080/",))
        assert f"http://{host}/x" in scope
        assert "http://127.0.0.2/" not in scope
