"""Pages as the pipelines hand them to the store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

from crawlproj.items import FetchStatus, HealthSignal, Lease, PageObject, PageText, ScheduleStatus

START = datetime(2024, 5, 1, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Link:
    """What the store needs of a `crawlproj.frontier.entries.Entry`."""

    url: str
    data: str = "h2/"  # behind a page of depth 1, as they are here


@dataclass(frozen=True, slots=True)
class Run:
    """What the store needs of a crawl."""

    id: int = 1
    name: str = "news"


def key_of(url: str) -> bytes:
    """Return the key of a page."""
    return blake2b(url.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def outcome(
    url: str = "https://a.example/", *, after: float = 0.0, attempts: int = 0, **more: Any
) -> PageObject:
    """Return a page about which nothing is known yet, *after* seconds from the start of time."""
    known: dict[str, Any] = {
        "url": url,
        "canonical_url": url,
        "key": key_of(url),
        "lease": Lease(token=1, host="a.example", attempts=attempts, min_interval_ms=None, expires_at=0.0),
        "depth": 1,
        "source_tag": None,
        "fetched_at": START + timedelta(seconds=after),
        "duration_ms": 12,
        "http_status": 200,
    }
    return PageObject(**{**known, **more})


def done(url: str = "https://a.example/", words: str = "some words", **more: Any) -> PageObject:
    """Return a page with content."""
    known: dict[str, Any] = {
        "body": f"<title>T</title><p>{words}".encode("utf-8", "surrogatepass"),
        "content_type": "text/html",
        "headers": (("Content-Type", "text/html"), ("ETag", '"1"')),
        "text": PageText(
            main=words, visible_length=len(words) + 1, title="T", language="en", encoding="utf-8"
        ),
        "fetch_status": FetchStatus.DONE,
        "schedule_status": ScheduleStatus.SUCCEEDED,
        "health_signal": HealthSignal(raw_text_length=len(words) + 1, text_length=len(words)),
        "stores": True,
    }
    return outcome(url, **{**known, **more})


def empty(url: str = "https://a.example/", **more: Any) -> PageObject:
    """Return a page without main text."""
    known: dict[str, Any] = {
        "body": b"",
        "headers": (("ETag", '"empty"'),),
        "text": PageText(main="", visible_length=0),
        "fetch_status": FetchStatus.EMPTY,
        "schedule_status": ScheduleStatus.SUCCEEDED,
        "health_signal": HealthSignal(raw_text_length=0, text_length=0),
        "stores": True,
    }
    return outcome(url, **{**known, **more})


def failed(url: str = "https://a.example/", reason: str = "timeout", **more: Any) -> PageObject:
    """Return a page that is given up."""
    known: dict[str, Any] = {
        "http_status": None,
        "failure": reason,
        "reason": reason,
        "fetch_status": FetchStatus.FAILED,
        "schedule_status": ScheduleStatus.FAILED,
    }
    return outcome(url, **{**known, **more})


def retry(url: str = "https://a.example/", **more: Any) -> PageObject:
    """Return a page that failed and is fetched again."""
    return failed(url, **{"final": False, "schedule_status": ScheduleStatus.RETRY, **more})


def not_modified(url: str = "https://a.example/", **more: Any) -> PageObject:
    """Return the answer that the stored content stands."""
    known: dict[str, Any] = {
        "http_status": 304,
        "sent_validators": True,
        "fetch_status": FetchStatus.NOT_MODIFIED,
        "schedule_status": ScheduleStatus.SUCCEEDED,
    }
    return outcome(url, **{**known, **more})


def disregarded(url: str = "https://a.example/", reason: str = "robots", **more: Any) -> PageObject:
    """Return a page that is not to be fetched."""
    known: dict[str, Any] = {
        "http_status": None,
        "duration_ms": None,
        "disregarded": reason,
        "reason": reason,
        "schedule_status": ScheduleStatus.DISREGARDED,
    }
    return outcome(url, **{**known, **more})
