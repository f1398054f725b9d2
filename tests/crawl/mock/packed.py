"""Bodies that are compressed, or are said to be: whole, cut, mislabelled, and bombs."""

from __future__ import annotations

import gzip
import zlib
from functools import cache

import brotli
import zstandard

from tests.crawl.mock.behaviour import behaviour, done, empty, failed, html, page, status_failed

MAXSIZE = 1_000_000  # DOWNLOAD_MAXSIZE of the crawl
BODY = html().encode()
LONG = html(" ".join(f"Sentence number {n} of a long page." for n in range(2000))).encode()
ZEROS = bytes(50_000_000)


def raw_deflate(data: bytes) -> bytes:
    """Return deflate as old servers of Microsoft send it, without a header."""
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


PACKERS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.compress,
}


def packed(coding: str, body: bytes = BODY, **more: str | None) -> bytes:
    """Return an answer that says how its body is packed."""
    return page(body, f"Content-Encoding: {coding}", **more)


@cache
def bomb(coding: str) -> bytes:
    """Return 50 MB in a few KB."""
    if coding == "br":
        return bytes(brotli.compress(ZEROS, quality=5))
    return PACKERS[coding](ZEROS)


PACKED = (
    *(behaviour(f"packed-{name}", done(), packed(name, pack(BODY))) for name, pack in PACKERS.items()),
    behaviour("packed-raw-deflate", done(), packed("deflate", raw_deflate(BODY))),
    behaviour("packed-twice", done(), packed("gzip, br", brotli.compress(gzip.compress(BODY)))),
    behaviour(
        "packed-twice-in-two-headers",
        done(),
        page(brotli.compress(gzip.compress(BODY)), "Content-Encoding: gzip", "Content-Encoding: br"),
    ),
    behaviour("packed-in-capitals", done(), packed("GZip", gzip.compress(BODY))),
    behaviour(
        "packed-in-members", done(), packed("gzip", gzip.compress(BODY[:50]) + gzip.compress(BODY[50:]))
    ),
    behaviour("packed-with-rubbish-behind", done(), packed("gzip", gzip.compress(BODY) + b"rubbish" * 9)),
    behaviour(
        "packed-zstd-with-rubbish-behind", done(), packed("zstd", zstandard.compress(BODY) + b"rubbish")
    ),
    behaviour(
        "packed-br-with-rubbish-behind",
        failed("bad_content_encoding", 200),
        packed("br", brotli.compress(BODY) + b"rubbish"),
    ),
    behaviour(
        "packed-deflate-with-rubbish-behind", done(), packed("deflate", zlib.compress(BODY) + b"rubbish")
    ),
    behaviour(
        "packed-with-bad-checksum",
        done(),
        packed("gzip", gzip.compress(BODY)[:-8] + b"\0\0\0\0" + gzip.compress(BODY)[-4:]),
    ),
    behaviour("packed-nothing", empty(), packed("gzip", gzip.compress(b""))),
    behaviour("packed-no-bytes", empty(), packed("gzip", b"")),
    behaviour("packed-204", empty(status=204), b"HTTP/1.1 204 No\r\nContent-Encoding: gzip\r\n\r\n"),
    behaviour("packed-404", status_failed(404), packed("gzip", gzip.compress(BODY), status="404 Not Found")),
    behaviour(
        "cut-404-in-gzip",
        status_failed(404),
        packed("gzip", gzip.compress(LONG)[:-99], status="404 Not Found"),
    ),
    behaviour("packed-404-rubbish", status_failed(404), packed("gzip", b"rubbish", status="404 Not Found")),
    behaviour(
        "packed-once-more-than-said", done(None, raw=0), packed("gzip", gzip.compress(gzip.compress(BODY)))
    ),
    *(
        behaviour(f"cut-{name}", failed("truncated", 200), packed(name, pack(LONG)[:-200]), requests=2)
        for name, pack in PACKERS.items()
    ),
    *(
        behaviour(f"cut-at-once-{name}", failed("truncated", 200), packed(name, pack(LONG)[:5]), requests=2)
        for name, pack in PACKERS.items()
    ),
    *(
        behaviour(
            f"cut-without-length-{name}",
            failed("truncated", 200),
            packed(name, pack(LONG)[:-200]).replace(b"Content-Length", b"X-Length"),
            requests=2,
        )
        for name, pack in PACKERS.items()
    ),
    *(behaviour(f"plain-as-{name}", failed("bad_content_encoding", 200), packed(name)) for name in PACKERS),
    behaviour("rubbish-as-zstd", failed("bad_content_encoding", 200), packed("zstd", bytes(range(200)))),
    behaviour(
        "rubbish-in-the-middle",
        failed("bad_content_encoding", 200),
        packed("gzip", gzip.compress(LONG)[:2000] + bytes(range(200)) * 20),
    ),
    behaviour("known-to-nobody", done(), packed("utf-8")),
    behaviour("known-as-nothing", done(), packed("identity")),
    behaviour("unreadable-coding", done(), page(BODY, b"Content-Encoding: \xe9\xff")),
    behaviour("nothing-as-coding", done(), packed("")),
    behaviour(
        "compress",
        failed("bad_content_encoding", 200),
        packed("compress", b"\x1f\x9d\x90" + bytes(range(256)) * 2),
    ),
    *(
        behaviour(f"bomb-{name}", failed("too_large", 200), packed(name, bomb(name)))
        for name in PACKERS
        if name != "x-gzip"
    ),
    behaviour("bomb-twice", failed("too_large", 200), packed("gzip, gzip", gzip.compress(bomb("gzip")))),
    behaviour("bomb-404", status_failed(404), packed("gzip", bomb("gzip"), status="404 Not Found")),
    behaviour("too-large-by-length", failed("too_large", 200), page("x" * (MAXSIZE + 1))),
    behaviour(
        "too-large-in-the-end",
        failed("too_large", 200),
        page("x" * (MAXSIZE + 1)).replace(b"Content-Length", b"X-Length"),
    ),
)
