"""Limits and what is used of them, the slowest host, and the time that is left."""

from __future__ import annotations

import pytest

from crawlproj.crawls.outlook import Slowest, Use, slowest, time_left, uses

FIGURES = {"started": 1460, "results": 1400, "admitted": 9000, "bytes": 12_000_000}


def host(name, queued, interval_ms, *, due_ms=0, state="ready"):
    return {
        "host": name, "queued": queued, "min_interval_ms": interval_ms, "next_due_ms": due_ms, "state": state,
    }  # fmt: skip


def alone(seconds):
    return Slowest(host="h", seconds=seconds, queued=1, interval_ms=1, rests_ms=0)


def test_only_limits_that_are_set():
    """A knob that is 0, or that this frontier does not have, is no limit."""
    assert uses({"max_target": 0, "max_result": 0}, FIGURES, 180.0) == []
    knobs = {"max_target": 5000, "max_time_seconds": 21_600, "max_bytes": 10**9, "interval_ms": 5}
    assert uses(knobs, FIGURES, 180.0) == [
        Use(kind="targets", used=1460, most=5000),
        Use(kind="bytes", used=12_000_000, most=10**9),
        Use(kind="time", used=180.0, most=21_600),
    ]


def test_a_limit_on_what_is_not_counted_yet():
    """A run that has not begun has used nothing."""
    assert uses({"max_time_seconds": 60, "max_urls": 5}, {}, None) == [
        Use(kind="URLs", used=0, most=5),
        Use(kind="time", used=0, most=60),
    ]


def test_the_slowest_host():
    """It is the longest queue by its own interval; blocked hosts and those without one do not count."""
    hosts = [
        host("quick", 10_000, 1),
        host("slow", 2011, 300),
        host("blocked", 9_000, 9_000, state="retired"),
        host("free", 9_000, 0),
        host("gone", 0, 60_000),
        {"host": "sealed", "state": "exhausted", "queued": 0},
    ]
    found = slowest(hosts)
    assert found == Slowest(host="slow", seconds=603.3, queued=2011, interval_ms=300, rests_ms=0)
    assert slowest(hosts[3:]) is None


def test_a_host_that_is_left_alone():
    """A wait beyond its interval comes on top; one within it is part of the beat."""
    found = slowest([host("resting", 2, 1000, due_ms=600_000)])
    assert found is not None
    assert (found.seconds, found.rests_ms) == (602.0, 600_000)
    found = slowest([host("beating", 2, 1000, due_ms=900)])
    assert found is not None
    assert (found.seconds, found.rests_ms) == (2.0, 0)


@pytest.mark.parametrize(
    ("queued", "rate", "slow", "limits", "left"),
    [
        (0, 5.0, alone(60), [], None),
        (100, None, None, [], None),
        (100, 0.0, None, [], None),
        (100, 5.0, None, [], (20.0, False)),
        (100, 5.0, alone(60), [], (60.0, False)),
        (100, 5.0, alone(6), [], (20.0, False)),
        (100, None, alone(60), [], (60.0, False)),
        (100, 5.0, None, [Use(kind="targets", used=90, most=100)], (2.0, True)),
        (100, 5.0, None, [Use(kind="targets", used=90, most=1000)], (20.0, False)),
        (
            100,
            5.0,
            None,
            [Use(kind="time", used=50, most=60), Use(kind="targets", used=0, most=75)],
            (10, True),
        ),
        (100, 5.0, None, [Use(kind="time", used=70, most=60)], (0.0, True)),
        (100, 5.0, None, [Use(kind="bytes", used=70, most=71)], (20.0, False)),
    ],
)
def test_time_left(queued, rate, slow, limits, left):
    """The longer of the slowest host and queue by rate, unless a limit ends it before."""
    assert time_left(queued, rate, slow, limits) == left
