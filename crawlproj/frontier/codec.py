"""Requests as data: what a queue entry looks like, and back.

An entry is one line, optionally followed by a second one:

    <h|s|u><depth><path or URL>        h: http and s: https on the queue's own host, u: a whole URL
    {"c": "parse_item", "m": {…}}      what a plain GET to the spider's `parse` does not have

A plain link so costs its path and two bytes. No pickle: whoever can write to Redis must not be
able to run code here, so classes are looked up among those already imported, and only request
and item classes are taken.
"""

from __future__ import annotations

import json
import sys
from base64 import b64decode, b64encode
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from itemadapter import ItemAdapter
from scrapy import Request

from crawlproj.exceptions import BadUrl, UndecodableEntry, UnserialisableRequest
from crawlproj.frontier.canonical import authority, canonical, fingerprint, host_key, normalise, page_key

if TYPE_CHECKING:
    from scrapy import Spider

# Ours or the downloader's, about one fetch: none of it belongs to the next request, even when a
# spider passes `meta=response.meta` on.
FETCH_META = frozenset({"lease", "health_signal", "validators", "download_latency", "depth"})

_KEYS = {  # Request.to_dict() name -> key of the second line
    "callback": "c",
    "errback": "e",
    "headers": "h",
    "method": "M",
    "body": "b",
    "cookies": "k",
    "meta": "m",
    "encoding": "E",
    "flags": "f",
    "cb_kwargs": "g",
    "_class": "C",
}
_NAMES = {key: name for name, key in _KEYS.items()}
_DEFAULTS: dict[str, Any] = {"method": "GET", "body": b"", "encoding": "utf-8"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One URL on its way into the frontier.

    *data* is what the queue keeps; the rest says where and how it enters.
    """

    url: str  #: wire form
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

    url: str  #: as the spider asked for it
    wire: str
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
    def canonical(self) -> str:
        """Return the form in which the URL is compared."""
        return canonical(self.wire)

    @property
    def key(self) -> bytes:
        """Return the 16 bytes under which the page is kept."""
        return page_key(self.canonical, self.method, self.body)


def encode_link(wire: str, depth: int, tag: str | None = None) -> Entry:
    """Return the entry of a plain link, given in its wire form."""
    name = canonical(wire)
    host = host_key(wire)
    data = _first_line(wire, host, depth)
    if tag is not None:
        data = f"{data}\n{json.dumps({'t': tag}, ensure_ascii=False)}"
    return Entry(wire, host, fingerprint(name), data, plain=tag is None)


def encode_request(
    request: Request,
    spider: Spider,
    *,
    tag: str | None = None,
    forced: bool = False,
    head: bool = False,
    drop_slot: str | None = None,
) -> Entry:
    """Return the entry of a request. Raises BadUrl or UnserialisableRequest.

    *drop_slot* is the download slot that Scrapy, not the spider, put into a copied meta.
    """
    wire = normalise(request.url)
    depth = request.meta.get("depth", 0)
    try:
        fields = request.to_dict(spider=spider)
    except ValueError as exc:
        raise UnserialisableRequest(f"{request} cannot be kept in the frontier: {exc}") from None
    fields["meta"] = {
        key: value
        for key, value in request.meta.items()
        if key not in FETCH_META and not (key == "download_slot" and value == drop_slot)
    }
    extra: dict[str, Any] = {} if request.url == wire else {"w": request.url}
    for name, key in _KEYS.items():
        value = fields.get(name)
        if value and value != _DEFAULTS.get(name):
            extra[key] = _text(value) if name == "headers" else _as_data(value, name, request)
    if request.dont_filter:
        extra["d"] = 1
    if tag is not None:
        extra["t"] = tag
    host = host_key(wire)
    data = _first_line(wire, host, depth if isinstance(depth, int) and depth > 0 else 0)
    if extra:
        data = f"{data}\n{json.dumps(extra, ensure_ascii=False, separators=(',', ':'))}"
    number = fingerprint(canonical(wire), request.method, request.body)
    return Entry(wire, host, number, data, request.priority, forced, head)


def _first_line(wire: str, host: str, depth: int) -> str:
    place = authority(wire)
    if place != host:
        return f"u{depth} {wire}"
    return f"{'s' if wire[4] == 's' else 'h'}{depth}{wire[wire.index('//') + 2 + len(place) :]}"


def decode(host: str, data: bytes) -> Stored:
    """Return what an entry of *host*'s queue says. Raises UndecodableEntry."""
    try:
        line, _, rest = data.decode().partition("\n")
        extra = json.loads(rest) if rest else {}
        wire, depth = _read_first_line(line, host)
        url = str(extra.get("w", wire))
        if normalise(url) != wire:
            raise ValueError("two URLs")
        tag = extra.get("t")
        stored = Stored(url=url, wire=wire, depth=depth, tag=tag, extra=extra)
        stored.body  # noqa: B018  # a body that cannot be read is found here, not later
    except (ValueError, TypeError, LookupError, AttributeError, BadUrl) as exc:
        shown = data[:80].decode("utf-8", "replace")
        raise UndecodableEntry(f"queue entry {shown!r} of {host} cannot be read: {exc}") from None
    return stored


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
    try:
        fields = {
            _NAMES[key]: _bytes(value) if key == "h" else _from_data(value)
            for key, value in stored.extra.items()
            if key in _NAMES
        }
        cls = _imported(fields.pop("_class", None), Request)
        for name in ("callback", "errback"):
            if name in fields:
                fields[name] = getattr(spider, fields[name])
        fields["meta"] = {**fields.get("meta", {}), **meta}
        return cls(stored.url, dont_filter=bool(stored.extra.get("d")), **fields)  # type: ignore[no-any-return]
    except (ValueError, TypeError, LookupError, AttributeError) as exc:
        raise UndecodableEntry(f"queue entry of {stored.url[:120]} cannot be used: {exc}") from None


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


def _imported(path: str | None, base: type) -> Any:
    """Return a class by its dotted path, without importing anything for it."""
    if path is None:
        return base
    module, _, name = path.rpartition(".")
    found = getattr(sys.modules.get(module), name, None)
    if isinstance(found, type) and (
        issubclass(found, base) if base is not object else ItemAdapter.is_item_class(found)
    ):
        return found
    raise ValueError(f"{path} is not loaded, or no class of this kind")


def _as_data(value: Any, where: str, request: Request) -> Any:
    """Return *value* in JSON's types; what JSON has not is tagged with a `$` key."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, bytes):
        return {"$b": b64encode(value).decode()}
    if isinstance(value, list):
        return [_as_data(each, where, request) for each in value]
    if isinstance(value, (tuple, set, frozenset)):
        tag = {tuple: "$t", set: "$s", frozenset: "$z"}.get(type(value))
        if tag is not None:
            return {tag: [_as_data(each, where, request) for each in value]}
    if type(value) is dict:
        pairs = [
            (_as_data(key, where, request), _as_data(each, f"{where}[{key!r}]", request))
            for key, each in value.items()
        ]
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return dict(pairs)
        return {"$d": [list(pair) for pair in pairs]}
    if isinstance(value, datetime):
        return {"$dt": value.isoformat()}
    if isinstance(value, date):
        return {"$day": value.isoformat()}
    if ItemAdapter.is_item(value) and not isinstance(value, dict):
        name = f"{type(value).__module__}.{type(value).__qualname__}"
        fields = {key: ItemAdapter(value)[key] for key in ItemAdapter(value)}
        return {"$i": name, "v": _as_data(fields, where, request)}
    raise UnserialisableRequest(
        f"{request} cannot be kept in the frontier: {where} holds a {type(value).__name__}"
    )


def _from_data(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_data(each) for each in value]
    if not isinstance(value, dict):
        return value
    tag = next(iter(value), "")
    if not tag.startswith("$"):
        return {key: _from_data(each) for key, each in value.items()}
    content = value[tag]
    match tag:
        case "$b":
            return b64decode(content)
        case "$t" | "$s" | "$z":
            kind = {"$t": tuple, "$s": set, "$z": frozenset}[tag]
            return kind(_from_data(each) for each in content)
        case "$d":
            return {_from_data(key): _from_data(each) for key, each in content}
        case "$dt":
            return datetime.fromisoformat(content)
        case "$day":
            return date.fromisoformat(content)
        case "$i":
            return _imported(content, object)(**_from_data(value["v"]))
    raise ValueError(f"unknown tag {tag}")
