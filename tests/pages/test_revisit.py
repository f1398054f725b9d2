"""When a page is visited again: the rule, and that the store goes by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.settings import Settings

import crawlproj.settings
from crawlproj.config import Config
from crawlproj.exceptions import BadSetting
from crawlproj.items import FetchStatus, PageObject, ScheduleStatus
from crawlproj.pages.bodies import DatabaseBodies
from crawlproj.pages.revisit import Schedule, learns
from crawlproj.pages.store import PageStore
from tests.pages.pages import Run, disregarded, done, empty, failed, not_modified, outcome, retry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from psycopg import Connection

    from crawlproj.connections import Database

DAY = 86_400.0
ADAPTIVE = Schedule(first=DAY, least=3_600, most=90 * DAY, grows=1.4, shrinks=0.8)
WEEKLY = Schedule(first=7 * DAY, least=7 * DAY, most=7 * DAY)


def gone(status: int = 404, **more: Any) -> PageObject:
    """Return a page that is there no more."""
    return failed(reason=f"http_{status}", http_status=status, **more)


def moved(to: str = "https://a.example/b", **more: Any) -> PageObject:
    """Return a page that has sent its visitor on."""
    return outcome(redirect_to=to, schedule_status=ScheduleStatus.SUCCEEDED, reason="redirected", **more)


@pytest.mark.parametrize(
    ("schedule", "before", "changed", "after"),
    [
        (Schedule(), None, True, 0),
        (Schedule(), 0, False, 0),
        (WEEKLY, None, True, 7 * DAY),
        (WEEKLY, 7 * DAY, True, 7 * DAY),
        (WEEKLY, 7 * DAY, False, 7 * DAY),
        (WEEKLY, DAY, False, 7 * DAY),  # it has been adaptive before
        (ADAPTIVE, None, True, DAY),
        (ADAPTIVE, None, False, DAY),
        (ADAPTIVE, DAY, False, 1.4 * DAY),
        (ADAPTIVE, DAY, True, 0.8 * DAY),
        (ADAPTIVE, 4_000, True, 3_600),
        (ADAPTIVE, 80 * DAY, False, 90 * DAY),
        (ADAPTIVE, 400 * DAY, True, 90 * DAY),  # the bound has been lowered
        (ADAPTIVE, 7 * DAY, False, 9.8 * DAY),  # it has been fixed before
        (ADAPTIVE, 0, True, DAY),  # and here it was due in every run
        (ADAPTIVE, 0, False, DAY),
        (WEEKLY, 0, False, 7 * DAY),
    ],
)
def test_interval(schedule: Schedule, before: float | None, changed: bool, after: float) -> None:
    """Unchanged: longer; changed: shorter; within bounds, and fixed if they are one."""
    assert schedule.interval(before, changed=changed) == pytest.approx(after)


def test_three_quiet_visits_outweigh_five_changes() -> None:
    """Its factors let an interval settle where a page changes about as often as it is visited."""
    assert ADAPTIVE.grows**2 * ADAPTIVE.shrinks**3 == pytest.approx(1, abs=0.01)


LEARNED = [
    (done(), True),
    (empty(), True),
    (not_modified(), True),
    (gone(404), True),
    (gone(410), True),
    (moved(), True),
    (failed(), False),
    (gone(403), False),
    (gone(500), False),
    (gone(404, schedule_status=ScheduleStatus.RETRY), False),
    (retry(), False),
    (disregarded(), False),
    (done(reason="callback_error", detail="KeyError: 'title'"), False),
    (outcome(fetch_status=None, schedule_status=ScheduleStatus.RETRY, reason="unasked_304"), False),
]


@pytest.mark.parametrize(("page", "says"), LEARNED)
def test_learns(page: PageObject, says: bool) -> None:
    """An answer that says how the page is; a failure, a refusal and a callback that broke say nothing."""
    assert learns(page) is says


@dataclass(frozen=True)
class Visits:
    """Visits of one page, one a run, and the interval that they end with; None: it has none."""

    pages: tuple[Callable[..., PageObject], ...]
    factors: tuple[float, ...] | None
    due: bool = False  #: in the next run


def other(**more: Any) -> PageObject:
    return done(words="other words", **more)


def elsewhere(**more: Any) -> PageObject:
    return moved("https://a.example/c", **more)


def broken(**more: Any) -> PageObject:
    return done(reason="callback_error", detail="KeyError", **more)


STORIES = {
    "first": Visits((done,), ()),
    "the same": Visits((done, done), (1.4,)),
    "304": Visits((done, not_modified, not_modified), (1.4, 1.4)),
    "304, then the same": Visits((done, not_modified, done), (1.4, 1.4)),
    "other": Visits((done, other), (0.8,)),
    "other and back": Visits((done, other, done), (0.8, 0.8)),
    "emptied": Visits((done, empty), (0.8,)),
    "stays empty": Visits((done, empty, empty), (0.8, 1.4)),
    "filled again": Visits((done, empty, done), (0.8, 0.8)),
    "never filled": Visits((empty, empty), (1.4,)),
    "gone": Visits((done, gone), (1.4,)),
    "gone and back": Visits((done, gone, done), (1.4, 1.4)),
    "never there": Visits((gone, gone), (1.4,)),
    "moved": Visits((moved, moved), (1.4,)),
    "moved on": Visits((moved, elsewhere), (0.8,)),
    "was a page, moves": Visits((done, moved, moved), (0.8, 1.4)),
    "moved, is gone": Visits((moved, gone), (1.4,)),
    "moved, is a page": Visits((moved, done), (0.8,)),
    "failed": Visits((done, failed), (), due=True),
    "failed, then the same": Visits((done, failed, done), (1.4,)),
    "never answered": Visits((failed, failed), None, due=True),
    "refused": Visits((done, disregarded), (), due=True),
    "waits": Visits((done, retry), (), due=True),
    "waits, then first": Visits((retry, done), ()),
    "the callback broke": Visits((done, broken), (), due=True),
}


@pytest.fixture
async def stored(databases: Callable[[], Database]) -> AsyncIterator[Callable[..., Any]]:
    """Store pages, each in a run of its own."""
    stores = []

    async def store(schedule: Schedule, *pages: PageObject) -> None:
        for number, page in enumerate(pages, 1):
            run = Run(id=number)
            stores.append(PageStore(databases(), DatabaseBodies(), crawl=run, worker="w", revisits=schedule))
            stores[-1].start()
            await stores[-1].put(page)

    yield store
    for each in stores:
        await each.close()


@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize("schedule", [ADAPTIVE, WEEKLY, Schedule()], ids=["adaptive", "weekly", "always"])
async def test_the_store_goes_by_it(
    story: str, schedule: Schedule, stored: Callable[..., Any], sql: Connection
) -> None:
    """What has changed is seen against the row, the interval kept there, the time by PostgreSQL's clock."""
    visits = STORIES[story]
    await stored(schedule, *(page(after=n) for n, page in enumerate(visits.pages)))
    row = sql.execute(
        "SELECT revisit_seconds, extract(epoch FROM next_fetch_at - now())::float8 FROM page"
    ).fetchone()
    assert row is not None
    interval: float | None = None
    if visits.factors is not None:
        interval = schedule.interval(None, changed=True)
        for factor in visits.factors:
            interval = schedule.interval(interval, changed=factor < 1)
    assert row[0] == (None if interval is None else pytest.approx(interval, rel=1e-6))
    assert row[1] == pytest.approx(0 if visits.due else interval, abs=60)


@pytest.mark.parametrize("page", [done, other, not_modified, gone])
async def test_adaptive_after_no_interval(
    page: Callable[..., PageObject], stored: Callable[..., Any], sql: Connection
) -> None:
    """A page that was due in every run starts from the first interval, as in a new crawl."""
    await stored(Schedule(), done())
    assert sql.execute("SELECT revisit_seconds FROM page").fetchone() == (0,)
    await stored(ADAPTIVE, page(after=1))
    assert sql.execute("SELECT revisit_seconds FROM page").fetchone() == (DAY,)
    await stored(ADAPTIVE, not_modified(after=2))
    assert sql.execute("SELECT revisit_seconds FROM page").fetchone() == (pytest.approx(1.4 * DAY),)


def config(**settings: Any) -> Config:
    """Return the configuration that these settings make."""
    given = Settings()
    given.setmodule(crawlproj.settings)
    given.setdict(settings, priority="cmdline")
    return Config.from_settings(given)


def test_schedule_of_the_settings() -> None:
    """By default every page is due in the next run; adaptive begins within its bounds."""
    assert Schedule.from_config(config()) == Schedule()
    weekly = config(REVISIT_INTERVAL_SECONDS="604800", REVISIT_MIN_SECONDS=1, REVISIT_MAX_SECONDS=2)
    assert Schedule.from_config(weekly) == WEEKLY
    adaptive = Schedule.from_config(config(REVISIT_POLICY="adaptive"))
    assert (adaptive.first, adaptive.least, adaptive.most) == (3_600, 3_600, 90 * DAY)
    assert (adaptive.grows, adaptive.shrinks) == (1.4, 0.8)
    long = config(REVISIT_POLICY="adaptive", REVISIT_INTERVAL_SECONDS=10**9)
    assert Schedule.from_config(long).first == 90 * DAY


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"REVISIT_POLICY": "often"}, "setting REVISIT_POLICY must be one of fixed, adaptive, not 'often'"),
        ({"REVISIT_INTERVAL_SECONDS": -1}, "setting REVISIT_INTERVAL_SECONDS must be a number, at least 0"),
        ({"REVISIT_INTERVAL_SECONDS": 1.5}, "setting REVISIT_INTERVAL_SECONDS must be a whole number"),
        (
            {"REVISIT_INTERVAL_SECONDS": 10**11},
            "REVISIT_INTERVAL_SECONDS must be a number, at most 3153600000",
        ),
        ({"REVISIT_MIN_SECONDS": 0}, "setting REVISIT_MIN_SECONDS must be a number, at least 1"),
        ({"REVISIT_MAX_SECONDS": "soon"}, "setting REVISIT_MAX_SECONDS must be a number"),
        ({"REVISIT_MAX_SECONDS": 10}, "setting REVISIT_MIN_SECONDS must be a number, at most 10, not '3600'"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], sentence: str) -> None:
    """One sentence that names the setting; the lower bound is not above the upper one."""
    with pytest.raises(BadSetting) as error:
        config(**settings)
    assert sentence in str(error.value)


async def test_a_repeated_commit_is_one_visit(stored: Callable[..., Any], sql: Connection) -> None:
    """The answer to a commit that got lost makes the store commit again: the interval moves once."""
    page = done(after=5)
    await stored(ADAPTIVE, done(), page)
    first = sql.execute("SELECT revisit_seconds FROM page").fetchone()
    await stored(ADAPTIVE, page, page)  # the first one is an earlier run's, and late
    assert sql.execute("SELECT revisit_seconds FROM page").fetchone() == first


def test_fetch_status_of_every_kind_is_in_the_table() -> None:
    """No status is forgotten by the rule."""
    assert {page.fetch_status for page, _ in LEARNED} == {*FetchStatus, None}
