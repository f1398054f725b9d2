"""The statements that change a run's row."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from crawlproj.crawls import control
from crawlproj.crawls.statements import statement
from tests.postgres import sql

__all__ = ["sql"]

CHANGE = re.compile(r"UPDATE crawl\b.*?\bWHERE\b(?P<condition>.*?)(?=\bRETURNING\b|\Z)", re.DOTALL)
NAMES = sorted(path.name.removesuffix(".sql") for path in files("crawlproj.crawls").joinpath("sql").iterdir())
CHANGES = [
    pytest.param(found["condition"], id=name)
    for name in NAMES
    for found in CHANGE.finditer(re.sub("--.*", "", statement(name).decode()))
]


@pytest.mark.parametrize("condition", CHANGES)
def test_the_states_that_it_may_leave(condition):
    """Each change of a run is conditional on them: what somebody else has done meanwhile is not undone."""
    assert re.search(r"\bstatus (=|<>|IN) ", condition), condition


def test_every_change_is_looked_at():
    """None escapes the pattern above."""
    updates = sum(statement(name).count(b"UPDATE crawl") for name in NAMES)
    assert len(CHANGES) == updates >= 10


def test_next_of_a_series_that_is_no_longer_queued(sql):
    """It is what it has become."""
    last = control.create(sql, name="news", spider="site", config={"a": 1}, repeat_seconds=60)
    control.cancel(sql, last, counts={})
    made = control.create(sql, name="news", spider="site", config={}, paused=True)
    before = sql.execute("SELECT * FROM crawl WHERE id = %s", [made]).fetchone()
    done = sql.execute(statement("repeat"), {"crawl_id": last, "next_id": made, "at": None})
    assert done.fetchone() is None
    assert sql.execute("SELECT * FROM crawl WHERE id = %s", [made]).fetchone() == before
