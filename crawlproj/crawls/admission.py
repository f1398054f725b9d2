"""Which URLs a crawl lets in: its deny and allow lists and its depth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from crawlproj.exceptions import BadArgument
from crawlproj.redaction import without_login
from crawlproj.url_rules import UrlRules, read_rules

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The rules of one crawl. What is denied stays out; where something is allowed, only that comes in."""

    allow: UrlRules
    deny: UrlRules
    max_depth: int | None  #: links from a seed; None: any number, 0: the seeds alone
    is_open: bool  #: there is no rule at all, and nobody need ask

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Build it from a crawl's config: `allow`, `deny`, `max_depth`. Raises BadArgument."""
        allow, deny = (_rules(name, config.get(name)) for name in ("allow", "deny"))
        depth = config.get("max_depth")
        if depth is not None and (isinstance(depth, bool) or not isinstance(depth, int) or depth < 0):
            raise BadArgument(f"max_depth must be a whole number, at least 0, not {str(depth)[:80]!r}")
        return cls(allow=allow, deny=deny, max_depth=depth, is_open=not (allow or deny) and depth is None)

    def refusal(self, url: str, depth: int, *, embed: bool = False) -> str | None:
        """Return in one line why a URL stays out, None when it may come in.

        *depth* is its number of links from a seed; what a page shows (*embed*) may be one deeper than pages.
        """
        if self.max_depth is not None and depth > self.max_depth + embed:
            return f"deeper than {self.max_depth} links from a seed" if self.max_depth else "no seed"
        if "@" in url:
            url = without_login(url)
        if self.deny and (number := self.deny.first(url)):
            return f"denied by rule {number}: {self.deny.texts[number - 1]}"
        if self.allow and not self.allow.first(url):
            return "allowed by no rule"
        return None


def _rules(name: str, given: object) -> UrlRules:
    try:
        return UrlRules(read_rules(given))
    except ValueError as exc:
        raise BadArgument(f"{name}: {exc}") from None
