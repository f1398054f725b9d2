"""Compressed bodies: what comes out of them, and whether they are all there."""

from __future__ import annotations

import gzip
import io
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING

import brotli
import pytest
import zstandard

from crawlproj.pages.compression import PIECE, NotAsSaid, TooMuch, codings_of, unpacking

if TYPE_CHECKING:
    from crawlproj.pages.compression import Unpacked

TEXT = b"".join(b"<p>Paragraph %d is not like the others.</p>\n" % n for n in range(20_000))
RAW_DEFLATE = zlib.compressobj(wbits=-15)
STREAMED_ZSTD = zstandard.ZstdCompressor().compressobj()


def with_every_field() -> bytes:
    """Return a gzip stream with all that its header may have."""
    bare = gzip.compress(TEXT)
    return bare[:3] + b"\x1e" + bare[4:10] + b"\x03\0abc" + b"name\0" + b"comment\0" + b"\0\0" + bare[10:]


def named() -> bytes:
    """Return a gzip stream as programs write it into files."""
    file = io.BytesIO()
    with gzip.GzipFile("page.html", "wb", fileobj=file) as packed:
        packed.write(TEXT)
    return file.getvalue()


WHOLE = {
    "gzip": ("gzip", gzip.compress(TEXT)),
    "x-gzip": ("x-gzip", gzip.compress(TEXT)),
    "gzip in two members": ("gzip", gzip.compress(TEXT[:900]) + gzip.compress(TEXT[900:])),
    "gzip with a name": ("gzip", named()),
    "gzip with every field": ("gzip", with_every_field()),
    "gzip without checksum": ("gzip", gzip.compress(TEXT)[:-8]),
    "gzip with a bad checksum": ("gzip", gzip.compress(TEXT)[:-8] + bytes(8)),
    "gzip with zeros behind": ("gzip", gzip.compress(TEXT) + bytes(20)),
    "deflate": ("deflate", zlib.compress(TEXT)),
    "deflate without header": ("deflate", RAW_DEFLATE.compress(TEXT) + RAW_DEFLATE.flush()),
    "deflate without checksum": ("deflate", zlib.compress(TEXT)[:-4]),
    "deflate with rubbish behind": ("deflate", zlib.compress(TEXT) + b"rubbish"),
    "br": ("br", brotli.compress(TEXT)),
    "zstd": ("zstd", zstandard.compress(TEXT)),
    "zstd without size": ("zstd", STREAMED_ZSTD.compress(TEXT) + STREAMED_ZSTD.flush()),
    "zstd in two frames": ("zstd", zstandard.compress(TEXT[:900]) + zstandard.compress(TEXT[900:])),
    "zstd behind a frame to skip": ("zstd", b"\x5a\x2a\x4d\x18\x03\0\0\0abc" + zstandard.compress(TEXT)),
    "zstd with rubbish behind": ("zstd", zstandard.compress(TEXT) + b"rubbish"),
}
CUT = (
    "gzip",
    "gzip with every field",
    "deflate",
    "deflate without header",
    "br",
    "zstd",
    "zstd without size",
)


def unpacked(body: bytes, *codings: str, most: int = 0) -> Unpacked:
    """Return what comes of a body, and see to it that it comes in small pieces."""
    work = unpacking(body, codings, most)
    while True:
        try:
            assert next(work) <= 4 * PIECE  # brotli's pieces are about as large as they are asked for
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


@pytest.mark.parametrize(("coding", "body"), WHOLE.values(), ids=WHOLE)
def test_a_whole_body_comes_out_whole(coding: str, body: bytes) -> None:
    """A stream that ends is all there, however it was made and whatever follows it."""
    assert unpacked(body, coding) == (TEXT, True)


@pytest.mark.parametrize("share", [0.0001, 0.02, 0.5, 0.81, 0.99])
@pytest.mark.parametrize("name", CUT)
def test_a_body_that_ends_early_is_not_whole(name: str, share: float) -> None:
    """A stream that does not end is half a page, however much of it there is."""
    coding, body = WHOLE[name]
    found = unpacked(body[: int(len(body) * share) + 1], coding)
    assert TEXT.startswith(found.body)
    assert not found.whole


def test_a_second_gzip_member_that_ends_early_is_cut() -> None:
    """The end of the first one proves nothing."""
    assert not unpacked(gzip.compress(TEXT[:900]) + gzip.compress(TEXT[900:])[:-30], "gzip").whole


def test_codings_are_taken_off_from_the_outermost() -> None:
    """The last that the headers name came last; what is cut inside is cut."""
    assert codings_of([b"gzip, br", b"ZSTD"]) == ["zstd", "br", "gzip"]
    twice = brotli.compress(gzip.compress(TEXT))
    assert unpacked(twice, "br", "gzip") == (TEXT, True)
    assert not unpacked(brotli.compress(gzip.compress(TEXT)[:-30]), "br", "gzip").whole


def test_words_that_are_no_coding_mean_nothing() -> None:
    """Servers write there what comes to their mind; a coding that nobody asked for is another matter."""
    assert (
        codings_of([b"identity"])
        == codings_of([b"utf-8"])
        == codings_of([b"\xe9\xff"])
        == codings_of([b""])
        == []
    )
    with pytest.raises(NotAsSaid, match="compress"):
        codings_of([b"compress"])


def test_no_bytes_are_whole() -> None:
    """An empty page is often said to be compressed."""
    assert unpacked(b"", "gzip") == (b"", True)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_what_is_no_such_stream_is_said_to_be_none(coding: str) -> None:
    """A page that is not compressed at all; one that breaks in the middle is that, or not whole."""
    with pytest.raises(NotAsSaid):
        unpacked(TEXT, coding)
    packed = WHOLE[coding][1]
    with suppress(NotAsSaid):
        assert not unpacked(packed[:3000] + bytes(range(256)) * 20, coding).whole


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_no_more_comes_out_than_may(coding: str) -> None:
    """A bomb ends at the limit; a body that is exactly as large as it may be is none."""
    packed = WHOLE[coding][1]
    assert unpacked(packed, coding, most=len(TEXT)).body == TEXT
    with pytest.raises(TooMuch):
        unpacked(packed, coding, most=len(TEXT) - 1)


def test_a_zstd_frame_cannot_ask_for_more_memory_than_others() -> None:
    """RFC 9659: a window of 8 MB at most."""
    asked = zstandard.ZstdCompressionParameters(window_log=27)
    stream = zstandard.ZstdCompressor(compression_params=asked).compressobj()
    with pytest.raises(NotAsSaid, match="memory"):
        unpacked(stream.compress(TEXT * 20) + stream.flush(), "zstd")
