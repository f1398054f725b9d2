"""What is looked at before a crawl is made: nothing is created for one that could not begin."""

from __future__ import annotations

import inspect
import tempfile
import traceback
import warnings
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.settings import SETTINGS_PRIORITIES, iter_default_settings
from scrapy.spiderloader import get_spider_loader

from crawlproj import settings as defaults
from crawlproj.config import Config
from crawlproj.exceptions import BadArgument, BadSetting, NotFound, WrongUsage
from crawlproj.frontier.codec import Codec
from crawlproj.wiring import require_companions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy import Spider
    from scrapy.settings import BaseSettings, Settings

_LOG_LEVELS = ("CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG")
# Names that Scrapy's own call chain takes, so that a spider never gets them.
_TAKEN = ("self", "cls", "crawler", "crawler_or_spidercls")


def check(settings: Settings, name: str, arguments: Mapping[str, str]) -> tuple[type[Spider], Config]:
    """Return what a crawl needs before anything is created. Raises what is wrong with the wishes."""
    spidercls = load_spider(settings, name)
    for taken in _TAKEN:
        if taken in arguments:
            raise BadArgument(f"a spider argument cannot be called {taken!r}")
    merged = settings.copy()
    spidercls.update_settings(merged)
    _check_scrapy_settings(merged)
    try:
        require_companions(merged)
    except (ImportError, NameError, ValueError) as exc:  # what Scrapy says of a name that leads nowhere
        raise WrongUsage(
            f"a component that the settings name cannot be loaded: {type(exc).__name__}: {exc}"
        ) from exc
    config = Config.from_settings(merged)
    Codec.from_config(config).close()  # says what is wrong with its policies before anything starts
    if config.crawl_join and config.crawl_name is None:
        raise WrongUsage("CRAWL_JOIN needs a CRAWL_NAME: there is nothing to join without one")
    check_arguments: Callable[[dict[str, str]], None] | None = getattr(spidercls, "check_arguments", None)
    if check_arguments is not None:
        check_arguments(dict(arguments))
    _check_signature(spidercls, arguments)
    return spidercls, config


def check_log_file(settings: BaseSettings) -> None:
    """Refuse a LOG_FILE that cannot be written, without making it. Raises BadSetting."""
    name = settings.get("LOG_FILE")
    if not name:
        return
    try:
        path = Path(name).resolve()
        if path.is_dir() or path.is_file():
            path.open("ab").close()
        elif not path.exists():  # a pipe, say, is left alone: its reader would take this for its end
            tempfile.TemporaryFile(dir=path.parent).close()
    except (OSError, TypeError, ValueError) as exc:
        why = (isinstance(exc, OSError) and exc.strerror) or exc
        raise BadSetting("LOG_FILE", name, f"a file that can be written to ({why})") from None


def misspelt(settings: BaseSettings, spidercls: type[Spider]) -> list[str]:
    """Return a sentence for each setting of the command line that looks like a known one, and is not."""
    known = {name for name in dir(defaults) if name.isupper()} | {name for name, _ in iter_default_settings()}
    known |= set(spidercls.custom_settings or ())
    return [
        f"nothing reads the setting {name}; is {close} meant?"
        for name in settings
        if name not in known and settings.getpriority(name) == SETTINGS_PRIORITIES["cmdline"]
        for close in get_close_matches(name, known, 1, 0.85)
    ]


def load_spider(settings: Settings, name: str) -> type[Spider]:
    """Return a spider's class. Raises NotFound, and WrongUsage when spiders cannot be imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the process loads them again and says it then
        try:
            loader = get_spider_loader(settings)
        except Exception as exc:  # whatever a spider's module does when it is imported
            raise WrongUsage(_import_error(exc)) from exc
    try:
        return loader.load(name)
    except KeyError:
        names = ", ".join(sorted(loader.list())) or "none yet"
        raise NotFound(f"there is no spider {name!r}; there are: {names}") from None


def takes(spidercls: type[Spider], argument: str) -> bool:
    """Say whether a spider has an argument of that name."""
    makers = (vars(each).get("__init__") for each in spidercls.__mro__[:-1])
    return any(argument in inspect.signature(maker).parameters for maker in makers if maker)


def _check_signature(spidercls: type[Spider], arguments: Mapping[str, str]) -> None:
    """Refuse what a spider does not take, or lacks, unless it has a factory of its own."""
    if not spidercls.from_crawler.__module__.startswith(("scrapy.", "scrapy_redis.")):
        return
    try:
        inspect.signature(spidercls.__init__).bind(None, **arguments)
    except TypeError as exc:
        raise BadArgument(f"spider {spidercls.name!r}: {exc}") from None


def _import_error(error: Exception) -> str:
    """Return which line keeps the spiders from being imported, as far as it is one of this project."""
    where = ""
    if isinstance(error, SyntaxError) and error.filename:
        where = f" ({_short(error.filename)}, line {error.lineno})"
        what = error.msg
    else:
        what = str(error)
        for frame in traceback.extract_tb(error.__traceback__):
            outside = frame.filename.startswith("<") or "site-packages" in frame.filename
            if not outside and frame.filename != __file__:
                where = f" ({_short(frame.filename)}, line {frame.lineno})"
    return f"the spiders cannot be imported{where}: {type(error).__name__}: {what}"


def _short(path: str) -> str:
    return path.removeprefix(f"{Path.cwd()}/")


def _check_scrapy_settings(settings: BaseSettings) -> None:
    """Refuse a number or a switch of Scrapy's that is none; Scrapy itself would end in a traceback."""
    for name, default in (*iter_default_settings(), ("PROGRESS_ENABLED", defaults.PROGRESS_ENABLED)):
        if settings.getpriority(name) != SETTINGS_PRIORITIES["cmdline"]:
            continue
        value = settings.get(name)
        try:
            if isinstance(default, bool):
                settings.getbool(name)
            elif isinstance(default, int | float):
                settings.getfloat(name)
        except ValueError:
            want = "true or false" if isinstance(default, bool) else "a number"
            raise BadSetting(name, value, want) from None
    codes = settings.get("RETRY_HTTP_CODES")
    try:
        {int(code) for code in settings.getlist("RETRY_HTTP_CODES")}
    except (TypeError, ValueError):
        raise BadSetting("RETRY_HTTP_CODES", codes, "numbers, apart by commas") from None
    level = settings.get("LOG_LEVEL")
    if not isinstance(level, int) and str(level).upper() not in _LOG_LEVELS:
        raise BadSetting("LOG_LEVEL", level, f"one of {', '.join(_LOG_LEVELS)}")
