"""The project's settings, read and checked once."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from scrapy.settings import SETTINGS_PRIORITIES

from crawlproj.exceptions import BadSetting
from crawlproj.knobs import KNOBS
from crawlproj.languages import primary
from crawlproj.url_rules import UrlRules, read_rules

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from crawlproj.knobs import Value

RENDER_MODES = ("off",)  # a mode that would be taken and not obeyed is worse than none
NOFOLLOW = ("obey", "ignore")
SEEN_FILTERS = ("exact", "bloom")
REVISIT_POLICIES = ("fixed", "adaptive")
LEFT_QUEUES = ("release", "dump", "keep")
LONGEST_REVISIT = 3_153_600_000  #: seconds, 100 years: no time that PostgreSQL could not store
DELAY_PRESETS: Mapping[str, Mapping[str, Value]] = {  # what a delay is that is not set
    "none": {"delay_factor": 0, "min_delay_ms": 0, "max_delay_ms": 30_000},
    "heritrix": {"delay_factor": 5, "min_delay_ms": 3_000, "max_delay_ms": 30_000},
}
MOST_IN_BLOOM = 10**10  #: 42 GB of bits
MOST_PARTITIONS = 1024  #: every worker asks every one of them
MOST_SHARDS = 2**20  #: enough for half a billion URLs; Redis looks at each when a run is dropped


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What the settings say, typed. Raises BadSetting, naming the first one that cannot be."""

    redis_url: str | None
    database_url: str | None
    home: Path
    crawl_name: str | None
    crawl_join: bool
    crawl_allow: tuple[str, ...]  #: rules, see crawlproj/url_rules.py
    crawl_deny: tuple[str, ...]
    max_depth: int | None  #: links from a seed; None: any number
    worker_id: str
    close_grace_seconds: float
    crawl_phase_seconds: float
    early_stop_queue: str
    leave_when_paused: bool
    max_concurrent_count: int
    robots_cache_seconds: int
    robots_retry_seconds: int
    lease_seconds: float
    knobs: Mapping[str, Value]  #: of a new frontier, by the names in crawlproj/knobs.py
    language_intervals: Mapping[str, int]  #: ms between two starts on hosts of a language
    profile_seconds: int
    fetch_result_seconds: int
    turned: frozenset[str]  #: of these, those that were given on the command line
    seen_filter: str
    seen_shards: int
    bloom_capacity: int
    bloom_error: float
    partitions: int
    recovery_log: bool
    dump_pending: bool
    seen_cache: int
    gc_threshold: int
    cookies_max_domains: int
    cookies_shared: bool
    queue_assignment: str
    forced_queue: str | None
    host_groups: Mapping[str, Any]  #: name -> hosts, unchecked
    canonical_rules: tuple[str, ...]
    source_tag_seeds: bool
    nofollow: str
    ignored_extensions: frozenset[str] | None
    revisit_policy: str
    revisit_interval_seconds: int
    revisit_min_seconds: int
    revisit_max_seconds: int
    body_store: str | None
    empty_below: int  #: characters of main text that make content
    render_mode: str

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """Read every setting of ours."""
        return cls(
            redis_url=settings.get("REDIS_URL") or None,
            database_url=settings.get("DATABASE_URL") or None,
            home=home(settings),
            crawl_name=_name(settings, "CRAWL_NAME"),
            crawl_join=_boolean(settings, "CRAWL_JOIN"),
            crawl_allow=_rules(settings, "CRAWL_ALLOW"),
            crawl_deny=_rules(settings, "CRAWL_DENY"),
            max_depth=_depth(settings, "MAX_DEPTH"),
            worker_id=_name(settings, "WORKER_ID") or f"{socket.gethostname()}-{os.getpid()}",
            close_grace_seconds=_number(settings, "CLOSE_GRACE_SECONDS"),
            crawl_phase_seconds=_number(settings, "CRAWL_PHASE_SECONDS", least=1),
            early_stop_queue=_one_of(settings, "EARLY_STOP_QUEUE", LEFT_QUEUES),
            leave_when_paused=_boolean(settings, "LEAVE_WHEN_PAUSED"),
            max_concurrent_count=_integer(settings, "MAX_CONCURRENT_COUNT", least=1),
            robots_cache_seconds=_integer(settings, "ROBOTS_CACHE_SECONDS", least=1),
            robots_retry_seconds=_integer(settings, "ROBOTS_RETRY_SECONDS", least=1),
            lease_seconds=_number(settings, "LEASE_SECONDS", least=1),
            knobs=_knobs(settings),
            language_intervals=_language_intervals(settings),
            profile_seconds=_integer(settings, "DOMAIN_PROFILE_SECONDS", least=1),
            fetch_result_seconds=_integer(settings, "FETCH_RESULT_SECONDS"),
            turned=_turned(settings),
            seen_filter=_one_of(settings, "FRONTIER_SEEN_FILTER", SEEN_FILTERS),
            bloom_capacity=_integer(settings, "FRONTIER_BLOOM_CAPACITY", least=1, most=MOST_IN_BLOOM),
            bloom_error=_bloom_error(settings),
            partitions=_integer(settings, "FRONTIER_PARTITIONS", least=1, most=MOST_PARTITIONS),
            seen_shards=_integer(settings, "FRONTIER_SEEN_SHARDS", least=1, most=MOST_SHARDS),
            dump_pending=_boolean(settings, "FRONTIER_DUMP_PENDING_AT_CLOSE"),
            recovery_log=_boolean(settings, "FRONTIER_RECOVERY_LOG"),
            seen_cache=_integer(settings, "FRONTIER_SEEN_CACHE"),
            gc_threshold=_integer(settings, "GC_THRESHOLD"),
            cookies_max_domains=_integer(settings, "COOKIES_MAX_DOMAINS", least=1),
            cookies_shared=_boolean(settings, "COOKIES_SHARED"),
            queue_assignment=str(settings.get("FRONTIER_QUEUE_ASSIGNMENT")),
            forced_queue=settings.get("FRONTIER_FORCED_QUEUE") or None,
            host_groups=_mapping(settings, "FRONTIER_HOST_GROUPS"),
            canonical_rules=_words(settings, "FRONTIER_CANONICAL_RULES"),
            source_tag_seeds=_boolean(settings, "FRONTIER_SOURCE_TAG_SEEDS"),
            nofollow=_one_of(settings, "FRONTIER_NOFOLLOW", NOFOLLOW),
            ignored_extensions=_extensions(settings, "FRONTIER_IGNORED_EXTENSIONS"),
            revisit_policy=_one_of(settings, "REVISIT_POLICY", REVISIT_POLICIES),
            revisit_interval_seconds=_integer(settings, "REVISIT_INTERVAL_SECONDS", most=LONGEST_REVISIT),
            revisit_min_seconds=_integer(
                settings, "REVISIT_MIN_SECONDS", least=1, most=_integer(settings, "REVISIT_MAX_SECONDS")
            ),
            revisit_max_seconds=_integer(settings, "REVISIT_MAX_SECONDS", least=1, most=LONGEST_REVISIT),
            body_store=settings.get("BODY_STORE") or None,
            empty_below=_integer(settings, "EMPTY_BELOW_CHARACTERS"),
            render_mode=_one_of(settings, "RENDER_MODE", RENDER_MODES),
        )

    @property
    def min_interval_ms(self) -> int:
        """Return the interval of hosts that have none of their own, in ms."""
        return int(self.knobs["interval_ms"])

    @property
    def host_max_in_flight(self) -> int:
        """Return how many requests may be under way on one host."""
        return int(self.knobs["in_flight"])

    @property
    def max_attempts(self) -> int:
        """Return how often one URL may be fetched."""
        return int(self.knobs["max_attempts"])

    @property
    def max_outlinks(self) -> int:
        """Return how many links are taken from one page."""
        return int(self.knobs["max_outlinks"])

    @property
    def max_target(self) -> int:
        """Return how many URLs may be started; 0: any number."""
        return int(self.knobs["max_target"])

    @property
    def max_result(self) -> int:
        """Return how many results are enough; 0: no number is."""
        return int(self.knobs["max_result"])

    @property
    def max_time_seconds(self) -> float:
        """Return how long a run may take; 0: as long as it does."""
        return self.knobs["max_time_seconds"]

    @property
    def max_urls(self) -> int:
        """Return how many URLs may be let in; 0: any number."""
        return int(self.knobs["max_urls"])

    @property
    def max_bytes(self) -> int:
        """Return how many bytes of bodies are enough; 0: no number is."""
        return int(self.knobs["max_bytes"])

    @property
    def crawl_delay_max_seconds(self) -> int:
        """Return to what a crawl-delay is cut."""
        return int(self.knobs["crawl_delay_max_ms"]) // 1000


def home(settings: BaseSettings) -> Path:
    """Return the folder of the embedded servers and of the project's own files."""
    if value := settings.get("CRAWLPROJ_HOME"):
        return Path(value).expanduser().absolute()
    from scrapy.utils.conf import closest_scrapy_cfg  # noqa: PLC0415  # only when it is needed

    cfg = closest_scrapy_cfg()
    return (Path(cfg).parent if cfg else Path.cwd()).absolute() / ".crawlproj"


def _knobs(settings: BaseSettings) -> Mapping[str, Value]:
    preset = DELAY_PRESETS[_one_of(settings, "FRONTIER_DELAY_PRESET", tuple(DELAY_PRESETS))]
    found: dict[str, Value] = {}
    for knob in KNOBS.values():
        value = settings.get(knob.setting)
        if value is None and knob.name in preset:
            found[knob.name] = preset[knob.name]
            continue
        try:
            # What is unset counts as 0, as it always has for limits.
            found[knob.name] = knob.parse(0 if value is None or value == "" else value) * knob.scale
        except ValueError as exc:
            raise BadSetting(knob.setting, value, str(exc)) from None
    return found


def _turned(settings: BaseSettings) -> frozenset[str]:
    typed = SETTINGS_PRIORITIES["cmdline"]
    preset = (settings.getpriority("FRONTIER_DELAY_PRESET") or 0) >= typed
    return frozenset(
        knob.name
        for knob in KNOBS.values()
        if (settings.getpriority(knob.setting) or 0) >= typed
        or (preset and knob.name in DELAY_PRESETS["none"])
    )


def _language_intervals(settings: BaseSettings) -> Mapping[str, int]:
    name = "MIN_INTERVAL_MS_BY_LANGUAGE"
    found: dict[str, int] = {}
    for key, given in _mapping(settings, name).items():
        language = str(key)
        known = primary(language)
        example = repr(known) if known else "'ja' or 'zh'"
        if known is None or known != language.lower():
            raise BadSetting(name, language, f"languages in their short form: {example}")
        try:
            found[known] = int(KNOBS["interval_ms"].parse(given))
        except ValueError as exc:
            raise BadSetting(name, settings.get(name), f"{exc}, for each language") from None
    return found


def _bloom_error(settings: BaseSettings) -> float:
    rate = _number(settings, "FRONTIER_BLOOM_ERROR")
    if not 1e-9 <= rate <= 0.1:  # noqa: PLR2004
        raise BadSetting("FRONTIER_BLOOM_ERROR", rate, "a number from 1e-9 to 0.1")
    return rate


def _number(settings: BaseSettings, name: str, *, least: float = 0) -> float:
    value = settings.get(name)
    if value is None or value == "":
        value = 0
    want = "a number" if least <= 0 else f"a number, at least {least:g}"
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise BadSetting(name, value, want) from None
    if isinstance(value, bool) or not least <= number < 2**53:  # also refuses nan and infinity
        raise BadSetting(name, value, f"a number, at least {least:g}")
    return number


def _integer(settings: BaseSettings, name: str, *, least: int = 0, most: int = 2**53) -> int:
    number = _number(settings, name, least=least)
    if number > most:
        raise BadSetting(name, settings.get(name), f"a number, at most {most}")
    if number != int(number):
        raise BadSetting(name, settings.get(name), "a whole number")
    return int(number)


def _boolean(settings: BaseSettings, name: str) -> bool:
    try:
        return settings.getbool(name)
    except ValueError:
        raise BadSetting(name, settings.get(name), "true or false") from None


def _mapping(settings: BaseSettings, name: str) -> Mapping[str, Any]:
    value = settings.get(name)
    try:
        given = {} if value is None else json.loads(value) if isinstance(value, str) else value
    except ValueError:
        given = None
    if not isinstance(given, Mapping):  # not what dict() takes: it makes {"j": "a"} of ["ja"]
        raise BadSetting(name, value, "a dictionary, or one as JSON")
    return dict(given)


def _words(settings: BaseSettings, name: str) -> tuple[str, ...]:
    try:
        return tuple(word for each in settings.getlist(name) if (word := str(each).strip()))
    except TypeError:
        raise BadSetting(name, settings.get(name), "a list, or words with commas between them") from None


def _rules(settings: BaseSettings, name: str) -> tuple[str, ...]:
    value = settings.get(name)
    try:
        return UrlRules(read_rules(value)).texts
    except ValueError as exc:
        raise BadSetting(name, value, f"domains and regular expressions, one a line ({exc})") from None


def _depth(settings: BaseSettings, name: str) -> int | None:
    value = settings.get(name)
    return None if value is None or value == "" else _integer(settings, name)


def _extensions(settings: BaseSettings, name: str) -> frozenset[str] | None:
    if settings.get(name) is None:
        return None
    return frozenset(word.removeprefix(".").lower() for word in _words(settings, name))


def _one_of(settings: BaseSettings, name: str, choices: tuple[str, ...]) -> str:
    value: Any = settings.get(name)
    if value not in choices:
        raise BadSetting(name, value, "one of " + ", ".join(choices))
    return str(value)


def _name(settings: BaseSettings, setting: str) -> str | None:
    value = settings.get(setting)
    if value is None or value == "":
        return None
    name = str(value)
    if len(name) > 200 or not name.isprintable() or name != name.strip():  # noqa: PLR2004
        raise BadSetting(setting, name, "1 to 200 printable characters")
    return name
