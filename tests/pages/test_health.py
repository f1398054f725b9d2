"""How healthy one page looked."""

from __future__ import annotations

from crawlproj.items import PageText
from crawlproj.pages.health import raw_signal
from crawlproj.pages.text import extract


def test_raw_page_has_no_browser_fields() -> None:
    """Null is not zero: no browser has looked."""
    signal = raw_signal(extract(b"<nav>Home</nav><p>Two words</p>", "text/html"))
    assert signal.as_dict() == {
        "render_duration_ms": None,
        "raw_text_length": 14,
        "text_length": 9,
        "xhr_error_count": None,
        "xhr_total_count": None,
        "has_console_error": None,
    }


def test_binary_body_has_null_text_length() -> None:
    """Nobody has looked for words in it."""
    signal = raw_signal(extract(b"%PDF-1.4", "application/pdf"))
    assert (signal.text_length, signal.raw_text_length) == (None, 0)


def test_empty_page_has_zero_text_length() -> None:
    """Somebody has looked, and found nothing."""
    signal = raw_signal(extract(b"", "text/html"))
    assert (signal.text_length, signal.raw_text_length) == (0, 0)


def test_text_length_is_counted_where_it_is_not_given() -> None:
    """White space counts once, and the main text is part of the visible text."""
    signal = raw_signal(PageText(main=" two \n words ", visible_length=3))
    assert (signal.text_length, signal.raw_text_length) == (9, 9)
