"""Which language a domain's pages are in."""

from __future__ import annotations

import pytest

from crawlproj.languages import primary
from crawlproj.sampler.language import ENOUGH, VOTES, content_language, decide, of_country, of_page


@pytest.mark.parametrize(
    ("tag", "language"),
    [
        ("ja", "ja"),
        ("JA", "ja"),
        ("ja-JP", "ja"),
        ("ja_JP", "ja"),
        (" ja ", "ja"),
        ("zh-Hant-TW", "zh"),
        ("zh-cmn-Hans-CN", "zh"),
        ("en-US-x-private", "en"),
        ("sr-Latn", "sr"),
        ("fil", "fil"),
        # countries, old codes and longer ones that mean a language
        ("jp", "ja"),
        ("cn", "zh"),
        ("kr", "ko"),
        ("jpn", "ja"),
        ("chi", "zh"),
        ("iw", "he"),
        ("nb-NO", "no"),
        # none
        ("", None),
        (None, None),
        ("und", None),
        ("mul", None),
        ("zxx", None),
        ("x-klingon", None),
        ("i-default", None),
        ("japanese", None),
        ("*", None),
        ("{{ lang }}", None),
        ("ja,en", None),
        ("j", None),
        ("日本語", None),
    ],
)
def test_a_tag(tag: str | None, language: str | None) -> None:
    """The language of BCP 47 and of what is written for it; no language where there is none."""
    assert primary(tag) == language


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("ja", "ja"),
        ("ja-JP", "ja"),
        ("zh-TW, zh-HK", "zh"),
        ("de, en", None),  # for readers of both: no word on what the page is in
        ("en, *", None),
        ("", None),
        (None, None),
    ],
)
def test_a_header(header: str | None, language: str | None) -> None:
    """Content-Language is for whom a page is; it says something where it names one language."""
    assert content_language(header) == language


@pytest.mark.parametrize(
    ("html", "header", "vote"),
    [
        ("ja", "en", "ja"),  # the page knows better than its server
        ("ja", None, "ja"),
        (None, "ko", "ko"),
        ("und", "ko", "ko"),
        ("", "en, de", None),
        (None, None, None),
    ],
)
def test_a_pages_vote(html: str | None, header: str | None, vote: str | None) -> None:
    """Its html element comes before its header."""
    assert of_page(html, header) == vote


@pytest.mark.parametrize(
    ("host", "language"),
    [
        ("www.example.jp", "ja"),
        ("example.co.jp:8080", "ja"),
        ("news.example.tw", "zh"),
        ("m.example.hk", "zh"),
        ("xn--80a.xn--p1ai", "ru"),
        ("example.co.uk", "en"),
        ("example.com", None),
        ("example.co", None),  # Colombia's, and everybody's
        ("example.ch", None),  # four languages
        ("example.ca", None),
        ("jp", None),
        ("127.0.0.1", None),
        ("127.0.0.1:8000", None),
        ("[::1]:8080", None),
        ("", None),
    ],
)
def test_a_country(host: str, language: str | None) -> None:
    """Only of countries that mostly have one language, and not of addresses."""
    assert of_country(host) == language


@pytest.mark.parametrize(
    ("votes", "country", "language"),
    [
        ({}, None, None),
        ({}, "ja", "ja"),
        # a country has the first word
        ({"en": 1}, "ja", "ja"),
        ({"en": VOTES - 1}, "ja", "ja"),
        ({"ja": 1}, "ja", "ja"),
        # pages have it later
        ({"en": VOTES}, "ja", "en"),
        ({"en": 15, "ja": 5}, "ja", "en"),
        # where they are divided, the country has the last one
        ({"en": 2, "ja": 2}, "ja", "ja"),
        ({"en": 2, "ja": 1, "ko": 1}, "ja", "ja"),
        ({"en": 2, "ko": 2}, "ja", "en"),
        # without a country the first page counts, and then most of them
        ({"ja": 1}, None, "ja"),
        ({"ja": 1, "en": 2}, None, "en"),
        ({"ja": 2, "en": 2}, None, "en"),  # the same for every worker that asks
    ],
)
def test_the_decision(votes: dict[str, int], country: str | None, language: str | None) -> None:
    """Country, pages, country: in this order."""
    assert decide(votes, country) == language
    assert decide(dict(reversed(votes.items())), country) == language


def test_pages_have_more_votes_than_a_country_needs() -> None:
    """A domain that begins with its English pages can still become what it is."""
    assert ENOUGH > 2 * VOTES
