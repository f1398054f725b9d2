"""What every command shares: it refuses what it does not know and says errors in one sentence."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import getpass
import os
import re
import shlex
import socket
import sys
import textwrap
import warnings
from abc import abstractmethod
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from scrapy.commands import ScrapyCommand, ScrapyHelpFormatter
from scrapy.spiderloader import get_spider_loader

from crawlproj.config import Config
from crawlproj.exceptions import BadArgument, CrawlError, Refused, ServerUnreachable, WrongUsage
from crawlproj.output import one_line, quiet_stdout

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    import psycopg
    from scrapy.settings import Settings

    from crawlproj.connections import Addresses
    from crawlproj.crawls.rows import CrawlRow
    from crawlproj.frontier.frontier import Frontier
    from crawlproj.frontier.records import HostView

INTERRUPTED = 130  #: what a shell expects after Ctrl-C
HOST_STATES = ("ready", "inactive", "snoozed", "in-process", "retired", "exhausted")
PATIENCE = 60  # seconds for what a command asks Redis: the crawl itself waits out an outage, people don't


class HelpFormatter(ScrapyHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Scrapy's formatter, which fits what a command says into the terminal and leaves examples alone."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("Examples:"):  # to be copied as they are
            return super()._fill_text(text, width, indent)
        # A line that does not end a sentence goes on in the next one.
        paragraphs = re.sub(r"(?<=[^\n.])\n(?=[^\n])", " ", text).splitlines()
        return "\n".join(
            textwrap.fill(each, width, initial_indent=indent, subsequent_indent=indent) for each in paragraphs
        )


class Strict(ScrapyCommand):
    """A command that refuses what it does not know.

    Scrapy passes unknown options on without a word, so that `--stauts failed` would list every
    page. Subclasses say what they take and implement `work`.
    """

    requires_project = True
    usage: ClassVar[str] = ""  #: what follows the command's name in its usage line
    summary: ClassVar[str] = ""
    details: ClassVar[str] = ""
    examples: ClassVar[tuple[str, ...]] = ()
    arguments: ClassVar[tuple[int, int]] = (0, 0)  #: how many it takes, least and most

    def syntax(self) -> str:
        """Return the arguments, for the usage line."""
        return self.usage

    def short_desc(self) -> str:
        """Return one line for the list of commands."""
        return self.summary

    def long_desc(self) -> str:
        """Return the summary and what else there is to know."""
        return f"{self.summary}.\n\n{self.details}".strip() if self.details else f"{self.summary}."

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add Scrapy's options and make the parser strict."""
        super().add_options(parser)
        parser.formatter_class = HelpFormatter
        parser.allow_abbrev = False
        parser.error = self._refuse  # type: ignore[method-assign]  # its own prints the usage too
        parser.epilog = "Examples:\n" + "\n".join(f"  {line}" for line in self.examples)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Check the arguments, do the work and turn what goes wrong into an exit code."""
        self.exitcode = guarded(self.name, lambda: self.work(self._checked(args), opts))

    @abstractmethod
    def work(self, args: list[str], opts: argparse.Namespace) -> int | None:
        """Do what the command is for; None is exit code 0."""

    @property
    def name(self) -> str:
        """The command's name: that of its file."""
        return type(self).__module__.rpartition(".")[2]

    @property
    def config(self) -> Config:
        """The project's settings, checked."""
        return Config.from_settings(self.given_settings)

    @property
    def given_settings(self) -> Settings:
        """The settings of the project and of this command line."""
        assert self.settings is not None
        return self.settings

    def _checked(self, args: list[str]) -> list[str]:
        """Return the positional arguments; raise WrongUsage for an option among them."""
        if "--" in args:
            position = args.index("--")
            options, args = args[:position], args[:position] + args[position + 1 :]
        else:
            options = args
        for arg in options:
            if arg.startswith("-"):
                raise WrongUsage(f"there is no option {arg.partition('=')[0]}")
        least, most = self.arguments
        if len(args) > most:
            raise WrongUsage(f"too many arguments: {' '.join(args[most:])}; use: {self._call}")
        if len(args) < least:
            raise WrongUsage(f"an argument is missing; use: {self._call}")
        return args

    def say(self, text: str) -> None:
        """Tell a person something that is no result."""
        print(one_line(text), file=sys.stderr)

    @property
    def _call(self) -> str:
        return f"scrapy {self.name} {self.usage}".strip()

    def _refuse(self, message: str) -> NoReturn:
        fail(self.name, message)
        sys.exit(WrongUsage.exit_code)


class Command(Strict):
    """A command that asks or changes something and does not crawl: no log, no reactor."""

    requires_crawler_process = False
    default_settings: ClassVar[dict[str, Any]] = {"LOG_ENABLED": False}
    json: ClassVar[bool] = False  #: whether it has --json

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add --json where the command has it."""
        super().add_options(parser)
        if self.json:
            parser.add_argument("--json", action="store_true", help="print JSON, one object a line")

    def addresses(self, *, redis: bool = True) -> Addresses:
        """Return where the servers are, after starting the embedded ones if need be; see `ensure_servers`."""
        from crawlproj.connections import ensure_servers  # noqa: PLC0415  # keeps `scrapy` quick to start

        return ensure_servers(self.config, redis=redis)

    @contextlib.contextmanager
    def database(self, addresses: Addresses | None = None) -> Iterator[psycopg.Connection[Any]]:
        """Open the database, with the schema this code works with. Without *addresses* Redis may be away."""
        from crawlproj.connections import connect_database  # noqa: PLC0415  # keeps `scrapy` quick to start

        where = addresses or self.addresses(redis=False)
        with contextlib.closing(connect_database(where.database_url)) as connection:
            settle_schema(connection, embedded=where.database_embedded)
            yield connection


def settle_schema(connection: psycopg.Connection[Any], *, embedded: bool) -> None:
    """Bring our own database up to date; require it of a given one, which has other users too."""
    from crawlproj import schema  # noqa: PLC0415  # keeps `scrapy` quick to start

    if embedded:
        schema.migrate(connection)
    else:
        schema.require(connection)


def guarded(name: str, work: Callable[[], int | None]) -> int:
    """Run *work* and return its exit code; what is expected to go wrong costs one line on stderr."""
    try:
        code = work() or 0
        sys.stdout.flush()
    except CrawlError as error:
        fail(name, str(error))
        return error.exit_code
    except BrokenPipeError:  # `scrapy pages NAME | head` has what it wanted
        quiet_stdout()
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        sentence = _server_error(error)
        if sentence is None:
            raise
        fail(name, sentence)
        return ServerUnreachable.exit_code
    return code


async def frontier_hosts(addresses: Addresses, frontier_id: str) -> list[dict[str, Any]] | None:
    """Return the hosts of a frontier as the contract names their fields; None when it is no more."""
    async with open_frontier(addresses, frontier_id) as frontier:
        return None if frontier is None else [host_row(view) for view in await frontier.hosts()]


def host_row(view: HostView) -> dict[str, Any]:
    """Return a host under the names of the contract, which are those of the view."""
    row = asdict(view)
    del row["knobs"], row["backs_off_ms"]
    return row


@contextlib.asynccontextmanager
async def open_frontier(
    addresses: Addresses, frontier_id: str, *, patience: float | None = PATIENCE
) -> AsyncIterator[Frontier | None]:
    """Open the frontier of a crawl for at most *patience* seconds; None when its keys are gone."""
    from crawlproj.connections import open_scripts, redact  # noqa: PLC0415  # keeps `scrapy` quick to start
    from crawlproj.frontier.find import find  # noqa: PLC0415

    redis, scripts = open_scripts(addresses)
    try:
        async with asyncio.timeout(patience):
            yield await find(redis, scripts, frontier_id)
    except TimeoutError:
        where = redact(addresses.redis_url)
        raise ServerUnreachable("Redis", where, f"no answer within {patience} s") from None
    finally:
        await scripts.close()
        await redis.aclose()


@contextlib.asynccontextmanager
async def frontier_of(
    addresses: Addresses, crawl: CrawlRow, *, patience: float | None = PATIENCE
) -> AsyncIterator[Frontier]:
    """Open the frontier of a run that has one. Raises Refused, which says why there is none."""
    if crawl.status == "sealed" and not crawl.kept:
        raise Refused(f"crawl {crawl.name!r}, run {crawl.run}, is sealed: nothing of it is queued any more")
    async with open_frontier(addresses, crawl.frontier, patience=patience) as frontier:
        if frontier is None:
            why = "no worker has been at it yet"
            if crawl.started_at is not None:
                why = f"Redis has lost it: `scrapy rebuild {shlex.quote(crawl.name)}` fills it again"
            raise Refused(f"crawl {crawl.name!r}, run {crawl.run}, has no frontier: {why}")
        yield frontier


def spider_config(settings: Settings, spider: str) -> Config:
    """Return the configuration with which a spider crawls: its own settings count as they do then."""
    merged = settings.copy()
    with warnings.catch_warnings(), contextlib.suppress(Exception):  # it may be gone, or broken by now
        warnings.simplefilter("ignore")
        get_spider_loader(settings).load(spider).update_settings(merged)
    return Config.from_settings(merged)


def words(option: str, given: str | None, known: Sequence[str]) -> list[str] | None:
    """Return the words of a comma-separated option. Raises BadArgument for one that is not *known*."""
    if given is None:
        return None
    found = [word.strip() for word in given.split(",")]
    for word in found:
        if word not in known:
            raise BadArgument(f"{option} must be of {', '.join(known)}, not {word!r}")
    return found


def knob_pair(text: str, *, of_host: bool = False) -> tuple[str, float]:
    """Return name and value of a KNOB=VALUE. Raises BadArgument."""
    from crawlproj.knobs import parse_knob  # noqa: PLC0415  # keeps `scrapy` quick to start

    name, sign, value = text.partition("=")
    if not sign:
        raise BadArgument(f"a knob is turned with KNOB=VALUE, not {text[:80]!r}")
    return name, parse_knob(name, value, of_host=of_host)


def whole_number(text: str) -> int:
    """Return an option's value; argparse turns the error into a sentence."""
    if text.startswith("-") and text[1:].isdigit():
        raise argparse.ArgumentTypeError(f"must be 0 or more, not {text[:80]!r}")
    if not (text.isascii() and text.isdigit() and len(text) < 19):  # noqa: PLR2004  # fits a bigint
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text[:80]!r}")
    return int(text)


def who() -> str:
    """Return who does this, for the notes of a crawl: user@host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container that knows no user of this number
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def add_limit(parser: argparse.ArgumentParser, for_a_screen: int) -> None:
    """Add --limit, which `limit` reads."""
    default = f"{for_a_screen} on a terminal, else all; 0 is all"
    parser.add_argument(
        "--limit", metavar="N", type=whole_number, help=f"at most N rows (default: {default})"
    )


def limit(given: int | None, default: int | None) -> int | None:
    """Return how many rows are wanted; 0 means all, as None does."""
    return (default if given is None else given) or None


def fail(name: str, sentence: str) -> None:
    """Say on stderr, in one line, what went wrong."""
    print(f"scrapy {name}: {one_line(sentence.strip())}", file=sys.stderr)


def _server_error(error: Exception) -> str | None:
    """Return a sentence for a server that went away in the middle, None for anything else."""
    import psycopg  # noqa: PLC0415  # keeps `scrapy` quick to start
    import redis  # noqa: PLC0415

    if isinstance(error, psycopg.OperationalError):
        return f"PostgreSQL went away: {error}"
    if isinstance(error, redis.ConnectionError | redis.TimeoutError):
        return f"Redis went away: {error}"
    if isinstance(error, redis.RedisError):
        return f"Redis refuses: {error}"
    return None
