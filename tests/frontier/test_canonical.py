"""How URLs are normalised, compared and given to hosts."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crawlproj.exceptions import BadUrl
from crawlproj.frontier.canonical import (
    MAX_URL_LENGTH,
    authority,
    canonical,
    fingerprint,
    host_key,
    join,
    normalise,
    page_key,
)

HOSTS = st.sampled_from(["e.test", "E.Test.", "bücher.test", "[::1]", "[0:0:0:0:0:0:0:1]", "127.1", "a..b"])
PORTS = st.sampled_from(["", ":80", ":443", ":8080", ":0"])
TAILS = st.text(st.sampled_from("aB1/%4273eEfF25?&=.;#+ \\é\t~") | st.characters(), max_size=30)
URLS = st.builds(
    "{}://{}{}{}/{}".format,
    st.sampled_from(["http", "https", "HTTP"]),
    st.sampled_from(["", "u@", "u:p@"]),
    HOSTS,
    PORTS,
    TAILS,
)


def wire_or_none(url):
    try:
        return normalise(url)
    except BadUrl:
        return None


@pytest.mark.parametrize(
    ("url", "wire"),
    [
        ("HTTP://E.Test:80", "http://e.test/"),
        ("https://e.test:443/a", "https://e.test/a"),
        ("http://e.test?x=1", "http://e.test/?x=1"),
        ("http://e.test#f", "http://e.test/"),
        ("http://e.test/a#b#c", "http://e.test/a"),
        ("http://e.test/a/../b/./c", "http://e.test/b/c"),
        ("http://e.test\\a", "http://e.test/a"),
        (" \n http://e.test/a\tb ", "http://e.test/ab"),
        ("http://e.test/a b", "http://e.test/a%20b"),
        ("http://e.test/é?é", "http://e.test/%C3%A9?%C3%A9"),
        ("http://e.test/a\u00a0", "http://e.test/a%C2%A0"),  # a space to Python, not to a browser
        ("http://u:p@e.test/", "http://u:p@e.test/"),
        ("http://e.test/%7euser/%2f", "http://e.test/%7euser/%2f"),  # as it was written
        ("http://e.test/?b=2&a=1", "http://e.test/?b=2&a=1"),
        ("http://e.test/?", "http://e.test/?"),
    ],
)
def test_wire(url, wire):
    """What is requested is what a browser would request."""
    assert normalise(url) == wire


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "no url",
            "//e.test/",
            "/path",
            "http://",
            "http://./",
            "http://../",
            "http://.:8080/x",
            "http://u@/",
        ),
        *("http://a b/", "http://e.test:65536/", "http://[::1", "http://e.test/\ud800"),
        *("file:///etc/hostname", "file://e.test/etc/hostname", "ftp://e.test/x", "data:text/html,hi"),
        *("view-source:http://e.test/", "chrome://version", "javascript:alert(1)", "mailto:a@e.test"),
        "http://e.test/" + "a" * MAX_URL_LENGTH,
    ],
)
def test_what_cannot_be_crawled(url):
    """Only http and https, only with a host, and nothing of endless length; said in one sentence."""
    with pytest.raises(BadUrl) as caught:
        normalise(url)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "url",
    [
        "http://u:secret@",
        "http://u:secret@e.test:99999/",
        "http://u:secr/et@e.test/",
        "ftp://u:secret@e.test/",
        "http://u:secret@./",
    ],
)
def test_a_refusal_shows_no_password(url):
    """What is wrong with a URL can be said without it."""
    with pytest.raises(BadUrl) as caught:
        normalise(url)
    assert "secr" not in str(caught.value)


@pytest.mark.parametrize(
    ("link", "wire"),
    [("b?c", "http://e.test/x/b?c"), ("//o.test", "http://o.test/"), ("?q", "http://e.test/x/y?q")],
)
def test_join(link, wire):
    """A link is resolved as a browser does."""
    assert join("http://e.test/x/y", link) == wire


def test_join_refuses_what_leaves_the_web():
    """A link to another scheme is no page."""
    with pytest.raises(BadUrl):
        join("http://e.test/", "javascript:void(0)")


@pytest.mark.parametrize(
    ("urls", "key"),
    [
        (
            ["http://bücher.test/", "http://xn--bcher-kva.test/", "http://BÜCHER.test./x"],
            "xn--bcher-kva.test",
        ),
        (
            [
                "http://e.test:80/",
                "http://e.test/",
                "http://e.test?x=1",
                "http://e.test#f",
                "https://e.test:443/",
            ],
            "e.test",
        ),
        (["http://[::1]:8080/", "http://[0:0:0:0:0:0:0:1]:8080/"], "[::1]:8080"),
        (["http://u:p@e.test:8080/", "http://e.test.:8080/", "https://e.test:8080/@x"], "e.test:8080"),
        (["http://127.0.0.1/", "http://0x7f.1/", "http://127.1./"], "127.0.0.1"),
        (["http://a*b/", "http://A*B"], "a*b"),
    ],
)
def test_host_key(urls, key):
    """One queue per real host, however it is spelled."""
    assert {host_key(normalise(url)) for url in urls} == {key}


SAME = [
    ("http://e.test:80/", "http://e.test/"),
    ("http://u:p@e.test/a", "http://e.test/a"),
    ("http://e.test./a", "http://e.test/a"),
    ("http://e.test/%7Euser", "http://e.test/~user"),
    ("http://e.test/%e4", "http://e.test/%E4"),
    ("http://e.test/?a=1&b=2", "http://e.test/?b=2&a=1"),
    ("http://e.test/a#x", "http://e.test/a"),
    ("http://bücher.test/", "http://xn--bcher-kva.test/"),
]
DIFFERENT = ["x%26y", "x&y", "x%23y", "x%25", "x", "X", "x/", "x%2F", "l?a", "l?a=", "l?", "l", "x%2526y"]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_one_resource(one, other):
    """Spellings of one resource have one name."""
    assert canonical(normalise(one)) == canonical(normalise(other))


def test_different_resources():
    """What a server may answer differently keeps a name of its own."""
    urls = [f"http://e.test/{tail}" for tail in DIFFERENT]
    urls += ["https://e.test/x", "http://e.test:8080/x", "http://www.e.test/x"]
    names = {canonical(normalise(url)) for url in urls}
    assert len(names) == len(urls)
    assert len({fingerprint(name) for name in names}) == len({page_key(name) for name in names}) == len(urls)


@given(URLS)
@example("http://e.test/%%34%31")
@example("http://e.test/%a%34")
def test_forms_are_stable(url):
    """Both forms of either form are itself."""
    wire = wire_or_none(url)
    if wire is None:
        return
    name = canonical(wire)
    assert normalise(wire) == wire
    assert canonical(name) == name
    assert host_key(name) == host_key(wire) == authority(name)


@given(URLS)
def test_comparing_forgets_nothing_a_server_could_see(url):
    """Decoded, the canonical form has the bytes of the wire form; the query's parts may change places."""
    wire = wire_or_none(url)
    if wire is None:
        return
    before, after = urlsplit(wire), urlsplit(canonical(wire))
    assert unquote_to_bytes(after.path) == unquote_to_bytes(before.path)
    assert after.path.count("/") == before.path.count("/")
    parts = [sorted(map(unquote_to_bytes, query.split("&"))) for query in (before.query, after.query)]
    assert parts[0] == parts[1]
    assert after.scheme == before.scheme


@given(URLS)
def test_the_wire_form_keeps_escapes_and_order(url):
    """What was already escaped or ordered is requested as it was written."""
    wire = wire_or_none(url)
    if wire is not None:
        query = url.partition("#")[0].partition("?")[2]
        written = [part for part in query.split("&") if part.isascii() and part.isalnum()]
        assert [part for part in wire.partition("?")[2].split("&") if part in written] == written


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_anything_else_is_refused_not_crashed_on(text):
    """Any text is a URL or a BadUrl."""
    wire = wire_or_none(text)
    if wire is not None:
        assert canonical(wire).startswith(("http://", "https://"))
        assert host_key(wire)


def test_method_and_body_make_another_page():
    """A form's answer is a page of its own; an empty GET is the plain one."""
    url = "http://e.test/"
    keys = {
        page_key(url),
        page_key(url, "POST"),
        page_key(url, "POST", b"a"),
        page_key(url, "POST", b"b"),
        page_key(url, "GET", b"a"),
    }
    assert len(keys) == 5
    assert {len(key) for key in keys} == {16}
    assert page_key(url) == page_key(url, "GET", b"")


def test_fingerprints_fit_the_filter():
    """They are signed 64-bit numbers, spread over the whole range."""
    numbers = [fingerprint(f"http://e.test/{n}") for n in range(200)]
    assert all(-(2**63) <= number < 2**63 for number in numbers)
    assert min(numbers) < -(2**61)
    assert max(numbers) > 2**61
