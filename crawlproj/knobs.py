"""The frontier's knobs: what of it can be turned, for a crawl and for one host, while it runs.

A knob begins as a setting. A frontier that is made takes them all; a worker that joins a run turns only
those that its command line names, so that nobody undoes by a restart what an operator has tuned.
`scrapy tune` turns a running crawl's, `scrapy host` those of one host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from crawlproj.exceptions import BadArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

Value: TypeAlias = float  #: whole unless its knob says otherwise; a switch is 0 or 1, a choice counts from 1

MOST = 2**53  #: what a number in Lua keeps apart; nobody asks for as much
COST_POLICIES = ("zero", "unit", "wag", "anti-calendar")  # numbered from 1, as lua/finish.lua has them


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """One knob: where its value comes from and which ones it takes."""

    name: str
    setting: str
    help: str
    least: float = 0
    most: float = MOST
    whole: bool = True
    choices: tuple[str, ...] = ()  #: its values in words
    per_host: bool = True  #: whether one host may have its own
    scale: int = 1  #: what a setting's value is multiplied with: its unit is another one

    @property
    def is_switch(self) -> bool:
        """Say whether it is on or off."""
        return self.choices == ("off", "on")

    def shown(self, value: Value) -> str:
        """Return a value as a person writes it."""
        if self.choices:
            return self.choices[int(value) - (0 if self.is_switch else 1)]
        return f"{value:.0f}" if self.whole else f"{value:.15g}"

    def want(self) -> str:
        """Say in words which values it takes."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        kind = "a whole number" if self.whole else "a number"
        if self.most == MOST:
            return f"{kind}, at least {self.least:g}"
        return f"{kind} from {self.least:g} to {self.most:g}"

    def parse(self, text: object) -> Value:
        """Return the value that a text or a setting stands for. Raises ValueError."""
        if self.choices:
            return self._parse_choice(text)
        if isinstance(text, bool) or text is None:
            raise ValueError(self.want())
        try:
            number = float(str(text))
        except ValueError:
            raise ValueError(self.want()) from None
        if not self.least <= number <= self.most or (self.whole and number != int(number)):
            raise ValueError(self.want())
        return int(number) if self.whole else number

    def takes(self, value: Value) -> bool:
        """Say whether *value* is one of its."""
        least, most = (
            (0, 1) if self.is_switch else (1, len(self.choices)) if self.choices else (self.least, self.most)
        )
        return least <= value <= most and not (self.whole and value != int(value))

    def _parse_choice(self, text: object) -> Value:
        if self.is_switch:
            word = str(text).lower()
            if word in {"1", "true", "on", "yes"}:
                return 1
            if word in {"0", "false", "off", "no", ""}:
                return 0
        elif str(text) in self.choices:
            return self.choices.index(str(text)) + 1
        raise ValueError(self.want())


def _switch(name: str, setting: str, meaning: str) -> Knob:
    return Knob(name=name, setting=setting, help=meaning, choices=("off", "on"), per_host=False)


def _limit(name: str, setting: str, meaning: str, *, whole: bool = True) -> Knob:
    return Knob(name=name, setting=setting, help=f"{meaning}; 0: no limit", whole=whole, per_host=False)


_ALL = (
    Knob(name="interval_ms", setting="MIN_INTERVAL_MS", help="between two starts on one host"),
    Knob(name="in_flight", setting="HOST_MAX_IN_FLIGHT", help="requests at once on one host", least=1),
    Knob(name="max_attempts", setting="MAX_ATTEMPTS", help="fetches of one URL before it fails", least=1),
    Knob(
        name="session_balance",
        setting="FRONTIER_SESSION_BALANCE",
        help="cost a host may spend before another has its turn; 0: no sessions",
    ),
    Knob(name="error_penalty", setting="FRONTIER_ERROR_PENALTY", help="cost added by a final failure"),
    Knob(
        name="total_budget",
        setting="FRONTIER_TOTAL_BUDGET",
        help="cost after which a host retires; -1: never",
        least=-1,
    ),
    Knob(
        name="precedence",
        setting="FRONTIER_PRECEDENCE",
        help="hosts with a lower one have their turn first",
        most=1023,
    ),
    Knob(
        name="precedence_floor",
        setting="FRONTIER_PRECEDENCE_FLOOR",
        help="hosts of this precedence or above it have no turn at all",
        most=1024,
        per_host=False,
    ),
    Knob(
        name="ready_backlog",
        setting="FRONTIER_READY_BACKLOG",
        help="hosts kept ready; the others wait inactive",
        least=1,
        per_host=False,
    ),
    _switch("hold_queues", "FRONTIER_HOLD_QUEUES", "whether hosts wait inactive at all"),
    Knob(
        name="snooze_deactivate_ms",
        setting="FRONTIER_SNOOZE_DEACTIVATE_MS",
        help="a host that waits this long lets the inactive ones go first",
    ),
    Knob(
        name="delay_factor",
        setting="FRONTIER_DELAY_FACTOR",
        help="a host rests this many times as long as the fetch took",
        whole=False,
        most=1000,
    ),
    Knob(name="min_delay_ms", setting="FRONTIER_MIN_DELAY_MS", help="and not shorter than this"),
    Knob(name="max_delay_ms", setting="FRONTIER_MAX_DELAY_MS", help="and not longer than this"),
    Knob(
        name="crawl_delay_max_ms",
        setting="CRAWL_DELAY_MAX_SECONDS",
        help="a longer crawl-delay of robots.txt is cut to this",
        scale=1000,
    ),
    Knob(
        name="retry_delay_ms", setting="FRONTIER_RETRY_DELAY_MS", help="first step of the exponential delay"
    ),
    Knob(
        name="retry_delay_max_ms",
        setting="FRONTIER_RETRY_DELAY_MAX_MS",
        help="its cap, also for Retry-After",
    ),
    Knob(
        name="max_kills",
        setting="FRONTIER_MAX_KILLS",
        help="workers that may die with a URL before it goes to the dead letters",
        least=1,
    ),
    Knob(
        name="host_bandwidth_kb",
        setting="FRONTIER_HOST_BANDWIDTH_KB",
        help="KB a second from one host; 0: no cap",
    ),
    Knob(
        name="total_bandwidth_kb",
        setting="FRONTIER_TOTAL_BANDWIDTH_KB",
        help="KB a second from all hosts; 0: no cap",
        per_host=False,
    ),
    Knob(name="max_outlinks", setting="FRONTIER_MAX_OUTLINKS", help="links taken from one page"),
    Knob(
        name="embed_hops",
        setting="FRONTIER_EMBED_HOPS",
        help="embeds within so many hops go before links",
    ),
    Knob(
        name="cost_policy",
        setting="FRONTIER_COST_POLICY",
        help="what a URL costs its host's budget",
        choices=COST_POLICIES,
    ),
    _limit("max_time_seconds", "MAX_TIME_SECONDS", "seconds that a run may take", whole=False),
    _limit("max_target", "MAX_TARGET", "URLs that may be started"),
    _limit("max_result", "MAX_RESULT", "distinct pages and items that are enough"),
    _limit("max_urls", "MAX_URLS", "URLs that may be let in, seeds included"),
    _limit("max_bytes", "MAX_BYTES", "bytes of bodies that are enough"),
    _switch("pause_at_start", "FRONTIER_PAUSE_AT_START", "whether a new crawl begins paused"),
    _switch(
        "pause_at_finish",
        "FRONTIER_PAUSE_AT_FINISH",
        "whether a crawl with nothing left to do pauses before it ends",
    ),
)
KNOBS: Mapping[str, Knob] = {knob.name: knob for knob in _ALL}
#: What ends a run early, or bounds it: a run's own, also where it goes on with the frontier of another.
LIMITS = ("max_time_seconds", "max_target", "max_result", "max_urls", "max_bytes")


def parse_knob(name: str, text: object, *, of_host: bool = False) -> Value:
    """Return a knob's value from text. Raises BadArgument, in one sentence, for a wrong name or value."""
    knob = _find(name, of_host=of_host)
    try:
        return knob.parse(text)
    except ValueError as exc:
        raise BadArgument(f"{name} must be {exc}, not {text!r}") from None


def check_knob(name: str, value: Value, *, of_host: bool = False) -> Value:
    """Return *value* if the knob takes it. Raises BadArgument otherwise, or when there is no such knob."""
    knob = _find(name, of_host=of_host)
    if not knob.takes(value):
        raise BadArgument(f"{name} must be {knob.want()}, not {value!r}")
    return value


def _find(name: str, *, of_host: bool) -> Knob:
    knob = KNOBS.get(name)
    if knob is None or (of_host and not knob.per_host):
        kind = "knob of a host" if of_host else "knob"
        names = ", ".join(each.name for each in _ALL if each.per_host or not of_host)
        raise BadArgument(f"there is no {kind} {name!r}; there are: {names}")
    return knob
