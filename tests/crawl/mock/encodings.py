"""Encodings: the mark before the header before the declaration before the guess."""

# ruff: noqa: RUF001  # letters of other alphabets are what this is about

from __future__ import annotations

import codecs

from tests.crawl.mock.behaviour import Behaviour, behaviour, done, html, page

JAPANESE = (
    "灯台守は毎晩手紙を書き、朝になると渡し船がそれを運んだ。島の誰も、誰に宛てたものかを尋ねたことはなかった。"
    * 3
)
CHINESE = "灯塔看守人每天晚上都会写一封信，早上渡船会把它带走。岛上没有人问过他写给谁。" * 3
RUSSIAN = "Смотритель маяка каждый вечер писал письмо, а утром паром увозил его на берег. " * 3
FRENCH = (
    "Le gardien du phare écrivait une lettre chaque soir, « à l’été comme à l’hiver », et le bac part. " * 2
)


def written(
    name: str,
    text: str,
    encoding: str,
    used: str,
    kind: str = "text/html",
    head: str = "",
    *,
    mark: bytes = b"",
    requests: int = 1,
) -> Behaviour:
    """Return a page written in *encoding*, of which *used* is what is recorded."""
    text = text.strip()
    body = mark + html(text, head).encode(encoding)
    return behaviour(
        f"written-{name}", done(len(text), encoding=used), page(body, kind=kind), requests=requests
    )


ENCODINGS = (
    # the mark before the header before the declaration before the guess
    written(
        "mark-over-header", FRENCH, "utf-8", "utf-8", "text/html; charset=iso-8859-1", mark=codecs.BOM_UTF8
    ),
    written(
        "mark-over-declaration",
        FRENCH,
        "utf-8",
        "utf-8",
        head='<meta charset="shift_jis">',
        mark=codecs.BOM_UTF8,
    ),
    written(
        "header-over-declaration",
        FRENCH,
        "cp1252",
        "cp1252",
        "text/html; charset=windows-1252",
        '<meta charset="utf-8">',
    ),
    written("declaration", JAPANESE, "shift_jis", "cp932", head='<meta charset="shift_jis">'),
    written(
        "declaration-of-old",
        RUSSIAN,
        "cp1251",
        "cp1251",
        head='<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">',
    ),
    written(
        "declaration-malformed",
        RUSSIAN,
        "cp1251",
        "cp1251",
        head='<meta http-equiv=Content-Type content="text/html;charset=windows-1251;">',
    ),
    written("declaration-without-quotes", RUSSIAN, "koi8-r", "koi8-r", head="<meta charset=koi8-r />"),
    written("guess-utf-8", FRENCH, "utf-8", "utf-8"),
    written("guess-japanese", JAPANESE, "euc-jp", "euc_jp"),
    written("guess-chinese", CHINESE, "gb18030", "gb18030"),
    written("guess-russian", RUSSIAN, "cp1251", "cp1251"),
    written("utf-16-with-mark", JAPANESE, "utf-16-le", "utf-16-le", mark=codecs.BOM_UTF16_LE),
    written("utf-16-be-with-mark", JAPANESE, "utf-16-be", "utf-16-be", mark=codecs.BOM_UTF16_BE),
    written("utf-16-by-header", FRENCH, "utf-16-le", "utf-16-le", "text/html; charset=utf-16"),
    written("utf-16-unsaid", FRENCH, "utf-16-le", "utf-16-le"),
    written("utf-32-with-mark", FRENCH, "utf-32-le", "utf-32-le", mark=codecs.BOM_UTF32_LE),
    written("utf-32-be-with-mark", FRENCH, "utf-32-be", "utf-32-be", mark=codecs.BOM_UTF32_BE),
    written("declared-as-utf-16", FRENCH, "utf-8", "utf-8", head='<meta charset="utf-16">'),
    written("shift-jis-by-header", JAPANESE, "shift_jis", "cp932", "text/html; charset=Shift_JIS"),
    written("gb18030-by-header", CHINESE, "gb18030", "gb18030", "text/html; charset=gb2312"),
    written("big5", "燈塔看守人每天晚上都會寫一封信" * 5, "big5", "big5hkscs", "text/html; charset=big5"),
    written("iso-2022-jp", JAPANESE, "iso-2022-jp", "iso2022_jp", "text/html; charset=iso-2022-jp"),
    written(
        "iso-8859-15",
        "Das kostet 20 € für die Überfahrt, und zurück geht es am Abend für die Hälfte. " * 2,
        "iso-8859-15",
        "iso8859-15",
        "text/html; charset=iso-8859-15",
    ),
    written("unknown-name", FRENCH, "utf-8", "utf-8", "text/html; charset=x-no-such-thing"),
    written("name-of-no-text", FRENCH, "utf-8", "utf-8", "text/html; charset=rot13"),
    written("name-with-nul", FRENCH, "utf-8", "utf-8", "text/html; charset=u\0tf", requests=2),
    written("punycode", FRENCH, "utf-8", "utf-8", "text/html; charset=punycode"),
    written("cp1252-under-utf-8", FRENCH, "cp1252", "utf-8", "text/html; charset=utf-8"),
    written("short-latin", "café au lait", "cp1252", "cp1252"),
    written("short-japanese", "灯台守の手紙", "utf-8", "utf-8"),
    behaviour(
        "written-xml-declaration",
        done(len(RUSSIAN.strip()), encoding="cp1251"),
        page(
            ("<?xml version='1.0' encoding='windows-1251'?>" + html(RUSSIAN.strip())).encode("cp1251"),
            kind="application/xhtml+xml",
        ),
    ),
)
