"""Which URLs are one: rules for the form in which they are compared, to be chosen by the crawl.

A rule changes nothing of what is requested. Whatever order they are given in, they are applied in the order
of `RULES`, and a canonical form is that of itself.

    scheme          http and https are one
    www             www.example.org, www2.example.org and example.org are one; www.com stays
    escapes         percent-escapes in one spelling: %7e, %7E and ~ are one, %26 and & are not
    lowercase_path  letters of the path, not of the query, are small
    session_ids     session numbers in path and query go, where name and shape leave no doubt
    trailing_slash  /a and /a/ are one; / stays
    tracking        parameters that tell advertisers where a visitor came from go: utm_source, gclid, …
    query_order     the parts of the query are in byte order
    empty_query     /a? and /a are one
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from crawlproj.domains import registered_domain
from crawlproj.exceptions import BadSetting
from crawlproj.frontier.canonical import canonical, host_key, one_spelling

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

DEFAULT = ("escapes", "query_order")

_WWW = re.compile(r"www\d*\.(?=.*\.)", re.ASCII)
# Tomcat and its kin; `.node1` and `!123` say which of several servers keeps the session.
_JSESSIONID = r"jsessionid=[0-9a-z_-]{16,}(?:[.!:~][\w.!:~-]*)?"
_IN_PATH = re.compile(rf";{_JSESSIONID}(?=[;/]|$)", re.ASCII | re.IGNORECASE)
_ASP_NET = re.compile(r"/\([a-z]\([0-9a-z]{24}\)\)(?=/)", re.ASCII | re.IGNORECASE)
_SESSION = re.compile(
    rf"{_JSESSIONID}|phpsessid=[0-9a-z,-]{{22,}}|sid=[0-9a-f]{{32}}|aspsessionid[a-z]{{8}}=[a-z]{{24}}",
    re.ASCII | re.IGNORECASE,
)
_COLDFUSION = re.compile(r"(cfid|cftoken)=[\w%-]+", re.ASCII | re.IGNORECASE)
# By name, not by how they begin: utm_zone and utm_easting are coordinates.
_TRACKING = frozenset(
    [
        "utm_source",
        "utm_medium",
        "utm_campaign",
        "utm_term",
        "utm_content",
        "utm_id",
        "utm_name",
        "utm_cid",
        "utm_reader",
        "utm_viz_id",
        "utm_pubreferrer",
        "utm_swu",
        "utm_brand",
        "utm_social",
        "utm_social-type",
        "utm_source_platform",
        "utm_referrer",
        "utm_creative_format",
        "utm_marketing_tactic",
        "gclid",
        "gclsrc",
        "dclid",
        "gbraid",
        "wbraid",
        "srsltid",
        "_ga",
        "_gl",
        "fbclid",
        "msclkid",
        "yclid",
        "ymclid",
        "twclid",
        "ttclid",
        "igshid",
        "li_fat_id",
        "mc_cid",
        "mc_eid",
        "mkt_tok",
        "_hsenc",
        "_hsmi",
    ]
)


class Parts(NamedTuple):
    """A URL in pieces: `scheme://host` + `path` + `?query`."""

    scheme: str
    host: str  #: with the port, where it is not the scheme's
    path: str
    query: str | None  #: None: there is no `?`


def scheme(url: Parts) -> Parts:
    """Take https for http."""
    return url._replace(scheme="http")


def www(url: Parts) -> Parts:
    """Take `www`, with or without a number, off the name of a host that has more in front of its suffix."""
    host, colon, port = url.host.partition(":")
    while (found := _WWW.match(host)) and registered_domain(host) != host:
        host = host[found.end() :]
    return url._replace(host=host + colon + port)


def escapes(url: Parts) -> Parts:
    """Spell escapes one way; those of unreserved characters are not needed."""
    return url._replace(path=one_spelling(url.path), query=url.query and one_spelling(url.query))


def lowercase_path(url: Parts) -> Parts:
    """Take capital letters of the path for small ones."""
    return url._replace(path=url.path.lower())


def session_ids(url: Parts) -> Parts:
    """Take out jsessionid, PHPSESSID, sid (32 hex digits), ASPSESSIONID…, CFID with CFTOKEN, `/(S(…))/`."""
    path = _ASP_NET.sub("", _IN_PATH.sub("", url.path))
    parts = (url.query or "").split("&")
    coldfusion = {found[1].lower() for part in parts if (found := _COLDFUSION.fullmatch(part))}
    pair = len(coldfusion) > 1  # one of them alone may be anything
    return _without(
        url._replace(path=path),
        lambda part: bool(_SESSION.fullmatch(part) or (pair and _COLDFUSION.fullmatch(part))),
    )


def trailing_slash(url: Parts) -> Parts:
    """Take a path for a folder or not, whether it ends in a slash or not."""
    return url._replace(path=url.path.rstrip("/") or "/")


def tracking(url: Parts) -> Parts:
    """Take out the parameters of advertisers."""
    return _without(url, lambda part: part.partition("=")[0].lower() in _TRACKING)


def query_order(url: Parts) -> Parts:
    """Bring the parts of the query into byte order."""
    return url if not url.query else url._replace(query="&".join(sorted(url.query.split("&"))))


def empty_query(url: Parts) -> Parts:
    """Take an empty query for none."""
    return url if url.query else url._replace(query=None)


def _without(url: Parts, unwanted: Callable[[str], bool]) -> Parts:
    """Return *url* less some parts of its query, and less the `?` when nothing else was there."""
    if not url.query:
        return url
    parts = url.query.split("&")
    kept = [part for part in parts if not unwanted(part)]
    return url if len(kept) == len(parts) else url._replace(query="&".join(kept) if kept else None)


#: name -> rule, in the order in which they are applied
RULES: dict[str, Callable[[Parts], Parts]] = {
    rule.__name__: rule
    for rule in (
        scheme,
        www,
        escapes,
        lowercase_path,
        session_ids,
        trailing_slash,
        tracking,
        query_order,
        empty_query,
    )
}


def in_order(names: Collection[str]) -> tuple[str, ...]:
    """Return names of rules as they are applied, each once. Raises BadSetting for one that is unknown."""
    for name in names:
        if name not in RULES:
            raise BadSetting("FRONTIER_CANONICAL_RULES", name, f"some of {', '.join(RULES)}")
    return tuple(name for name in RULES if name in names)


def canonicaliser(names: Collection[str]) -> Callable[[str], str]:
    """Return the function from the wire form to the one that is compared. Raises BadSetting."""
    chosen = in_order(names)
    if chosen == DEFAULT:
        return canonical  # the same, in a fifth of the time
    rules = [RULES[name] for name in chosen]

    def apply(wire: str) -> str:
        before, _, rest = wire.partition("://")
        tail = rest[rest.index("/") :]
        path, mark, query = tail.partition("?")
        url = Parts(before, host_key(wire), path, query if mark else None)
        for rule in rules:
            url = rule(url)
        asked = "" if url.query is None else f"?{url.query}"
        return f"{url.scheme}://{url.host}{url.path}{asked}"

    return apply
