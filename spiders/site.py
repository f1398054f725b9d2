"""The spider for any site: it follows links in scope and stores every page."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, Spider

from crawlproj.config import Config
from crawlproj.exceptions import BadArgument
from crawlproj.frontier.canonical import normalise
from crawlproj.pages.links import DEFAULT_RULES, LARGE, LinkRules, LinkScope, extract_links
from crawlproj.seeds import read_seeds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from crawlproj.items import Links

SCOPES = ("host", "domain", "any")
_MOST_DIGITS = 10  # of a depth
ARGUMENTS = ("seeds", "scope", "allow", "deny", "depth", "embeds")


class SiteSpider(Spider):
    """Crawl from any seeds.

    Arguments (`-a`): `seeds` (URLs apart by white space, or @file with one a line), `scope` (host, domain or
    any; of the seeds), `allow` and `deny` (regular expressions, searched in the URL; deny wins),
    `depth` (how many links from a seed; unset: no limit), `embeds` (1: the pages' images, styles and scripts,
    too, from whatever host).

    Settings: FRONTIER_NOFOLLOW, FRONTIER_IGNORED_EXTENSIONS.
    """

    name = "site"

    def __init__(
        self,
        seeds: str = "",
        scope: str = "host",
        allow: str | None = None,
        deny: str | None = None,
        depth: str | None = None,
        embeds: str | None = None,
        **arguments: Any,
    ) -> None:
        super().__init__(**arguments)
        self.start_urls = read_seeds(seeds)
        self.seeds, self.scope, self.allow, self.deny, self.depth = seeds, scope, allow, deny, depth
        self.embeds = embeds
        self._depth = _whole(depth)
        self._embeds = _yes_or_no("embeds", embeds)
        self._rules = DEFAULT_RULES
        self._links = LinkScope(
            scope=_one_of(scope),
            seeds=tuple(self.start_urls),
            allow=_pattern("allow", allow),
            deny=_pattern("deny", deny),
        )

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        """Build it with the crawl's rules for links. Raises BadSetting."""
        self = super().from_crawler(crawler, *args, **kwargs)
        config = Config.from_settings(crawler.settings)
        ignored = config.ignored_extensions
        self._rules = LinkRules(
            obey_nofollow=config.nofollow == "obey",
            ignored_extensions=DEFAULT_RULES.ignored_extensions if ignored is None else ignored,
            most=config.max_outlinks,
        )
        return self

    @classmethod
    def check_arguments(cls, arguments: dict[str, Any]) -> None:
        """Raise BadArgument or BadUrl, before anything is created."""
        for name in arguments:
            # scrapyd's own begin with a line; what a spider built on this one takes is its own affair.
            if cls is SiteSpider and name not in ARGUMENTS and not name.startswith("_"):
                raise BadArgument(f"there is no argument {name!r}; there are: {', '.join(ARGUMENTS)}")
        cls(**arguments)

    async def start(self) -> AsyncIterator[Request]:
        """Yield the seeds."""
        for url in self.start_urls:
            yield Request(url, dont_filter=True)

    def revisits(self, request: Request) -> bool:
        """Say whether a known page is in scope still; a redirect's target is if what led to it is."""
        meta, deny = request.meta, self._links.deny
        url = normalise(next(iter(meta.get("redirect_urls", ())), request.url))
        if meta.get("embed"):
            return self._embeds and not (deny is not None and deny.search(url))
        return (self._depth is None or meta.get("depth", 0) <= self._depth) and url in self._links

    def parse(self, response: Response, **_: Any) -> Iterable[Links]:
        """Yield the links in scope, and what the page shows, which is part of it at any depth."""
        found = self._found(response)
        return found if len(response.body) <= LARGE else _Late(found)

    def _found(self, response: Response) -> Iterator[Links]:
        deeper = self._depth is None or response.meta.get("depth", 0) < self._depth
        if deeper or self._embeds:
            links = extract_links(response, self._links, self._rules, embeds=self._embeds)
            if not deeper:
                links = replace(links, urls=())
            if links.urls or links.embeds:
                yield links


class _Late:
    """The links of a large page: found in a thread for the engine, at once for whoever iterates over them."""

    def __init__(self, found: Iterator[Links]) -> None:
        self._found = found

    def __iter__(self) -> Iterator[Links]:
        return self._found

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Links:
        links = await asyncio.to_thread(next, self._found, None)
        if links is None:
            raise StopAsyncIteration
        return links


def _one_of(scope: str) -> str:
    if scope not in SCOPES:
        raise BadArgument(f"argument scope must be one of {', '.join(SCOPES)}, not {scope!r}")
    return scope


def _whole(depth: str | None) -> int | None:
    if depth is None or depth == "":
        return None
    if not (depth.isascii() and depth.isdigit() and len(depth) < _MOST_DIGITS):
        raise BadArgument(f"argument depth must be a whole number, not {depth[:80]!r}")
    return int(depth)


def _yes_or_no(name: str, value: str | None) -> bool:
    if value not in {None, "", "0", "1"}:
        raise BadArgument(f"argument {name} must be 0 or 1, not {value!r}")
    return value == "1"


def _pattern(name: str, value: str | None) -> re.Pattern[str] | None:
    if not value:
        return None
    try:
        return re.compile(value)
    except re.error as exc:
        raise BadArgument(f"argument {name} is no regular expression: {exc}") from None
