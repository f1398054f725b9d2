"""The links of a page, and which of them a crawl follows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import ada_url
from scrapy.http import HtmlResponse
from scrapy.linkextractors import IGNORED_EXTENSIONS
from selectolax.lexbor import LexborHTMLParser

from crawlproj.domains import registered_domain
from crawlproj.items import Links
from crawlproj.pages.flat import FlatTree
from crawlproj.pages.responses import changed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy.http import Response

    Tree: TypeAlias = LexborHTMLParser | FlatTree

#: Flag of a response that no parser is to see: its time would grow with the square of the page.
FLAT = "flat"
LARGE = 65_536  #: bytes of a page whose links are better found in a thread
MAX_EMBEDS = 10_000  #: things that a page shows, as far as they are looked at
MAX_HTML = 2_000_000  #: bytes of a page that are looked at; its text is read from about as many

_IGNORED = frozenset(IGNORED_EXTENSIONS)
# What a browser would not change either: most links of most sites, at a tenth of the price.
_PLAIN_PATH = re.compile(r"/(?:[\w-][\w.~-]*/)*(?:[\w-][\w.~-]*)?(?:\?[\w=&.~-]*)?", re.ASCII)
_PORT = re.compile(r":\d+$")
# One candidate: a URL that ends neither in a comma nor before one without white space, and its descriptor.
_SRCSET = re.compile(r"([^\s,](?:\S*[^\s,])?)(?:,+|\s[^,]*(?:,|$)|$)")
_EMBEDS = (("img", "src"), ("img", "srcset"), ("source", "src"), ("source", "srcset"), ("script", "src"))
_SHOWN = frozenset({"stylesheet", "icon"})  # what of `<link>` is part of the page
_NO_AGENT = ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")


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


@dataclass(frozen=True, slots=True)
class LinkRules:
    """Which links of a page count at all."""

    obey_nofollow: bool = True
    ignored_extensions: frozenset[str] = _IGNORED  #: of files that are no pages
    #: Links that a crawl takes of one page. Twice as many are found, because those that it knows do not count
    #: later, and three times as many are looked at: 0.1 s of work.
    most: int = 6000


DEFAULT_RULES = LinkRules()


def _place(url: str, scope: str) -> str:
    start = url.index("//") + 2
    host = url[start : url.index("/", start)].rpartition("@")[2]
    if scope == "host":
        # Sites answer with and without it, and send a crawl from the one to the other.
        return host.removeprefix("www.")
    name = _PORT.sub("", host)
    return registered_domain(name) or name


def extract_links(
    response: Response, scope: LinkScope, rules: LinkRules = DEFAULT_RULES, *, embeds: bool = False
) -> Links:
    """Return the links in scope of an HTML page, each once, in its order, in their wire form.

    `<a href>` and `<area href>` count, resolved against `<base href>`. What is no http(s) URL, no page by its
    extension, or what a site asks not to be followed is left out. With *embeds* comes what the page
    shows, from any host: images, styles, icons and scripts, less what is denied. Of a page without measure
    its begin counts.
    """
    if not isinstance(response, HtmlResponse):
        return Links(())
    tree = _tree(response)
    base = _base(tree, response.url)
    shown = tuple(_embeds(tree, base, scope)) if embeds else ()
    if rules.obey_nofollow and _is_nofollow(tree, response):
        return Links((), shown)
    return Links(_links(tree, base, scope, rules), shown)


def _tree(response: HtmlResponse) -> Tree:
    if len(response.body) > MAX_HTML:
        response = changed(response, HtmlResponse, body=response.body[:MAX_HTML], encoding=response.encoding)
    if FLAT in response.flags:
        return FlatTree(response.text)
    return LexborHTMLParser(response.body if response.encoding == "utf-8" else response.text)


def _links(tree: Tree, base: str, scope: LinkScope, rules: LinkRules) -> tuple[str, ...]:
    origin = base[: base.index("/", base.index("//") + 2)]
    obey, ignored = rules.obey_nofollow, rules.ignored_extensions
    found: dict[str, None] = {}
    for tag in ("a", "area"):
        nodes: Iterable[Any] = tree.tags(tag)
        for node in islice(nodes, 3 * rules.most):
            attributes = node.attributes
            link = attributes.get("href")
            if not link or link[0] == "#":
                continue
            if obey and (rel := attributes.get("rel")) and "nofollow" in rel.lower().split():
                continue
            url = origin + link if _PLAIN_PATH.fullmatch(link) else _resolve(base, link)
            if url is not None and url not in found and not _is_file(url, ignored) and url in scope:
                found[url] = None
                if len(found) >= 2 * rules.most:
                    return tuple(found)
    return tuple(found)


def _embeds(tree: Tree, base: str, scope: LinkScope) -> dict[str, None]:
    """Return what the page shows, each once: what it needs before it can be seen comes first."""
    found: dict[str, None] = {}
    for link in dict.fromkeys(islice(_embedded(tree), MAX_EMBEDS)):
        url = _resolve(base, link)
        if url is not None and not (scope.deny is not None and scope.deny.search(url)):
            found[url] = None
    return found


def _embedded(tree: Tree) -> Iterator[str]:
    for node in tree.tags("link"):
        attributes = node.attributes
        if attributes.get("href") and _SHOWN.intersection((attributes.get("rel") or "").lower().split()):
            yield str(attributes["href"])
    for tag, name in _EMBEDS:
        for node in tree.tags(tag):
            value = node.attributes.get(name)
            if value and name == "srcset":
                yield from (each[1] for each in _SRCSET.finditer(value))
            elif value:
                yield value


def _is_nofollow(tree: Tree, response: Response) -> bool:
    """Say whether a site asks not to follow any link of this page, in its head or in a header."""
    words: list[str] = []
    for header in response.headers.getlist(b"X-Robots-Tag"):
        name, colon, _ = header.decode("latin-1").partition(":")
        # `otherbot: nofollow` is for one of that name.
        if not colon or "," in name or name.strip().lower() in _NO_AGENT:
            words += header.decode("latin-1").split(",")
    for node in tree.tags("meta"):
        attributes = node.attributes
        if (attributes.get("name") or "").strip().lower() == "robots":
            words += (attributes.get("content") or "").split(",")
    return not {"nofollow", "none"}.isdisjoint(word.strip().lower() for word in words)


def _base(tree: Tree, url: str) -> str:
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


def _is_file(url: str, extensions: frozenset[str]) -> bool:
    name = url.partition("?")[0].rpartition("/")[2]
    return "." in name and name.rpartition(".")[2].lower() in extensions
