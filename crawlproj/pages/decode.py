"""Bytes of a page as text: byte order mark over header over declaration over guess."""

from __future__ import annotations

import codecs
from functools import lru_cache
from typing import TYPE_CHECKING

from resiliparse.parse.encoding import detect_encoding
from w3lib.encoding import (
    html_body_declared_encoding,
    http_content_type_encoding,
    read_bom,
    resolve_encoding,
    to_unicode,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Bytes that are looked at; what comes after them is in the body, not in the text.
MAX_BYTES = 8 * 1024 * 1024

#: With fewer bytes above ASCII, a statistical guess is worse than the Web's commonest encoding.
MIN_GUESS = 60
_GUESS_BYTES = 65_536
_FALLBACK = "cp1252"
# Python knows them as text encodings, no page is written in them, and punycode takes quadratic time.
_NO_ENCODINGS = frozenset({"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"})
_HIGH = bytes(range(128, 256))
_WIDE_TAGS = (
    (b"<\0\0\0", "utf-32-le"),
    (b"\0\0\0<", "utf-32-be"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
)


def byte_order(body: bytes) -> tuple[str | None, int]:
    """Return the encoding that the first bytes give away, and the length of the mark to leave out."""
    encoding, mark = read_bom(body)
    if encoding is not None and mark is not None:
        return encoding, len(mark)
    if b"\0" in body[:2]:
        for tag, encoding in _WIDE_TAGS:
            if body.startswith(tag):
                return encoding, 0
    return None, 0


def decode(
    body: bytes, content_type: str | None, declared_encoding: str | None = None, *, markup: bool = True
) -> tuple[str, str]:
    """Return the text of *body* and the encoding that was used. Never raises.

    The encoding is that of the byte order mark (or of a wide first tag); else *declared_encoding*, which
    the caller knows from elsewhere; else the charset of *content_type*; else, in *markup*, that of the
    meta tag or XML declaration; else UTF-8 if the bytes are valid, else a guess: windows-1252 when there
    is too little to guess from. What cannot be decoded becomes U+FFFD.
    """
    whole = len(body) <= MAX_BYTES
    body = body if whole else body[:MAX_BYTES]
    encoding, mark = byte_order(body)
    if encoding is not None:
        return to_unicode(body[mark:], encoding), encoding
    for encoding in _declared(body, content_type, declared_encoding, markup=markup):
        try:
            return to_unicode(body, encoding), encoding
        except (LookupError, UnicodeError, ValueError):
            continue  # a name that Python knows, but not as the encoding of a text
    return _guessed(body, whole=whole)


def is_declared(body: bytes, content_type: str | None) -> bool:
    """Return whether a page says by itself in which encoding it is."""
    return byte_order(body)[0] is not None or any(_declared(body, content_type, None, markup=True))


def _declared(body: bytes, content_type: str | None, declared: str | None, *, markup: bool) -> Iterator[str]:
    """Yield what the page says of itself, the most trusted first."""
    if declared and (encoding := resolve_encoding(declared)) and _is_of_text(encoding):
        yield _endian(encoding)
    if (encoding := http_content_type_encoding(content_type)) and _is_of_text(encoding):
        yield _endian(encoding)
    if markup and (encoding := html_body_declared_encoding(body)) and _is_of_text(encoding):
        # The declaration could be read as ASCII, so it cannot be true.
        yield "utf-8" if encoding.startswith(("utf-16", "utf-32")) else encoding


@lru_cache(256)
def _is_of_text(encoding: str) -> bool:
    """Return whether a text may be in *encoding*: Python has others, like rot13 and base64."""
    if encoding in _NO_ENCODINGS:
        return False
    try:
        "".encode(encoding)
    except (LookupError, UnicodeError, ValueError):
        return False
    return True


def _endian(encoding: str) -> str:
    return f"{encoding}-le" if encoding in {"utf-16", "utf-32"} else encoding


def _guessed(body: bytes, *, whole: bool) -> tuple[str, str]:
    try:
        # A body that was cut may end within a character.
        return codecs.getincrementaldecoder("utf-8")().decode(body, final=whole), "utf-8"
    except UnicodeDecodeError:
        pass
    encoding = _FALLBACK
    sample = body[:_GUESS_BYTES]
    if len(sample) - len(sample.translate(None, _HIGH)) >= MIN_GUESS:
        guess = detect_encoding(sample, html5_compatible=False)
        encoding = (guess and resolve_encoding(guess)) or _FALLBACK
        if encoding == "utf-8":
            encoding = _FALLBACK  # it is not: that has just been tried
    return to_unicode(body, encoding), encoding
