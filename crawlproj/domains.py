"""The domain that somebody registered, by the list of public suffixes that comes with tldextract."""

from __future__ import annotations

from functools import lru_cache

from tldextract import TLDExtract

# The packaged list: a crawl must not depend on fetching another one.
_SUFFIXES = TLDExtract(suffix_list_urls=(), cache_dir=None)


@lru_cache(maxsize=1024)
def is_public(domain: str) -> bool:
    """Say whether *domain* is one under which anybody may register, companies' that give names away too."""
    return not _SUFFIXES(domain, include_psl_private_domains=True).domain


def registered_domain(host: str, *, private: bool = False) -> str | None:
    """Return the domain that a host name without port belongs to, or None for addresses and single names.

    With *private*, names that companies give away (`somebody.github.io`) count as registered, too.
    """
    return _SUFFIXES(host, include_psl_private_domains=private).top_domain_under_public_suffix or None
