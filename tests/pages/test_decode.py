"""Byte order mark over header over declaration over guess."""

# ruff: noqa: RUF001  # other alphabets are what this is about

from __future__ import annotations

import pytest

from crawlproj.pages.decode import MAX_BYTES, decode

RUSSIAN = "Привет, мир. Это русский текст, которого достаточно, чтобы узнать его кодировку. "
JAPANESE = "これは日本語の文章です。文字コードを推測するのに十分な長さがあります。"


@pytest.mark.parametrize(
    ("body", "content_type", "want"),
    [
        (b"\xef\xbb\xbfcaf\xc3\xa9", "text/html; charset=iso-8859-1", ("café", "utf-8")),
        ("café".encode("utf-16"), "text/html; charset=iso-8859-1", ("café", "utf-16-le")),
        (b"\xfe\xff" + "café".encode("utf-16-be"), None, ("café", "utf-16-be")),
        ("<p>café".encode("utf-16-le"), "text/html", ("<p>café", "utf-16-le")),
        ("<p>café".encode("utf-16-be"), "text/html", ("<p>café", "utf-16-be")),
        (b"caf\xe9", "text/html; charset=latin1", ("café", "cp1252")),
        (b"caf\xe9", 'text/html; charset="windows-1252"', ("café", "cp1252")),
        (b"caf\xe9", "text/html; charset=utf-8", ("caf\ufffd", "utf-8")),
        (b"<meta charset=koi8-r>\xf0", "text/html; charset=utf-8", ("<meta charset=koi8-r>\ufffd", "utf-8")),
        (b"<meta charset=cp1251>\xcf", "text/html", ("<meta charset=cp1251>П", "cp1251")),
        (b'<?xml version="1.0" encoding="cp1251"?>\xcf', None, None),
        (b"<meta charset=utf-16>caf\xc3\xa9", "text/html", ("<meta charset=utf-16>café", "utf-8")),
    ],
)
def test_order_of_what_says_the_encoding(
    body: bytes, content_type: str | None, want: tuple[str, str] | None
) -> None:
    """The most trusted word counts, and the encoding that was used is told."""
    assert decode(body, content_type) == (want or (body.decode("cp1251"), "cp1251"))


@pytest.mark.parametrize(
    ("body", "want"),
    [
        (b"plain", ("plain", "utf-8")),
        (b"", ("", "utf-8")),
        (b"caf\xc3\xa9", ("café", "utf-8")),
        (b"caf\xe9", ("café", "cp1252")),
        (b"\x93quoted\x94 \x80 5", ("“quoted” € 5", "cp1252")),
        ("日本語".encode("shift_jis"), ("日本語".encode("shift_jis").decode("cp1252", "replace"), "cp1252")),
    ],
)
def test_short_undeclared_text_has_a_sane_default(body: bytes, want: tuple[str, str]) -> None:
    """UTF-8 where it is valid, else windows-1252: a few bytes are too few for statistics."""
    assert decode(body, None) == want


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (RUSSIAN, "cp1251"),
        (RUSSIAN, "koi8-r"),
        (JAPANESE, "shift_jis"),
        (JAPANESE, "euc_jp"),
        ("这是一段中文文本，长度足够用来猜测它的编码。我们希望它能被正确识别出来。", "gb18030"),
        ("這是一段中文文本，長度足夠用來猜測它的編碼。我們希望它能被正確識別出來。" * 2, "big5"),
        ("이것은 인코딩을 추측하기에 충분히 긴 한국어 텍스트입니다. 제대로 인식되기를 바랍니다.", "euc_kr"),
        ("Größe und Stärke über äußerst schöne Häuser für süße Bären, größer als früher. " * 6, "cp1252"),
        ("L’été dernier, l’élève a été très étonné : ça a coûté 100 € à Noël, déjà. " * 6, "cp1252"),
    ],
)
def test_longer_undeclared_text_is_guessed(text: str, encoding: str) -> None:
    """Enough bytes above ASCII say which language it is."""
    assert decode(text.encode(encoding), "text/html")[0] == text


@pytest.mark.parametrize(
    "name", ["punycode", "idna", "base64", "rot13", "undefined", "unicode_escape", "utf-7", "no"]
)
def test_names_that_are_no_encoding_of_a_page(name: str) -> None:
    """What a page cannot be written in is taken for no declaration at all."""
    assert decode(b"caf\xe9 \\u0041", f"text/html; charset={name}", name) == ("café \\u0041", "cp1252")


def test_only_the_first_bytes_are_looked_at() -> None:
    """A text of any size takes bounded time; the cut may fall within a character."""
    text, encoding = decode(b"x" * (MAX_BYTES - 1) + "é".encode(), None)
    assert (len(text), encoding) == (MAX_BYTES - 1, "utf-8")
