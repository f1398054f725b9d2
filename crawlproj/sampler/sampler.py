"""Learns what domains are like from what the downloader brings, and tells the frontier how fast it may be.

It asks no site for anything. What it has learnt is shared by the fleet and outlives a run: a domain's
profile, in Redis. What follows from it is in the frontier's record of the host, live: there `interval_of`
takes the larger of the crawl-delay (cut to the knob) and the language's interval, or the crawl's where the
language has none; an operator's own interval for the host wins. Leases carry the result as it is.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from crawlproj.exceptions import Refused
from crawlproj.later import Later
from crawlproj.sampler.language import ENOUGH, of_page
from crawlproj.sampler.profile import PREFIX, Profile, delay_ms
from crawlproj.scripts import script

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from crawlproj.scripts import Argument, Scripts

SOON, LATER = 1.0, 10.0  # seconds that votes may wait for others: with a pace to set, and without
BATCH = 64  # domains in one script
REMEMBERED = 10_000  # domains; more than a worker has under way


class Hosts(Protocol):
    """The frontier's records of hosts."""

    async def set_crawl_delay(self, host: str, milliseconds: int, *, shared: bool = False) -> None: ...
    async def set_language_interval(
        self, host: str, milliseconds: int | None, *, shared: bool = False
    ) -> None: ...


@dataclass(slots=True)
class _Domain:
    """What this worker knows of one domain, and has still to say."""

    samples: int = 0  #: of the fleet's profile and those to be sent
    votes: Counter[str] = field(default_factory=Counter)  #: to be sent
    delay_ms: int | None = None  #: to be sent
    told: int | None = None  #: the language's interval that the frontier has been told


class Sampler:
    """What one worker learns. *queues* says where a host's URLs wait; *intervals* are ms by language.

    *keep_seconds*: how long a profile is kept after the last that was learnt.
    """

    def __init__(
        self,
        scripts: Scripts,
        frontier: Hosts,
        *,
        queues: Callable[[str], Collection[str]],
        intervals: Mapping[str, int],
        keep_seconds: int,
    ) -> None:
        self._scripts = scripts
        self._frontier = frontier
        self._queues = queues
        self._intervals = intervals
        self._keep_ms = keep_seconds * 1000
        self._learn = script(__package__, "learn")
        self._domains: OrderedDict[str, _Domain] = OrderedDict()
        self._news: dict[str, _Domain] = {}
        seconds = SOON if intervals else LATER
        self._later = Later(self._send, seconds=seconds, what="keeping the profiles of domains")

    async def set_crawl_delay(self, host: str, seconds: float) -> None:
        """Take note of what a host's robots.txt asks for; 0: nothing. The frontier knows it on return.

        A queue that hosts share has the longest of theirs, also of those that ask for none any more.
        """
        delay = delay_ms(seconds)
        self._note(host).delay_ms = delay
        await self._tell_delay(host, delay)

    async def meet(self, hosts: Iterable[str]) -> None:
        """Tell the frontier what the fleet knows of hosts that this worker meets for the first time.

        Where no language has an interval of its own there is nothing that their robots.txt does not say.
        """
        if not self._intervals:
            return
        new = {host: self._domain(host) for host in hosts if host not in self._domains}
        await self._ask_all(new)

    async def recall(self, host: str) -> None:
        """Tell the frontier of the crawl-delay known of a host whose robots.txt cannot be read now."""
        (profile,) = await self._ask({host: self._domain(host)})
        if profile.crawl_delay_ms:
            await self._tell_delay(host, profile.crawl_delay_ms)

    def learn(self, host: str, html_lang: str | None, content_language: str | None) -> None:
        """Take a page's word for the language of its host."""
        domain = self._domains.get(host)
        if domain is not None and domain.samples >= ENOUGH:
            return
        language = of_page(html_lang, content_language)
        if language is None:
            return
        domain = self._note(host)
        domain.samples += 1
        domain.votes[language] += 1

    async def close(self, seconds: float) -> None:
        """Send what has been learnt, if that takes no longer than *seconds*."""
        await self._later.close(seconds)

    def _domain(self, host: str) -> _Domain:
        domain = self._domains.get(host)
        if domain is None:
            domain = self._domains[host] = _Domain()
            if len(self._domains) > REMEMBERED:
                self._domains.popitem(last=False)
        return domain

    def _note(self, host: str) -> _Domain:
        """Return a domain of which there is news to be sent."""
        domain = self._news[host] = self._domain(host)
        self._later.soon()
        return domain

    async def _send(self) -> None:
        news, self._news = self._news, {}
        await self._ask_all(news)

    async def _ask_all(self, domains: Mapping[str, _Domain]) -> None:
        hosts = list(domains)
        together = self._scripts.are_together(*(PREFIX + host for host in hosts)) if hosts else True
        size = BATCH if together else 1
        for start in range(0, len(hosts), size):
            await self._ask({host: domains[host] for host in hosts[start : start + size]})

    async def _ask(self, domains: Mapping[str, _Domain]) -> list[Profile]:
        """Send what is new of domains on one server, and act on what the fleet knows of them then."""
        flat: list[Argument] = [self._keep_ms]
        for domain in domains.values():
            flat += ("" if domain.delay_ms is None else domain.delay_ms, len(domain.votes))
            flat += (part for pair in domain.votes.items() for part in pair)
            domain.delay_ms, domain.votes = None, Counter()
        replies: list[Any] = await self._scripts.call(self._learn, [PREFIX + host for host in domains], *flat)
        profiles = [Profile.from_hash(host, reply) for host, reply in zip(domains, replies, strict=True)]
        for profile, domain in zip(profiles, domains.values(), strict=True):
            domain.samples = profile.samples + domain.votes.total()
            await self._tell_language(profile, domain)
        return profiles

    async def _tell_language(self, profile: Profile, domain: _Domain) -> None:
        interval = self._intervals.get(profile.language or "")
        if interval == domain.told:
            return
        domain.told = interval
        with suppress(Refused):  # the run is over, and the profile is all that is left to be told
            for queue in self._queues(profile.host):
                await self._frontier.set_language_interval(queue, interval, shared=queue != profile.host)

    async def _tell_delay(self, host: str, delay: int) -> None:
        for queue in self._queues(host):
            if queue != host and not delay:
                continue
            await self._frontier.set_crawl_delay(queue, delay, shared=queue != host)
