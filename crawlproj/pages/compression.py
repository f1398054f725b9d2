"""Compressed bodies: unpacked piece by piece, up to a limit, and told apart from those that end early."""

from __future__ import annotations

import re
import sys
import zlib
from typing import TYPE_CHECKING, NamedTuple

import brotli  # type: ignore[import-untyped]

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from typing import TypeAlias

    #: The pieces of a body, and at the end whether its stream ended.
    Pieces: TypeAlias = Generator[bytes, None, bool]

PIECE = 256 * 1024  # bytes that are unpacked at once: less than 1 ms

_GZIP = b"\x1f\x8b\x08"
_GZIP_HEADER, _GZIP_TRAILER = 10, 8
_GZIP_CHECKSUM, _GZIP_EXTRA, _GZIP_NAME, _GZIP_COMMENT = 2, 4, 8, 16
_DEFLATE = 8
_HEADER_CHECK = 31
_ZSTD_FRAME = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")  # of data, or to be skipped
# RFC 9659: what a server may want of whoever says that it takes zstd; a frame could ask for 2 GB.
_ZSTD_WINDOW: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 23}

#: Codings that exist and that nobody asked for. Any other word is no coding, and means nothing.
_FOREIGN = frozenset({"compress", "x-compress", "exi", "pack200-gzip", "dcb", "dcz"})


class TooMuch(ValueError):
    """A body becomes larger than it may."""


class NotAsSaid(ValueError):
    """A body is in no coding that we take, or not in that which its header says."""


class Unpacked(NamedTuple):
    """A body that has been unpacked."""

    body: bytes
    whole: bool  #: False: its stream ends early


def codings_of(headers: Sequence[bytes]) -> list[str]:
    """Return the codings that Content-Encoding headers name, the outermost first.

    Words that name none (`identity`, `utf-8`, what cannot be read) are left out. Raises NotAsSaid for codings
    that we do not take.
    """
    words = b",".join(headers).decode("latin-1").lower().split(",")
    named = [word.strip() for word in reversed(words)]
    if foreign := _FOREIGN.intersection(named):
        raise NotAsSaid(f"its coding is {min(foreign)}")
    return [word for word in named if word in _UNPACKERS]


def unpacking(body: bytes, codings: Sequence[str], most: int) -> Generator[int, None, Unpacked]:
    """Unpack *body*; yield the number of bytes after each piece of work, and return the result.

    Decoders that are kind to broken servers return what there is, and say nothing; this one says. What
    follows after the end of a stream is ignored, as browsers do. An empty body is whole. Raises TooMuch for
    more than *most* bytes (0: no limit), and NotAsSaid for what is no such stream.
    """
    whole = True
    for coding in codings if body else ():
        pieces: list[bytes] = []
        size = 0
        work = _UNPACKERS[coding](body)
        while True:
            try:
                piece = next(work)
            except StopIteration as end:
                whole = whole and end.value
                break
            except (zlib.error, brotli.error, zstd.ZstdError) as exc:
                raise NotAsSaid(f"it is no {coding}: {exc}") from exc
            size += len(piece)
            if most and size > most:
                raise TooMuch(f"more than {most} bytes come out of {len(body)}")
            pieces.append(piece)
            yield len(piece)
        body = b"".join(pieces)
    return Unpacked(body, whole)


def _inflated(stream: zlib._Decompress, data: bytes) -> Pieces:
    while not stream.eof:
        piece = stream.decompress(data, PIECE)
        data = stream.unconsumed_tail
        if piece:
            yield piece
        elif not data and not stream.eof:
            return False
    return True


def _gzip(body: bytes) -> Pieces:
    """Unpack all members. The checksums behind them are not looked at: neither do browsers."""
    if not _GZIP.startswith(body[: len(_GZIP)]):
        raise zlib.error("incorrect header check")
    if len(body) < len(_GZIP):
        return False
    while body.startswith(_GZIP):
        start, stream = _gzip_data(body), zlib.decompressobj(wbits=-15)
        if not start or not (yield from _inflated(stream, body[start:])):
            return False
        body = stream.unused_data[_GZIP_TRAILER:]
    return True


def _gzip_data(body: bytes) -> int:
    """Return where a member's data begin, 0 if the body ends before."""
    flags = body[3] if len(body) >= _GZIP_HEADER else 0
    place = _GZIP_HEADER
    if flags & _GZIP_EXTRA:
        place += 2 + int.from_bytes(body[place : place + 2], "little")
    for flag in (_GZIP_NAME, _GZIP_COMMENT):
        if flags & flag:
            place = body.find(b"\0", place) + 1 or len(body)
    if flags & _GZIP_CHECKSUM:
        place += 2
    return place if place < len(body) else 0


def _deflate(body: bytes) -> Pieces:
    """Unpack zlib's format, or what stands in it without its header, as some servers send it."""
    start = 2 if body[0] & 15 == _DEFLATE and int.from_bytes(body[:2], "big") % _HEADER_CHECK == 0 else 0
    try:
        zlib.decompressobj(wbits=-15).decompress(body[start:], 1)
    except zlib.error:
        start = 0
    return (yield from _inflated(zlib.decompressobj(wbits=-15), body[start:]))


def _br(body: bytes) -> Pieces:
    stream = brotli.Decompressor()
    while piece := stream.process(body, output_buffer_limit=PIECE):
        yield piece
        if stream.is_finished():
            return True
        body = b""
    return bool(stream.is_finished())


def _zstd(body: bytes) -> Pieces:
    while body:
        stream = zstd.ZstdDecompressor(options=_ZSTD_WINDOW)
        while not stream.eof:
            piece = stream.decompress(body, PIECE)
            body = b""
            if piece:
                yield piece
            elif stream.needs_input and not stream.eof:
                return False
        body = stream.unused_data if _ZSTD_FRAME.match(stream.unused_data) else b""
    return True


_UNPACKERS: dict[str, Callable[[bytes], Pieces]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _br,
    "zstd": _zstd,
}
