"""Rules that say which URLs are one: each makes one of what it names, and of nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlproj.exceptions import BadSetting
from crawlproj.frontier.canonical import canonical, normalise
from crawlproj.frontier.rules import DEFAULT, RULES, canonicaliser, in_order

HEX = "0123456789abcdef0123456789ABCDEF"
ASP = "ABCDEFGHIJKLMNOPQRSTUVWX"
HERE = "http://e.test"

#: rule -> spellings of one resource
ONE = {
    "scheme": [("http://e.test/a", "https://e.test/a")],
    "www": [
        ("http://example.org/", "http://www.example.org/", "http://www2.example.org/"),
        ("http://www.www.example.org/", "http://example.org/"),
        ("http://www.example.co.uk:8080/a", "http://example.co.uk:8080/a"),
        ("http://www.intra.corp/", "http://intra.corp/"),
    ],
    "escapes": [("/%7euser", "/%7Euser", "/~user"), ("/?%c3%bc", "/?%C3%BC")],
    "lowercase_path": [("/A/b", "/a/B"), ("/%C3%9C", "/%c3%9c")],
    "session_ids": [
        ("/a", f"/a;jsessionid={HEX}", f"/a;JSESSIONID={HEX}.node1", f"/a;jsessionid={HEX}!-17!42"),
        ("/a/b", f"/a;jsessionid={HEX}/b"),
        ("/a;v=1", f"/a;jsessionid={HEX};v=1"),
        ("/a", f"/a?PHPSESSID={HEX}", "/a?phpsessid=q2n5vd1f7k8s9t0u3w4x5y6z7a"),
        ("/a?b=1&c=2", f"/a?b=1&sid={HEX}&c=2", f"/a?b=1&c=2&jsessionid={HEX}"),
        ("/a", f"/a?ASPSESSIONIDQSCBTQRT={ASP}"),
        ("/a?x", "/a?CFID=304&x&CFTOKEN=44af8e-b3", "/a?cftoken=1&cfid=2&x"),
        ("/app/x.aspx", f"/app/(S({ASP.lower()}))/x.aspx"),
    ],
    "trailing_slash": [("/a", "/a/", "/a//"), ("/a?b", "/a/?b")],
    "tracking": [
        ("/a", "/a?utm_source=x", "/a?utm_source=x&UTM_Medium=y&gclid=1&fbclid=2", "/a?_ga=1"),
        ("/a?b=1&c=2", "/a?b=1&utm_campaign=x&c=2", "/a?msclkid=1&b=1&c=2"),
    ],
    "query_order": [("/?a&b", "/?b&a")],
    "empty_query": [("/a", "/a?")],
}

#: rule -> what only looks like one resource
SEVERAL = {
    "scheme": [("http://e.test/a", "http://e.test:8443/a", "http://e.test/b")],
    "www": [
        ("http://www.com/", "http://com/"),
        ("http://www.corp/", "http://corp/"),
        ("http://www.co.uk/", "http://co.uk/"),
        ("http://www/", "http://www2/"),
        ("http://wwww.example.org/", "http://wwwx.example.org/", "http://example.org/"),
        ("http://a.www.example.org/", "http://a.example.org/"),
        ("http://www.example.org:81/", "http://example.org/"),
    ],
    "escapes": [("/a%2Fb", "/a/b"), ("/?a%26b", "/?a&b"), ("/%25", "/%")],
    "lowercase_path": [("/a?Q", "/a?q")],
    "session_ids": [
        ("/a?sid=5", "/a?sid=6", "/a"),
        (f"/a?sid={HEX}0", "/a"),
        (f"/a?nosid={HEX}", "/a"),
        (f"/a?x=sid={HEX}", "/a"),
        (f"/jsessionid={HEX}", "/"),
        ("/a;jsessionid=short", "/a"),
        (f"/a?id={HEX}", "/a"),
        ("/a?cfid=1", "/a"),
        ("/a?cftoken=1", "/a?cftoken=2"),
        ("/(x(0))/b", "/b"),
        (f"/f(S({ASP}))/b", "/f/b", "/b"),
        (f"/a;jsessionid={HEX}%20b", "/a%20b"),
        ("/a?phpsessid=1", "/a"),
    ],
    "trailing_slash": [("/", "/a/"), ("/a?b/", "/a?b")],
    "tracking": [
        ("/?utm_zone=33&utm_easting=1", "/?utm_zone=34&utm_easting=1", "/"),
        ("/?xgclid=1", "/"),
        ("/?a=gclid", "/?a=fbclid"),
        ("/gclid=1", "/"),
        ("/a?", "/a"),
    ],
    "query_order": [("/?a=1&a=2", "/?a=1"), ("/a&b", "/b&a")],
    "empty_query": [("/a?b", "/a"), ("/a?&", "/a"), ("/?=", "/")],
}


def names(rules, urls):
    """Return the canonical forms of URLs; a path is one of e.test."""
    apply = canonicaliser(rules)
    return {apply(normalise(url if "://" in url else HERE + url)) for url in urls}


def test_every_rule_has_its_tables():
    """What follows leaves none out."""
    assert set(ONE) == set(SEVERAL) == set(RULES)


@pytest.mark.parametrize(("rule", "urls"), [(rule, urls) for rule in ONE for urls in ONE[rule]])
def test_one_resource(rule, urls):
    """The rule makes one of them, alone and among all others; without it they differ."""
    assert len(names([rule], urls)) == 1
    assert len(names(list(RULES), urls)) == 1
    assert len(names([], urls)) > 1


@pytest.mark.parametrize(("rule", "urls"), [(rule, urls) for rule in SEVERAL for urls in SEVERAL[rule]])
def test_several_resources(rule, urls):
    """What only looks alike stays apart."""
    assert len(names([rule], urls)) == len(urls)


WORDS = st.sampled_from(
    (
        *("a", "A", "%", "%7e", "%41", "?", "&", "=", "/", "//", "é", "é%", ".", "www.", "utm_source"),
        *(f"sid={HEX}", f";jsessionid={HEX}", f"(S({ASP}))", "cfid=1", "cftoken=2"),
    )
)


@given(st.lists(WORDS, max_size=8), st.sets(st.sampled_from(tuple(RULES))))
def test_a_canonical_form_is_its_own(words, rules):
    """Whatever rules there are, applying them again changes nothing, and it is a URL still."""
    apply = canonicaliser(rules)
    name = apply(normalise("http://www.www2.example.org/" + "".join(words)))
    assert apply(name) == name
    assert name.startswith(("http://www.www2.", "http://example.org/"))


@given(st.lists(WORDS, max_size=8))
def test_the_default_rules_the_short_way(words):
    """The default is a function of its own; rule by rule it comes to the same."""
    wire = normalise("http://u@e.test.:81/" + "".join(words))
    default = canonicaliser(DEFAULT)
    assert default is canonical
    one_by_one = canonicaliser(["escapes"]), canonicaliser(["query_order"])
    assert default(wire) == one_by_one[1](one_by_one[0](wire))


def test_the_order_is_fixed():
    """In whatever order, and how often, rules are named."""
    assert in_order(["empty_query", "www", "www", "scheme"]) == ("scheme", "www", "empty_query")
    with pytest.raises(
        BadSetting, match=r"FRONTIER_CANONICAL_RULES must be some of scheme, www.* not 'nonsense'"
    ):
        canonicaliser(["www", "nonsense"])
