"""What the fleet knows of one domain."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from crawlproj.sampler.language import decide, of_country

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PREFIX = "sampler:profile:"
LONGEST_DELAY = 86_400  #: seconds; a robots.txt that asks for more means never


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One domain, by its host key."""

    host: str
    crawl_delay_ms: int | None = None  #: of its robots.txt, uncut; 0: none; None: not known
    votes: Mapping[str, int] = field(default_factory=dict)  #: pages by language

    @property
    def language(self) -> str | None:
        """The language of its pages, as far as it is known."""
        return decide(self.votes, of_country(self.host))

    @property
    def samples(self) -> int:
        """How many pages have said which language they are in."""
        return sum(self.votes.values())

    @classmethod
    def from_hash(cls, host: str, flat: Sequence[bytes]) -> Self:
        """Build it from the fields and values that Redis has; what is none of ours is left out."""
        fields = dict(zip(flat[::2], flat[1::2], strict=True))
        delay = fields.get(b"crawl_delay_ms", b"")
        votes = {
            name[5:].decode("ascii", "replace"): int(value)
            for name, value in fields.items()
            if name.startswith(b"lang:") and value.isdigit()
        }
        return cls(host=host, crawl_delay_ms=int(delay) if delay.isdigit() else None, votes=votes)


def delay_ms(seconds: float) -> int:
    """Return a crawl-delay in whole milliseconds; 0 for one that is none."""
    if math.isnan(seconds) or seconds <= 0:
        return 0
    return math.ceil(min(seconds, LONGEST_DELAY) * 1000)
