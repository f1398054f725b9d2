"""The live line of a crawl and the summary at its end."""

from __future__ import annotations

import contextlib
import math
import shlex
import sys
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from crawlproj.items import FetchStatus, ScheduleStatus
from crawlproj.output import (
    NOTHING,
    bare_table,
    console,
    duration,
    is_terminal,
    moment,
    number,
    one_line,
    styled,
)

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from rich.console import Console

    from crawlproj.worker import Worker

WINDOW = 30.0  # seconds the rate is taken over: long enough for slow hosts, short enough to notice
SETTLED = 5.0  # seconds before a rate means anything

_SECONDS_READ_WELL = 120

_WORDS = {
    FetchStatus.DONE: "done",
    FetchStatus.NOT_MODIFIED: "not modified",
    FetchStatus.EMPTY: "empty",
    FetchStatus.FAILED: "failed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one worker knows of its crawl at one moment."""

    name: str
    fetched: Mapping[FetchStatus, int]  #: final outcomes of this worker
    queued: int = 0  #: of the whole crawl
    leased: int = 0
    hosts: int = 0  #: those with something to do

    @property
    def pages(self) -> int:
        """How many fetches have come to an end."""
        return sum(self.fetched.values())


@dataclass(slots=True)
class Rate:
    """Pages a second over the last half minute."""

    samples: deque[tuple[float, int]] = field(default_factory=deque)

    def add(self, now: float, pages: int) -> None:
        """Take a sample."""
        self.samples.append((now, pages))
        while now - self.samples[0][0] > WINDOW and len(self.samples) > 2:  # noqa: PLR2004
            self.samples.popleft()

    def per_second(self) -> float | None:
        """Return the rate, None as long as there is nothing to tell it from."""
        if len(self.samples) < 2:  # noqa: PLR2004
            return None
        (began, first), (ended, last) = self.samples[0], self.samples[-1]
        return (last - first) / (ended - began) if ended - began >= SETTLED else None


def figures_of(worker: Worker, hosts: int) -> Figures:
    """Return what a worker knows of its crawl."""
    fetched = {status: worker.tally[f"fetch:{status.value}"] for status in FetchStatus}
    # An attempt that is tried again has failed, too, but nothing has come to an end.
    fetched[FetchStatus.FAILED] = worker.tally[f"schedule:{ScheduleStatus.FAILED.value}"]
    return Figures(
        name=worker.crawl.name,
        fetched=fetched,
        queued=worker.frontier.figures.queued,
        leased=worker.frontier.figures.leased,
        hosts=hosts,
    )


def line(figures: Figures, rate: float | None) -> str:
    """Return the live line."""
    counts = [
        f"{number(figures.fetched.get(status, 0))} {word}"
        for status, word in _WORDS.items()
        if status is FetchStatus.DONE or figures.fetched.get(status)
    ]
    parts = [" · ".join([*counts, f"{number(figures.queued)} queued"])]
    if rate is not None:
        parts.append(f"{rate:.1f} pages/s")
    if figures.hosts:
        parts.append(f"{number(figures.hosts)} host{'s' if figures.hosts != 1 else ''}")
    if rate and figures.queued:
        left = math.ceil((figures.queued + figures.leased) / rate)
        parts.append(f"{f'{left} s' if left < _SECONDS_READ_WELL else duration(left)} left")
    return f"{one_line(figures.name)}   {' │ '.join(parts)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run stands when a worker has left it."""

    name: str
    run: int
    status: str
    stop_reason: str | None
    counts: Mapping[str, Mapping[str, int]]  #: by fetch_status and by schedule_status, of the whole run
    seconds: float  #: this worker's
    pages: int  #: this worker's
    example: str | None = None  #: URL of a page that there is something to see of
    next_due: datetime | None = None  #: of the pages it knows; only if it was over because none was due

    @property
    def headline(self) -> str:
        """One sentence on how it ended."""
        state = "not through, due again" if self.status in _DUE else self.status
        what = f"crawl {self.name}, run {self.run}: {state}"
        if self.stop_reason:
            what += f" ({self.stop_reason})"
        why = f" · nothing was due; the next page is due {moment(self.next_due)}" if self.next_due else ""
        return f"{what} · {self.pace}{why}"

    @property
    def pace(self) -> str:
        """What this worker did, in which time."""
        speed = f", {self.pages / self.seconds:.1f} pages/s" if self.seconds > 0 else ""
        pages = f"{number(self.pages)} page{'s' if self.pages != 1 else ''}"
        if self.pages < sum(
            self.counts["fetch_status"].values()
        ):  # others, or an earlier start, had the rest
            pages += " by this worker"
        return f"{pages} in {duration(self.seconds)}{speed}"

    @property
    def next_steps(self) -> tuple[str, ...]:
        """Commands worth a try."""
        name = shlex.quote(self.name)
        page = shlex.quote(self.example) if self.example else "URL"
        text = (f"scrapy page {page} --text",) if any(self.counts["fetch_status"].values()) else ()
        return (f"scrapy pages {name}", *text, f"scrapy status {name}")

    def lines(self) -> list[str]:
        """Return the summary for a log."""
        counted = [
            f"{kind}: " + ", ".join(f"{number(count)} {status}" for status, count in counts.items() if count)
            for kind, counts in self.counts.items()
            if any(counts.values())
        ]
        return [self.headline, *counted, "see: " + " · ".join(self.next_steps)]

    def print(self) -> None:
        """Print the summary for people, on stderr."""
        table = bare_table(show_header=False)
        table.add_column(no_wrap=True, style="dim")
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, justify="right")
        for kind, counts in self.counts.items():
            shown = [(status, count) for status, count in counts.items() if count] or [(NOTHING, 0)]
            for place, (status, count) in enumerate(shown):
                table.add_row("" if place else kind, styled(status), number(count))
        screen = console(stderr=True)
        screen.print(one_line(self.headline), "", table, "", sep="\n", soft_wrap=True)
        for command in self.next_steps:
            screen.print("  " + one_line(command), soft_wrap=True)


_DUE = frozenset({"queued", "started"})  #: a run whose worker has left: any worker may go on with it


class LiveLine:
    """One line at the bottom of a terminal that log records and prints don't tear apart."""

    def __init__(self) -> None:
        self._console: Console = console(stderr=True)
        self._stream = self._console.file
        self._text = ""

    @staticmethod
    def possible() -> bool:
        """Whether stderr is a terminal that can take a line back."""
        return is_terminal(sys.stderr) and not console(stderr=True).is_dumb_terminal

    def show(self, text: str) -> None:
        """Replace the line."""
        self._text = text
        self._draw()

    def end(self) -> None:
        """Take the line away for good."""
        self._clear()
        self._text = ""

    @contextlib.contextmanager
    def around(self, handler: logging.Handler | None) -> Iterator[None]:
        """Keep the line below what *handler* and `print` write meanwhile."""
        # rich.live redirects sys.stderr, but Scrapy's handler holds the stream it was made with.
        emit = handler.emit if handler else None
        stdout = sys.stdout
        if handler and emit:
            handler.emit = self._between(emit)  # type: ignore[method-assign]
        if is_terminal(stdout):
            sys.stdout = _Interleaved(stdout, self)
        try:
            yield
        finally:
            if handler and emit:
                handler.emit = emit  # type: ignore[method-assign]
            sys.stdout = stdout
            self.end()

    def _between(self, write: Any) -> Any:
        def wrapped(*args: Any) -> Any:
            self._clear()
            result = write(*args)
            self._draw()
            return result

        return wrapped

    def _clear(self) -> None:
        if self._text:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()

    def _draw(self) -> None:
        if self._text:
            self._stream.write("\r\x1b[2K")
            self._console.print(self._text, end="", no_wrap=True, overflow="ellipsis", crop=True)
            self._stream.flush()


class _Interleaved:
    """Standard output with the live line out of the way of every write."""

    def __init__(self, stream: Any, live: LiveLine) -> None:
        self._stream = stream
        self._live = live
        self._open = False  #: whether a line has been begun and not ended

    def write(self, text: str) -> int:
        """Write *text* where the live line was, and the line again below it."""
        if not self._open:
            self._live._clear()  # two halves of one thing
        count = int(self._stream.write(text))
        self._stream.flush()
        self._open = not text.endswith("\n")
        if not self._open:
            self._live._draw()
        return count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
