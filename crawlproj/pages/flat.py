"""The tags of a page that lead elsewhere, found without a parser, in time that grows with its length."""

from __future__ import annotations

import html as entities
import re
from collections import defaultdict
from functools import cached_property

_ATTRIBUTES = r"(?:[\s/](?>[^<>\"']+|\"[^\"<]*\"|'[^'<]*')*+)?"
# Comments, and what stands in elements whose tags are none, are passed over; up to the end, where theirs is
# missing, or the next one would look through all of the rest again. A tag ends before another one begins.
_TAG = re.compile(
    r"<(?:!--.*?(?:-->|\Z)"
    rf"|(?P<raw>script|style|textarea|title|template)(?P<of_raw>{_ATTRIBUTES})>.*?(?:</(?P=raw)\s*>|\Z)"
    rf"|(?P<name>a|area|base|meta|link|img|source)(?P<of_name>{_ATTRIBUTES})>)",
    re.IGNORECASE | re.DOTALL,
)
_ATTRIBUTE = re.compile(r"([^\s=/>\"']+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+)))?")
_MAX_ATTRIBUTES = 16_384  # characters of one tag


class FlatTag:
    """A start tag."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def attributes(self) -> dict[str, str]:
        """Return its attributes by their names; of two of one name the first counts."""
        found: dict[str, str] = {}
        for name, *values in _ATTRIBUTE.findall(self._text[:_MAX_ATTRIBUTES]):
            found.setdefault(name.lower(), entities.unescape("".join(values)))
        return found


class FlatTree:
    """A page as its start tags: of links, of what it shows, and of what says how to take these."""

    def __init__(self, html: str) -> None:
        self._tags: dict[str, list[FlatTag]] = defaultdict(list)
        for found in _TAG.finditer(html):
            raw, of_raw, name, of_name = found.groups()
            if raw or name:
                self._tags[(raw or name).lower()].append(FlatTag(of_raw if raw else of_name))

    def tags(self, name: str) -> list[FlatTag]:
        """Return the start tags of the elements called *name*, in their order."""
        return self._tags.get(name, [])
