"""Where a crawl starts, as people give it: URLs, or a file of them."""

from __future__ import annotations

from pathlib import Path

from crawlproj.exceptions import BadArgument, BadUrl
from crawlproj.frontier.canonical import normalise


class NoSeeds(BadArgument):
    """There is nothing to start with."""


def read_seeds(seeds: str) -> list[str]:
    """Return the seeds in their wire form. Raises BadArgument or BadUrl."""
    if seeds.startswith("@"):
        try:
            text = Path(seeds[1:]).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise BadArgument(f"the seeds file {seeds[1:]!r} is no UTF-8 text") from None
        except (OSError, ValueError) as exc:  # a name with a null character is a ValueError
            why = getattr(exc, "strerror", None) or exc
            raise BadArgument(f"the seeds file {seeds[1:]!r} cannot be read: {why}") from None
        lines = (line.strip() for line in text.splitlines())
        found = [line for line in lines if line and not line.startswith("#")]
    else:
        found = seeds.split()
    if not found:
        if seeds.startswith("@"):
            raise BadArgument(f"no seeds: there is no URL in the file {seeds[1:]!r}")
        raise NoSeeds('no seeds: give them as -a seeds="https://example.org" or -a seeds=@file')
    return [_seed(url) for url in found]


def _seed(text: str) -> str:
    try:
        return normalise(text)
    except BadUrl:
        if "://" in text or not _is_url(f"https://{text}"):
            raise
        raise BadArgument(f"seed {text[:120]!r} has no scheme; write https://{text[:120]}") from None


def _is_url(text: str) -> bool:
    try:
        normalise(text)
    except BadUrl:
        return False
    return True
