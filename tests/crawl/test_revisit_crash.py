"""Whoever brings in what earlier runs know may die at any moment; another one goes on."""

from __future__ import annotations

import json
import signal
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from crawlproj.connections import connect_database, open_redis_sync
from crawlproj.frontier.canonical import page_key
from crawlproj.frontier.records import MARKING, QUEUING
from crawlproj.revisit import _LOCK
from crawlproj.testing.project import TIMEOUT
from tests.crawl.support import figures, linking, poll, status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Connection
    from redis import Redis

    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site

KNOWN, DUE = 20_000, 40
DAY = timedelta(days=1)
SETTINGS = {
    "CRAWL_NAME": "c", "MIN_INTERVAL_MS": 0, "HOST_MAX_IN_FLIGHT": 4, "LEASE_SECONDS": 3,
    "REVISIT_INTERVAL_SECONDS": 7 * 86_400,
}  # fmt: skip


@pytest.fixture
def sql(database_url: str) -> Iterator[Connection[Any]]:
    with connect_database(database_url) as connection:
        yield connection


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    with open_redis_sync(redis_url) as client:
        yield client


@pytest.fixture
def crawl(site: Site, scrapy: Project, sql: Connection[Any]) -> tuple[str, ...]:
    """Know a few pages that are due, many that are not, and many that are due and not wanted any more."""
    site.add("/*", linking("/early/1", "/early/9999", "/late/3", "/new"))
    arguments = ("crawl", "site", "-a", f"seeds={site.url}/early/0")
    first = scrapy(*arguments, settings={**SETTINGS, "MAX_TARGET": 1})
    assert first.returncode == 0, first.stderr
    now = datetime.now(UTC)
    urls = [
        *((f"/early/{n}", now + DAY) for n in range(1, KNOWN)),
        *((f"/outside/{n}", now - DAY) for n in range(KNOWN)),
        *((f"/late/{n}", now - DAY) for n in range(DUE)),
    ]
    columns = (
        "crawl_name, url_key, crawl_id, first_crawl_id, url, canonical_url, host, depth, fetch_status,"
        " schedule_status, attempts, reported_at, fetched_at, next_fetch_at"
    )
    with sql.cursor() as cursor, cursor.copy(f"COPY page ({columns}) FROM STDIN") as copy:
        for path, due in urls:
            url = site.url + path
            copy.write_row(
                (
                    "c",
                    page_key(url),
                    1,
                    1,
                    url,
                    url,
                    "h",
                    1,
                    "done",
                    "succeeded",
                    1,
                    now - DAY,
                    now - DAY,
                    due,
                )
            )
    sql.execute("UPDATE crawl SET counts = counts || '{\"queued\": 0}'")
    site.hits.clear()
    return (*arguments, "-a", "deny=/outside/")


def filling(redis: Redis) -> tuple[int, int]:
    """Return the step of filling the one frontier there is, and how many URLs it knows as seen."""
    for key in redis.scan_iter("frontier:*:ctl"):
        step = redis.eval("return cjson.encode(cmsgpack.unpack(redis.call('GET', KEYS[1])))", 1, key)
        seen = figures(redis).get("seen", 0) if redis.exists(key.removesuffix(b"ctl") + b"ctr") else 0
        return json.loads(step).get("filling", 0), seen
    return 0, 0


def is_in(redis: Redis, step: int) -> bool:
    """Say whether a frontier is in the middle of a step."""
    now, seen = filling(redis)
    return now == step and (step != MARKING or 0 < seen < KNOWN)


def fetched(site: Site) -> set[str]:
    """Return the paths that were fetched."""
    return {path for path in site.hits if path != "/robots.txt"}


WANTED = {*(f"/late/{n}" for n in range(DUE)), "/new"}


@pytest.mark.timeout(240)
@pytest.mark.parametrize("step", [MARKING, QUEUING])
def test_the_only_worker_is_killed(
    step: int, site: Site, scrapy: Project, crawl: tuple[str, ...], redis: Redis
) -> None:
    """The next worker begins the step again: nothing is fetched that is not due, nothing due is left out."""
    worker = scrapy.start(*crawl, settings=SETTINGS)
    assert poll(lambda: is_in(redis, step))
    worker.kill()
    worker.wait()
    assert status(scrapy, "c")["status"] == "started"
    if step == MARKING:
        assert fetched(site) == set()  # the seed has not been let in before its mark
    done = scrapy(*crawl, settings=SETTINGS)
    assert done.returncode == 0, done.stderr
    assert fetched(site) == WANTED
    end = status(scrapy, "c")
    assert (end["status"], end["run"], end["started_targets"]) == ("sealed", 2, len(WANTED))


@pytest.mark.timeout(240)
@pytest.mark.parametrize("step", [MARKING, QUEUING])
def test_a_signal(step: int, site: Site, scrapy: Project, crawl: tuple[str, ...], redis: Redis) -> None:
    """It ends the worker without a word of error, with nothing let in too early; the next one goes on."""
    worker = scrapy.start(*crawl, settings=SETTINGS)
    assert poll(lambda: is_in(redis, step))
    worker.send_signal(signal.SIGTERM)
    stderr = worker.communicate(timeout=TIMEOUT)[1]
    assert worker.returncode == 11, stderr
    assert "Traceback" not in stderr
    assert filling(redis)[0] != MARKING or fetched(site) == set()
    done = scrapy(*crawl, settings=SETTINGS)
    assert done.returncode == 0, done.stderr
    assert fetched(site) == WANTED


@pytest.mark.timeout(240)
@pytest.mark.parametrize("step", [MARKING, QUEUING])
def test_a_lost_connection(
    step: int, site: Site, scrapy: Project, crawl: tuple[str, ...], redis: Redis, sql: Connection[Any]
) -> None:
    """PostgreSQL ends the session: the step begins again over a new one."""
    worker = scrapy.start(*crawl, settings=SETTINGS)
    assert poll(lambda: is_in(redis, step))
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '%revisit'"
    assert sql.execute(cut).fetchall() == [(True,)]
    stderr = worker.communicate(timeout=TIMEOUT)[1]
    assert worker.returncode == 0, stderr
    assert "is back" in stderr
    assert fetched(site) == WANTED


@pytest.mark.timeout(240)
@pytest.mark.parametrize("step", [MARKING, QUEUING])
def test_another_worker_goes_on(
    step: int, site: Site, scrapy: Project, crawl: tuple[str, ...], redis: Redis, sql: Connection[Any]
) -> None:
    """One of two workers fills; when it is killed the other one does, and does not end before."""
    lock = (_LOCK, 2)  # of the second run; while the test has it none of them begins
    sql.execute("SELECT pg_advisory_lock(%s, %s)", lock)
    workers = {
        name: scrapy.start(*crawl, settings={**SETTINGS, "WORKER_ID": name}) for name in ("one", "two")
    }
    running = "SELECT count(*) = 2 FROM worker_lease WHERE phase = 'running'"
    assert poll(lambda: sql.execute(running).fetchone() == (True,))

    def at_it() -> list[Any]:
        return sql.execute(
            "SELECT split_part(a.application_name, ':', 2) FROM pg_locks AS l"
            " JOIN pg_stat_activity AS a USING (pid)"
            " WHERE l.locktype = 'advisory' AND l.granted AND a.application_name LIKE '%revisit'"
        ).fetchall()

    sql.execute("SELECT pg_advisory_unlock(%s, %s)", lock)
    assert poll(lambda: is_in(redis, step) and at_it())
    (holder,) = at_it()[0]
    name = holder.removesuffix(" revisit")
    workers[name].kill()
    workers.pop(name).wait()
    (other,) = workers.values()
    stderr = other.communicate(timeout=TIMEOUT)[1]
    assert other.returncode == 0, stderr
    assert "What earlier runs know" in stderr
    assert fetched(site) == WANTED
    end = status(scrapy, "c")
    assert (end["status"], end["run"], end["started_targets"]) == ("sealed", 2, len(WANTED))


@pytest.mark.timeout(240)
def test_redis_loses_its_data(site: Site, scrapy: Project, crawl: tuple[str, ...], redis: Redis) -> None:
    """A rebuilt frontier knows what is not due before links lead to it, and is filled with the rest again."""
    site.add("/late/*", linking("/early/1", "/early/9999", "/late/3", "/new"), delay=0.1)
    worker = scrapy.start(*crawl, settings=SETTINGS)
    assert poll(lambda: len(fetched(site)) > DUE // 4)
    worker.kill()
    worker.wait()
    redis.flushdb()
    rebuilt = scrapy("rebuild", "c", "-s", "REVISIT_INTERVAL_SECONDS=604800", "--json").json[0]
    assert rebuilt["seen"] >= KNOWN
    waiting = {row["url"].removeprefix(site.url) for row in scrapy("pending", "c", "--json").json}
    assert waiting <= WANTED
    done = scrapy(*crawl, settings=SETTINGS)
    assert done.returncode == 0, done.stderr
    assert fetched(site) == WANTED
    end = status(scrapy, "c")
    assert (end["status"], end["run"], end["started_targets"]) == ("sealed", 2, len(WANTED))
