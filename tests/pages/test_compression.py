"""Whether a compressed body is all there."""

from __future__ import annotations

import gzip
import time
import zlib

import brotli
import pytest
import zstandard

from crawlproj.pages.compression import is_cut

TEXT = b"".join(b"<p>Paragraph %d is not like the others.</p>\n" % n for n in range(2000))
RAW_DEFLATE = zlib.compressobj(wbits=-15)
STREAMED_ZSTD = zstandard.ZstdCompressor().compressobj()
WHOLE = {
    "gzip": ("gzip", gzip.compress(TEXT)),
    "x-gzip": ("x-gzip", gzip.compress(TEXT)),
    "gzip in two members": ("gzip", gzip.compress(TEXT[:900]) + gzip.compress(TEXT[900:])),
    "deflate": ("deflate", zlib.compress(TEXT)),
    "deflate without header": ("deflate", RAW_DEFLATE.compress(TEXT) + RAW_DEFLATE.flush()),
    "deflate without checksum": ("deflate", zlib.compress(TEXT)[:-4]),
    "br": ("br", brotli.compress(TEXT)),
    "zstd": ("zstd", zstandard.compress(TEXT)),
    "zstd without size": ("zstd", STREAMED_ZSTD.compress(TEXT) + STREAMED_ZSTD.flush()),
    "unknown": ("compress", b"anything"),
    "nothing": ("gzip", b""),
}


@pytest.mark.parametrize(("encoding", "body"), WHOLE.values(), ids=WHOLE)
def test_whole_body_is_not_cut(encoding: str, body: bytes) -> None:
    """A stream that ends is all there, however it was made."""
    assert not is_cut(body, encoding, len(TEXT))


def test_what_follows_a_gzip_stream_is_ignored() -> None:
    """Servers pad; browsers do not mind."""
    assert not is_cut(gzip.compress(TEXT) + b"\0" * 20, "gzip", len(TEXT))


@pytest.mark.parametrize("share", [0.02, 0.5, 0.81, 0.99])
@pytest.mark.parametrize(
    "name", ["gzip", "deflate", "deflate without header", "br", "zstd", "zstd without size"]
)
def test_body_that_ends_early_is_cut(name: str, share: float) -> None:
    """A stream that does not end is half a page, however much of it there is."""
    encoding, body = WHOLE[name]
    assert is_cut(body[: int(len(body) * share)], encoding, int(len(TEXT) * share))


def test_second_gzip_member_that_ends_early_is_cut() -> None:
    """The size at the end of the first one proves nothing."""
    body = gzip.compress(TEXT[:900]) + gzip.compress(TEXT[900:])[:-30]
    assert is_cut(body, "gzip", len(TEXT) - 50)


def test_whole_gzip_body_is_not_decoded_again() -> None:
    """Its last bytes say its size: nearly every body costs next to nothing."""
    body = gzip.compress(bytes(50_000_000), compresslevel=1)
    start = time.process_time()
    assert not is_cut(body, "gzip", 50_000_000)
    assert time.process_time() - start < 0.005
