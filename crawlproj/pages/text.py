"""What a person can read on a page.

Rules, where HTML leaves a choice:

- Main text is what resiliparse takes for it. Where that is nothing, nothing but headings, or half of
  a short page, it is all visible text outside of nav, header and footer (and of elements with their
  ARIA roles), so that a page is empty only when nothing stands outside of these.
- A short main text is none when it stands inside of them, in a list of links that is called a menu,
  or on an app's page whose text says that it loads (it ends in an ellipsis) or asks about cookies.
- Not text: script, style, template, noscript, alternative texts of images, the fallbacks of embedded
  media, form controls (their labels are), and what `hidden` or an inline style hides.
- Characters are counted with every run of white space as one; invisible ones alone are nothing.
- JSON, XML, plain text and the like are their own text. Binary bodies have none.
- A page too large or too oddly built for the parser (see `is_odd` and MAX_DEPTH) is read without it:
  its main text is then all its text outside of tags, menus included.
"""

from __future__ import annotations

import html as entities
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree

from crawlproj.items import PageText
from crawlproj.pages.decode import decode
from crawlproj.pages.odd import MAX_DEPTH, is_odd, without_options
from crawlproj.pages.sniff import Kind, kind_of

if TYPE_CHECKING:
    from typing import Any

#: Characters of a page that are looked at: 0.1 s of work at most.
MAX_HTML = 2_000_000
MAX_TEXT = 4_000_000
#: Tags, and what looks like some, that are looked at: of a page that has more, as large a part as they are.
MAX_TAGS = 200_000

_NO_TEXT = (
    "title", "noscript", "template", "img", "area", "svg", "canvas", "video", "audio", "iframe", "object",
    "embed", "input", "button", "select", "textarea", "datalist",
    "[hidden]", '[style*="display:none" i]', '[style*="display: none" i]',
    '[style*="visibility:hidden" i]', '[style*="visibility: hidden" i]',
)  # fmt: skip
_NO_TEXT_ATTRIBUTES = tuple(
    (selector, selector.partition('"')[2].partition(":")[0] or "hidden")
    for selector in _NO_TEXT
    if "[" in selector
)
_TAG = re.compile(r"<([a-z]+)")
# Without these, ASCII text has no white space but single spaces and line ends.
_ODD_SPACE = ("\t", "\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x1f", "  ")
_LANDMARKS = (
    "nav", "header", "footer",
    "[role=navigation i]", "[role=banner i]", "[role=contentinfo i]",
)  # fmt: skip
# With alt_texts off, captions of figures go as well; the elements that have such texts are left out instead.
_OPTIONS: dict[str, Any] = {"alt_texts": True, "form_fields": True, "list_bullets": False}
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_MENUS = tuple(
    f'[{attribute}{match}"{name}" i]'
    for name in ("nav", "navbar", "navigation", "menu", "topmenu", "mainmenu", "main-menu", "breadcrumb")
    for attribute, match in (("id", "="), ("class", "~="))
)
_OVERLAYS = (
    "[class*=cookie i]", "[id*=cookie i]", "[class*=consent i]", "[id*=consent i]",
    "[class*=loader i]", "[class*=spinner i]", "[role=progressbar i]", "[aria-busy=true i]",
)  # fmt: skip
_SHORT = 200  # characters; a longer main text is not asked where it stands
_NOTICE = 40  # characters of a text that says that there is one to come
_MAX_META = 1000

# With scripts on, noscript is never parsed. The parser has them off, and a noscript in the head would
# end the head there.
_NOSCRIPT = re.compile(
    r"<!--.*?(?:-->|\Z)|<(?:script|style)\b.*?(?:</(?:script|style)\s*>|\Z)"
    r"|<(noscript)\b.*?(?:</noscript\s*>|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_MARKUP = re.compile(
    r"<(?:!--.*?(?:-->|\Z)"
    r"|(script|style|template|noscript|title)\b.*?(?:</\1\s*>|\Z)"
    r"|[/a-z!?][^>]*(?:>|\Z))",
    re.IGNORECASE | re.DOTALL,
)
_TITLE = re.compile(r"<title\b[^>]*>([^<]{0,1000})", re.IGNORECASE)
_LANG = re.compile(r"<html\b[^>]*?\slang\s*=\s*[\"']?([\w-]+)", re.IGNORECASE)
_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"))
_MAX_STEPS = 2_000_000  # from elements up to the body: extraction takes them all

# Where the frameworks put an app.
_MOUNT_POINTS = (
    "#root,#app,#__next,#__nuxt,#___gatsby,#svelte,#react-root,#main-app,#q-app,app-root,"
    "[ng-app],[data-reactroot],[data-v-app],.ember-application"
)


def extract(body: bytes, content_type: str | None, declared_encoding: str | None = None) -> PageText:
    """Return the text of an answer. Never raises, and takes about 0.1 s at the very most, in steps of 0.05 s.

    *content_type* is the header as it came. *declared_encoding* is for bodies whose encoding is known
    from elsewhere, and wins over the header.
    """
    kind = kind_of(body, content_type)
    if kind is Kind.BINARY:
        return PageText(main=None, visible_length=0)
    markup = kind is Kind.HTML or body.startswith(b"<?xml")
    text, encoding = decode(body, content_type, declared_encoding, markup=markup)
    if kind is Kind.HTML:
        return read_html(text, encoding=encoding)
    text = text[:MAX_TEXT]
    length = characters(text)
    return PageText(main=text if length else "", main_length=length, visible_length=length, encoding=encoding)


def read_html(html: str, *, encoding: str | None = None) -> PageText:
    """Return the text of an HTML document, be it an answer's or a rendered one."""
    html = html[:MAX_HTML]
    tags = html.count("<")
    if tags > MAX_TAGS:
        html = html[: len(html) * MAX_TAGS // tags]
    if is_odd(html, tags):
        return _flat(html, encoding)
    lower = html.lower()
    tag_names = set(_TAG.findall(lower))
    removed: list[str] = []
    if "noscript" in tag_names:
        html = _NOSCRIPT.sub(lambda found: _without_noscript(found, removed), html)
    parsed = without_options(html, lower) if "option" in tag_names else html
    tree = HTMLTree.parse(parsed)
    document = tree.document
    depth = min(MAX_DEPTH, _MAX_STEPS // (tags or 1))
    if document is None or (tags > depth and document.query_selector(_deeper(depth)) is not None):
        return _flat(html, encoding)
    skip = _present(lower, tag_names)
    main = extract_plain_text(tree, main_content=True, skip_elements=skip, **_OPTIONS)
    visible = _visible(tree, skip)
    length = characters(main)
    is_shell = length < _SHORT and _is_shell(document, removed)
    if length < _SHORT and visible:
        main = _settled(tree, main, length, is_shell=is_shell)
        length = characters(main)
    return PageText(
        main=main if length else "",
        main_length=length,
        visible_length=max(visible, length),
        title=_line(tree.title),
        language=_language(document),
        encoding=encoding,
        is_shell=is_shell,
        flat=parsed is not html,
    )


def characters(text: str) -> int:
    """Count the characters of *text*, every run of white space as one, invisible ones alone as none."""
    if text.isascii() and not any(map(text.__contains__, _ODD_SPACE)):
        lengths = [len(line.strip()) for line in text.split("\n")]
        lines = len(lengths) - lengths.count(0)
        return sum(lengths) + lines - 1 if lines else 0
    text = " ".join(text.split())
    if len(text) < _SHORT and not text.isascii() and not text.translate(_INVISIBLE).strip():
        return 0
    return len(text)


def _present(lower: str, tag_names: set[str]) -> list[str]:
    """Return the selectors of what is no text that a page can have: each costs a walk over it."""
    found = [selector for selector in _NO_TEXT if selector in tag_names]
    return found + [selector for selector, word in _NO_TEXT_ATTRIBUTES if word in lower]


def _visible(tree: HTMLTree, skip: list[str]) -> int:
    """Count the visible characters. Asked for unformatted, the parser joins white space itself: mostly."""
    text = extract_plain_text(
        tree, main_content=False, preserve_formatting=False, skip_elements=skip, **_OPTIONS
    )
    return characters(text)


def _settled(tree: HTMLTree, main: str, length: int, *, is_shell: bool) -> str:
    """Settle a main text that may be too little, or stand where none is."""
    outside = _outside(tree)
    all_of_it = characters(outside)
    if not all_of_it:
        return ""
    if is_shell and (_says_wait(outside, all_of_it) or not _outside(tree, *_OVERLAYS)):
        return ""
    if length:
        is_half = length < all_of_it <= 2 * length
        return outside if is_half or not _outside(tree, *_HEADINGS, main_content=True) else main
    is_menu = all_of_it < _SHORT and not _outside(tree, "a") and not _outside(tree, *_MENUS)
    return "" if is_menu else outside


@lru_cache(1024)
def _deeper(depth: int) -> str:
    return ">".join("*" * depth)


def _outside(tree: HTMLTree, *skip: str, main_content: bool = False) -> str:
    """Return the text that stands outside of landmarks and of what *skip* selects."""
    skip = (*_NO_TEXT, *_LANDMARKS, *skip)
    text: str = extract_plain_text(tree, main_content=main_content, skip_elements=skip, **_OPTIONS)
    return text.strip()


def _says_wait(text: str, length: int) -> bool:
    """Say whether a text is no more than what stands there while another one is loaded, in any language."""
    return length <= _NOTICE and text.endswith(("...", "\N{HORIZONTAL ELLIPSIS}"))


def _flat(html: str, encoding: str | None) -> PageText:
    """Read a page without a parser, in time that grows with its length alone."""
    text = entities.unescape(_MARKUP.sub(" ", html))
    text = " ".join(text.split())
    title, language = _TITLE.search(html), _LANG.search(html)
    length = characters(text)
    return PageText(
        main=text if length else "",
        main_length=length,
        visible_length=length,
        title=_line(entities.unescape(title[1]) if title else None),
        language=language[1] if language else None,
        encoding=encoding,
        flat=True,
    )


def _line(text: str | None) -> str | None:
    return " ".join(text[:_MAX_META].split()) or None if text else None


def _language(document: Any) -> str | None:
    root = document.query_selector("html")
    value = root.getattr("lang") if root is not None else None
    return _line(value) if value and value.isprintable() else None


def _without_noscript(found: re.Match[str], removed: list[str]) -> str:
    if found[1] is None:
        return found[0]
    removed.append(found[0])
    return ""


def _is_shell(document: Any, noscripts: list[str]) -> bool:
    """Say whether an empty page waits for a browser: it asks for one, or has a place for an app."""
    if any("javascript" in noscript.lower() for noscript in noscripts):
        return True
    return all(document.query_selector(part) is not None for part in (_MOUNT_POINTS, "script"))
