"""Spiders are tested without a crawl and without the net."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider

from crawlproj.items import Links

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from scrapy.http import Response


class Shop(Spider):
    name = "shop"

    def __init__(self, shelf: str = "all", **given: Any) -> None:
        super().__init__(**given)
        self.shelf = shelf

    def parse(self, response: Response, **_: Any) -> Iterator[Any]:
        yield {"title": response.css("h1::text").get(), "shelf": self.shelf}
        yield Request(response.urljoin("/next"))
        yield Links(("https://shop.example/a", "https://shop.example/b"))

    async def parse_async(self, response: Response) -> AsyncIterator[Any]:
        for each in self.parse(response):
            yield each

    async def parse_one(self, response: Response, colour: str) -> dict[str, str]:
        return {"colour": colour, "language": response.headers[b"Content-Language"].decode()}


@pytest.fixture
def page(saved_page: Callable[..., Response], tmp_path: Path) -> Response:
    (tmp_path / "item.html").write_text("<h1>Größe</h1>", encoding="utf-8")
    return saved_page(str(tmp_path / "item.html"), "https://shop.example/item/1", encoding="utf-8")


@pytest.mark.parametrize("callback", ["parse", "parse_async"])
def test_what_a_callback_yields_is_sorted(
    callback: str, page: Response, spider: Callable[..., Spider], parse: Callable[..., Any]
) -> None:
    """Items, requests and links are told apart, whether the callback is async or not."""
    shop = spider(Shop, shelf="top")
    found = parse(getattr(shop, callback), page)
    assert found.items == [{"title": "Größe", "shelf": "top"}]
    assert [each.url for each in found.requests] == ["https://shop.example/next"]
    assert found.urls == [f"https://shop.example/{each}" for each in ("next", "a", "b")]


async def test_a_callback_that_returns_one_item(
    saved_page: Callable[..., Response],
    spider: Callable[..., Spider],
    parse: Callable[..., Any],
    tmp_path: Path,
) -> None:
    """A coroutine may return a single item; the response has the headers and arguments given."""
    (tmp_path / "empty.html").touch()
    page = saved_page(
        str(tmp_path / "empty.html"),
        "https://shop.example/",
        headers={"Content-Language": "nb"},
        cb_kwargs={"colour": "red"},
    )
    assert parse(spider(Shop).parse_one, page).items == [{"colour": "red", "language": "nb"}]


def test_spiders_of_the_project_are_made_by_name(spider: Callable[..., Spider]) -> None:
    """A name is looked up in the project; settings of the test come on top of the project's."""
    site = spider("site", {"MIN_INTERVAL_MS": 7}, seeds="https://shop.example")
    assert site.name == "site"
    assert site.settings.getint("MIN_INTERVAL_MS") == 7
    assert site.settings["BOT_NAME"] == "crawlproj"
