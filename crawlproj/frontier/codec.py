"""Requests as data: what a queue entry looks like, and back.

An entry is one line, optionally followed by a second one:

    <h|s|u><depth><path or URL>        h: http and s: https on the queue's own host, u: a whole URL
    {"c": "parse_item", "m": {…}}      what a plain GET to the spider's `parse` does not have

A plain link so costs its path and two bytes. A URL that comes with `user:password@` is kept without; the
login goes out as a header, with this request and with those that are found on its page and go to the same
scheme, host and port.

No pickle: whoever can write to Redis must not be
able to run code here, so of classes only those of requests and items are taken, and of these only
what is loaded anyway.
"""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import unquote

from scrapy import Request
from w3lib.http import basic_auth_header

from crawlproj.exceptions import BadUrl, UndecodableEntry, UnserialisableRequest
from crawlproj.frontier.canonical import (
    authority,
    canonical,
    fingerprint,
    host_key,
    normalise,
    page_key,
    split_login,
)
from crawlproj.frontier.data import as_data, class_path, from_data, loaded_class
from crawlproj.redaction import without_login

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy import Spider

    from crawlproj.config import Config

# Ours or the downloader's, about one fetch: none of it belongs to the next request, even when a
# spider passes `meta=response.meta` on.
FETCH_META = frozenset({"lease", "health_signal", "validators", "download_latency", "depth"})

_KEYS = {  # attribute of a request -> key of the second line
    "callback": "c",
    "errback": "e",
    "headers": "h",
    "method": "M",
    "body": "b",
    "cookies": "k",
    "meta": "m",
    "encoding": "E",
    "flags": "f",
    "priority": "p",
    "cb_kwargs": "g",
}
_NAMES = {key: name for name, key in _KEYS.items()}
_DEFAULTS: dict[str, Any] = {"method": "GET", "body": b"", "encoding": "utf-8"}
_KNOWN = frozenset(Request.attributes)  # a class of requests may have more


class Login(NamedTuple):
    """With what a page was asked for, and where else that may go."""

    origin: str  #: scheme, host and port, as they begin a wire URL
    words: str  #: `user:password`, escaped as in a URL


@dataclass(frozen=True, slots=True)
class Entry:
    """One URL on its way into the frontier.

    *data* is what the queue keeps; the rest says where and how it enters.
    """

    url: str  #: wire form, without login
    host: str
    fingerprint: int
    data: str
    priority: int = 0
    forced: bool = False  #: queued even if seen
    head: bool = False  #: before the others of its priority
    plain: bool = False  #: a link and nothing more: its URL says all

    def forcibly(self) -> Entry:
        """Return it as one that is queued even if it was seen."""
        return replace(self, forced=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What a queue entry says."""

    url: str  #: as the spider asked for it, without login
    wire: str
    canonical: str  #: the form in which the crawl compares the URL
    depth: int
    tag: str | None
    extra: dict[str, Any]

    @property
    def method(self) -> str:
        """Return the HTTP method."""
        return str(self.extra.get("M", "GET"))

    @property
    def body(self) -> bytes:
        """Return the body of the request."""
        return b64decode(self.extra["b"]["$b"]) if "b" in self.extra else b""

    @property
    def priority(self) -> int:
        """Return the priority that the spider gave it."""
        return int(self.extra.get("p", 0))

    @property
    def login(self) -> Login | None:
        """Return with what the URL is asked for, if its site wants to know who asks."""
        words = self.extra.get("a")
        if not words:
            return None
        return Login(f"{self.wire.partition('//')[0]}//{authority(self.wire)}/", words)

    @property
    def key(self) -> bytes:
        """Return the 16 bytes under which the page is kept."""
        return page_key(self.canonical, self.method, self.body)


class Codec:
    """Requests as entries and back, by the policies of one crawl.

    They are fixed when the crawl's frontier is made: another one would look for a URL where it is not.
    """

    def __init__(self) -> None:
        #: wire URL -> the form in which it is compared
        self.canonical: Callable[[str], str] = canonical
        #: wire URL -> the name of its queue
        self.queue: Callable[[str], str] = host_key

    @classmethod
    def from_config(cls, config: Config) -> Self:  # noqa: ARG003
        """Build it from the settings."""
        return cls()

    def fixed(self) -> dict[str, str]:
        """Return what a crawl keeps for good: setting -> value, as a short text."""
        return {}

    def fingerprint(self, wire: str, method: str = "GET", body: bytes = b"") -> int:
        """Return the signed 64-bit number by which the seen filter knows a request for a wire URL."""
        return fingerprint(self.canonical(wire), method, body)

    def page_key(self, wire: str, method: str = "GET", body: bytes = b"") -> bytes:
        """Return the 16 bytes under which the page of a wire URL is kept."""
        return page_key(self.canonical(wire), method, body)

    async def assign(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return entries with the queues that take a look-up to know; to be done before they are sent."""
        return entries

    def encode_link(self, wire: str, depth: int, tag: str | None = None, login: Login | None = None) -> Entry:
        """Return the entry of a plain link, given in its wire form."""
        wire, words = _with_login(wire, login)
        host = self.queue(wire)
        data = _first_line(wire, host, depth)
        plain = tag is None and words is None
        if not plain:
            data = f"{data}\n{_json(_marks(tag, words))}"
        return Entry(wire, host, fingerprint(self.canonical(wire)), data, plain=plain)

    def encode_stored(
        self,
        wire: str,
        extra: str | None,
        depth: int,
        tag: str | None = None,
        login: Login | None = None,
    ) -> Entry:
        """Return the entry of a link that was stored with a page: its URL and its second line, if any.

        Raises UndecodableEntry.
        """
        if extra is None:
            return self.encode_link(wire, depth, tag, login)
        host = self.queue(wire)
        data = f"{_first_line(wire, host, depth)}\n{extra}"
        stored = self.decode(host, data.encode())
        number = fingerprint(stored.canonical, stored.method, stored.body)
        return Entry(wire, host, number, data, stored.priority, forced=bool(stored.extra.get("d")))

    def encode_request(
        self,
        request: Request,
        spider: Spider,
        *,
        tag: str | None = None,
        login: Login | None = None,
        forced: bool = False,
        head: bool = False,
        drop_slot: str | None = None,
    ) -> Entry:
        """Return the entry of a request. Raises BadUrl or UnserialisableRequest.

        *drop_slot* is the download slot that Scrapy, not the spider, put into a copied meta.
        """
        wire, words = _with_login(normalise(request.url), login)
        url = without_login(request.url)
        try:
            extra = _extra(request, spider, drop_slot)
            if url != wire:
                extra["w"] = url
            extra |= _marks(tag, words)
            second_line = f"\n{_json(extra)}" if extra else ""
        except (ValueError, RecursionError) as exc:
            raise UnserialisableRequest(
                f"<{request.method} {wire[:160]}> cannot be kept in the frontier: {exc}"
            ) from None
        host = self.queue(wire)
        depth = request.meta.get("depth", 0)
        data = _first_line(wire, host, depth if isinstance(depth, int) and depth > 0 else 0) + second_line
        number = self.fingerprint(wire, request.method, request.body)
        return Entry(wire, host, number, data, request.priority, forced, head)

    def decode(self, host: str, data: bytes) -> Stored:
        """Return what an entry of *host*'s queue says. Raises UndecodableEntry."""
        try:
            line, _, rest = data.decode().partition("\n")
            extra = json.loads(rest) if rest else {}
            wire, depth = _read_first_line(line, host)
            url = str(extra.get("w", wire))
            if normalise(url) != wire or self.queue(wire) != host:
                raise ValueError("another URL or host")
            tag = extra.get("t")
            if not isinstance(tag, str | None) or not isinstance(extra.get("a"), str | None):
                raise TypeError("no tag, or no login")
            stored = Stored(
                url=url, wire=wire, canonical=self.canonical(wire), depth=depth, tag=tag, extra=extra
            )
            _ = stored.body, stored.priority  # what cannot be read is found here, not later
        except (
            ValueError,
            TypeError,
            LookupError,
            AttributeError,
            ArithmeticError,
            RecursionError,
            BadUrl,
        ) as exc:
            shown = without_login(data.partition(b"\n")[0].decode("utf-8", "replace"))[:80]
            raise UndecodableEntry(f"queue entry {shown!r} of {host} cannot be read: {exc}") from None
        return stored


def _with_login(wire: str, inherited: Login | None) -> tuple[str, str | None]:
    """Return a URL without its login, and that or the one it inherits."""
    wire, words = split_login(wire)
    if words is None and inherited is not None and wire.startswith(inherited.origin):
        words = inherited.words
    return wire, words


def _marks(tag: str | None, words: str | None) -> dict[str, str]:
    return {key: each for key, each in (("t", tag), ("a", words)) if each is not None}


def _extra(request: Request, spider: Spider, drop_slot: str | None) -> dict[str, Any]:
    """Return what a request has beyond a URL. Raises ValueError for what is no data."""
    extra: dict[str, Any] = {}
    for name, key in _KEYS.items():
        value = getattr(request, name)
        if name == "meta":
            value = {
                key: each
                for key, each in value.items()
                if key not in FETCH_META and not (key == "download_slot" and each == drop_slot)
            }
        if not value or value == _DEFAULTS.get(name):
            continue
        if callable(value):
            extra[key] = _method_name(spider, value)
        else:
            extra[key] = _text(value) if name == "headers" else as_data(value, name)
    if type(request) is not Request:
        extra["C"] = class_path(type(request), Request)
        own = {name: getattr(request, name) for name in request.attributes if name not in _KNOWN}
        if any(value not in (None, {}) for value in own.values()):
            extra["x"] = {name: as_data(value, name) for name, value in own.items()}
    if request.dont_filter:
        extra["d"] = 1
    return extra


def _method_name(spider: Spider, method: Any) -> str:
    name: str = getattr(method, "__name__", "")
    if getattr(spider, name, None) == method:
        return name
    # Under another name, or none of its: Scrapy looks through all of them, which takes its time.
    found = Request("http://e.test", callback=method).to_dict(spider=spider)["callback"]
    return str(found)


def _json(extra: dict[str, Any]) -> str:
    text = json.dumps(extra, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which only the longer spelling can carry
        return json.dumps(extra, separators=(",", ":"))
    return text


def _first_line(wire: str, host: str, depth: int) -> str:
    place = authority(wire)
    if place != host:
        return f"u{depth} {wire}"
    return f"{'s' if wire[4] == 's' else 'h'}{depth}{wire[wire.index('//') + 2 + len(place) :]}"


def _read_first_line(line: str, host: str) -> tuple[str, int]:
    kind = line[0]
    end = 1
    while line[end].isdigit():
        end += 1
    depth = int(line[1:end])
    if kind == "u" and line[end] == " ":
        return line[end + 1 :], depth
    if kind not in "hs" or line[end] != "/":
        raise ValueError("unknown kind")
    return f"http{'s' if kind == 's' else ''}://{host}{line[end:]}", depth


def to_request(stored: Stored, spider: Spider) -> Request:
    """Return the request that an entry stands for. Raises UndecodableEntry."""
    meta: dict[str, Any] = {"depth": stored.depth}
    if not stored.extra:
        return Request(stored.url, meta=meta)
    extra = stored.extra
    try:
        fields: dict[str, Any] = {
            _NAMES[key]: _bytes(value) if key == "h" else from_data(value)
            for key, value in extra.items()
            if key in _NAMES
        }
        for name in ("callback", "errback"):
            if name in fields:
                fields[name] = getattr(spider, fields[name])
        fields["meta"] = {**fields.get("meta", {}), **meta}
        cls = loaded_class(extra["C"], Request) if "C" in extra else Request
        own = from_data(extra.get("x", {}))
        request: Request = cls(stored.url, dont_filter=bool(extra.get("d")), **fields, **own)
    except Exception as exc:  # noqa: BLE001  # a class of anybody's reads what anybody may have written
        raise UndecodableEntry(f"queue entry of {stored.url[:120]} cannot be used: {exc}") from None
    if stored.login is not None and b"Authorization" not in request.headers:
        user, _, password = stored.login.words.partition(":")
        request.headers[b"Authorization"] = basic_auth_header(unquote(user), unquote(password), "utf-8")
    return request


def _text(headers: dict[bytes, list[bytes]]) -> dict[str, list[str]]:
    return {
        name.decode("latin-1"): [value.decode("latin-1") for value in values]
        for name, values in headers.items()
    }


def _bytes(headers: dict[str, list[str]]) -> dict[bytes, list[bytes]]:
    return {
        name.encode("latin-1"): [value.encode("latin-1") for value in values]
        for name, values in headers.items()
    }
