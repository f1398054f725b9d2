"""Requests as data: what a queue entry looks like, and back.

An entry is one line, optionally followed by a second one:

    <h|s|u><depth><path or URL>        h: http and s: https on the queue's own host, u: a whole URL
    {"c": "parse_item", "m": {…}}      what a plain GET to the spider's `parse` does not have

A plain link so costs its path and two bytes; where the queue is not called as the host, the whole URL is
kept. A URL that comes with `user:password@` is kept without; the login goes out as a header, with this
request and with those that are found on its page and go to the same scheme, host and port.

No pickle: whoever can write to Redis must not be able to run code here, so of classes only those of requests
and items are taken, and of these only what is loaded anyway.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request

from crawlproj.exceptions import BadUrl, UndecodableEntry, UnserialisableRequest
from crawlproj.frontier.addresses import Addresses
from crawlproj.frontier.assignment import MAX_NAME, Assignment, is_address, is_name, name_only
from crawlproj.frontier.canonical import (
    authority,
    fingerprint,
    host_key,
    normalise,
    page_key,
    split_login,
)
from crawlproj.frontier.entries import Entry, Stored, Unplaced
from crawlproj.frontier.requests import FETCH_META, extra_of
from crawlproj.frontier.rules import DEFAULT, canonicaliser, in_order
from crawlproj.knobs import COST_POLICIES
from crawlproj.redaction import without_login

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from scrapy import Spider

    from crawlproj.config import Config

_INHERITED = frozenset({"t", "a"})  # of a page by its links: tag and login
_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_WAG = COST_POLICIES.index("wag") + 1


class Codec:
    """Requests as entries and back, by the policies of one crawl.

    They are fixed when the crawl's frontier is made: another one would look for a URL where it is not.
    """

    def __init__(
        self,
        assignment: Assignment | None = None,
        rules: Collection[str] = DEFAULT,
        *,
        tag_seeds: bool = False,
        marks_paths: bool = False,
    ) -> None:
        self._assignment = assignment or Assignment()
        self._rules = in_order(rules)
        self._addresses = Addresses() if self._assignment.by_address else None
        self._tag_seeds = tag_seeds
        self._marks_paths = marks_paths
        self._said: tuple[Any, ...] = ()  #: of what the line below is the second one
        self._line = ""
        self._logins: dict[str, str] = {}  #: those of start requests, by their origins
        #: wire URL -> the form in which it is compared
        self.canonical: Callable[[str], str] = canonicaliser(rules)
        #: wire URL -> its queue; by address, its host until the address has been looked up
        self.queue: Callable[[str], str] = self._assignment.queue

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """Build it from the settings. Raises BadSetting."""
        return cls(
            Assignment(config.queue_assignment, config.host_groups, config.forced_queue),
            config.canonical_rules,
            tag_seeds=config.source_tag_seeds,
            marks_paths=config.knobs["cost_policy"] == _WAG,
        )

    def fixed(self) -> dict[str, str]:
        """Return what a crawl keeps for good: setting -> value, as a short text."""
        rules = ",".join(self._rules) or "none"
        return {**self._assignment.fixed(), "FRONTIER_CANONICAL_RULES": rules}

    def close(self) -> None:
        """Look up no more addresses."""
        if self._addresses is not None:
            self._addresses.close()

    def login_of(self, wire: str) -> str | None:
        """Return what a start request of the same origin came with as `user:password`, if one did."""
        return self._logins.get(_origin(wire)) if self._logins else None

    def fingerprint(self, wire: str, method: str = "GET", body: bytes = b"") -> int:
        """Return the signed 64-bit number by which the seen filter knows a request for a wire URL."""
        return fingerprint(self.canonical(wire), method, body)

    def page_key(self, wire: str, method: str = "GET", body: bytes = b"") -> bytes:
        """Return the 16 bytes under which the page of a wire URL is kept."""
        return page_key(self.canonical(wire), method, body)

    def queue_of(self, host: str) -> str:
        """Return the queue of a host key, by address where that is known by now."""
        queue = self._assignment.by_host(host)
        if self._addresses is None or self._assignment.group(host):
            return queue
        return self._addresses.known(name_only(host)) or queue

    async def assign(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return entries in the queues that take a look-up to know; to be done before they are sent.

        A host without an address, or whose name server takes too long, keeps its name.
        """
        if self._addresses is None:
            return entries
        names = {name_only(entry.host) for entry in entries if isinstance(entry, Unplaced)}
        found = await self._addresses.of(names)
        return [
            replace(entry, host=found.get(name_only(entry.host), entry.host))
            if isinstance(entry, Unplaced)
            else entry
            for entry in entries
        ]

    def encode_link(
        self,
        wire: str,
        depth: int,
        page: Stored | None = None,
        *,
        embed: bool = False,
        embed_hops: int = 1,
    ) -> Entry:
        """Return the entry of a plain link, given in its wire form.

        Tag and login are inherited from the *page* that it was found on. *embed* says that the page shows it;
        within *embed_hops* of them it is preferred.
        """
        wire, words = split_login(wire) if "@" in wire else (wire, None)
        queue = self.queue(wire)
        data = self._first_line(wire, queue, depth)
        priority = 0
        inherits = page is not None and (self._marks_paths or not _INHERITED.isdisjoint(page.extra))
        if embed or words is not None or inherits:
            embeds = _embeds(page) + 1 if embed else 0
            marks = self._marks(wire, page, words, embeds)
            priority = _preference(embeds, embed_hops)
            data = f"{data}\n{_json(marks)}" if marks else data
        number = fingerprint(self.canonical(wire))
        kind = Entry if self._addresses is None else self._kind(wire)
        return kind(wire, queue, number, data, priority, plain=words is None)

    def encode_stored(
        self,
        wire: str,
        extra: str | None,
        depth: int,
        page: Stored | None = None,
        *,
        embed_hops: int = 1,
    ) -> Entry:
        """Return the entry of a link that was stored with a page: its URL and its second line, if any.

        Raises UndecodableEntry.
        """
        if extra is None:
            return self.encode_link(wire, depth, page)
        stored = self._read(f"u{depth} {wire}\n{extra}".encode(), None)
        queue = stored.queue or self.queue(wire)
        return self._kind(wire, stored.queue)(
            wire,
            queue,
            fingerprint(stored.canonical, stored.method, stored.body),
            f"{self._first_line(wire, queue, depth)}\n{extra}",
            stored.priority + _preference(stored.embeds, embed_hops),
            forced=bool(stored.extra.get("d")),
        )

    def encode_request(
        self,
        request: Request,
        spider: Spider,
        *,
        page: Stored | None = None,
        seed: bool = False,
        forced: bool = False,
        head: bool = False,
        drop_slot: str | None = None,
        embed_hops: int = 1,
    ) -> Entry:
        """Return the entry of a request. Raises BadUrl or UnserialisableRequest.

        *page* is where it was found, *seed* says that somebody asked for it instead. With *head* it takes the
        place of a request that was redirected. *drop_slot* is the download slot that Scrapy, not the spider,
        put into a copied meta.
        """
        wire, words = split_login(normalise(request.url))
        if seed and words is not None:
            self._logins[_origin(wire)] = words
        if not (forced or head or seed) and wire == request.url:
            line = self._plain_line(request, spider, page)
            if line is not None:
                return self._plain(wire, request, line, fingerprint(self.canonical(wire)))
        url = without_login(request.url)
        meta = request.meta
        embeds = _embeds(page) if head else _embeds(page) + 1 if meta.get("embed") else 0
        try:
            name, tag = _own_queue(meta), _own_tag(meta)
            extra = extra_of(request, spider, drop_slot)
            if url != wire:
                extra["w"] = url
            if name is not None:
                extra["q"] = name
            if tag is None and seed and self._tag_seeds:
                tag = url
            extra |= self._marks(wire, page, words, embeds, tag)
            second_line = f"\n{_json(extra)}" if extra else ""
        except (ValueError, RecursionError) as exc:
            raise UnserialisableRequest(
                f"<{request.method} {wire[:160]}> cannot be kept in the frontier: {exc}"
            ) from None
        queue = name or self.queue(wire)
        line = self._first_line(wire, queue, _depth(meta))
        number = self.fingerprint(wire, request.method, request.body)
        priority = request.priority + _preference(embeds, embed_hops)
        return self._kind(wire, name)(wire, queue, number, line + second_line, priority, forced, head)

    def encode_known(self, request: Request, spider: Spider, page: Stored) -> Entry | None:
        """Return the entry of a request that the frontier has, as a link of *page*: its fingerprint is 0.

        Its URL must be in the wire form, without a login. None: it is more than a plain GET, and so it may be
        another request.
        """
        line = self._plain_line(request, spider, page)
        return None if line is None else self._plain(request.url, request, line, 0)

    def _plain(self, wire: str, request: Request, second_line: str, number: int) -> Entry:
        queue = self.queue(wire)
        line = self._first_line(wire, queue, _depth(request.meta)) + second_line
        kind = Entry if self._addresses is None else self._kind(wire)
        return kind(wire, queue, number, line, plain=True)

    def _plain_line(self, request: Request, spider: Spider, page: Stored | None) -> str | None:
        """Return the second line of a GET with a callback and what Scrapy adds, None of any other request.

        Most are of this kind, and those of one page have the same one.
        """
        meta = request.meta
        if (
            type(request) is not Request
            or request.method != "GET"
            or request.errback is not None
            or request.priority
            or request.dont_filter
            or request.body
            or request.encoding != "utf-8"
            or request.cookies
            or request.cb_kwargs
            or request.flags
            or self._marks_paths
            or (page is not None and not _INHERITED.isdisjoint(page.extra))
            or not FETCH_META.issuperset(meta)
        ):
            return None
        headers = request.headers
        referer = headers.getlist(b"Referer") if headers else None
        if headers and (len(headers) > 1 or not referer):
            return None
        said = (spider, request.callback, referer)
        if said != self._said:
            try:
                extra = extra_of(request, spider, None)
            except ValueError:
                return None  # the long way says what is wrong
            self._said, self._line = said, f"\n{_json(extra)}" if extra else ""
        return self._line

    def decode(self, queue: str, data: bytes) -> Stored:
        """Return what an entry of a queue says. Raises UndecodableEntry."""
        return self._read(data, queue)

    def _read(self, data: bytes, queue: str | None) -> Stored:
        """Return what an entry says, and see to it that it is in its own queue, if it is in one."""
        try:
            line, _, rest = data.decode().partition("\n")
            extra = json.loads(rest) if rest else {}
            wire, depth = _read_first_line(line, queue)
            url = str(extra.get("w", wire))
            if normalise(url) != wire or not (queue is None or self._belongs(wire, queue, extra.get("q"))):
                raise ValueError("another URL or host")
            stored = Stored(
                url=url,
                wire=wire,
                canonical=self.canonical(wire),
                depth=depth,
                tag=extra.get("t"),
                extra=extra,
            )
            if extra:  # what cannot be read is found here, not later
                _check(stored)
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
            of = f" of {queue}" if queue else ""
            raise UndecodableEntry(f"queue entry {shown!r}{of} cannot be read: {exc}") from None
        return stored

    def _belongs(self, wire: str, queue: str, own: str | None) -> bool:
        if own is not None:
            return own == queue
        if self.queue(wire) == queue:
            return True
        # Which of its addresses a host had when the entry was made, nobody knows any more.
        by_address = self._assignment.by_address and self._assignment.group(host_key(wire)) is None
        return by_address and is_address(queue)

    def _kind(self, wire: str, own: str | None = None) -> type[Entry]:
        """Return of which class the entry of a URL is; *own* is the queue that the spider wants it in."""
        if self._addresses is None or own is not None or self._assignment.group(host_key(wire)):
            return Entry
        return Unplaced

    def _first_line(self, wire: str, queue: str, depth: int) -> str:
        kind, start = ("s", 8) if wire[4] == "s" else ("h", 7)
        end = start + len(queue)
        if wire.startswith(queue, start) and wire[end] == "/" and self._addresses is None:
            return f"{kind}{depth}{wire[end:]}"
        return f"u{depth} {wire}"

    def _marks(
        self, wire: str, page: Stored | None, words: str | None, embeds: int, tag: str | None = None
    ) -> dict[str, Any]:
        """Return what an entry says beyond its request; tag and login may come from the page."""
        if page is not None:
            login = page.login
            if words is None and login is not None and wire.startswith(login.origin):
                words = login.words
            if tag is None:
                tag = page.tag
        marks: dict[str, Any] = {key: each for key, each in (("t", tag), ("a", words)) if each is not None}
        if embeds:
            marks["i"] = embeds
        path, query, _ = wire.partition("?")
        if self._marks_paths and query and page is not None and page.wire.partition("?")[0] == path:
            marks["v"] = 1
        return marks


def _origin(wire: str) -> str:
    return f"{wire.partition('//')[0]}//{authority(wire)}/"


def _embeds(page: Stored | None) -> int:
    return 0 if page is None else page.embeds


def _preference(embeds: int, most: int) -> int:
    """Return by how much a URL goes ahead of others: what a page shows, before what it leads to."""
    return int(0 < embeds <= most)


def _depth(meta: dict[str, Any]) -> int:
    depth = meta.get("depth", 0)
    return depth if isinstance(depth, int) and depth > 0 else 0


def _own_queue(meta: dict[str, Any]) -> str | None:
    name: str | None = meta.get("queue")
    if name is not None and not is_name(name):
        raise ValueError(f"meta key 'queue' must be 1 to {MAX_NAME} printable characters")
    return name


def _own_tag(meta: dict[str, Any]) -> str | None:
    tag: object = meta.get("source_tag")
    if not isinstance(tag, str | None):
        raise ValueError("meta key 'source_tag' must be a text")
    return tag


def _check(stored: Stored) -> None:
    """Raise whatever error comes of a second line that is none of ours."""
    extra = stored.extra
    if not all(isinstance(extra.get(key), str | None) for key in ("t", "a", "q")):
        raise TypeError("no tag, no login or no queue")
    if not isinstance(extra.get("i", 0), int):
        raise TypeError("no number of embeds")
    _ = stored.body, stored.priority


def _json(extra: dict[str, Any]) -> str:
    text = _ENCODE(extra)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which only the longer spelling can carry
        return json.dumps(extra, separators=(",", ":"))
    return text


def _read_first_line(line: str, queue: str | None) -> tuple[str, int]:
    kind = line[0]
    end = 1
    while line[end].isdigit():
        end += 1
    depth = int(line[1:end])
    if kind == "u" and line[end] == " ":
        return line[end + 1 :], depth
    if kind not in "hs" or line[end] != "/":
        raise ValueError("unknown kind")
    return f"http{'s' if kind == 's' else ''}://{queue}{line[end:]}", depth
