"""Starts a crawl in this process: first the checks, then the servers, then Scrapy."""

from __future__ import annotations

import contextlib
import logging
import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.reactor import is_asyncio_reactor_installed, is_reactor_installed

from crawlproj import settings as defaults
from crawlproj.checks import check, check_log_file, misspelt
from crawlproj.cli import settle_schema
from crawlproj.config import Config
from crawlproj.connections import connect_database, ensure_servers
from crawlproj.crawls import control, rows
from crawlproj.crawls.config import CrawlConfig, remember_arguments
from crawlproj.exceptions import INTERRUPTED, BadSetting, CrawlError, NotFound, Refused
from crawlproj.pages import rows as pages
from crawlproj.pages.bodies import body_store
from crawlproj.pages.revisit import Schedule
from crawlproj.process import CrawlProcess, say
from crawlproj.progress import Ending, LiveLine, figures_of
from crawlproj.worker import Worker

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator, Mapping

    from psycopg import Connection
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings, Settings

    from crawlproj.connections import Addresses

logger = logging.getLogger(__name__)

TELL_SECONDS = 10  # what counting the pages of a run that goes on may take, after it all
KEPT = 35  #: priority of the settings of a run that has begun: above a spider's, and turns nothing back


def crawl(settings: Settings, name: str, arguments: Mapping[str, str]) -> int:
    """Crawl until the run is over or a signal comes; return the exit code."""
    spidercls, config = check(settings, name, arguments)
    merged = settings.copy()
    spidercls.update_settings(merged)
    check_log_file(merged)
    _check_reactor(settings)
    body_store(config.body_store).check()
    with _said(settings, f"{config.crawl_name or name}   starting"):
        addresses = _servers(config, spidercls.name)
    # Everything that reads settings finds the servers there, scrapy-redis included.
    settings.set("REDIS_URL", addresses.redis_url, "cmdline")
    settings.set("DATABASE_URL", addresses.database_url, "cmdline")
    _quieten(settings)
    process = CrawlProcess(settings, grace_seconds=config.close_grace_seconds)
    for sentence in misspelt(settings, spidercls):
        logger.warning("%s", sentence)
    crawler = process.create_crawler(spidercls)
    remember_arguments(crawler, arguments)
    process.last_resort.done = lambda: _known_code(crawler)
    task = process.crawl(crawler, **arguments)
    try:
        process.start()
    except RuntimeError:  # asyncio's word, without a reactor, for a loop that was stopped
        if Worker.of(crawler).outcome is None:
            raise
    code = _exit_code(task, crawler)
    _end(crawler, addresses)
    process.last_resort.end(code, in_time=Worker.of(crawler).cut)
    return code


def run(settings: Settings, name: str) -> int:
    """Work an open run in this process, as it was asked for; return the exit code.

    Its settings count as those of the command line, less those that this one has itself. Once it has begun
    they leave alone what has been turned since.
    """
    config = Config.from_settings(settings)
    with _said(settings, f"{name}   starting"):
        addresses = ensure_servers(config)
    with contextlib.closing(connect_database(addresses.database_url)) as connection:
        settle_schema(connection, embedded=addresses.database_embedded)
        row = rows.find_crawl(connection, name, waiting=True)
    asked = CrawlConfig.from_json(row.config)
    _check_workable(settings, row, asked)
    asked.put_settings(settings, "cmdline" if row.started_at is None else KEPT)
    # What it lets in is its own since it was made, whatever settings.py says by now.
    own = {"CRAWL_ALLOW": [*asked.allow], "CRAWL_DENY": [*asked.deny], "MAX_DEPTH": asked.max_depth}
    settings.setdict({**own, "CRAWL_NAME": row.name, "CRAWL_JOIN": True}, "cmdline")
    try:
        return crawl(settings, row.spider, asked.arguments)
    except CrawlError as error:
        # Other machines should see why, who have another checkout, perhaps.
        with contextlib.closing(connect_database(addresses.database_url)) as connection:
            fields = {"exitCode": str(error.exit_code), "error": str(error)}
            control.note(connection, row.id, "RUN_FAILED", str(error), fields)
        raise


def _check_workable(settings: BaseSettings, row: rows.CrawlRow, asked: CrawlConfig) -> None:
    name = shlex.quote(row.name)
    if row.status == "sealed":
        raise Refused(f"crawl {row.name!r}, run {row.run}, is over: `scrapy add {name} …` makes its next")
    if row.status == "paused":
        raise Refused(f"crawl {row.name!r} is paused: `scrapy resume {name}` lets it go on")
    typed = SETTINGS_PRIORITIES["cmdline"]
    if missing := [each for each in asked.redacted if settings.getpriority(each) != typed]:
        raise Refused(
            f"crawl {row.name!r} was started with what is not stored: {', '.join(missing)};"
            f" go on with: scrapy crawl {row.spider} … -s CRAWL_NAME={name}"
        )


def _check_reactor(settings: BaseSettings) -> None:
    if is_reactor_installed() and not is_asyncio_reactor_installed():
        raise Refused(
            "another Twisted reactor than asyncio's is installed already: "
            "something imports twisted.internet.reactor at its top level"
        )
    wanted = str(settings.get("TWISTED_REACTOR"))
    if settings.getbool("TWISTED_REACTOR_ENABLED") and not wanted.endswith(".AsyncioSelectorReactor"):
        raise BadSetting("TWISTED_REACTOR", wanted, "Scrapy's default, the asyncio reactor")


def _servers(config: Config, spider: str) -> Addresses:
    addresses = ensure_servers(config)
    with contextlib.closing(connect_database(addresses.database_url)) as connection:
        settle_schema(connection, embedded=addresses.database_embedded)
        if config.crawl_name is not None:
            _check_name(connection, config.crawl_name, spider, join=config.crawl_join)
    return addresses


def _check_name(connection: Connection[Any], name: str, spider: str, *, join: bool) -> None:
    """Refuse early what the claim would refuse: it comes when Scrapy has logged a page of its own."""
    run = rows.open_run(connection, name)
    if run is None:
        if join:
            raise NotFound(f"crawl {name!r} has no open run to join")
    elif run.spider != spider:
        raise Refused(f"crawl {name!r} is a crawl of spider {run.spider!r}, not of {spider!r}")
    elif run.status == "paused":
        raise Refused(f"crawl {name!r} is paused: `scrapy resume {shlex.quote(name)}` lets it go on")


@contextlib.contextmanager
def _said(settings: BaseSettings, text: str) -> Iterator[None]:
    """Show *text* meanwhile: the embedded servers take a few seconds the first time."""
    live = LiveLine() if _for_people(settings) else None
    if live:
        live.show(text)
    try:
        yield
    finally:
        if live:
            live.end()


def _quieten(settings: Settings) -> None:
    """Leave a terminal to the live line and to warnings, unless the user has asked for more."""
    asked = settings.getpriority("LOG_LEVEL") or 0
    if not _for_people(settings):
        return
    if asked <= SETTINGS_PRIORITIES["project"] and settings.get("LOG_LEVEL") == defaults.LOG_LEVEL:
        settings.set("LOG_LEVEL", "WARNING", "project")


def _known_code(crawler: Crawler) -> int | None:
    """Return what a worker ends with that has said its last word."""
    worker = Worker.of(crawler)
    return None if worker.outcome is None or worker.is_open else worker.outcome.exit_code


def _exit_code(task: asyncio.Task[None], crawler: Crawler) -> int:
    outcome = Worker.of(crawler).outcome
    if not task.done() and outcome is not None:  # it has left an engine that did not come to its end
        return outcome.exit_code
    if not task.done():  # a second signal ended the loop under it
        say("stopped at once; what was under way is due again when its leases run out")
        return INTERRUPTED
    error = task.exception()
    if isinstance(error, CrawlError):
        say(str(error))
        return error.exit_code
    if error is not None:
        logger.critical("The crawl could not start", exc_info=error)
        return 1
    if outcome is None:  # it never came as far as claiming the crawl
        return INTERRUPTED if crawler.stats.get_value("finish_reason") == "shutdown" else 1
    if outcome.exit_code not in {0, 1, INTERRUPTED}:  # the crawl could not be claimed, and here is why
        say(outcome.reason)
    return outcome.exit_code


def _end(crawler: Crawler, addresses: Addresses) -> None:
    """Tell how the run stands now; nobody's crawl fails because this cannot be told."""
    worker = Worker.of(crawler)
    if getattr(worker, "frontier", None) is None:  # it never came as far as claiming the crawl
        return
    seconds = crawler.stats.get_value("elapsed_time_seconds")
    if seconds is None:  # after a second signal the spider has not been closed
        began = crawler.stats.get_value("start_time")
        seconds = (datetime.now(UTC) - began).total_seconds() if began else 0.0
    try:
        ending = _ending(addresses, worker, seconds)
    except (CrawlError, psycopg.Error) as error:
        logger.warning("How the crawl stands cannot be told: %s", error)
        return
    if _for_people(crawler.settings):
        ending.print()
    else:
        for line in ending.lines():
            logger.info("%s", line)


def _ending(addresses: Addresses, worker: Worker, seconds: float) -> Ending:
    with contextlib.closing(connect_database(addresses.database_url)) as connection:
        run = rows.crawl(connection, worker.crawl.id)
        connection.execute("SELECT set_config('statement_timeout', %s, false)", [f"{TELL_SECONDS}s"])
        known = run.counts if rows.is_counted(run.counts) else None
        counts = rows.by_status(known) if known else rows.count_pages(connection, [run.id])[run.id]
        idle = run.stop_reason == "done" and not any(counts["schedule_status"].values())
        return Ending(
            name=run.name,
            run=run.run,
            status=run.status,
            stop_reason=run.stop_reason,
            counts=counts,
            seconds=seconds,
            pages=figures_of(worker, 0).pages,
            example=rows.example_page(connection, run.id),
            next_due=_next_due(connection, run, worker.config) if idle else None,
        )


def _next_due(connection: Connection[Any], run: rows.CrawlRow, config: Config) -> datetime | None:
    """Return when a page is due next; None if some were due when the run started, and not wanted."""
    due = pages.next_due(connection, run.name, run.id, Schedule.from_config(config).most)
    return due if due and run.started_at and due > run.started_at else None


def _for_people(settings: BaseSettings) -> bool:
    return not settings.get("LOG_FILE") and settings.getbool("PROGRESS_ENABLED", True) and LiveLine.possible()
