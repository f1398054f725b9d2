"""The text of every page is read once, on its way to the spider."""

from __future__ import annotations

import gzip

from tests.middlewares.answers import answering

SIGNAL = {
    "render_duration_ms": None,
    "xhr_error_count": None,
    "xhr_total_count": None,
    "has_console_error": None,
}


def test_spider_finds_the_health_signal() -> None:
    """It is in the response's meta when the callback runs; the text is with the visit."""
    with answering() as site:
        (told,) = site.crawl(site.add("/", body=b"<nav>Home</nav><p>Two words"))
    assert (told["outcome"], told["text"]) == ("callback 200", "Two words")
    assert told["health_signal"] == {**SIGNAL, "raw_text_length": 14, "text_length": 9}


def test_text_is_read_behind_decompression() -> None:
    """What is read is the page, not its wrapping."""
    with answering() as site:
        url = site.add("/", body=gzip.compress(b"<p>Two words"), Content_Encoding="gzip")
        (told,) = site.crawl(url)
    assert told["text"] == "Two words"


def test_header_says_the_encoding() -> None:
    """The content type goes with the body."""
    with answering() as site:
        url = site.add(
            "/", body="<p>größer".encode("koi8-r", "replace"), Content_Type="text/html; charset=koi8-r"
        )
        cyrillic = site.add("/ru", body="<p>да".encode("koi8-r"), Content_Type="text/html; charset=koi8-r")
        assert [each["text"] for each in site.crawl(url, cyrillic)] == ["gr??er", "да"]


def test_spider_reads_the_page_in_the_same_encoding() -> None:
    """Where a page does not declare one, Scrapy's guess for this is cp1006."""
    with answering() as site:
        guessed = site.add("/guessed", body=b"<p>caf\xe9")
        declared = site.add("/declared", body=b"<meta charset=koi8-r><p>\xc4\xc1")
        told = site.crawl(guessed, declared)
    assert [(each["text"], each["encoding"]) for each in told] == [("café", "cp1252"), ("да", "koi8-r")]


def test_large_page_is_read_as_a_small_one_is() -> None:
    """In a thread: text, signal and encoding are there when the callback runs."""
    with answering() as site:
        large = site.add("/", body=b"<p>caf\xe9 " + b"au lait " * 20_000)
        (told,) = site.crawl(large)
    assert (told["outcome"], told["encoding"]) == ("callback 200", "cp1252")
    assert told["text"] == "caf\xe9 " + " ".join(["au lait"] * 20_000)
    assert told["health_signal"]["text_length"] == len(told["text"])


def test_binary_body_has_a_signal_with_null() -> None:
    """Null is not zero."""
    with answering() as site:
        (told,) = site.crawl(site.add("/", body=b"%PDF-1.4 rest", Content_Type="application/pdf"))
    assert told["health_signal"] == {**SIGNAL, "raw_text_length": 0, "text_length": None}


def test_error_page_is_not_read() -> None:
    """It has no signal, not even to a spider that handles it."""
    with answering() as site:
        gone = {"url": site.add("/gone", 404), "meta": {"handle_httpstatus_list": [404]}}
        (told,) = site.crawl(gone)
    assert (told["outcome"], told["text"], told["health_signal"]) == ("callback 404", None, None)


def test_request_from_elsewhere_is_left_alone() -> None:
    """A download through the engine is no page."""
    with answering() as site:
        (told,) = site.crawl({"url": site.add("/"), "leased": False})
    assert (told["outcome"], told["health_signal"]) == ("callback 200", None)
