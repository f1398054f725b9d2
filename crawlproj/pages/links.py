"""The links of a page, and which of them a crawl follows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import ada_url
from scrapy.http import HtmlResponse
from scrapy.linkextractors import IGNORED_EXTENSIONS
from selectolax.lexbor import LexborHTMLParser

from crawlproj.domains import registered_domain

if TYPE_CHECKING:
    from scrapy.http import Response

_IGNORED = frozenset(IGNORED_EXTENSIONS)
# What a browser would not change either: most links of most sites, at a tenth of the price.
_PLAIN_PATH = re.compile(r"/(?:[\w-][\w.~-]*/)*(?:[\w-][\w.~-]*)?(?:\?[\w=&.~-]*)?", re.ASCII)
_PORT = re.compile(r":\d+$")


@dataclass(frozen=True)
class LinkScope:
    """Which links are followed: those of the seeds' hosts or domains, less deny, within allow."""

    scope: str  #: host, domain or any
    seeds: tuple[str, ...]  #: in their wire form
    allow: re.Pattern[str] | None = None
    deny: re.Pattern[str] | None = None

    def __contains__(self, url: str) -> bool:
        if self.deny is not None and self.deny.search(url):
            return False
        if self.allow is not None and not self.allow.search(url):
            return False
        if self.scope == "any":
            return True
        return _place(url, self.scope) in self._places

    @cached_property
    def _places(self) -> frozenset[str]:
        return frozenset(_place(seed, self.scope) for seed in self.seeds)


def _place(url: str, scope: str) -> str:
    start = url.index("//") + 2
    host = url[start : url.index("/", start)].rpartition("@")[2]
    if scope == "host":
        # Sites answer with and without it, and send a crawl from the one to the other.
        return host.removeprefix("www.")
    name = _PORT.sub("", host)
    return registered_domain(name) or name


def extract_links(response: Response, scope: LinkScope) -> tuple[str, ...]:
    """Return the links in scope of an HTML page, each once, in its order, in their wire form.

    `<a href>` and `<area href>` count, resolved against `<base href>`. What is no http(s) URL and what
    Scrapy's own LinkExtractor takes for no page by its extension is left out.
    """
    if not isinstance(response, HtmlResponse):
        return ()
    tree = LexborHTMLParser(response.body if response.encoding == "utf-8" else response.text)
    base = _base(tree, response.url)
    origin = base[: base.index("/", base.index("//") + 2)]
    found: dict[str, None] = {}
    for tag in ("a", "area"):
        for node in tree.tags(tag):
            link = node.attributes.get("href")
            if not link or link[0] == "#":
                continue
            url = origin + link if _PLAIN_PATH.fullmatch(link) else _resolve(base, link)
            if url is not None and url not in found and not _is_file(url) and url in scope:
                found[url] = None
    return tuple(found)


def _base(tree: LexborHTMLParser, url: str) -> str:
    """Return what links are relative to, in its normalised form."""
    for node in tree.tags("base"):
        href = node.attributes.get("href")
        if href and (base := _resolve(url, href)) is not None:
            return base
    return _resolve(url, url) or url


def _resolve(base: str, link: str) -> str | None:
    try:
        url = ada_url.join_url(base, link).partition("#")[0]
    except ValueError:
        return None
    return url if url.startswith(("http://", "https://")) else None


def _is_file(url: str) -> bool:
    name = url.partition("?")[0].rpartition("/")[2]
    return "." in name and name.rpartition(".")[2].lower() in _IGNORED
