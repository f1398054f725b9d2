"""How results look."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from crawlproj import output


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.012, "12 ms"),
        (1.26, "1.3 s"),
        (59, "59 s"),
        (119, "119 s"),
        (121, "2 min"),
        (7300, "2 h"),
        (2e5, "2 d"),
    ],
)
def test_duration(seconds, words):
    """A length of time has one unit, the one that reads best."""
    assert output.duration(seconds) == words


def test_times_are_utc():
    """Programs get times in UTC, whatever the database's session has."""
    moment = datetime(2026, 1, 2, 12, 0, tzinfo=timezone(timedelta(hours=2)))
    assert output.plain(moment) == "2026-01-02T10:00:00Z"
    assert output.plain(b"\x00\xff") == "00ff"
    assert output.plain(None) is None


@pytest.mark.parametrize("value", [None, ""])
def test_nothing_is_a_dash(value):
    """Null is no empty field: `read` and `column` would lose it."""
    assert output.one_line(value) == "-"


def test_one_line_obeys_nobody():
    """What a web page says cannot move the cursor, break the line or the column."""
    assert output.one_line("a\tb\nc\x1b[2Jd") == "a b c\ufffd[2Jd"
    assert output.harmless("a\tb\n\x1b]0;x\x07") == "a\tb\n\ufffd]0;x\ufffd"


def test_ago():
    """Moments are told from now, in both directions."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert output.ago(now - timedelta(minutes=3), now=now) == "3 min ago"
    assert output.ago(now + timedelta(seconds=5), now=now) == "in 5.0 s"
    assert output.ago(None, now=now) == "-"


def test_narrow_terminals_cut_what_may_be_cut():
    """Numbers stay whole; the flexible columns give way, the widest first."""
    columns = [output.Column(title="n", key="n"), output.Column(title="url", key="url", flexible=True)]
    rows = [["1234567", "x" * 100]]
    assert output._widths(columns, rows, 50) == [7, 41]
    assert output._widths(columns, rows, 5) == [7, 8]
    assert output._widths(columns, [["1", "x"]], 50) == [1, 3]


def test_middle():
    """Both ends of a URL stay: the site and what tells its pages apart."""
    assert output.middle("http://h/" + "x" * 20 + "/end", 13) == "http:/…xx/end"
    assert output.middle("short", 5) == "short"


def test_narrow_terminals_go_without_what_can_be_spared():
    """The most dispensable column goes first, and none as long as what may be cut can still be read."""
    columns = [
        output.Column(title="host", key="host", flexible=True),
        output.Column(title="queued", key="queued"),
        output.Column(title="spent", key="spent", spare=1),
        output.Column(title="budget", key="budget", spare=2),
    ]
    cells = [["x" * 40, "1" * 6, "2" * 6, "3" * 6]]

    def titles(width):
        return [column.title for column in output._fitting(columns, cells, width)[0]]

    assert titles(52) == ["host", "queued", "spent", "budget"]
    assert titles(51) == ["host", "queued", "spent"]
    assert titles(20) == ["host", "queued"]
    assert output._fitting(columns, cells, 20)[1] == [["x" * 40, "1" * 6]]
