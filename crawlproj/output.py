"""What commands print: tables for people, tab-separated lines for pipes, JSON for programs."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rich.console import Console
    from rich.table import Table

NOTHING = "-"  #: how null looks outside JSON; an empty field would be lost by `read` and `column`

_DAY = 86_400
# Up to how many seconds which unit reads best: 119 s, but 2 min.
_UNITS = ((1, 0.001, "ms"), (120, 1, "s"), (7200, 60, "min"), (2 * _DAY, 3600, "h"))
_FEW = 10
_GAP = 2  # between columns
_LEAST_WIDTH = 8  # a flexible column is not cut further
_READABLE = 28  # and not below this, as long as a column can be spared
_BIG = 10_000

_STYLES = {
    "done": "green",
    "succeeded": "green",
    "sealed": "green",
    "ok": "green",
    "started": "cyan",
    "queued": "cyan",
    "not_modified": "blue",
    "empty": "yellow",
    "paused": "yellow",
    "warn": "yellow",
    "retry": "yellow",
    "failed": "red",
    "dead": "red",
    "FAIL": "bold red",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a list: which key of a row it shows, and how people see it."""

    title: str
    key: str
    show: Callable[[Any], str] | None = None
    right: bool = False
    flexible: bool = False  #: takes what width is left, and is cut first
    keep_end: bool = False  #: cut in the middle: URLs of one site begin alike
    fold: bool = False  #: goes on below instead of being cut
    whole: bool = False  #: flexible, but cut when nothing else gives way any more: what people type next
    yields: int = 0  #: people go without it where a whole column would be cut; the highest goes first
    spare: int = 0  #: people go without it when the terminal is too narrow; the highest goes first


class Output:
    """Standard output, as whoever reads it wants it."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.for_people = is_terminal(sys.stdout) and not as_json
        # A character that the terminal cannot show must not cost the line it is in.
        reconfigure = getattr(sys.stdout, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
            if not is_terminal(sys.stdout):
                reconfigure(encoding="utf-8")

    def rows(self, columns: Sequence[Column], rows: Iterable[Mapping[str, Any]]) -> int:
        """Print a list and return how many rows it had."""
        if self.for_people:
            return self._table(columns, rows)
        count = 0
        for row in rows:
            count += 1
            if self.as_json:
                self.json(row)
            else:
                print("\t".join(one_line(plain(row[column.key])) for column in columns))
        return count

    def json(self, row: Mapping[str, Any]) -> None:
        """Print one JSON object on a line of its own."""
        print(json.dumps(row, ensure_ascii=False, default=plain, separators=(", ", ": ")))

    def line(self, text: str = "") -> None:
        """Print one line of a story; its control characters are made harmless on a terminal."""
        print(one_line(text) if is_terminal(sys.stdout) else text)

    def record(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Print named values below each other; a pipe gets name, tab, value."""
        if self.for_people:
            console().print(pairs_table(pairs))
            return
        for name, value in pairs:
            print(f"{name}\t{one_line(value)}")

    def rich(self, *parts: Any) -> None:
        """Print rich text, on a terminal."""
        console().print(*parts, soft_wrap=True)

    def flush(self) -> None:
        """Hand over what has been printed."""
        sys.stdout.flush()

    def _table(self, columns: Sequence[Column], rows: Iterable[Mapping[str, Any]]) -> int:
        cells = [[one_line(_shown(column, row[column.key])) for column in columns] for row in rows]
        if not cells:
            return 0
        screen = console()
        table = bare_table()
        columns, shown = _fitting(columns, cells, screen.width)
        widths = _widths(columns, shown, screen.width)
        for column, width in zip(columns, widths, strict=True):
            table.add_column(
                column.title,
                justify="right" if column.right else "left",
                width=width,
                no_wrap=not column.fold,
                overflow="fold" if column.fold else "ellipsis",
                header_style="dim",
            )
        for row in shown:
            parts = zip(columns, row, widths, strict=True)
            table.add_row(*(styled(middle(cell, w) if c.keep_end else cell) for c, cell, w in parts))
        screen.print(table)
        return len(cells)


def _natural(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> list[int]:
    """Return how wide each column would like to be."""
    from rich.cells import cell_len  # noqa: PLC0415  # only when it is needed

    return [
        max(cell_len(column.title), *(cell_len(row[place]) for row in cells))
        for place, column in enumerate(columns)
    ]


def _fitting(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], total: int
) -> tuple[Sequence[Column], Sequence[Sequence[str]]]:
    """Leave columns out, the most dispensable first, until the flexible ones have room to be read.

    Then those that yield to a whole one, until it is not cut, with the other flexible ones at their
    narrowest.
    """
    for dispensable, narrow in (("spare", _READABLE), ("yields", _LEAST_WIDTH)):
        while True:
            wanted = sum(
                min(width, _READABLE if column.whole else narrow) if column.flexible else width
                for column, width in zip(columns, _natural(columns, cells), strict=True)
            )
            place = max(range(len(columns)), key=lambda n: getattr(columns[n], dispensable))
            if wanted + _GAP * (len(columns) - 1) <= total or not getattr(columns[place], dispensable):
                break
            columns = [*columns[:place], *columns[place + 1 :]]
            cells = [[*row[:place], *row[place + 1 :]] for row in cells]
    return columns, cells


def _widths(columns: Sequence[Column], cells: Sequence[Sequence[str]], total: int) -> list[int]:
    """Return how wide each column is; what is missing is taken from the flexible ones."""
    # rich would take it from all of them, until numbers are cut as well.
    widths = _natural(columns, cells)
    lacking = sum(widths) + _GAP * (len(widths) - 1) - total
    while lacking > 0:
        wide = [n for n, column in enumerate(columns) if column.flexible and widths[n] > _LEAST_WIDTH]
        if not wide:
            break
        place = max(wide, key=lambda n: (widths[n] > _READABLE or not columns[n].whole, widths[n]))
        widths[place] -= 1
        lacking -= 1
    return widths


def middle(text: str, width: int) -> str:
    """Return *text* with its middle left out, if it is wider than *width*."""
    if len(text) <= width:
        return text
    head = width // 2
    return f"{text[:head]}…{text[len(text) - (width - head - 1) :]}"


def is_terminal(stream: Any) -> bool:
    """Say whether people read a stream; what stands in for one may not know the question."""
    return bool(getattr(stream, "isatty", bool)())


def console(*, stderr: bool = False) -> Console:
    """Return a rich console; it honours NO_COLOR, FORCE_COLOR and TERM=dumb."""
    from rich.console import Console  # noqa: PLC0415  # only when it is needed

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=False)


def bare_table(*, show_header: bool = True) -> Table:
    """Return a table without lines, as wide as its terminal at most."""
    from rich.table import Table  # noqa: PLC0415  # only when it is needed

    return Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=show_header)


def pairs_table(pairs: Iterable[tuple[str, str]]) -> Table:
    """Return named values below each other."""
    from rich.text import Text  # noqa: PLC0415  # only when it is needed

    table = bare_table(show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(Text(name), styled(one_line(value)))
    return table


def styled(text: str) -> Any:
    """Return *text* as rich text, coloured when it is one of the words with a meaning."""
    from rich.text import Text  # noqa: PLC0415  # only when it is needed

    return Text(text, style=_STYLES.get(text, ""))


def plain(value: Any) -> Any:
    """Return *value* as programs want it: times in UTC and ISO 8601, bytes in hex, null as null."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return utc(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    return str(value)


def utc(moment: datetime) -> str:
    """Return *moment* in UTC, ISO 8601."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def one_line(value: Any) -> str:
    """Return *value* on one line, without a character that could move a terminal's cursor."""
    if value is None or value == "":
        return NOTHING
    text = value if isinstance(value, str) else str(value)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)


def harmless(text: str) -> str:
    """Return *text* with its lines and tabs, but without anything a terminal would obey."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def number(value: float | None) -> str:
    """Return *value* with a comma between thousands."""
    return NOTHING if value is None else f"{value:,.0f}"


def duration(seconds: float | None) -> str:
    """Return a length of time in one or two words."""
    if seconds is None:
        return NOTHING
    for limit, unit, name in _UNITS:
        if seconds < limit:
            return f"{seconds / unit:.{1 if unit == 1 and seconds < _FEW else 0}f} {name}"
    return f"{seconds / _DAY:.0f} d"


def milliseconds(value: float | None) -> str:
    """Return milliseconds as people read them."""
    if value is None:
        return NOTHING
    return f"{value:,.0f} ms" if value < _BIG else duration(value / 1000)


def moment(value: datetime | None) -> str:
    """Return a time as people read it, in UTC."""
    return NOTHING if value is None else value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S Z")


def ago(moment: datetime | None, *, now: datetime) -> str:
    """Return how long ago *moment* was, or how long it still takes."""
    if moment is None:
        return NOTHING
    seconds = (now - moment).total_seconds()
    return f"{duration(seconds)} ago" if seconds >= 0 else f"in {duration(-seconds)}"


def size(count: int | None) -> str:
    """Return a number of bytes as people read it."""
    if count is None:
        return NOTHING
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:  # noqa: PLR2004
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def flat(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Return every value of a record under its path: counts.fetch_status.done, fetches.0.at."""
    for name, value in record.items():
        path = f"{prefix}{name}"
        inner = dict(enumerate(value)) if isinstance(value, list) else value
        if isinstance(inner, dict) and inner:
            yield from flat({str(key): each for key, each in inner.items()}, f"{path}.")
        else:
            yield path, one_line(plain(value) if value not in ([], {}) else None)


def quiet_stdout() -> None:
    """Point stdout nowhere: its reader has gone, and Python would complain when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _shown(column: Column, value: Any) -> str:
    if column.show is not None:
        return column.show(value)
    return NOTHING if value is None else str(plain(value))
