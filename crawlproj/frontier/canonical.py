"""One name for every resource: how URLs are normalised, compared and given to hosts.

Three forms of a URL, from the outside in:

*wire*       what is requested: resolved as a browser would (WHATWG), without its fragment. Nothing that
             a server could tell apart has been changed. `split_login` takes a login out of it.
*canonical*  what is compared: the wire form, less its login and a trailing dot of the host, with
             the parts of the query in byte order and percent-escapes in one spelling. `%26` and
             `&`, `?a` and `?a=` stay different; `?a=1&b=2` and `?b=2&a=1` are the same. These are the
             default rules; a crawl may choose others (`rules`).
*host key*   names the host, and its queue unless a crawl assigns them otherwise (`assignment`): small
             letters, international names in punycode, IPv6 addresses in their short form, without a dot
             at the end; the port only where the scheme implies another.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from struct import unpack

import ada_url

from crawlproj.exceptions import BadUrl
from crawlproj.redaction import without_login

MAX_URL_LENGTH = 32_768  # longer than any server takes, and no queue entry grows without bound
KEY_BYTES = 16

# Not after a `%` that begins no escape itself: resolving `%34` in `%%341` would make one of it.
_ESCAPE = re.compile(r"(?<!%)(?<!%[0-9a-fA-F])%([0-9a-fA-F]{2})")
_BEFORE_HOST = re.compile(r"(?<=//).*(?=@)", re.DOTALL)
_UNRESERVED = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
)  # RFC 3986, 2.3: the only characters that mean the same with and without an escape


def normalise(url: str) -> str:
    """Return the wire form of an absolute URL. Raises BadUrl if it cannot be crawled."""
    try:
        href = ada_url.normalize_url(url)
    except ValueError:
        raise _no_url(url) from None
    return _checked(url, href)


def join(base: str, link: str) -> str:
    """Return the wire form of *link* found on the page at *base*. Raises BadUrl."""
    try:
        href = ada_url.join_url(base, link)
    except ValueError:
        raise _no_url(link) from None
    return _checked(link, href)


def _no_url(given: str) -> BadUrl:
    # Nobody can tell where a password begins in what is no URL.
    return BadUrl(_BEFORE_HOST.sub("***", given), "is no URL")


def _checked(given: str, href: str) -> str:
    given = without_login(given)
    if not href.startswith(("http://", "https://")):
        raise BadUrl(given)
    if len(href) > MAX_URL_LENGTH:
        raise BadUrl(given, f"is longer than {MAX_URL_LENGTH} characters")
    wire = href.partition("#")[0]
    if host_key(wire)[:1] in {"", ":"}:
        raise BadUrl(given, "has no host")
    return wire


def authority(wire: str) -> str:
    """Return what stands between the scheme and the path of a wire URL."""
    start = wire.index("//") + 2
    return wire[start : wire.index("/", start)]


def split_login(wire: str) -> tuple[str, str | None]:
    """Return a wire URL without its `user:password@`, and that, without the `@`, if there is one."""
    if "@" not in wire:
        return wire, None
    place = authority(wire)
    login, at, host = place.rpartition("@")
    return wire.replace(f"//{place}", f"//{host}", 1) if at else wire, login or None


def host_key(wire: str) -> str:
    """Return the host of a wire URL, as politeness knows it."""
    host = authority(wire)
    if "@" in host:
        host = host.rpartition("@")[2]
    if "." in host and (host[-1] == "." or ".:" in host):
        name, colon, port = host.partition(":")
        host = name.rstrip(".") + colon + port
    return host


def canonical(wire: str) -> str:
    """Return the form in which URLs are compared."""
    if not ("&" in wire or "%" in wire or "@" in wire or "./" in wire or ".:" in wire):
        return wire  # no rule finds anything to do
    scheme, _, rest = wire.partition("//")
    tail = rest[rest.index("/") :]
    if "%" in tail:
        tail = one_spelling(tail)
    path, mark, query = tail.partition("?")
    if "&" in query:
        query = "&".join(sorted(query.split("&")))
    return f"{scheme}//{host_key(wire)}{path}{mark}{query}"


def one_spelling(text: str) -> str:
    """Return path or query with percent-escapes as RFC 3986 wants them."""
    return _ESCAPE.sub(_respelt, text)


def _respelt(escape: re.Match[str]) -> str:
    code = int(escape[1], 16)
    return chr(code) if code in _UNRESERVED else "%" + escape[1].upper()


def page_key(canonical_url: str, method: str = "GET", body: bytes = b"") -> bytes:
    """Return the 16 bytes under which a page is kept."""
    return blake2b(_identity(canonical_url, method, body), digest_size=KEY_BYTES).digest()


def fingerprint(canonical_url: str, method: str = "GET", body: bytes = b"") -> int:
    """Return the signed 64-bit number by which the seen filter knows a request."""
    digest = blake2b(_identity(canonical_url, method, body), digest_size=8).digest()
    number: int = unpack("<q", digest)[0]
    return number


def _identity(canonical_url: str, method: str, body: bytes) -> bytes:
    url = canonical_url.encode("utf-8", "surrogatepass")
    return url if method == "GET" and not body else b"%s %s\0%s" % (method.encode(), url, body)
