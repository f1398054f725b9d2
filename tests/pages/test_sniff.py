"""What kind of body an answer has."""

from __future__ import annotations

import gzip
import random
import time

import pytest

from crawlproj.pages.sniff import Kind, kind_of

PAGE = b"<!DOCTYPE html><html><p>text"


@pytest.mark.parametrize(
    ("body", "content_type", "want"),
    [
        (PAGE, "text/html", Kind.HTML),
        (PAGE, "TEXT/HTML;charset=x", Kind.HTML),
        (PAGE, None, Kind.HTML),
        (PAGE, "", Kind.HTML),
        (PAGE, "application/octet-stream", Kind.HTML),
        (PAGE, "application/pdf", Kind.HTML),
        (PAGE, "image/png", Kind.HTML),
        (PAGE, "not a type at all", Kind.HTML),
        (b"\xef\xbb\xbf \n<!-- c --><HTML>", None, Kind.HTML),
        (PAGE.decode().encode("utf-16"), None, Kind.HTML),
        (PAGE.decode().encode("utf-16-le"), "text/html; charset=utf-16le", Kind.HTML),
        (PAGE.decode().encode("utf-16-le"), "text/html", Kind.HTML),
        (b"just words", "text/html", Kind.HTML),
        (b"", "text/html", Kind.HTML),
        (b"<p>a\0b</p>" + b"word " * 20, "text/html", Kind.HTML),
        (b"<a/>", "application/xhtml+xml", Kind.HTML),
        (b"<?xml version='1.0'?><!DOCTYPE html PUBLIC ''><html xmlns=''>", "text/xml", Kind.HTML),
        (b"<?xml version='1.0'?><feed/>", "text/xml", Kind.TEXT),
        (b"<rss/>", "application/rss+xml", Kind.TEXT),
        (PAGE, "text/plain", Kind.TEXT),
        (b"{}", "application/json; charset=utf-8", Kind.TEXT),
        (b"{}", "application/problem+json", Kind.TEXT),
        (b"a,b", "text/csv", Kind.TEXT),
        (b"x()", "application/javascript", Kind.TEXT),
        (b"<rss/>", None, Kind.TEXT),
        (b"words", None, Kind.TEXT),
        (b"words", "application/x-whatever", Kind.TEXT),
        (b"", None, Kind.TEXT),
        (b"", "image/png", Kind.TEXT),
        (b"\x1b$B%F%9%H\x1b(B " * 9, "text/plain; charset=iso-2022-jp", Kind.TEXT),
        (b"BMW builds cars. MZ built motorcycles.", "text/plain", Kind.TEXT),
        (b"<svg/>", "image/svg+xml", Kind.BINARY),
        (b"words", "application/pdf", Kind.BINARY),
        (b"words", "video/mp4", Kind.BINARY),
        (b"words", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", Kind.BINARY),
        (b"\x89PNG\r\n\x1a\nrest", "text/html", Kind.BINARY),
        (b"GIF89a rest", "text/plain", Kind.BINARY),
        (b"%PDF-1.4", "text/html", Kind.BINARY),
        (b"RIFF\1\2\3\4WEBPVP8 ", None, Kind.BINARY),
        (b"\0\0\0\x18ftypmp42", None, Kind.BINARY),
        (gzip.compress(b"<urlset/>", mtime=0), "application/xml", Kind.BINARY),
        (random.Random(1).randbytes(2000), "text/html", Kind.BINARY),
        (random.Random(2).randbytes(2000), None, Kind.BINARY),
    ],
)
def test_bytes_count_for_more_than_the_label(body: bytes, content_type: str | None, want: Kind) -> None:
    """Rubbish is never read as text, and a page is read whatever its label."""
    assert kind_of(body, content_type) is want


@pytest.mark.parametrize("body", [b"<!-- -->" * 128, b"<?xml ?>" * 128, b" <!---->\n" * 120])
def test_looking_at_comments_takes_no_time(body: bytes) -> None:
    """The patterns do not try every way of splitting what they skip."""
    start = time.process_time()
    assert kind_of(body, None) is Kind.TEXT
    assert time.process_time() - start < 0.05
