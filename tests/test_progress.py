"""The live line and the summary."""

import io
import logging
import sys
from datetime import UTC, datetime

import pytest

from crawlproj.items import FetchStatus
from crawlproj.progress import Ending, Figures, LiveLine, Rate, line


def figures(**changed):
    fetched = {FetchStatus.DONE: 1204, FetchStatus.EMPTY: 31, FetchStatus.FAILED: 9}
    return Figures(
        **{"name": "site", "fetched": fetched, "queued": 3911, "leased": 0, "hosts": 12, **changed}
    )


def test_line():
    """The line names what has come to an end, what waits, the pace and what it means."""
    assert line(figures(), 6.2) == (
        "site   1,204 done · 31 empty · 9 failed · 3,911 queued │ 6.2 pages/s │ 12 hosts │ 11 min left"
    )


def test_line_says_nothing_it_does_not_know():
    """Without a rate there is no time left, and statuses that did not occur are left out."""
    assert line(figures(fetched={}, queued=1, hosts=1), None) == "site   0 done · 1 queued │ 1 host"


def test_rate_is_of_the_last_half_minute():
    """The rate forgets what was before, and says nothing in the first seconds."""
    rate = Rate()
    rate.add(0.0, 0)
    rate.add(1.0, 100)
    assert rate.per_second() is None
    for second in range(2, 100):
        rate.add(float(second), 100 + second)
    assert rate.per_second() == pytest.approx(1.0, abs=0.05)


def ending(**changed):
    values = {
        "name": "my crawl",
        "run": 2,
        "status": "sealed",
        "stop_reason": "done",
        "counts": {"fetch_status": {"done": 2, "failed": 0}, "schedule_status": {"succeeded": 2}},
        "seconds": 4.0,
        "pages": 2,
        "example": "http://h/?a=1&b=2",
    }
    return Ending(**values | changed)


def test_ending_for_a_log():
    """The summary counts, says how it ended, and gives commands that can be pasted into a shell."""
    text = "\n".join(ending().lines())
    assert "my crawl, run 2: sealed (done) · 2 pages in 4.0 s, 0.5 pages/s" in text
    assert "fetch_status: 2 done" in text
    assert "failed" not in text
    assert "scrapy page 'http://h/?a=1&b=2' --text" in text
    assert "scrapy status 'my crawl'" in text


def test_ending_of_a_worker_that_had_a_part():
    """The counts are the run's; where these are more, the sentence says whose its pages are."""
    assert "(done) · 1 page by this worker in 4.0 s" in ending(pages=1).headline


def test_ending_of_a_run_in_which_nothing_was_due():
    """It says why there are no pages and when there will be; there is no text to look at."""
    nothing = ending(
        counts={"fetch_status": {"done": 0}, "schedule_status": {"succeeded": 0}},
        pages=0,
        example=None,
        next_due=datetime(2031, 2, 3, 4, 5, 6, tzinfo=UTC),
    )
    headline, steps = nothing.lines()
    assert headline == (
        "crawl my crawl, run 2: sealed (done) · 0 pages in 4.0 s, 0.0 pages/s"
        " · nothing was due; the next page is due 2031-02-03 04:05:06 Z"
    )
    assert steps == "see: scrapy pages 'my crawl' · scrapy status 'my crawl'"


def test_ending_for_people(monkeypatch):
    """On a terminal the same is a table, on stderr."""
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    ending().print()
    assert "fetch_status" in screen.getvalue()
    assert "scrapy pages 'my crawl'" in screen.getvalue()


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_live_line_stays_whole(monkeypatch):
    """Log records and prints go above the line; each begins where the line was."""
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    handler = logging.StreamHandler(screen)
    record = logging.LogRecord("x", logging.WARNING, "f", 1, "a record", None, None)
    live = LiveLine()
    with live.around(handler):
        live.show("2 done")
        handler.emit(record)
        print("printed")  # noqa: T201  # as spiders do
        live.show("x" * 100)
    assert sys.stdout is screen
    assert shown(screen.getvalue()) == ["a record", "printed", ""]
    widest = max(len(part) for part in screen.getvalue().replace("\n", "\r").split("\r"))
    assert widest <= 40 + len("\x1b[2K")


def shown(written):
    """Return the lines a terminal shows after all that was written."""
    lines = []
    for text in written.split("\n"):
        *_, last = text.split("\r")
        lines.append(last.replace("\x1b[2K", ""))
    return lines
