"""Which language a domain's pages are in.

Its pages say: each has one vote, by the `lang` of its html element, else by its Content-Language, where that
names one language. Until VOTES of them have voted the country of the name has the first word, because
templates say `en` in every country; from then on it has the last one, where the votes are divided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crawlproj.languages import primary

if TYPE_CHECKING:
    from collections.abc import Mapping

VOTES = 3  #: pages that outweigh a country: a start page, an article and a list
ENOUGH = 10  #: pages after which no more are counted

#: Countries whose sites are mostly in one language; not those whose names everybody buys (co, io, tv, me).
_COUNTRIES = {
    country: language
    for language, countries in {
        "ja": "jp", "ko": "kr xn--3e0b707e",
        "zh": "cn tw hk mo xn--fiqs8s xn--fiqz9s xn--kprw13d xn--j6w193g",
        "de": "de at", "fr": "fr", "it": "it", "es": "es mx ar cl pe uy ve", "pt": "pt br", "nl": "nl",
        "pl": "pl", "cs": "cz", "sk": "sk", "ru": "ru su by xn--p1ai", "uk": "ua xn--j1amh", "vi": "vn",
        "th": "th xn--o3cw4h", "id": "id", "tr": "tr", "fa": "ir", "el": "gr",
        "hu": "hu", "ro": "ro", "bg": "bg", "da": "dk", "sv": "se", "no": "no", "fi": "fi",
        "he": "il", "hr": "hr", "sl": "si", "lt": "lt", "lv": "lv", "et": "ee", "is": "is",
        "sr": "rs", "ka": "ge", "mn": "mn", "ar": "sa eg ae", "en": "uk us au nz ie",
    }.items()
    for country in countries.split()
}  # fmt: skip


def content_language(value: str | None) -> str | None:
    """Return the language that a Content-Language header names, if it names one."""
    named = {primary(tag) for tag in value.split(",")} if value else {None}
    return named.pop() if len(named) == 1 else None


def of_page(html_lang: str | None, header: str | None) -> str | None:
    """Return the vote of a page: what its html element says, else what its header says."""
    return primary(html_lang) or content_language(header)


def of_country(host: str) -> str | None:
    """Return the language of the country in a host key; None for others, for addresses and single names."""
    name = host.rpartition("]")[2].partition(":")[0]
    _, dot, last = name.rpartition(".")
    return _COUNTRIES.get(last) if dot else None


def decide(votes: Mapping[str, int], country: str | None) -> str | None:
    """Return a domain's language from the votes of its pages and from its country's; None: nobody knows."""
    total = sum(votes.values())
    leader = max(sorted(votes), key=votes.__getitem__, default=None)
    if leader is None or (country is not None and total < VOTES):
        return country
    if 2 * votes[leader] > total or country is None:
        return leader
    return country if country in votes else leader
