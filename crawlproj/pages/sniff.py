"""What kind of body an answer has, whatever its label says."""

from __future__ import annotations

import re
from enum import StrEnum

from w3lib.encoding import http_content_type_encoding

from crawlproj.pages.decode import byte_order


class Kind(StrEnum):
    """How a body is read."""

    HTML = "html"  #: a page with a main text
    TEXT = "text"  #: its own text: plain text, JSON, XML, style sheets
    BINARY = "binary"  #: nothing to read


_HEAD = 1024
_MAGIC = (
    b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*", b"\0\0\1\0",
    b"%PDF-", b"%!PS", b"{\\rtf1", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
    b"PK\3\4", b"PK\5\6", b"\x1f\x8b\x08", b"BZh91AY&SY", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd",
    b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\7",
    b"OggS\0", b"ID3\2", b"ID3\3", b"ID3\4", b"\xff\xfb", b"fLaC\0", b"\x1aE\xdf\xa3", b"FLV\1",
    b"wOFF\0", b"wOFF\1", b"wOF2\0", b"wOF2\1", b"OTTO\0", b"\0\1\0\0\0",
    b"\x7fELF", b"\0asm", b"\xca\xfe\xba\xbe", b"SQLite format 3\0",
)  # fmt: skip
_RIFF = (b"WEBP", b"WAVE", b"AVI ")
# Control characters that no text has. ESC is not among them: ISO-2022 text is full of it.
_CONTROLS = bytes({*range(0x20)} - {*b"\t\n\f\r\x1b"})
_MAX_CONTROLS = 0.04  # random or compressed bytes have 10 %, a dirty page has one or two in all

_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml", "application/vnd.wap.xhtml+xml"})
_XML_TYPES = frozenset({"text/xml", "application/xml"})
_BINARY_TYPES = re.compile(
    r"(?:image|audio|video|font|model)/"
    r"|application/(?:pdf|postscript|rtf|zip|gzip|x-gzip|java-archive|wasm|msword|vnd\.(?:ms-|openxml|oasis))"
)
_TEXT_TYPES = re.compile(
    r"text/|[^/]+/(?:[^;]*\+)?(?:json|xml|yaml)$"
    r"|application/(?:json.*|x-json|(?:x-)?(?:java|ecma)script|x?ml-dtd|x-yaml|x-ndjson|ld\+json|graphql|sql)$"
)
# A doctype, or one of the tags that browsers sniff, after white space, comments and XML prologs.
_HTML = re.compile(
    rb"(?>\s+|<!--.*?-->|<\?xml.*?\?>)*+<(?:!doctype\s+html|(?:html|head|body|title|meta|link|script|style|"
    rb"iframe|font|table|div|h1|h2|p|a|br|b|img|main|article|section|ul|form|center)(?=[\s/>]))",
    re.IGNORECASE | re.DOTALL,
)
_XHTML = re.compile(
    rb"(?>\s+|<!--.*?-->|<\?xml.*?\?>|<!doctype[^>]*>)*+<html(?=[\s/>])", re.IGNORECASE | re.DOTALL
)


def kind_of(body: bytes, content_type: str | None) -> Kind:
    """Return how *body* is read; its first bytes count for more than its label."""
    head = body[:_HEAD]
    if head.startswith(_MAGIC) or head[4:8] == b"ftyp" or (head[:4] == b"RIFF" and head[8:12] in _RIFF):
        return Kind.BINARY
    label = (content_type or "").partition(";")[0].strip().lower()
    head = _narrow(head, content_type)
    if _is_binary(head):
        return Kind.BINARY
    if label in _HTML_TYPES:
        return Kind.HTML
    if label in _XML_TYPES:
        return Kind.HTML if _XHTML.match(head) else Kind.TEXT
    if not _BINARY_TYPES.match(label) and _TEXT_TYPES.match(label):
        return Kind.TEXT
    if _HTML.match(head):
        return Kind.HTML
    return Kind.BINARY if _BINARY_TYPES.match(label) and body else Kind.TEXT


def _narrow(head: bytes, content_type: str | None) -> bytes:
    """Return the head of a UTF-16 or UTF-32 text as UTF-8; anything else as it is."""
    encoding, mark = byte_order(head)
    if encoding is None:
        encoding = http_content_type_encoding(content_type)
    if encoding is None or not encoding.startswith(("utf-16", "utf-32")):
        return head[mark:]
    return head[mark:].decode(encoding, "ignore").encode("utf-8", "ignore")


def _is_binary(head: bytes) -> bool:
    return len(head) - len(head.translate(None, _CONTROLS)) > _MAX_CONTROLS * len(head)
