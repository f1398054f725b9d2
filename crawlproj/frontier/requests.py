"""What Scrapy's requests have beyond a URL, as data and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from scrapy import Request
from w3lib.http import basic_auth_header

from crawlproj.exceptions import UndecodableEntry
from crawlproj.frontier.data import as_data, class_path, from_data, loaded_class

if TYPE_CHECKING:
    from scrapy import Spider

    from crawlproj.frontier.entries import Stored

# Ours or the downloader's, about one fetch: none of it belongs to the next request, even when a
# spider passes `meta=response.meta` on.
FETCH_META = frozenset({"lease", "health_signal", "validators", "download_latency", "depth"})

_OWN_META = frozenset({"queue", "source_tag", "embed"})  # what a spider tells the frontier
_SAID_ELSEWHERE = FETCH_META | _OWN_META

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


def extra_of(request: Request, spider: Spider, drop_slot: str | None) -> dict[str, Any]:
    """Return what a request has beyond a URL, as an entry's second line says it.

    Raises ValueError for what is no data.
    """
    extra: dict[str, Any] = {}
    for name, key in _KEYS.items():
        value = getattr(request, name)
        if name == "meta":
            value = {
                key: each
                for key, each in value.items()
                if key not in _SAID_ELSEWHERE and not (key == "download_slot" and each == drop_slot)
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
        fields["meta"] = {**fields.get("meta", {}), **_own_meta(stored), **meta}
        cls = loaded_class(extra["C"], Request) if "C" in extra else Request
        own = from_data(extra.get("x", {}))
        request: Request = cls(stored.url, dont_filter=bool(extra.get("d")), **fields, **own)
    except Exception as exc:  # noqa: BLE001  # a class of anybody's reads what anybody may have written
        raise UndecodableEntry(f"queue entry of {stored.url[:120]} cannot be used: {exc}") from None
    if stored.login is not None and b"Authorization" not in request.headers:
        user, _, password = stored.login.words.partition(":")
        request.headers[b"Authorization"] = basic_auth_header(unquote(user), unquote(password), "utf-8")
    return request


def _own_meta(stored: Stored) -> dict[str, Any]:
    found = {"queue": stored.queue, "source_tag": stored.tag, "embed": stored.embeds > 0 or None}
    return {key: value for key, value in found.items() if value is not None}


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


def meta_count(request: Request, name: str) -> int:
    """Return a number that Scrapy counts in a request's meta, 0 for what is none."""
    value: Any = request.meta.get(name, 0)
    return value if isinstance(value, int) else 0
