"""Pages that are large, or built so that a parser would take the square of their length."""

from __future__ import annotations

import gzip

import brotli

from tests.crawl.mock.behaviour import behaviour, done, empty, failed, html, page

ANY = (1, 10_000_000)  # characters: as much as is looked at
WORDS = b"<html><body>" + b"<p>Words that somebody can read.</p>" * 900_000
TABLE = "".join(
    f"<tr><td>{n}<td>some words in a cell<td><a href=http://127.0.0.1/{n}>more</a>" for n in range(20_000)
)

LARGE = (
    behaviour("large", done(ANY, raw=ANY), page(WORDS)),
    behaviour("large-in-gzip", done(ANY, raw=ANY), page(gzip.compress(WORDS, 1), "Content-Encoding: gzip")),
    behaviour(
        "large-in-br", done(ANY, raw=ANY), page(brotli.compress(WORDS, quality=1), "Content-Encoding: br")
    ),
    behaviour(
        "large-nothing",
        done(None, raw=0),
        page(gzip.compress(bytes(60_000_000), 1), "Content-Encoding: gzip"),
    ),
    behaviour("large-latin", done(ANY, raw=ANY), page(WORDS.replace(b"e", b"\xe9"), kind="text/html")),
    behaviour(
        "large-shift-jis",
        done(ANY, raw=ANY),
        page(html("灯台守は毎晩手紙を書き" * 500_000).encode("shift_jis"), kind="text/html"),
    ),
    behaviour(
        "large-reloads",
        done(ANY, raw=ANY),
        page(html(head="<meta http-equiv='refresh' content='500;url=/x'>").encode() + WORDS),
    ),
    behaviour(
        "many-links",
        done(ANY, raw=ANY),
        page("".join(f"<a href='http://127.0.0.1/{n}'>{n}</a> " for n in range(300_000))),
    ),
    behaviour("large-table", done(ANY, raw=ANY), page(f"<table>{TABLE}</table>")),
    behaviour("nested", empty(), page("<div>" * 400_000)),
    behaviour("nested-lists", empty(), page("<ul><li>" * 14_000)),
    behaviour("attributes", empty(), page("<a " + " ".join(f"a{n}=1" for n in range(200_000)) + " href=/x>")),
    behaviour("fonts", done(ANY, raw=ANY), page("".join(f"<p><font color={n}>a" for n in range(60_000)))),
    behaviour(
        "enormous",
        failed("too_large", 200),
        page(gzip.compress(bytes(70_000_000), 1), "Content-Encoding: gzip"),
    ),
)
