"""Spiders without a crawl: a callback is called with a saved page, and what it yields is sorted."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import HtmlResponse
from scrapy.settings import Settings
from scrapy.spiderloader import get_spider_loader
from scrapy.utils.spider import iterate_spider_output

from crawlproj.items import Links

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from scrapy import Spider
    from scrapy.http import Response


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What a callback yielded."""

    items: list[Any]
    requests: list[Request]
    urls: list[str]  #: of the requests and of `Links`, in order


def make_spider(
    which: str | type[Spider], settings: Mapping[str, Any] | None = None, **spider_args: Any
) -> Spider:
    """Return a spider of the project, or of the class given, with a crawler that does not run."""
    project = Settings()
    project.setmodule("crawlproj.settings")
    for name, value in (settings or {}).items():
        project.set(name, value, "cmdline")
    spidercls = get_spider_loader(project).load(which) if isinstance(which, str) else which
    return spidercls.from_crawler(Crawler(spidercls, project), **spider_args)


def page_from(file: Path, url: str, *, encoding: str | None = None, **given: Any) -> HtmlResponse:
    """Return the response that a saved page would have been."""
    request = Request(url, meta=given.pop("meta", None), cb_kwargs=given.pop("cb_kwargs", None))
    return HtmlResponse(url, body=file.read_bytes(), encoding=encoding, request=request, **given)


async def parsed(callback: Callable[..., Any], response: Response) -> Parsed:
    """Call *callback*, of any kind that Scrapy takes, and sort what it yields."""
    arguments = response.request.cb_kwargs if response.request else {}
    given = callback(response, **arguments)
    if isinstance(given, Awaitable):
        given = await given
    if isinstance(given, AsyncIterable):
        outputs = [each async for each in given]
    else:
        outputs = list(cast("Iterable[Any]", iterate_spider_output(given)))
    requests = [each for each in outputs if isinstance(each, Request)]
    urls: list[str] = []
    for each in outputs:
        if isinstance(each, Request):
            urls.append(each.url)
        elif isinstance(each, Links):
            urls.extend(each.urls)
    items = [each for each in outputs if not isinstance(each, Request | Links)]
    return Parsed(items=items, requests=requests, urls=urls)
