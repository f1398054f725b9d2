"""Which pages an HTML parser must be kept from, because its time would grow with the square of them."""

from __future__ import annotations

import re
from itertools import accumulate

#: Elements within each other; browsers stop at 512, and real pages stay below 100.
MAX_DEPTH = 256

_MAX_TAGS = 30_000  # 2.5 µs each, of which one call takes half
_FEW_TAGS = 300  # too few for anything below to matter
_NESTED_FORMATTING = 4  # bold italic code in a link is no mistake
_MAX_REOPENED = 40_000
_LONG_PAGE = 12_288
_LONG_TAG = re.compile(r"<[a-zA-Z][^>]{512,}")
_VALUE = re.compile(r"=\s*(?:\"[^\"]*\"|'[^']*')")
_MAX_ATTRIBUTE_PAIRS = 20_000_000  # 3 ns each: a parser compares each attribute with those before it
# Start and end tags of the formatting elements, which a parser opens again in every block that follows
# as long as they are not closed. (Not <a>: a second one closes the first.)
_FORMATTING = re.compile(
    r"<(!(?=--)|/?)(?:(?<=!)--.*?(?:-->|\Z)|[bcefinstuBCEFINSTU]"
    r"(?:[\s/>]|(?<=[bB])[iI][gG][\s/>]|(?<=[cC])[oO][dD][eE][\s/>]|(?<=[eE])[mM][\s/>]"
    r"|(?<=[fF])[oO][nN][tT][\s/>]|(?<=[tT])[tT][\s/>]|(?<=[nN])[oO][bB][rR][\s/>]"
    r"|(?<=[sS])(?:[mM][aA][lL]{2}|[tT][rR][iI][kK][eE]|[tT][rR][oO][nN][gG])[\s/>]))",
    re.DOTALL,
)
# Each one's attributes are added to those of the first.
_ROOT = re.compile(r"<(?:html|body)[\s/]", re.IGNORECASE)
_MAX_ROOTS = 100
_OPTION = re.compile(r"</?option\b[^>]*>", re.IGNORECASE)
_MAX_OPTIONS = 500  # a parser goes through all options of a list whenever one begins
_RAW = re.compile(r"<(script|style|textarea)\b.*?(?:</\1\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_STEPS = {"": 1, "/": -1, "!": 0}  # a start tag, an end tag, a comment


def is_odd(html: str, tags: int) -> bool:
    """Return whether *html*, with about *tags* tags, would take a parser too long.

    That is a page with too many tags, with a tag of thousands of attributes, or with formatting
    elements that are never closed. Nesting is not looked at here: it costs nothing to parse.
    """
    # What compares in scripts is no tag.
    if tags > _MAX_TAGS and _RAW.sub("", html).count("<") > _MAX_TAGS:
        return True
    if len(html) > _LONG_PAGE and sum(map(_pairs, _LONG_TAG.findall(html))) > _MAX_ATTRIBUTE_PAIRS:
        return True
    if tags <= _FEW_TAGS:
        return False
    if len(_ROOT.findall(html)) > _MAX_ROOTS:
        return True
    # Scripts hold pieces of HTML; they are taken out only when it matters.
    return _reopened(html, tags) and _reopened(_RAW.sub("", html), tags)


def without_options(html: str, lower: str) -> str:
    """Return *html*, whose lower-case form is *lower*, without its options, if these are very many."""
    return _OPTION.sub(" ", html) if lower.count("<option") > _MAX_OPTIONS else html


def _reopened(html: str, tags: int) -> bool:
    unclosed = _unclosed(html)
    return unclosed > _NESTED_FORMATTING and unclosed * tags > _MAX_REOPENED


def _pairs(tag: str) -> int:
    bare = _VALUE.sub(" ", tag)
    return int((len(bare.split()) + bare.count("/")) ** 2)


def _unclosed(html: str) -> int:
    """Return how many formatting elements are open at once, at most."""
    steps = map(_STEPS.__getitem__, _FORMATTING.findall(html))
    return max(accumulate(steps, lambda depth, step: max(0, depth + step)), default=0)
