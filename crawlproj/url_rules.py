"""Rules on URLs, as people write them: domains and regular expressions."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING

import ada_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_DOMAIN = re.compile(r"[\w.*:-]+")
_ORIGIN = re.compile(r"([a-zA-Z][\w+.-]*):/*(?:[^/?#]*@)?(\[[^\]]*\]|[^/?#:]*)(?::(\d*))?")
_PORTS = {"http": 80, "https": 443}
_LAST_PORT = 65_535


def read_rules(given: object) -> tuple[str, ...]:
    """Return a list of rules: of a list, of one as JSON, or of the lines of a text.

    Commas occur in patterns, so they part nothing. Blank lines, comments (`# …`) and what was said before
    are left out. Raises ValueError for anything else.
    """
    if given is None:
        return ()
    lines = given.splitlines() if isinstance(given, str) else given
    if isinstance(given, str) and given.lstrip().startswith("["):
        try:
            found = json.loads(given)
        except ValueError:  # a regular expression may begin like that, too
            found = None
        if _are_words(found):
            lines = found
    if not _are_words(lines):
        raise ValueError("a list of rules, one as JSON, or a text with a rule on each line")
    texts = (line.strip() for line in lines)  # type: ignore[attr-defined]
    return tuple(dict.fromkeys(text for text in texts if text and not text.startswith("#")))


def _are_words(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


class UrlRules:
    """A list of rules, to ask which of them matches a URL. Raises ValueError, naming a rule that is none.

    What consists of letters, digits, `_ . * : -` alone is a domain: it matches itself and what is below it,
    `*.x` only what is below; its port counts if it has one. Everything else is a regular expression,
    searched in the URL.
    """

    __slots__ = ("_domains", "_named", "_patterns", "texts")

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = tuple(texts)
        self._patterns: list[tuple[int, Callable[[str], object]]] = []
        #: name -> number, port (0 for any) and whether the name itself is left out, of each rule on it
        self._domains: dict[str, list[tuple[int, int, bool]]] = {}
        for number, text in enumerate(self.texts, start=1):
            if _DOMAIN.fullmatch(text):
                name, port, below = _domain(text)
                self._domains.setdefault(name, []).append((number, port, below))
            else:
                self._patterns.append((number, _pattern(text)))
        self._named = lru_cache(maxsize=4096)(self._of_origin)  # a crawl asks about the same hosts again

    def __bool__(self) -> bool:
        return bool(self.texts)

    def first(self, url: str) -> int:
        """Return the number of the first rule that matches *url*, counted from 1; 0 if none does."""
        first = 0
        for number, search in self._patterns:
            if search(url):
                first = number
                break
        if self._domains:
            end = url.find("/", url.find("//") + 2)
            named = self._named(url[:end] if end > 0 else url)
            if named and (named < first or not first):
                return named
        return first

    def _of_origin(self, origin: str) -> int:
        """Return the number of the first domain that an origin lies in; 0 if there is none."""
        parts = _ORIGIN.match(origin)
        if parts is None:
            return 0
        port = int(parts[3]) if parts[3] else _PORTS.get(parts[1].lower(), 0)
        own = name = _ascii(parts[2])
        first = 0
        while name:
            for number, wanted, below in self._domains.get(name, ()):
                if (not wanted or wanted == port) and not (below and name is own):
                    first = min(first or number, number)
            name = name.partition(".")[2]
        return first


def _domain(text: str) -> tuple[str, int, bool]:
    """Return name, port and whether only what is below it counts."""
    name, colon, port = text.partition(":")
    below = name.startswith("*.")
    name = _ascii(name.removeprefix("*."))
    good_port = not colon or (port.isascii() and port.isdigit() and 0 < int(port) <= _LAST_PORT)
    if not name or "*" in name or not good_port:
        raise ValueError(
            f"rule {text[:80]!r} is no domain; in a regular expression of such characters alone, put one of"
            " them in brackets: (word)"
        )
    return name, int(port or 0), below


def _pattern(text: str) -> Callable[[str], object]:
    try:
        return re.compile(text).search
    except (re.error, OverflowError, RecursionError) as exc:
        raise ValueError(f"rule {text[:80]!r} is no regular expression: {exc}") from None


def _ascii(host: str) -> str:
    """Return a host as it goes on the wire, in small letters and punycode; empty if it cannot."""
    try:
        return ada_url.URL(f"http://{host}/").hostname.rstrip(".") if host else ""
    except ValueError:
        return ""
