"""Scrapy's default referrer policy, worked out once per page instead of once per link.

Scrapy parses the URL of the page and that of the link for each of its requests. The answer is the
same: RefererMiddleware stays as it is, and takes this class by the setting REFERRER_POLICY.
"""

from __future__ import annotations

from functools import lru_cache

from scrapy.spidermiddlewares.referer import DefaultReferrerPolicy

_PAGES = 256  # whose links are being made at the same time


class ReferrerPolicy(DefaultReferrerPolicy):
    """The policy `scrapy-default`: nothing goes from https to http, nor from a local scheme."""

    def stripped_referrer(self, url: str) -> str | None:
        """Return what the links of the page at *url* send, or None."""
        return _stripped(url)

    def tls_protected(self, url: str) -> bool:
        """Say whether *url* is fetched over TLS."""
        return url[:6].lower() in {"https:", "ftps:/"}


@lru_cache(_PAGES)
def _stripped(url: str) -> str | None:
    return DefaultReferrerPolicy().stripped_referrer(url)
