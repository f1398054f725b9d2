"""The project's settings, read and checked once."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from crawlproj.exceptions import BadSetting

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

RENDER_MODES = ("off",)  # a mode that would be taken and not obeyed is worse than none
MOST_SHARDS = 2**20  #: enough for half a billion URLs; Redis looks at each when a run is dropped


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What the settings say, typed. Raises BadSetting, naming the first one that cannot be."""

    redis_url: str | None
    database_url: str | None
    home: Path
    crawl_name: str | None
    crawl_join: bool
    worker_id: str
    max_time_seconds: float
    max_target: int
    max_result: int
    min_interval_ms: int
    host_max_in_flight: int
    max_concurrent_count: int
    robots_cache_seconds: int
    robots_retry_seconds: int
    crawl_delay_max_seconds: int
    max_attempts: int
    lease_seconds: float
    seen_shards: int
    session_balance: int
    error_penalty: int
    total_budget: int
    ready_backlog: int
    retry_delay_ms: int
    retry_delay_max_ms: int
    max_kills: int
    max_outlinks: int
    seen_cache: int
    gc_threshold: int
    body_store: str | None
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
            worker_id=_name(settings, "WORKER_ID") or f"{socket.gethostname()}-{os.getpid()}",
            max_time_seconds=_number(settings, "MAX_TIME_SECONDS"),
            max_target=_integer(settings, "MAX_TARGET"),
            max_result=_integer(settings, "MAX_RESULT"),
            min_interval_ms=_integer(settings, "MIN_INTERVAL_MS"),
            host_max_in_flight=_integer(settings, "HOST_MAX_IN_FLIGHT", least=1),
            max_concurrent_count=_integer(settings, "MAX_CONCURRENT_COUNT", least=1),
            robots_cache_seconds=_integer(settings, "ROBOTS_CACHE_SECONDS", least=1),
            robots_retry_seconds=_integer(settings, "ROBOTS_RETRY_SECONDS", least=1),
            crawl_delay_max_seconds=_integer(settings, "CRAWL_DELAY_MAX_SECONDS"),
            max_attempts=_integer(settings, "MAX_ATTEMPTS", least=1),
            lease_seconds=_number(settings, "LEASE_SECONDS", least=1),
            seen_shards=_integer(settings, "FRONTIER_SEEN_SHARDS", least=1, most=MOST_SHARDS),
            session_balance=_integer(settings, "FRONTIER_SESSION_BALANCE"),
            error_penalty=_integer(settings, "FRONTIER_ERROR_PENALTY"),
            total_budget=_integer(settings, "FRONTIER_TOTAL_BUDGET", least=-1),
            ready_backlog=_integer(settings, "FRONTIER_READY_BACKLOG", least=1),
            retry_delay_ms=_integer(settings, "FRONTIER_RETRY_DELAY_MS"),
            retry_delay_max_ms=_integer(settings, "FRONTIER_RETRY_DELAY_MAX_MS"),
            max_kills=_integer(settings, "FRONTIER_MAX_KILLS", least=1),
            max_outlinks=_integer(settings, "FRONTIER_MAX_OUTLINKS"),
            seen_cache=_integer(settings, "FRONTIER_SEEN_CACHE"),
            gc_threshold=_integer(settings, "GC_THRESHOLD"),
            body_store=_unset(settings, "BODY_STORE", "bodies are kept in the database"),
            render_mode=_one_of(settings, "RENDER_MODE", RENDER_MODES),
        )


def home(settings: BaseSettings) -> Path:
    """Return the folder of the embedded servers and of the project's own files."""
    if value := settings.get("CRAWLPROJ_HOME"):
        return Path(value).expanduser().absolute()
    from scrapy.utils.conf import closest_scrapy_cfg  # noqa: PLC0415  # only when it is needed

    cfg = closest_scrapy_cfg()
    return (Path(cfg).parent if cfg else Path.cwd()).absolute() / ".crawlproj"


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


def _unset(settings: BaseSettings, name: str, why: str) -> str | None:
    """Refuse any value of a setting that has a name already and no use yet."""
    value: str | None = settings.get(name) or None
    if value is not None:
        raise BadSetting(name, value, f"unset: {why}")
    return value


def _boolean(settings: BaseSettings, name: str) -> bool:
    try:
        return settings.getbool(name)
    except ValueError:
        raise BadSetting(name, settings.get(name), "true or false") from None


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
