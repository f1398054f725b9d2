"""Links of many hosts for the frontier's benchmarks, made as they are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crawlproj.frontier.codec import Codec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crawlproj.frontier.entries import Entry

WORDS = ("archive", "news", "products", "blog", "docs", "category", "people", "2024", "forum", "wiki")
OWN_HOST = 4  # of 5 links on a page, as many lead to its own host
PAGE = 20


def url(number: int, host: int) -> str:
    """Return the URL of a number, about 61 bytes: any two numbers give two URLs."""
    mixed = number * 0x9E3779B1 % 2**32
    slug = ("", "-overview", "-9f3c-about-us")[mixed % 3]
    first, second = WORDS[mixed // 3 % 10], WORDS[mixed // 30 % 10]
    return f"https://www.site{host:05d}.example/{first}/{second}/{number}{slug}.html"


def spread(start: int, n: int, hosts: int) -> list[str]:
    """Return *n* URLs from number *start* on; any two near each other are on different hosts."""
    return [url(number, number % hosts) for number in range(start, start + n)]


def as_on_pages(start: int, n: int, hosts: int) -> list[str]:
    """Return *n* URLs from number *start* on; of each page's 20, 16 lead to its own host."""
    return [
        url(number, (number if number % 5 >= OWN_HOST else number // PAGE) % hosts)
        for number in range(start, start + n)
    ]


def entries(found: list[str]) -> list[Entry]:
    """Return what the frontier takes."""
    codec = Codec()
    return [codec.encode_link(each, 1) for each in found]


def batches(all_of_them: list[Entry], size: int) -> Iterator[list[Entry]]:
    """Return them as pages have them, *size* at a time."""
    for start in range(0, len(all_of_them), size):
        yield all_of_them[start : start + size]
