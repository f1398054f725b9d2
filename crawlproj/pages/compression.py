"""Whether a compressed body is all there."""

from __future__ import annotations

import zlib

import brotli  # type: ignore[import-untyped]
import zstandard

_CHUNK = 1024 * 1024
_GZIP = b"\x1f\x8b"
_GZIP_LEAST = 18  # header and trailer


def is_cut(body: bytes, encoding: str, size: int) -> bool:
    """Return whether *body*, which has been decoded to *size* bytes, ends before its stream does.

    Decoders that are kind to broken servers return what there is, and say nothing. What follows after
    the end of a stream is ignored, as browsers do. An unknown *encoding* is never cut.
    """
    if not body:
        return False
    try:
        if encoding in {"gzip", "x-gzip"}:
            # A gzip stream ends with its size, so that a whole one is not decoded again.
            ends_with_size = int.from_bytes(body[-4:], "little") == size & 0xFFFFFFFF
            return not (ends_with_size and len(body) >= _GZIP_LEAST) and not _gzip_ends(body)
        if encoding == "deflate":
            return not _deflate_ends(body)
        if encoding == "br":
            return not _brotli_ends(body)
        if encoding == "zstd":
            stream = zstandard.ZstdDecompressor().decompressobj()
            stream.decompress(body)
            return not stream.eof
    except (zlib.error, brotli.error, zstandard.ZstdError):
        return True
    return False


def _gzip_ends(body: bytes) -> bool:
    while body.startswith(_GZIP):
        stream = zlib.decompressobj(wbits=31)
        if not _ends(stream, body):
            return False
        body = stream.unused_data
    return True


def _deflate_ends(body: bytes) -> bool:
    """Look at the blocks alone: the checksum after them is often missing, and so is the header."""
    try:
        zlib.decompressobj().decompress(body, 1)
    except zlib.error:
        return _ends(zlib.decompressobj(wbits=-15), body)
    return _ends(zlib.decompressobj(wbits=-15), body[2:])


def _ends(stream: zlib._Decompress, body: bytes) -> bool:
    while body and not stream.eof:
        stream.decompress(body, _CHUNK)
        body = stream.unconsumed_tail
    return stream.eof


def _brotli_ends(body: bytes) -> bool:
    stream = brotli.Decompressor()
    data = body
    while not stream.is_finished():
        if not stream.process(data, output_buffer_limit=_CHUNK) and not data:
            return False
        data = b""
    return True
