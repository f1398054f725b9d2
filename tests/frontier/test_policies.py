"""A crawl's own policies hold in every entry, on its way in and out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from scrapy import Request, Spider

from crawlproj.exceptions import BadSetting, UndecodableEntry, UnserialisableRequest
from crawlproj.frontier.addresses import Addresses
from crawlproj.frontier.assignment import Assignment
from crawlproj.frontier.codec import Codec
from crawlproj.frontier.requests import to_request
from tests.frontier.conftest import config


class Shop(Spider):
    name = "shop"

    def parse(self, response):
        """Do nothing."""


SPIDER = Shop()
PLAIN = Codec()
URL = "http://www.example.org/a?b"


def codec(**settings):
    """Return the codec of a crawl with these settings."""
    return Codec.from_config(config(**settings))


def grouped():
    """Return a codec whose hosts a.example and *.b.example share a queue."""
    return codec(host_groups={"farm": ["a.example", "*.b.example"]})


def read(made, entry):
    """Return what an entry says where it waits."""
    return made.decode(entry.host, entry.data.encode())


def extra_of(entry):
    """Return the second line."""
    return entry.data.partition("\n")[2]


# --- queues ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "queue", "line"),
    [
        ({}, "www.example.org", "h3/a?b"),
        ({"queue_assignment": "registered-domain"}, "example.org", f"u3 {URL}"),
        ({"queue_assignment": "surt"}, "org,example,www,", f"u3 {URL}"),
        ({"queue_assignment": "bucket:1"}, "bucket-0", f"u3 {URL}"),
        ({"forced_queue": "one"}, "one", f"u3 {URL}"),
        ({"host_groups": {"g": ["*.example.org"]}}, "g", f"u3 {URL}"),
        ({"host_groups": {"www.example.org": ["*.example.org"]}}, "www.example.org", "h3/a?b"),
    ],
)
def test_an_entry_keeps_its_url_in_any_queue(settings, queue, line):
    """The whole of it, where the queue is called by something else than its host."""
    made = codec(**settings)
    entry = made.encode_link(URL, 3)
    assert (entry.host, entry.data, entry.fingerprint) == (queue, line, PLAIN.encode_link(URL, 3).fingerprint)
    assert made.encode_stored(URL, None, 3) == entry
    asked = made.encode_request(Request(URL, meta={"depth": 3}), SPIDER)
    assert (asked.host, asked.data) == (entry.host, entry.data)
    for each in (read(made, entry), read(made, asked)):
        assert (each.wire, each.depth, each.canonical) == (URL, 3, URL)
    assert made.encode_request(to_request(read(made, entry), SPIDER), SPIDER) == asked


@pytest.mark.parametrize(
    ("queue", "data"),
    [
        ("farm", b"u0 http://c.example/"),
        ("a.example", b"h0/x"),
        ("c.example", b"u0 http://a.example/"),
        ("10.0.0.1", b"u0 http://c.example/"),
        ("farm", b'u0 http://a.example/\n{"q":"other"}'),
        ("c.example", b'h0/\n{"q":"farm"}'),
        ("c.example", b'h0/\n{"q":1}'),
        ("c.example", b'h0/\n{"i":"1"}'),
    ],
)
def test_an_entry_in_another_queue_is_refused(queue, data):
    """Nobody can put a URL into a queue that is not its own."""
    made = grouped()
    assert made.decode("farm", b"u0 http://x.b.example/").wire == "http://x.b.example/"
    with pytest.raises(UndecodableEntry):
        made.decode(queue, data)


def test_a_request_can_name_its_queue():
    """Whatever the policy says; it is handed back to the spider, and a link stored with a page keeps it."""
    for made in (PLAIN, grouped(), codec(queue_assignment="ip"), codec(forced_queue="one")):
        for url in ("http://a.example/x", "http://mine/x"):
            entry = made.encode_request(Request(url, meta={"queue": "mine", "k": 1}), SPIDER)
            assert entry.host == "mine"
            stored = read(made, entry)
            assert to_request(stored, SPIDER).meta == {"depth": 0, "k": 1, "queue": "mine"}
            again = made.encode_stored(entry.url, extra_of(entry), 0)
            assert (again.host, again.data) == (entry.host, entry.data)
            with pytest.raises(UndecodableEntry):
                made.decode("other", entry.data.encode())


@pytest.mark.parametrize("name", ["", " ", "a\n", "x" * 256, 5, ["a"]])
def test_no_queue_has_a_name_that_cannot_be_shown(name):
    """The request is refused, in one sentence."""
    with pytest.raises(
        UnserialisableRequest, match=r"meta key 'queue' must be 1 to 255 printable characters$"
    ):
        PLAIN.encode_request(Request(URL, meta={"queue": name}), SPIDER)


async def test_queues_by_address(monkeypatch):
    """Ports and names of one address share its queue; groups, named queues and unknown names keep theirs."""
    made = Codec(Assignment("ip", {"farm": ["c.test"]}))
    known = {"a.test": "10.0.0.1", "b.test": "10.0.0.1", "c.test": "10.0.0.1"}
    made._addresses = Addresses(known.get)
    entries = [
        made.encode_link("http://a.test/", 0),
        made.encode_link("https://b.test:8443/x", 1),
        made.encode_link("http://c.test/", 0),
        made.encode_link("http://unknown.test/y", 0),
        made.encode_request(Request("http://a.test/z", meta={"queue": "a.test"}), SPIDER),
        made.encode_stored("http://a.test/", '{"p":1}', 0).forcibly(),
    ]
    assert [entry.host for entry in entries] == [
        *("a.test", "b.test:8443", "farm", "unknown.test", "a.test", "a.test")
    ]
    placed = await made.assign(entries)
    assert [entry.host for entry in placed] == [
        *("10.0.0.1", "10.0.0.1", "farm", "unknown.test", "a.test", "10.0.0.1")
    ]
    assert [read(made, entry).wire for entry in placed] == [entry.url for entry in entries]
    assert [replace(entry, host="") for entry in placed] == [replace(entry, host="") for entry in entries]
    with pytest.raises(UndecodableEntry):
        made.decode("other.test", placed[0].data.encode())
    with pytest.raises(UndecodableEntry):  # it is in a group
        made.decode("10.0.0.1", placed[2].data.encode())
    made.close()


async def test_only_queues_by_address_take_a_look_up():
    """The entries come back as they are."""
    entries = [PLAIN.encode_link(URL, 0)]
    assert await PLAIN.assign(entries) is entries
    PLAIN.close()


# --- rules ----------------------------------------------------------------------------------------


def test_the_rules_of_a_crawl_hold_everywhere():
    """In fingerprints and page keys, of links, requests and what is read back; never on the wire."""
    made = codec(canonical_rules=("tracking", "www"))
    spellings = ("http://www.example.org/a?gclid=1", "http://example.org/a")
    entries = [made.encode_link(url, 0) for url in spellings]
    entries += [made.encode_request(Request(url), SPIDER) for url in spellings]
    entries += [made.encode_stored(url, '{"p":1}', 0) for url in spellings]
    assert {entry.fingerprint for entry in entries} == {made.fingerprint(spellings[1])}
    stored = [read(made, entry) for entry in entries]
    assert {each.canonical for each in stored} == {spellings[1]}
    assert {each.key for each in stored} == {made.page_key(url) for url in spellings}
    assert [to_request(each, SPIDER).url for each in stored] == [*spellings] * 3
    assert len({PLAIN.encode_link(url, 0).fingerprint for url in spellings}) == 2


def test_what_is_fixed():
    """Every policy that makes a URL another one or puts it elsewhere."""
    assert PLAIN.fixed()["FRONTIER_CANONICAL_RULES"] == "escapes,query_order"
    other = codec(canonical_rules=("www", "scheme"), queue_assignment="surt").fixed()
    assert other["FRONTIER_CANONICAL_RULES"] == "scheme,www"
    assert other["FRONTIER_QUEUE_ASSIGNMENT"] == "surt"
    assert codec(canonical_rules=()).fixed()["FRONTIER_CANONICAL_RULES"] == "none"


@pytest.mark.parametrize(
    "given",
    [
        {"canonical_rules": ("nonsense",)},
        {"queue_assignment": "nonsense"},
        {"forced_queue": "\n"},
        {"host_groups": {"a": "b"}},
    ],
)
def test_a_policy_that_is_none_is_refused(given):
    """Before anything is done with it."""
    with pytest.raises(BadSetting):
        codec(**given)


# --- marks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "mark"),
    [
        ("http://e.test/a?p=2", True),
        ("http://e.test/a", False),
        ("http://e.test/ab?p=2", False),
        ("http://e.test/?p=2", False),
        ("https://e.test/a?p=2", False),
    ],
)
def test_a_query_of_the_same_page_is_marked(url, mark):
    """For the policy that takes calendars and filters for dear; for the others nothing is noted."""
    wag = Codec(marks_paths=True)
    page = read(wag, wag.encode_link("http://e.test/a?p=1", 0))
    entries = [
        wag.encode_link(url, 1, page),
        wag.encode_stored(url, None, 1, page),
        wag.encode_request(Request(url), SPIDER, page=page),
    ]
    assert [extra_of(entry) for entry in entries] == ['{"v":1}' if mark else ""] * 3
    assert extra_of(wag.encode_link(url, 1)) == extra_of(PLAIN.encode_link(url, 1, page)) == ""
    assert entries[0].plain


def test_the_mark_is_a_matter_of_the_cost_policy():
    """And of no other one."""
    page = read(PLAIN, PLAIN.encode_link(URL, 0))
    found = [extra_of(codec(cost_policy=n).encode_link(URL, 1, page)) for n in (1, 2, 3, 4)]
    assert found == ["", "", '{"v":1}', ""]


def hop(page, *, embed, most=1, by="link"):
    """Return the entry of something found on *page*."""
    if by == "link":
        return PLAIN.encode_link(URL, 1, page, embed=embed, embed_hops=most)
    return PLAIN.encode_request(
        Request(URL, meta={"embed": True} if embed else {}, priority=5), SPIDER, page=page, embed_hops=most
    )


@pytest.mark.parametrize("by", ["link", "request"])
def test_what_a_page_shows_is_preferred(by):
    """Within so many hops; a link in between begins anew."""
    base = 0 if by == "link" else 5
    for most in (0, 1, 2):
        page = read(PLAIN, PLAIN.encode_link(URL, 0))
        for embed, embeds in ((True, 1), (True, 2), (True, 3), (False, 0), (True, 1)):
            entry = hop(page, embed=embed, most=most, by=by)
            assert entry.priority - base == int(0 < embeds <= most)
            page = read(PLAIN, entry)
            assert page.embeds == embeds
            assert page.priority == base
            assert ('"i"' in entry.data) is embed
            assert to_request(page, SPIDER).meta.get("embed", False) is embed
            again = PLAIN.encode_stored(URL, extra_of(entry) or None, 1, embed_hops=most)
            assert again.priority == (entry.priority if extra_of(entry) else 0)


def test_a_redirected_embed_is_no_further_from_its_page():
    """Its target takes its place."""
    page = read(PLAIN, hop(None, embed=True))
    request = to_request(page, SPIDER).replace(url="http://other.test/")
    target = PLAIN.encode_request(request, SPIDER, page=page, head=True)
    assert read(PLAIN, target).embeds == 1
    assert target.priority == 1


# --- tags -----------------------------------------------------------------------------------------


def test_seeds_are_tags_if_that_is_wanted():
    """The URL as it was asked for, without its login; all that is found from there inherits it."""
    tagging = codec(source_tag_seeds=True)
    request = Request("http://u:p@e.test/x#top")
    assert read(PLAIN, PLAIN.encode_request(request, SPIDER, seed=True)).tag is None
    assert read(tagging, tagging.encode_request(request, SPIDER)).tag is None
    seed = read(tagging, tagging.encode_request(request, SPIDER, seed=True))
    assert seed.tag == "http://e.test/x#top"
    link = read(tagging, tagging.encode_link(URL, 1, seed))
    assert link.tag == seed.tag
    asked = tagging.encode_request(Request(URL), SPIDER, page=link)
    assert read(tagging, asked).tag == seed.tag


def test_a_spider_may_set_a_tag():
    """It goes before what would be inherited, comes back in the meta, and must be a text."""
    tagging = codec(source_tag_seeds=True)
    page = read(PLAIN, PLAIN.encode_request(Request(URL, meta={"source_tag": "a"}), SPIDER))
    request = Request(URL, meta={"source_tag": "b"})
    for entry in (
        tagging.encode_request(request, SPIDER, seed=True),
        tagging.encode_request(request, SPIDER, page=page),
    ):
        assert entry.data.endswith('\n{"t":"b"}')
        assert to_request(read(tagging, entry), SPIDER).meta["source_tag"] == "b"
    with pytest.raises(UnserialisableRequest, match=r"meta key 'source_tag' must be a text$"):
        PLAIN.encode_request(Request(URL, meta={"source_tag": 5}), SPIDER)


def test_what_its_url_and_its_page_say_is_plain():
    """Only such a link can be known again by its URL alone."""
    page = read(
        PLAIN, PLAIN.encode_request(Request("http://u:p@www.example.org/", meta={"source_tag": "t"}), SPIDER)
    )
    assert PLAIN.encode_link(URL, 1, page, embed=True).plain
    assert not PLAIN.encode_link("http://u:p@www.example.org/", 1, page).plain


# --- crawl-delays ---------------------------------------------------------------------------------


async def test_a_queue_that_hosts_share_has_the_largest_of_their_crawl_delays(frontier):
    """In whatever order they are heard of; a host of its own has the last one that its robots.txt gave."""
    await frontier.schedule([grouped().encode_link("http://a.example/", 0), PLAIN.encode_link(URL, 0)])
    for seconds in (2, 5, 0, 3):
        await frontier.set_crawl_delay("farm", seconds * 1000, shared=True)
        await frontier.set_crawl_delay("www.example.org", seconds * 1000)
    assert (await frontier.host("farm")).min_interval_ms == 5000
    assert (await frontier.host("www.example.org")).min_interval_ms == 3000
