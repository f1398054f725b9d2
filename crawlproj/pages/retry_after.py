"""How long an answer asks to be left alone (RFC 9110, 10.2.3, and what servers send instead).

| header                                    | holds                                                        |
|-------------------------------------------|--------------------------------------------------------------|
| Retry-After                               | seconds, with a fraction or a unit now and then; a date of   |
|                                           | HTTP's three forms or of ISO 8601; a time since 1970         |
| RateLimit-Reset, X-RateLimit-Reset,       | seconds, or a time since 1970                                |
| X-Rate-Limit-Reset, X-RateLimit-Reset-After |                                                            |
| RateLimit                                 | `limit=9, remaining=0, reset=30` or `"name";r=0;t=30`        |

The last two are asked only of answers that say "too many" or "not now", and only where no Retry-After says
it: servers send them with every answer. Of several values the longest counts. A date without a zone is
UTC, and one is compared with the answer's own Date: a server whose clock is wrong is so twice.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_MS = 366 * 86_400_000  #: nobody means more; the frontier's own cap is far below
LIMITED = frozenset({429, 503})

_NUMBER = re.compile(r"\+?([0-9]+(?:[.][0-9]*)?)\s*([a-z]*)", re.IGNORECASE)
_UNITS = {
    **dict.fromkeys(("", "s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
}
_SINCE_1970 = 1e9  # seconds from which a number is a time, not a wait: 2001, or 32 years
_IN_MILLISECONDS = 1e11  # and from which it counts them
_LATEST = 1e14  # beyond it, it is neither
_RESETS = (
    "RateLimit-Reset", "X-RateLimit-Reset", "X-Rate-Limit-Reset", "X-RateLimit-Reset-After",
)  # fmt: skip
_RESET = re.compile(r"(?:\breset=|;\s*t=)([0-9.]+)", re.IGNORECASE)


class Headers(Protocol):
    """The headers of an answer, as Scrapy has them."""

    def getlist(self, key: str, /) -> list[bytes]:
        """Return every value of a header, in the order in which they came."""


def asked_wait_ms(status: int, headers: Headers, now: float) -> int | None:
    """Return how long an answer asks to be left alone from *now* (seconds since 1970), in milliseconds.

    None where it asks for nothing, or for no wait.
    """
    values = headers.getlist("Retry-After")
    limits = status in LIMITED and _limits(headers)
    if not values and not limits:
        return None
    there = next(filter(None, (_date(_text(each)) for each in headers.getlist("Date"))), None) or now
    wait = _longest(values, there)
    return wait if wait is not None or not limits else _longest(limits, there)


def retry_after_ms(value: bytes | str, now: float) -> int | None:
    """Return the wait that one value asks for, in milliseconds; None for rubbish, and for no wait at all."""
    text = _text(value)
    wait = _wait(text, now)
    if wait is None:  # two headers may have become one
        wait = max((each for part in text.split(",") if (each := _wait(part, now)) is not None), default=0)
    return round(min(wait * 1000, LONGEST_MS)) or None if wait > 0 else None


def _longest(values: Iterable[bytes | str], now: float) -> int | None:
    waits = (retry_after_ms(value, now) for value in values)
    return max((wait for wait in waits if wait is not None), default=None)


def _limits(headers: Headers) -> list[bytes | str]:
    found: list[bytes | str] = [value for name in _RESETS for value in headers.getlist(name)]
    for value in headers.getlist("RateLimit"):
        found += _RESET.findall(_text(value))
    return found


def _wait(text: str, now: float) -> float | None:
    """Return the seconds that a text asks for, perhaps none or fewer; None if it is no number and no date."""
    text = text.strip()
    number = _NUMBER.fullmatch(text)
    if number is None:
        date = _date(text)
        return None if date is None else date - now
    unit = _UNITS.get(number[2].lower())
    if unit is None:
        return None
    value = float(number[1])
    if not number[2] and _SINCE_1970 <= value < _LATEST:
        return (value / 1000 if value >= _IN_MILLISECONDS else value) - now
    return value * unit


def _date(text: str) -> float | None:
    """Return the time that a date stands for, in seconds since 1970."""
    text = text.strip()
    # The second RFC 850's form without its zone, which is not read without.
    for parse, words in ((parsedate_to_datetime, text), (parsedate_to_datetime, f"{text} GMT"), (_iso, text)):
        try:
            date = parse(words)
            return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
    return None


def _iso(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _text(value: bytes | str) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value
