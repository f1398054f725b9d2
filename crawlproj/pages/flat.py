"""The tags of a page, found without an HTML parser, in time that grows with the length of the page alone."""

from __future__ import annotations

import html as entities
import re
from collections import defaultdict
from functools import cached_property

# Comments, and what stands in elements whose tags are none, are passed over; up to the end, where theirs is
# missing, or the next one would look through all of the rest again. A tag ends before another one begins.
_TAG = re.compile(
    r"<(?:!--.*?(?:-->|\Z)"
    r"|(?P<raw>script|style|textarea|title|template)(?P<raw_attributes>(?:[\s/](?>[^<>\"']+|\"[^\"<]*\"|'[^'<]*')*+)?)>"
    r".*?(?:</(?P=raw)\s*>|\Z)"
    r"|(?P<name>[a-z][a-z0-9]*)(?P<attributes>(?:[\s/](?>[^<>\"']+|\"[^\"<]*\"|'[^'<]*')*+)?)>)",
    re.IGNORECASE | re.DOTALL,
)
_ATTRIBUTE = re.compile(r"([^\s=/>\"']+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+)))?")
_MAX_ATTRIBUTES = 16_384  # characters of one tag


class FlatTag:
    """A start tag."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def attributes(self) -> dict[str, str | None]:
        """Return its attributes by their names; of two of one name the first counts."""
        found: dict[str, str | None] = {}
        for name, *values in _ATTRIBUTE.findall(self._text[:_MAX_ATTRIBUTES]):
            found.setdefault(name.lower(), entities.unescape("".join(values)) or None)
        return found


class FlatTree:
    """A page as its start tags."""

    def __init__(self, html: str) -> None:
        self._tags: dict[str, list[FlatTag]] = defaultdict(list)
        for found in _TAG.finditer(html):
            raw, raw_attributes, name, attributes = found.groups()
            if raw or name:
                self._tags[(raw or name).lower()].append(FlatTag(raw_attributes if raw else attributes))

    def tags(self, name: str) -> list[FlatTag]:
        """Return the start tags of the elements called *name*, in their order."""
        return self._tags.get(name, [])
