"""Links of a page: which there are, and which a crawl follows."""

from __future__ import annotations

import re

import ada_url
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy.http import HtmlResponse, TextResponse

from crawlproj.domains import registered_domain
from crawlproj.items import Links
from crawlproj.pages.links import _PLAIN_PATH, LinkRules, LinkScope, extract_links

HERE = "http://www.site.test/dir/page"
EVERYWHERE = LinkScope("any", (HERE,))


def links(html: str, scope: LinkScope = EVERYWHERE, url: str = HERE) -> list[str]:
    """Return the links of *html* as a page at *url*."""
    return list(extract_links(HtmlResponse(url, body=html, encoding="utf-8"), scope).urls)


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
    assert extract_links(TextResponse(HERE, body=b'<a href="/x">'), EVERYWHERE) == Links(())


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


def read(
    html: str, *, scope: LinkScope = EVERYWHERE, headers: dict[str, str] | None = None, **rules: object
) -> Links:
    """Return the links and embeds of *html* as a page with these headers."""
    response = HtmlResponse(HERE, body=html, encoding="utf-8", headers=headers or {})
    return extract_links(response, scope, LinkRules(**rules), embeds=True)  # type: ignore[arg-type]


def names(urls: tuple[str, ...]) -> list[str]:
    """Return URLs without what all of them have."""
    return [url.removeprefix("http://www.site.test/") for url in urls]


def test_a_site_may_ask_not_to_follow_a_link() -> None:
    """By `rel`, among other words, in any case; words that only look like it do not count."""
    html = (
        "<a href=/1 rel=nofollow>x</a><a href=/2 rel='noopener NoFollow'>x</a>"
        "<a href=/3 rel='nofollows'>x</a>"
        "<area href=/4 rel=nofollow><a href=/5 rel='me no-follow'>x</a><a href=/6 rel>x</a><a href=/3>x</a>"
    )
    assert names(read(html).urls) == ["3", "5", "6"]
    assert names(read(html, obey_nofollow=False).urls) == ["1", "2", "3", "5", "6", "4"]


@pytest.mark.parametrize(
    ("head", "header", "follows"),
    [
        ("", None, True),
        ('<meta name="robots" content="nofollow">', None, False),
        ('<meta name=" ROBOTS " content="noarchive, NoFollow ">', None, False),
        ('<meta name="robots" content="none">', None, False),
        ('<meta name="robots" content="noindex">', None, True),
        ('<meta name="robots">', None, True),
        ('<meta name="otherbot" content="nofollow">', None, True),
        ('<meta property="robots" content="nofollow">', None, True),
        ('<meta name="description" content="nofollow">', None, True),
        ("", "nofollow", False),
        ("", "noindex, NOFOLLOW", False),
        ("", "none", False),
        ("", "noindex, unavailable_after: 1 Jan 2030, nofollow", False),
        ("", "unavailable_after: 1 Jan 2030, nofollow", False),
        ("", "max-snippet: 5, nofollow", False),
        ("", "otherbot: nofollow", True),
        ("", "otherbot: noindex, nofollow", True),
        ("", "index, follow", True),
    ],
)
def test_a_page_may_ask_not_to_be_followed(head: str, header: str | None, follows: bool) -> None:
    """In its head or in a header, not in the name of another robot; what it shows is no link."""
    html = f"<head>{head}</head><a href=/a>x</a><img src=/i.png>"
    headers = {} if header is None else {"X-Robots-Tag": header}
    found = read(html, headers=headers)
    assert names(found.urls) == (["a"] if follows else [])
    assert names(found.embeds) == ["i.png"]
    assert names(read(html, headers=headers, obey_nofollow=False).urls) == ["a"]


def test_several_headers_are_one() -> None:
    """As RFC 9110 has it: each with its own robot."""
    headers = {"X-Robots-Tag": ["otherbot: noindex", "nofollow"]}
    assert read("<a href=/a>x</a>", headers=headers).urls == ()  # type: ignore[arg-type]


def test_which_files_are_no_pages_can_be_chosen() -> None:
    """By default what Scrapy's link extractors leave out; none at all; or others."""
    html = "<a href=/a.pdf>x</a><a href=/b.HTML>x</a><a href=/c.d/e>x</a><a href=/>x</a>"
    assert names(read(html).urls) == ["b.HTML", "c.d/e", ""]
    assert names(read(html, ignored_extensions=frozenset()).urls) == ["a.pdf", "b.HTML", "c.d/e", ""]
    assert names(read(html, ignored_extensions=frozenset({"html", "d", "test"})).urls) == [
        "a.pdf",
        "c.d/e",
        "",
    ]


def test_what_a_page_shows() -> None:
    """Styles and icons first, then images and scripts; each once, from the base, and nothing else."""
    html = """<head><base href="/b/"><link rel="Stylesheet" href="s.css">
    <link rel="shortcut icon" href="/i.ico"><link rel="alternate" href="feed.xml">
    <link rel="stylesheet"><link href="x"><link rel="canonical" href="c"></head><a href="page">
    <img src="1.png" srcset="1.png 1x, 2.png 2x"></a>
    <picture><source srcset="3.webp"></picture><video><source src="http://cdn.test/v.mp4"></video>
    <script src="//cdn.test/j.js"></script><script>1</script>
    <img src="data:image/png;base64,AA=="><img src=""><img><iframe src="frame"></iframe><img src="1.png#x">"""
    found = read(html, scope=LinkScope("host", (HERE,)))
    assert names(found.urls) == ["b/page"]
    assert names(found.embeds) == [
        *("b/s.css", "i.ico", "b/1.png", "b/2.png", "http://cdn.test/v.mp4", "b/3.webp"),
        "http://cdn.test/j.js",
    ]
    denying = LinkScope("host", (HERE,), allow=re.compile("nothing"), deny=re.compile("cdn|ico$"))
    assert names(read(html, scope=denying).embeds) == ["b/s.css", "b/1.png", "b/2.png", "b/3.webp"]
    response = HtmlResponse(HERE, body=html, encoding="utf-8")
    assert extract_links(response, EVERYWHERE).embeds == ()


@pytest.mark.parametrize(
    ("srcset", "urls"),
    [
        ("a", ["a"]),
        ("a 1x", ["a"]),
        (" a 1x , b 2x,c 300w ", ["a", "b", "c"]),
        ("a, b", ["a", "b"]),
        ("a,b 2x", ["a,b"]),
        ("a 1x,b 2x", ["a", "b"]),
        (",,a,, ,b,", ["a", "b"]),
        ("/w,300/a 1x, /w,600/b 2x", ["w,300/a", "w,600/b"]),
        (",", []),
        (" ", []),
    ],
)
def test_srcset(srcset: str, urls: list[str]) -> None:
    """As HTML reads it: a comma within a URL belongs to it, one at its end does not."""
    where = ["/" + url if srcset.lstrip().startswith("/") else "/dir/" + url for url in urls]
    assert list(read(f'<img srcset="{srcset}">').embeds) == ["http://www.site.test" + each for each in where]


def test_a_srcset_without_an_end_costs_no_more_than_its_length() -> None:
    """A hundred kilobytes of commas, spaces or letters is read once."""
    for text in (",", " ", "a", "a,", "a ,", ", a"):
        read(f'<img srcset="{text * (100_000 // len(text))}">')
