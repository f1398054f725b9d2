"""`scrapy add`: a crawl for `scrapy run` to work on."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from typing import TYPE_CHECKING, Any

from crawlproj import cli
from crawlproj.exceptions import BadArgument, WrongUsage
from crawlproj.output import Output, number

if TYPE_CHECKING:
    from scrapy.settings import Settings

    from crawlproj.crawls.config import CrawlConfig
    from crawlproj.crawls.rows import CrawlRow

UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
LONGEST_REPEAT = 10 * 366 * UNITS["d"]
FIELDS = ("id", "name", "run", "spider", "status", "retry_at")  # of the new row, for programs
LONGEST_WORDS = 200  # characters of a label or a tag


class Command(cli.Command):
    """Queue a run of a crawl."""

    json = True
    usage = "NAME [URL … | @FILE] [options]"
    summary = "Queue a crawl: nothing is fetched before `scrapy run` takes it"
    details = (
        "URLs are what the crawl starts with; without any the spider starts as ever (`site` needs some).\n"
        "@FILE has one URL a line. Everything is checked now and kept with the run, so that any machine can\n"
        "work it. Settings of a process (LOG_LEVEL, FEEDS, …) are refused: they belong to `scrapy run`.\n"
        "Secrets are refused: put them into the environment or into settings.py where it runs.\n"
        "RULE: a domain (with what is below it) or a regular expression; what is denied stays out, and\n"
        "where something is allowed, only that comes in.\n"
        "Exit codes: 2 something is wrong with it; 3 no such spider; 4 the name has an open run."
    )
    examples = (
        "scrapy add news https://a.example/ https://b.example/ --depth 3 --tag daily --every 1d",
        "scrapy add news @seeds.txt --max-urls 5000 --deny '/print/' --deny ads.example --set MAX_RESULT=900",
        "scrapy add shop --spider shop -a category=books --label 'Books only' --paused",
    )
    arguments = (1, sys.maxsize)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add what a crawl can be asked for; -s and --set are Scrapy's own."""
        super().add_options(parser)
        parser.add_argument("--spider", metavar="SPIDER", default="site", help="default: site")
        parser.add_argument(
            "-a", dest="spargs", action="append", default=[], metavar="NAME=VALUE", help="spider argument"
        )
        parser.add_argument(
            "--depth", type=cli.whole_number, metavar="N", help="at most N links from a start URL; 0: none"
        )
        parser.add_argument(
            "--max-urls",
            type=cli.whole_number,
            metavar="N",
            help="at most N URLs, start URLs included; 0: any number",
        )
        for name, does in (
            ("allow", "let in only what a rule matches"),
            ("deny", "keep out what a rule matches"),
        ):
            parser.add_argument(
                f"--{name}", action="append", default=[], metavar="RULE", help=f"{does}; may be repeated"
            )
        parser.add_argument(
            "--tag", action="append", default=[], metavar="TAG", help="to find it by; may be repeated"
        )
        parser.add_argument("--label", metavar="TEXT", help="a title for people")
        parser.add_argument("--paused", action="store_true", help="let it wait for `scrapy resume`")
        parser.add_argument(
            "--every", type=every, metavar="TIME", help="repeat it: 30s, 15m, 12h, 1d, 1w from start to start"
        )

    def work(self, args: list[str], opts: argparse.Namespace) -> int | None:
        """Check everything, then write it down."""
        from crawlproj.crawls import control, rows  # noqa: PLC0415  # keeps `scrapy` quick to start

        name, urls = args[0], _urls(args[1:])
        if not name:  # as a setting it would be none at all
            raise WrongUsage("a crawl needs a name to be found by, not ''")
        _check_settings(opts.set)
        label, tags = _words("--label", opts.label), sorted({_tag(tag) for tag in opts.tag})
        asked, seeds = _config(self.given_settings, name, urls, opts)
        with self.database() as connection:
            crawl_id = control.create(
                connection,
                name=name,
                spider=opts.spider,
                config=asked.as_json(),
                paused=opts.paused,
                label=label,
                tags=tags,
                repeat_seconds=opts.every,
            )
            run = rows.crawl(connection, crawl_id)
        out = Output(as_json=opts.json)
        if out.as_json:
            row = {field: getattr(run, field) for field in FIELDS}
            out.json({**row, "seeds": seeds, "tags": tags, "label": label})
        else:
            out.line(" · ".join(_told(run, seeds, opts)))
        return None


def _check_settings(pairs: list[str]) -> None:
    """Refuse what would be dropped in silence: a setting that no crawl keeps. Raises WrongUsage."""
    from crawlproj.crawls.config import not_of_a_crawl  # noqa: PLC0415  # keeps `scrapy` quick to start

    for pair in pairs:
        name = pair.partition("=")[0]
        if not_of_a_crawl(name):
            where = f"`scrapy run … -s {name}=…`"
            if name.startswith("CRAWL_"):
                where = f"`scrapy crawl … -s {name}=…`"
            raise WrongUsage(f"{name} is no setting of a crawl but of a process that works it: use {where}")


def _told(run: CrawlRow, seeds: int, opts: argparse.Namespace) -> list[str]:
    words = [f"added {run.name}, run {run.run}", f"spider {run.spider}"]
    if seeds:
        words.append(f"{number(seeds)} seed{'s' if seeds > 1 else ''}")
    if opts.every:
        unit = max((unit for unit in UNITS if opts.every % UNITS[unit] == 0), key=UNITS.__getitem__)
        words.append(f"every {opts.every // UNITS[unit]}{unit}")
    if opts.paused:
        words.append(f"paused, let it go on with: scrapy resume {shlex.quote(run.name)}")
    else:
        words.append("starts with the next scrapy run")
    return words


def every(text: str) -> int:
    """Return the seconds of a time like 12h; argparse turns the error into a sentence."""
    found = re.fullmatch(r"(\d{1,10})([smhdw])", text, re.ASCII)
    seconds = int(found[1]) * UNITS[found[2]] if found else 0
    if not 0 < seconds <= LONGEST_REPEAT:
        raise argparse.ArgumentTypeError(f"must be a time like 30s, 15m, 12h, 1d or 1w, not {text[:80]!r}")
    return seconds


def _urls(texts: list[str]) -> list[str]:
    from crawlproj.redaction import without_secrets  # noqa: PLC0415  # keeps `scrapy` quick to start
    from crawlproj.seeds import read_seeds  # noqa: PLC0415

    urls = list(dict.fromkeys(url for text in texts for url in read_seeds(text)))
    for url in urls:
        safe = without_secrets("", url)
        if safe != url:
            raise BadArgument(
                f"a login or a secret is in {safe[:120]!r}, and what is added is stored: put logins into"
                " HTTPAUTH_USER and HTTPAUTH_PASS in settings.py, or use `scrapy crawl`, which stores none"
            )
    return urls


def _config(
    settings: Settings, name: str, urls: list[str], opts: argparse.Namespace
) -> tuple[CrawlConfig, int]:
    """Return what the crawl is asked for, and how many URLs it starts with as far as that is said here."""
    from crawlproj.checks import check, load_spider, misspelt, takes  # noqa: PLC0415  # keeps `scrapy` quick to start
    from crawlproj.crawls.config import SEEDS, CrawlConfig  # noqa: PLC0415
    from crawlproj.seeds import NoSeeds, read_seeds  # noqa: PLC0415

    given: dict[str, Any] = {"MAX_URLS": opts.max_urls, "MAX_DEPTH": opts.depth}
    given |= {"CRAWL_ALLOW": opts.allow or None, "CRAWL_DENY": opts.deny or None, "CRAWL_NAME": name}
    settings.setdict({key: value for key, value in given.items() if value is not None}, "cmdline")
    arguments = _arguments(opts.spargs)
    spidercls = load_spider(settings, opts.spider)
    own_seeds = takes(spidercls, SEEDS)
    if arguments.get(SEEDS, "").startswith("@") and own_seeds:
        arguments[SEEDS] = "\n".join(read_seeds(arguments[SEEDS]))
    if urls and own_seeds:
        _once(arguments, SEEDS, "\n".join(urls))
    if opts.depth is not None and takes(spidercls, "depth"):
        _once(arguments, "depth", str(opts.depth))
    try:
        spidercls, config = check(settings, opts.spider, arguments)
    except NoSeeds:
        raise BadArgument("no seeds: put URLs or @FILE after the name") from None
    asked = CrawlConfig.of(arguments, settings, config, seeds=() if own_seeds else tuple(urls))
    if asked.redacted:
        raise BadArgument(
            f"{', '.join(asked.redacted)}: a secret, and what is added is stored; put it into the environment"
            " or into settings.py where the crawl runs, or start it with `scrapy crawl`, which stores none"
        )
    for sentence in misspelt(settings, spidercls):
        print(f"scrapy add: {sentence}", file=sys.stderr)
    return asked, len(urls) or len(arguments.get(SEEDS, "").split())


def _arguments(pairs: list[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise WrongUsage(f"-a takes NAME=VALUE, not {pair[:80]!r}")
        found[name] = value
    return found


def _once(arguments: dict[str, str], name: str, value: str) -> None:
    if name in arguments:
        raise WrongUsage(f"{name} is given twice: with -a, and without")
    arguments[name] = value


def _tag(text: str) -> str:
    if "," in text:  # `scrapy crawls` sets tags apart by commas
        raise WrongUsage(f"--tag is one tag, without commas, and may be repeated, not {text[:80]!r}")
    return (_words("--tag", text) or "").lower()


def _words(option: str, text: str | None) -> str | None:
    """Return what people call something. Raises WrongUsage."""
    if text is None:
        return None
    if not text.strip() or not text.isprintable() or len(text) > LONGEST_WORDS:
        raise WrongUsage(f"{option} must be 1 to {LONGEST_WORDS} printable characters, not {text[:80]!r}")
    return text.strip()
