"""How healthy one page looked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crawlproj.items import HealthSignal
from crawlproj.pages.text import characters

if TYPE_CHECKING:
    from crawlproj.items import PageText


def raw_signal(text: PageText) -> HealthSignal:
    """Return the signal of a page that no browser has seen: its four browser fields are null."""
    length = text.main_length
    if length is None and text.main is not None:
        length = characters(text.main)
    return HealthSignal(raw_text_length=max(text.visible_length, length or 0), text_length=length)
