"""What a crawl was asked for: kept with its run when it is made, and read by whoever goes on with it.

As JSON, in the run's row:

    arguments   {name: value}   of the spider, as `-a` gives them
    settings    {NAME: value}   that were given for this crawl, without those of a process
    allow, deny [rule, …]       see crawlproj/url_rules.py
    max_depth   number or null  links from a seed
    seeds       [URL, …]        in place of what the spider would start with; not there: it starts as ever
    redacted    [name, …]       arguments and settings whose secrets are not kept
    recovery_log  boolean       whether links are kept with their pages

The next run of a crawl that repeats gets the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from crawlproj.redaction import is_secret, without_login, without_secrets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import Settings

    from crawlproj.config import Config

MOST_SEEDS = 16_000_000  #: characters that are kept; of more the name of their file is
SEEDS = "seeds"
REDACTED = "***"

_RULES = frozenset({"allow", "deny"})  # patterns look for secrets and hold none
#: Settings that belong to one process and to no crawl; what begins like this does, too.
_OF_A_PROCESS = (
    "REDIS_URL", "DATABASE_URL", "CRAWLPROJ_HOME", "WORKER_ID", "CRAWL_NAME", "CRAWL_JOIN", "COMMANDS_MODULE",
    "LEAVE_WHEN_PAUSED", "LOG_", "FEED", "PROGRESS_ENABLED", "JOBDIR", "STATS_DUMP", "TELNETCONSOLE_",
    "REMOTE_CONTROL_", "TWISTED_", "ASYNCIO_", "EDITOR",
)  # fmt: skip
#: Of these, what a command needs itself, to find its servers.
_OF_ANY_COMMAND = frozenset({"REDIS_URL", "DATABASE_URL", "CRAWLPROJ_HOME", "COMMANDS_MODULE"})
_ELSEWHERE = frozenset({"CRAWL_ALLOW", "CRAWL_DENY", "MAX_DEPTH"})  # in the config under names of their own

_SETTING_OF = {"allow": "CRAWL_ALLOW", "deny": "CRAWL_DENY", "max_depth": "MAX_DEPTH"}

_given: WeakKeyDictionary[Crawler, Mapping[str, str]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlConfig:
    """The config of one run."""

    arguments: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    max_depth: int | None = None
    seeds: tuple[str, ...] = ()
    redacted: tuple[str, ...] = ()
    recovery_log: bool = True

    @classmethod
    def of(
        cls,
        arguments: Mapping[str, str],
        settings: BaseSettings,
        config: Config,
        *,
        seeds: tuple[str, ...] = (),
    ) -> Self:
        """Build it from what was asked for, less the secrets in it."""
        kept = {name: kept_argument(name, value) for name, value in arguments.items()}
        typed = typed_settings(settings)
        safe = {name: kept_setting(name, value) for name, value in typed.items()}
        return cls(
            arguments=kept,
            settings=safe,
            allow=config.crawl_allow,
            deny=config.crawl_deny,
            max_depth=config.max_depth,
            seeds=seeds,
            redacted=tuple(
                name
                for was, now in ((arguments, kept), (typed, safe))
                for name in was
                if was[name] != now[name]
            ),
            recovery_log=config.recovery_log,
        )

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Self:
        """Read it back, from a row of any age."""
        return cls(
            arguments={str(name): str(value) for name, value in (kept.get("arguments") or {}).items()},
            settings=dict(kept.get("settings") or {}),
            allow=tuple(kept.get("allow") or ()),
            deny=tuple(kept.get("deny") or ()),
            max_depth=kept.get("max_depth"),
            seeds=tuple(kept.get(SEEDS) or ()),
            redacted=tuple(kept.get("redacted") or ()),
            recovery_log=kept.get("recovery_log", True),
        )

    def put_settings(self, settings: Settings, priority: str | int = "cmdline") -> None:
        """Give *settings* those that the crawl was asked for with, but for what this command line says."""
        for name, value in self.settings.items():
            if (settings.getpriority(name) or 0) < SETTINGS_PRIORITIES["cmdline"]:
                settings.set(name, value, priority)

    def as_json(self) -> dict[str, Any]:
        """Return it as it is kept."""
        kept: dict[str, Any] = {
            "arguments": dict(self.arguments),
            "settings": dict(self.settings),
            "allow": [*self.allow],
            "deny": [*self.deny],
            "max_depth": self.max_depth,
            "redacted": [*self.redacted],
            "recovery_log": self.recovery_log,
        }
        return {**kept, SEEDS: [*self.seeds]} if self.seeds else kept


def crawl_config(spider: Spider, settings: BaseSettings, config: Config) -> dict[str, Any]:
    """Return the config of the run that *spider* would make, as it is kept."""
    arguments = _given.get(spider.crawler)
    if arguments is None:  # it was not started by `scrapy crawl`: what it has made of its arguments
        arguments = {name: value for name, value in spider.__dict__.items() if isinstance(value, str)}
        arguments.pop("name", None)
    own = {name: value for name, value in arguments.items() if not name.startswith("_")}  # scrapyd's do
    if own.get(SEEDS, "").startswith("@"):
        own[SEEDS] = "\n".join(getattr(spider, "start_urls", ())) or own[SEEDS]
        if len(own[SEEDS]) > MOST_SEEDS:
            own[SEEDS] = arguments[SEEDS]
    return CrawlConfig.of(own, settings, config).as_json()


def differing(asked: Mapping[str, Any], kept: Mapping[str, Any]) -> list[str]:
    """Return the arguments and lists in which a worker's wishes are others than its run was created with."""
    mine, theirs = asked.get("arguments") or {}, kept.get("arguments") or {}
    names = sorted(name for name in {*mine, *theirs} if mine.get(name) != theirs.get(name))
    return names + [
        setting for name, setting in _SETTING_OF.items() if asked.get(name) and asked[name] != kept.get(name)
    ]


def remember_arguments(crawler: Crawler, arguments: Mapping[str, str]) -> None:
    """Keep what a spider was given: nobody can tell later from the spider what it made of it."""
    _given[crawler] = dict(arguments)


def not_of_a_crawl(name: str) -> bool:
    """Say whether a setting is one that no crawl keeps, and of no use to the command that adds one."""
    return name.startswith(_OF_A_PROCESS) and name not in _OF_ANY_COMMAND


def typed_settings(settings: BaseSettings) -> dict[str, Any]:
    """Return the settings of a command line that say how to crawl, and not how this process does."""
    typed = SETTINGS_PRIORITIES["cmdline"]
    return {
        # A dictionary that Scrapy has merged settings into: EXTENSIONS, say.
        name: value.copy_to_dict() if isinstance(value := settings[name], BaseSettings) else value
        for name in sorted(settings)
        if settings.getpriority(name) == typed
        and not name.startswith(_OF_A_PROCESS)
        and name not in _ELSEWHERE
    }


def kept_argument(name: str, value: str) -> str:
    """Return an argument's value without what is secret in it."""
    if name in _RULES:
        return without_login(value)
    if name == SEEDS and "\n" in value:  # most of many lines need no second look
        return "\n".join(without_secrets(name, line) for line in value.split("\n"))
    return without_secrets(name, value)


def kept_setting(name: str, value: Any) -> Any:
    """Return a setting's value without what is secret in it."""
    if is_secret(name) and not name.startswith("COOKIES_"):  # these say how cookies are treated
        return REDACTED
    text = value if isinstance(value, str) else str(value)
    safe = without_secrets("", text)
    return value if safe == text else safe
