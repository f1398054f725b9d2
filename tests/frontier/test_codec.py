"""Requests as data: everything a request has comes back, and nothing else is ever done."""

from __future__ import annotations

import json
import os
import pickle
import sys
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime

import attrs
import pytest
import scrapy
from hypothesis import given
from hypothesis import strategies as st
from scrapy import FormRequest, Request, Spider
from scrapy.http import JsonRequest, XmlRpcRequest

from crawlproj.exceptions import BadUrl, UndecodableEntry, UnserialisableRequest
from crawlproj.frontier.canonical import normalise
from crawlproj.frontier.codec import Codec
from crawlproj.frontier.requests import FETCH_META, to_request

CODEC = Codec()
decode, encode_link = CODEC.decode, CODEC.encode_link
encode_request, encode_stored = CODEC.encode_request, CODEC.encode_stored


class Shop(Spider):
    name = "shop"
    aliased = None

    def parse(self, response):
        """Do nothing."""

    def parse_item(self, response, extra):
        """Do nothing."""

    def failed(self, failure):
        """Do nothing."""

    def __secret(self, response):
        """Do nothing."""

    def secret_request(self):
        return Request("http://e.test/", callback=self.__secret)


class Article(scrapy.Item):
    title = scrapy.Field()
    body = scrapy.Field()


@dataclass
class Price:
    amount: int
    per: tuple[str, ...] = ()


@attrs.define
class Tag:
    name: str


@dataclass
class Unmakeable:
    name: str
    length: int = field(init=False, default=0)


class RenderRequest(Request):
    """As many plugins have it: an attribute of its own, which is a keyword, too."""

    attributes = (*Request.attributes, "wait")

    def __init__(self, *args, wait=0, **kwargs):
        super().__init__(*args, **kwargs)
        self.wait = wait


class Exploding(Request):
    def __init__(self, *args, **kwargs):
        if "body" not in kwargs:
            raise AssertionError("no body")
        super().__init__(*args, **kwargs)


@pytest.fixture
def spider():
    return Shop()


def page(url="http://e.test/", codec=CODEC, tag=None, **meta):
    """Return a page as it was leased, that links may be found on."""
    entry = codec.encode_request(Request(url, meta=meta | {"source_tag": tag}), Shop())
    return codec.decode(entry.host, entry.data.encode())


def back(request, spider):
    entry = encode_request(request, spider)
    return to_request(decode(entry.host, entry.data.encode()), spider)


def everything(request):
    found = {name: getattr(request, name) for name in request.attributes}
    found["meta"] = {key: value for key, value in request.meta.items() if key != "depth"}
    return type(request), found


def requests(s):
    return {
        "plain": Request("http://e.test/a?b=1"),
        "https": Request("https://e.test:8443/"),
        "trailing dot": Request("http://e.test./x"),
        "spelling": Request("http://e.test/a/../b?x=[1]"),
        "fragment": Request("http://e.test/#!/state"),
        "callback": Request(
            "http://e.test/", callback=s.parse_item, errback=s.failed, cb_kwargs={"extra": 1}
        ),
        "name-mangled callback": s.secret_request(),
        "headers": Request("http://e.test/", headers={"X-A": ["1", "2"], "Café": b"\xe9\xff"}),
        "cookies": Request("http://e.test/", cookies={"a": "b", "c": "é"}),
        "cookie list": Request("http://e.test/", cookies=[{"name": b"a", "value": b"\xff", "secure": True}]),
        "post": Request("http://e.test/", method="POST", body=b"\x00\xff\n"),
        "form": FormRequest("http://e.test/", formdata={"a": ["1", "2"], "b": "ü"}),
        "form by get": FormRequest("http://e.test/", method="GET", formdata={"q": "ü"}),
        "json": JsonRequest("http://e.test/", data={"a": [1, None]}, dumps_kwargs={"sort_keys": True}),
        "xml": XmlRpcRequest("http://e.test/", methodname="m", params=(1, "a")),
        "own class": RenderRequest("http://e.test/", wait=3),
        "own class, nothing set": RenderRequest("http://e.test/"),
        "dont_filter": Request("http://e.test/", dont_filter=True),
        "priority": Request("http://e.test/", priority=-7),
        "flags": Request("http://e.test/", flags=["a"]),
        "encoding": Request("http://e.test/?é", encoding="latin-1"),
        "meta": Request(
            "http://e.test/",
            meta={
                "none": None,
                "numbers": [0, -1, 2**70, 1.5, True],
                "text": "é\n\0\u2028 \U0001f600",
                "lone surrogate": "\ud800",
                "bytes": b"\0\xff",
                "tuple": (1, ("a", b"b"), []),
                "set": {1, 2},
                "frozenset": frozenset({"a"}),
                "datetime": datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC),
                "naive": datetime(2024, 2, 29),  # noqa: DTZ001
                "date": date(2024, 2, 29),
                "keys": {1: "a", (1, 2): "b", None: "c"},
                "dollar": {"$b": "no bytes", "$t": 1},
                "empty": {},
                5: "a key that is no text",
            },
        ),
        "items": Request(
            "http://e.test/",
            cb_kwargs={
                "item": Article(title="é", body=[b"x"]),
                "unset": Article(),
                "price": Price(3, ("kg", "lb")),
                "tags": [Tag("a"), Tag("b")],
                "nested": Price(1, (Tag("x"), {"y": Article(title=1)})),
            },
        ),
    }


REQUESTS = tuple(requests(Shop()))


@pytest.mark.parametrize("name", REQUESTS)
def test_round_trip(name, spider):
    """A request comes back with its class and with everything a spider can set."""
    request = requests(spider)[name]
    assert everything(back(request, spider)) == everything(request)


@pytest.mark.parametrize("name", REQUESTS)
def test_an_entry_is_text_of_a_stable_form(name, spider):
    """Encoding what was decoded gives the same entry."""
    entry = encode_request(requests(spider)[name], spider)
    request = to_request(decode(entry.host, entry.data.encode()), spider)
    again = encode_request(request, spider)
    if name != "meta":  # a set has no order
        assert again == entry
    assert (again.host, again.fingerprint, again.url) == (entry.host, entry.fingerprint, entry.url)


@pytest.mark.parametrize("name", REQUESTS)
def test_a_link_that_was_stored_with_its_page_is_the_same_link(name, spider):
    """Its URL and its second line are all that has to be kept of it."""
    entry = encode_request(requests(spider)[name], spider)
    extra = entry.data.partition("\n")[2] or None
    again = encode_stored(entry.url, extra, 0)
    assert again.data == entry.data
    assert (again.host, again.fingerprint, again.priority) == (entry.host, entry.fingerprint, entry.priority)
    assert again.forced is (name in {"dont_filter", "xml"})
    deeper = encode_stored(entry.url, extra, 7, None if extra else page(tag="seed"))
    assert decode(deeper.host, deeper.data.encode()).depth == 7


def test_a_stored_link_that_cannot_be_read_is_refused():
    """As a queue entry is."""
    with pytest.raises(UndecodableEntry):
        encode_stored("http://e.test/", '{"c": ', 0)


def test_a_plain_link_costs_its_path_and_two_bytes(spider):
    """Neither scheme nor host are repeated in every entry of a host's queue."""
    assert encode_request(Request("http://e.test/a/b?c"), spider).data == "h0/a/b?c"
    assert encode_link("https://e.test/a", 12).data == "s12/a"


def test_links_and_requests_of_one_url_are_one(spider):
    """A link and a Request for the same page have one fingerprint, one host, one page key."""
    request = encode_request(Request("http://e.test/a"), spider)
    link = encode_link("http://e.test/a", 1, page(tag="t"))
    assert (link.fingerprint, link.host) == (request.fingerprint, request.host)
    stored = decode("e.test", link.data.encode())
    assert (stored.tag, stored.depth) == ("t", 1)
    assert stored.key == decode("e.test", request.data.encode()).key
    assert to_request(stored, spider).meta == {"depth": 1, "source_tag": "t"}


@pytest.mark.parametrize(
    ("url", "kept", "header"),
    [
        ("http://u:p@e.test/x", "http://e.test/x", b"Basic dTpw"),
        ("https://u:p@E.test:8443/x?a=u:p@b#f", "https://e.test:8443/x?a=u:p@b#f", b"Basic dTpw"),
        ("http://u@e.test/", "http://e.test/", b"Basic dTo="),
        ("http://u:a%40b%2Fc%3A@e.test/", "http://e.test/", b"Basic dTphQGIvYzo="),
        ("http://:@e.test/", "http://e.test/", None),
    ],
)
def test_a_login_goes_into_a_header(spider, url, kept, header):
    """The site gets it; no URL that is shown, stored or compared holds it."""
    entry = encode_request(Request(url), spider)
    assert "@" not in entry.url.partition("?")[0]
    stored = decode(entry.host, entry.data.encode())
    assert stored.url.lower() == kept
    assert stored.wire == entry.url
    assert entry.fingerprint == encode_link(normalise(kept), 0).fingerprint
    request = to_request(stored, spider)
    assert request.url == stored.url
    assert request.headers.get("Authorization") == header


def test_a_header_of_the_spiders_own_goes_before_a_login(spider):
    """It is what the spider wants to send."""
    request = back(Request("http://u:p@e.test/", headers={"Authorization": "Bearer x"}), spider)
    assert request.headers["Authorization"] == b"Bearer x"


@pytest.mark.parametrize(
    ("url", "inherits"),
    [
        ("http://e.test/b", True),
        ("http://other@e.test/b", False),
        ("https://e.test/b", False),
        ("http://e.test:81/b", False),
        ("http://e.test.evil.test/b", False),
        ("http://sub.e.test/b", False),
    ],
)
def test_a_login_is_inherited_at_home_only(spider, url, inherits):
    """Links of a page take its login along, to the same scheme, host and port and nowhere else."""
    entry = encode_link("http://u:p@e.test/a", 0)
    home = decode("e.test", entry.data.encode())
    found = (
        encode_link(url, 1, home),
        encode_stored(url, None, 1, home),
        encode_request(Request(url), spider, page=home),
    )
    for each in found:
        again = decode(each.host, each.data.encode()).login
        assert (again is not None and again.words == "u:p") is inherits


def test_what_is_refused_shows_no_password(spider):
    """Neither of a request nor of an entry."""
    with pytest.raises(UnserialisableRequest) as refused:
        encode_request(Request("http://u:secret@e.test/", meta={"x": object()}), spider)
    assert "<GET http://e.test/>" in str(refused.value)
    for entry in (b'h0/\n{"a":"u:secret","t":1}', b"u0 http://u:secret@e.test/ \n{"):
        with pytest.raises(UndecodableEntry) as unread:
            decode("e.test", entry)
        assert "secret" not in str(unread.value)


def test_a_form_is_another_page_than_its_url(spider):
    """Method and body are part of what a request is."""
    entries = [
        encode_request(Request("http://e.test/", method=method, body=body), spider)
        for method, body in (("GET", b""), ("POST", b""), ("POST", b"a"), ("POST", b"b"))
    ]
    assert len({entry.fingerprint for entry in entries}) == 4
    assert len({decode("e.test", entry.data.encode()).key for entry in entries}) == 4


def test_what_belongs_to_one_fetch_stays_behind(spider):
    """`meta=response.meta` hands no lease, no latency and no slot on to the next request."""
    meta = dict.fromkeys(FETCH_META, 1) | {"download_slot": "e.test", "mine": 1}
    entry = encode_request(Request("http://e.test/", meta=meta), spider, drop_slot="e.test")
    assert json.loads(entry.data.partition("\n")[2]) == {"m": {"mine": 1}}
    assert decode("e.test", entry.data.encode()).depth == 1
    kept = encode_request(
        Request("http://e.test/", meta={"download_slot": "mine"}), spider, drop_slot="e.test"
    )
    assert (
        back(Request("http://e.test/", meta={"download_slot": "mine"}), spider).meta["download_slot"]
        == "mine"
    )
    assert "mine" in kept.data


def looped():
    loop = {}
    loop["loop"] = loop
    return loop


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (object(), "object"),
        (lambda: None, "function"),
        (open, "builtin"),
        (iter([]), "iterator"),
        ({"deep": [{1: object()}]}, "object"),
        (looped(), "recursion"),
        pytest.param(10**5000, "4300", id="long number"),
        (Unmakeable("a"), "Unmakeable"),
        (Article, "Meta"),
    ],
)
def test_what_is_no_data_is_refused_with_a_sentence(spider, value, word):
    """It names the request and what it holds; nothing has been marked seen by then."""
    with pytest.raises(UnserialisableRequest, match=word) as caught:
        encode_request(Request("http://e.test/x", meta={"key": value}), spider)
    assert "http://e.test/x" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_local_item_class_is_refused(spider):
    """Another worker would not find it."""

    @dataclass
    class Local:
        name: str

    with pytest.raises(UnserialisableRequest, match="Local"):
        encode_request(Request("http://e.test/", meta={"a": Local("x")}), spider)


def test_a_local_request_class_is_refused(spider):
    """Found out when it is scheduled, not when it is leased."""

    class Local(Request):
        pass

    with pytest.raises(UnserialisableRequest, match="Local"):
        encode_request(Local("http://e.test/"), spider)


@pytest.mark.parametrize("callback", [lambda _: None, test_round_trip, Shop.parse, Price])
def test_only_methods_of_the_spider_are_callbacks(spider, callback):
    """Anything else would be another function, or none, when the request comes back."""
    with pytest.raises(UnserialisableRequest):
        encode_request(Request("http://e.test/", callback=callback), spider)


@pytest.mark.parametrize(
    "url", ["file:///etc/hostname", "file://e.test/etc/hostname", "ftp://e.test/x", "data:text/html,hi"]
)
def test_only_the_web_is_queued(spider, url):
    """Other schemes are refused before they have a host or a key."""
    with pytest.raises(BadUrl):
        encode_request(Request(url), spider)


class Marker:
    """Unpickled, it would leave a file behind."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


POISON = {
    "empty": b"",
    "no path": b"h0",
    "no depth": b"h/x",
    "unknown kind": b"x0/x",
    "another scheme": b"u0 file:///etc/hostname",
    "data": b"u0 data:text/html,hi",
    "another host": b"u0 http://o.test/",
    "not the wire form": b"u0 http://u@e.test",
    "not UTF-8": b"h0/\xff",
    "truncated": b'h0/x\n{"c": "par',
    "no object": b"h0/x\n[1]",
    "deep": b"h0/x\n" + b"[" * 100_000,
    "deep meta": b'h0/x\n{"m":' + b'{"a":' * 600 + b"1" + b"}" * 601,
    "long depth": b"h" + b"1" * 5000 + b"/x",
    "depth of another script": "h²/x".encode(),
    "body": b'h0/x\n{"b": {"$b": "a"}}',
    "body of another kind": b'h0/x\n{"b": 5}',
    "tag": b'h0/x\n{"t": [1]}',
    "two URLs": b'h0/x\n{"w": "http://e.test/y"}',
    "another URL": b'h0/x\n{"w": "file:///etc/hostname"}',
    "callback of nobody": b'h0/x\n{"c": "nobody"}',
    "callback that is none": b'h0/x\n{"c": "name"}',
    "class of nobody": b'h0/x\n{"C": "os.nobody"}',
    "class that is none": b'h0/x\n{"C": "os.system"}',
    "class of another kind": b'h0/x\n{"C": "subprocess.Popen"}',
    "class that is not loaded": b'h0/x\n{"C": "antigravity.Request"}',
    "class that explodes": f'h0/x\n{{"C": "{__name__}.Exploding"}}'.encode(),
    "item of another kind": b'h0/x\n{"m": {"a": {"$i": "subprocess.Popen", "v": {"args": "true"}}}}',
    "item that is not loaded": b'h0/x\n{"m": {"a": {"$i": "antigravity.Item", "v": {}}}}',
    "item without its fields": f'h0/x\n{{"m": {{"a": {{"$i": "{__name__}.Price", "v": {{}}}}}}}}'.encode(),
    "unknown tag": b'h0/x\n{"m": {"a": {"$p": 1}}}',
    "unhashable": b'h0/x\n{"m": {"a": {"$s": [[]]}}}',
    "headers": b'h0/x\n{"h": 5}',
    "header": b'h0/x\n{"h": {"a": [5]}}',
    "unknown attribute": b'h0/x\n{"x": {"shell": "true"}}',
    "argument twice": b'h0/x\n{"x": {"url": "http://o.test/"}}',
    "meta": b'h0/x\n{"m": 5}',
    "priority": b'h0/x\n{"p": "high"}',
    "priority without end": b'h0/x\n{"p": 1e400}',
}


@pytest.mark.parametrize("name", POISON)
def test_poison_is_refused_with_a_sentence(spider, name):
    """What is no entry of ours raises one kind of error, and shows what it was, shortened."""
    with pytest.raises(UndecodableEntry) as caught:
        to_request(decode("e.test", POISON[name]), spider)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("protocol", range(6))
def test_nothing_is_unpickled(spider, tmp_path, protocol):
    """A pickle that would make a folder makes none."""
    data = pickle.dumps(Marker(str(tmp_path / "marker")), protocol)
    for entry in (data, b"h0/x\n" + data, b'h0/x\n{"m": {"a": {"$b": "' + data.hex().encode() + b'"}}}'):
        try:
            to_request(decode("e.test", entry), spider)
        except UndecodableEntry:
            continue
    assert list(tmp_path.iterdir()) == []


def test_no_module_is_imported_for_an_entry(spider):
    """Importing runs code: a class whose module is not loaded is no class."""
    for key in ("C", "$i"):
        value = "this.Request" if key == "C" else {"a": {key: "this.Item", "v": {}}}
        entry = f"h0/x\n{json.dumps({'C' if key == 'C' else 'm': value})}"
        with pytest.raises(UndecodableEntry):
            to_request(decode("e.test", entry.encode()), spider)
    assert "this" not in sys.modules


def test_a_module_cannot_answer_for_a_class(spider, monkeypatch):
    """A module's own `__getattr__` may import what it likes; it is not asked."""
    asked = []
    monkeypatch.setattr(sys.modules[__name__], "__getattr__", asked.append, raising=False)
    with pytest.raises(UndecodableEntry):
        to_request(decode("e.test", f'h0/x\n{{"C": "{__name__}.Lazy"}}'.encode()), spider)
    assert asked == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("$abtidcmhxCw", max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.binary(max_size=60) | st.text('hsu019 /\n{}[]":$abc,\\', max_size=40).map(str.encode))
def test_any_bytes_are_an_entry_or_refused(data):
    """Whatever stands in a queue: a request or an UndecodableEntry, never another error."""
    spider = Shop()
    try:
        request = to_request(decode("e.test", data), spider)
    except UndecodableEntry:
        return
    assert request.url.startswith(("http://", "https://"))


@given(st.dictionaries(st.sampled_from("cehMbkmEfgpCxdwt"), JSON, max_size=4))
def test_any_second_line_is_a_request_or_refused(extra):
    """The same for what looks most like an entry."""
    spider = Shop()
    try:
        request = to_request(decode("e.test", f"h0/x\n{json.dumps(extra)}".encode()), spider)
    except UndecodableEntry:
        return
    assert request.url == "http://e.test/x"


META = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=()))
    | st.binary()
    | st.datetimes().map(lambda value: value.replace(fold=0))
    | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.binary(), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(META)
def test_any_data_comes_back(value):
    """Whatever is data returns as it was, types included."""
    spider = Shop()
    request = back(Request("http://e.test/", cb_kwargs={"value": value}), spider)
    assert request.cb_kwargs["value"] == value
    assert repr(request.cb_kwargs["value"]) == repr(value)


class LongWay(Codec):
    """Takes no request for one that needs less."""

    def _plain_line(self, request, spider, page):
        return None


def variations(s):
    """Return requests that are plain but for one thing, and some that are."""
    url = "http://e.test/a?b=1&a=2"
    return [
        *requests(s).values(),
        Request(url),
        Request(url, callback=s.parse_item),
        Request(url, callback=s.parse, headers={"Referer": "http://e.test/"}),
        Request(url, callback=s.parse_item, headers={"Referer": "http://e.test/"}),
        Request(url, callback=s.parse_item, headers={"Referer": "http://e.test/2"}),
        Request(url, callback=s.parse_item, headers={"Referer": ["http://e.test/1", "http://e.test/2"]}),
        Request(url, callback=s.parse_item, headers={"Referer": "http://e.test/2"}),
        Request(url, headers={"Referer": "http://e.test/", "X-A": "1"}),
        Request(url, headers={"Referer": "http://e.test/"}),
        Request(url, headers={"Referer": "http://e.test/", "X-A": "2"}),
        Request(url, headers={"X-A": "http://e.test/"}),
        Request(url, headers={"X-B": "http://e.test/"}),
        Request(url, meta={"depth": 3, "lease": 1, "download_latency": 0.5}),
        Request(url, meta={"depth": "x"}),
        Request(url, meta={"download_slot": "e.test"}),
        Request(url, meta={"embed": True}),
        Request(url, meta={"queue": "q"}),
        Request(url, meta={"source_tag": "t"}),
        Request(url, errback=s.failed),
        Request("http://u:p@e.test/x"),
        Request("http://e.test/a#b"),
        Request("http://e.test./x"),
        Request("https://e.test/%7e"),
    ]


@pytest.mark.parametrize("made", ["nowhere", "on a page", "on a tagged page", "on a page with a login"])
@pytest.mark.parametrize("repeated", [1, 2])
def test_the_short_way_of_plain_requests_is_the_long_way(spider, made, repeated):
    """Whatever came before it, a request has the entry that it would have had."""
    found_on = {
        "nowhere": None,
        "on a page": page(),
        "on a tagged page": page(tag="t"),
        "on a page with a login": page("http://u:p@e.test/"),
    }[made]
    short, plain = Codec(), 0
    for request in [each for each in variations(spider) for _ in range(repeated)]:
        entry = short.encode_request(request, spider, page=found_on)
        other = LongWay().encode_request(request, spider, page=found_on)
        assert replace(entry, plain=False) == other
        plain += entry.plain
        known = (
            short.encode_known(request, spider, found_on) if found_on and entry.url == request.url else None
        )
        assert known is None or (known.url, known.data, known.host) == (entry.url, entry.data, entry.host)
        assert (known is not None) == (entry.plain and found_on is not None)
    assert (plain > 0) == (made in {"nowhere", "on a page"})


def test_marks_take_the_long_way(spider):
    """Where the cost policy wants to know the page, and for what is forced, at the head or a seed."""
    plain = Request("http://e.test/?a")
    assert CODEC.encode_request(plain, spider).plain
    assert not Codec(marks_paths=True).encode_request(plain, spider, page=page()).plain
    for how in ("forced", "head", "seed"):
        entry = CODEC.encode_request(plain, spider, **{how: True})
        assert not entry.plain
        assert getattr(entry, how, True)


def test_a_callback_that_is_no_method_is_refused_the_short_way_too(spider):
    """And does not leave its name behind."""
    codec = Codec()
    codec.encode_request(Request("http://e.test/", callback=spider.parse_item), spider)
    with pytest.raises(UnserialisableRequest):
        codec.encode_request(Request("http://e.test/", callback=lambda _: None), spider)
    assert codec.encode_request(Request("http://e.test/"), spider).data == "h0/"


def test_a_request_is_plain_whatever_its_own_page_was_asked_for_with(spider):
    """Only a tag and a login come from the page; its callback and headers are its own affair."""
    asked = Request("http://e.test/", callback=spider.parse_item, headers={"Referer": "http://e.test/0"})
    first = CODEC.encode_request(asked, spider)
    page = CODEC.decode(first.host, first.data.encode())
    assert page.extra
    link = Request("http://e.test/1", callback=spider.parse_item)
    assert CODEC.encode_request(link, spider, page=page).plain
    assert CODEC.encode_link("http://e.test/2", 1, page).plain
    assert "\n" not in CODEC.encode_link("http://e.test/2", 1, page).data
