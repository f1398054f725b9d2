"""`scrapy doctor`: what is installed, what answers, and what to do about the rest."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import sys
import warnings
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import scrapy
from scrapy.spiderloader import get_spider_loader

from crawlproj import cli
from crawlproj import settings as defaults
from crawlproj.exceptions import CrawlError, ServerUnreachable
from crawlproj.output import Output, one_line, styled
from crawlproj.redaction import what_it_says

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from scrapy.settings import Settings

    from crawlproj.config import Config
    from crawlproj.connections import Addresses
    from crawlproj.crawls.rows import CrawlRow

CHECK_SAID_NO = 6
PATIENCE = 300  # seconds for looking into all frontiers: millions of hosts take a while
LEAST_SCRAPY = (2, 19)
LEAST_REDIS = 7
LEAST_VALKEY = 8
POSTGRES = (14, 18)


class Verdict(StrEnum):
    """What a check says."""

    OK = "ok"
    WARN = "warn"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the report."""

    check: str
    verdict: Verdict
    detail: str
    fix: str | None = None  #: what to do about it


class Command(cli.Command):
    """Look at everything a crawl needs."""

    json = True
    usage = "[--json]"
    summary = "Check what is installed, reachable and set up"
    details = (
        "Exit code 6 if something says FAIL; a warning is no failure. The embedded servers are started.\n"
        "The frontiers of all open runs are looked into; what sealed runs have left in Redis is removed.\n"
        "Piped, separated by tabs: verdict, check, detail, what to do."
    )
    examples = ("scrapy doctor", "scrapy doctor --json")

    def work(self, args: list[str], opts: argparse.Namespace) -> int | None:
        """Print one finding after the other, as they come."""
        out = Output(as_json=opts.json)
        findings: list[Finding] = []
        for finding in _findings(self.given_settings):
            findings.append(finding)
            if not out.as_json:
                _print(out, finding)
        failed = any(finding.verdict is Verdict.FAIL for finding in findings)
        if out.as_json:
            out.json({"ok": not failed, "checks": [asdict(finding) for finding in findings]})
        return CHECK_SAID_NO if failed else None


def _print(out: Output, finding: Finding) -> None:
    if not out.for_people:
        print("\t".join(map(one_line, (finding.verdict, finding.check, finding.detail, finding.fix))))
    else:
        word = styled(f"{finding.verdict:<6}")
        word.stylize({"ok": "green", "warn": "yellow", "FAIL": "bold red"}[finding.verdict])
        out.rich(word, one_line(f"{finding.check}: {finding.detail}"))
        if finding.fix:
            out.rich(f"      → {one_line(finding.fix)}")
    out.flush()


def _findings(settings: Settings) -> Iterator[Finding]:
    yield _python()
    yield _spiders(settings)
    config = None
    try:
        from crawlproj.config import Config  # noqa: PLC0415

        config = Config.from_settings(settings)
    except CrawlError as error:
        yield Finding(check="settings", verdict=Verdict.FAIL, detail=str(error))
    if config is not None:
        yield Finding(check="settings", verdict=Verdict.OK, detail="every value can be used")
        yield _bodies(config)
        yield from _servers(config)
    yield _name(settings)


def _python() -> Finding:
    python = ".".join(map(str, sys.version_info[:3]))
    old = scrapy.version_info[:2] < LEAST_SCRAPY
    return Finding(
        check="versions",
        verdict=Verdict.FAIL if old else Verdict.OK,
        detail=f"Python {python}, Scrapy {scrapy.__version__}",
        fix=f"install Scrapy {'.'.join(map(str, LEAST_SCRAPY))} or newer" if old else None,
    )


def _spiders(settings: Settings) -> Finding:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            names = sorted(get_spider_loader(settings).list())
    except Exception as error:  # noqa: BLE001  # whatever a spider's file does when it is imported
        return Finding(
            check="spiders",
            verdict=Verdict.FAIL,
            detail=f"a file in {', '.join(settings.getlist('SPIDER_MODULES'))} cannot be imported: "
            f"{type(error).__name__}: {error}",
            fix="scrapy list    shows where",
        )
    return Finding(
        check="spiders", verdict=Verdict.OK, detail=f"{len(names)} load: {', '.join(names) or 'none'}"
    )


def _servers(config: Config) -> Iterator[Finding]:
    import psycopg  # noqa: PLC0415  # keeps `scrapy` quick to start
    import redis  # noqa: PLC0415

    from crawlproj.connections import ensure_servers  # noqa: PLC0415

    try:
        addresses = ensure_servers(config)
    except ServerUnreachable as error:
        fix = "start the server or correct its address; unset it to use the embedded one"
        yield Finding(check="servers", verdict=Verdict.FAIL, detail=str(error), fix=fix)
        return
    except CrawlError as error:
        yield Finding(check="servers", verdict=Verdict.FAIL, detail=str(error))
        return
    for check, ask in (("Redis", _redis), ("PostgreSQL", _postgres), ("frontiers", _frontiers)):
        try:
            yield from ask(addresses)
        except CrawlError as error:
            yield Finding(check=check, verdict=Verdict.FAIL, detail=str(error))
        except (redis.RedisError, psycopg.Error) as error:  # it answers, but not to this
            url = addresses.database_url if isinstance(error, psycopg.Error) else addresses.redis_url
            yield Finding(check=check, verdict=Verdict.FAIL, detail=what_it_says(error, url))


def _redis(addresses: Addresses) -> Iterator[Finding]:
    from crawlproj.connections import open_redis_sync, redact  # noqa: PLC0415  # keeps `scrapy` quick to start

    with contextlib.closing(open_redis_sync(addresses.redis_url)) as client:
        info: dict[str, Any] = client.info("everything")
    valkey = info.get("valkey_version")
    product, version, least = (
        ("Valkey", valkey, LEAST_VALKEY) if valkey else ("Redis", info["redis_version"], LEAST_REDIS)
    )
    where = "embedded" if addresses.redis_embedded else redact(addresses.redis_url)
    old = int(str(version).partition(".")[0]) < least
    yield Finding(
        check=product,
        verdict=Verdict.FAIL if old else Verdict.OK,
        detail=f"{version} · {where}",
        fix=f"use Redis {LEAST_REDIS} or Valkey {LEAST_VALKEY}, or newer" if old else None,
    )
    policy = info.get("maxmemory_policy", "unknown")
    evicts = policy not in {"noeviction", "unknown"}
    yield Finding(
        check=f"{product} eviction",
        verdict=Verdict.FAIL if evicts else Verdict.OK,
        detail=f"maxmemory-policy {policy}" + (": a full server would throw away URLs" if evicts else ""),
        fix="CONFIG SET maxmemory-policy noeviction" if evicts else None,
    )
    durable = bool(info.get("aof_enabled"))
    yield Finding(
        check=f"{product} persistence",
        verdict=Verdict.OK if durable else Verdict.WARN,
        detail="append-only file is on"
        if durable
        else "append-only file is off: a restart loses what is queued",
        fix=None if durable else "CONFIG SET appendonly yes",
    )


def _postgres(addresses: Addresses) -> Iterator[Finding]:
    from crawlproj import schema  # noqa: PLC0415  # keeps `scrapy` quick to start
    from crawlproj.connections import connect_database, redact  # noqa: PLC0415

    with contextlib.closing(connect_database(addresses.database_url)) as connection:
        version = connection.info.server_version
        have, want = schema.check(connection)
    major = version // 10_000
    least, newest = POSTGRES
    where = "embedded" if addresses.database_embedded else redact(addresses.database_url)
    yield Finding(
        check="PostgreSQL",
        verdict=Verdict.FAIL if major < least else Verdict.WARN if major > newest else Verdict.OK,
        detail=f"{major}.{version % 10_000} · {where}",
        fix=None
        if least <= major <= newest
        else f"PostgreSQL {least} to {newest} are what this is tested with",
    )
    fix = None
    if have != want:
        fix = "scrapy migrate" if have < want else "update crawlproj"
    by_itself = addresses.database_embedded and have < want
    yield Finding(
        check="schema",
        verdict=Verdict.OK if have == want or by_itself else Verdict.FAIL,
        detail=f"{have}" if have == want else f"{have}, this code wants {want}",
        fix="the next crawl brings it up to date" if by_itself else fix,
    )


def _frontiers(addresses: Addresses) -> Iterator[Finding]:
    from crawlproj import schema  # noqa: PLC0415  # keeps `scrapy` quick to start
    from crawlproj.connections import connect_database  # noqa: PLC0415
    from crawlproj.crawls import rows  # noqa: PLC0415

    with contextlib.closing(connect_database(addresses.database_url)) as connection:
        have, want = schema.check(connection)
        if have != want:
            return  # said before; what the tables are like is not known
        runs = rows.open_runs(connection)
        sealed = rows.sealed_frontiers(connection)
    faulty, left = asyncio.run(_inspect(addresses, runs, sealed))
    yield from faulty
    if not faulty:
        yield Finding(check="frontiers", verdict=Verdict.OK, detail=f"{len(runs)} open, all consistent")
    if left:
        detail = f"{len(left)} of sealed runs were left behind, and are gone now"
        yield Finding(check="frontiers", verdict=Verdict.OK, detail=detail)


async def _inspect(
    addresses: Addresses, runs: list[tuple[CrawlRow, bool]], sealed: list[str]
) -> tuple[list[Finding], list[str]]:
    """Look into the frontier of every open run; drop those of sealed ones."""
    from redis.exceptions import ResponseError  # noqa: PLC0415  # keeps `scrapy` quick to start

    from crawlproj.connections import open_scripts, redact  # noqa: PLC0415
    from crawlproj.frontier.find import drop_all, find  # noqa: PLC0415

    client, scripts = open_scripts(addresses)
    found: list[Finding] = []
    try:
        async with asyncio.timeout(PATIENCE):
            for run, has_pages in runs:
                try:
                    frontier = await find(client, scripts, run.frontier)
                    if frontier is not None:
                        found += _faults(run, await frontier.inspect())
                    elif has_pages:
                        found.append(_lost(run))
                except ResponseError as error:  # keys that none of our scripts has written
                    found += _faults(run, [what_it_says(error, addresses.redis_url)])
            return found, await drop_all(client, scripts, sealed)
    except TimeoutError:
        raise ServerUnreachable(
            "Redis", redact(addresses.redis_url), f"no answer within {PATIENCE} s"
        ) from None
    finally:
        await scripts.close()
        await client.aclose()


def _faults(run: CrawlRow, faults: list[str]) -> Iterator[Finding]:
    if faults:
        more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
        yield Finding(
            check="frontiers",
            verdict=Verdict.FAIL,
            detail=f"crawl {run.name}, run {run.run}: {faults[0]}{more}",
            fix=f"stop its workers, then: scrapy rebuild {shlex.quote(run.name)} --force",
        )


def _lost(run: CrawlRow) -> Finding:
    return Finding(
        check="frontiers",
        verdict=Verdict.FAIL,
        detail=f"crawl {run.name}, run {run.run}, has pages and no frontier: Redis has lost it",
        fix=f"scrapy rebuild {shlex.quote(run.name)}",
    )


def _bodies(config: Config) -> Finding:
    from crawlproj.pages.bodies import body_store  # noqa: PLC0415  # keeps `scrapy` quick to start

    try:
        store = body_store(config.body_store)
        store.check()
    except CrawlError as error:
        return Finding(check="bodies", verdict=Verdict.FAIL, detail=str(error), fix="docs/how-to/bodies.md")
    # Where the old ones are is not asked: `body` has no index by store, and millions of rows.
    where = store.address or "the database"
    return Finding(check="bodies", verdict=Verdict.OK, detail=f"new bodies go to {where}")


def _name(settings: Settings) -> Finding:
    named = settings.get("USER_AGENT") != defaults.USER_AGENT
    return Finding(
        check="USER_AGENT",
        verdict=Verdict.OK if named else Verdict.WARN,
        detail=str(settings.get("USER_AGENT"))
        if named
        else "does not say who you are; sites block crawlers that hide",
        fix=None
        if named
        else 'in crawlproj/settings.py: USER_AGENT = "yourname (+https://your.site/crawler)"',
    )
