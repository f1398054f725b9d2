"""Which URLs a crawl lets in."""

from __future__ import annotations

import pytest

from crawlproj.crawls.admission import Admission
from crawlproj.exceptions import BadArgument
from crawlproj.url_rules import read_rules


def refusal(url: str, depth: int = 0, *, embed: bool = False, **config: object) -> str | None:
    return Admission.from_config(config).refusal(url, depth, embed=embed)


@pytest.mark.parametrize(
    ("rule", "matched", "others"),
    [
        (
            "example.org",
            ["https://example.org/", "http://www.example.org:81/a", "https://Example.ORG./", "http://a.b.example.org"],
            ["https://notexample.org/", "https://example.org.evil.example/", "https://other.example/example.org"],
        ),
        (
            "*.example.org",
            ["https://www.example.org/", "https://a.b.example.org?q=/"],
            ["https://example.org/"],
        ),
        (
            "example.org:8080",
            ["http://example.org:8080/", "https://www.example.org:8080/"],
            ["http://example.org/", "http://example.org:80801/"],
        ),
        ("Example.org:443", ["https://example.org/"], ["http://example.org/"]),
        ("*.example.org:80", ["http://www.example.org/"], ["http://example.org/", "https://www.example.org/"]),
        ("bücher.example", ["https://xn--bcher-kva.example/", "https://www.BÜCHER.example/"], ["https://bucher.example/"]),
        ("xn--bcher-kva.example", ["https://bücher.example/"], []),
        ("localhost", ["http://localhost:7180/"], ["http://127.0.0.1:7180/"]),
        ("127.0.0.1:7180", ["http://127.0.0.1:7180/"], ["http://127.0.0.1:7181/"]),
        (r"/a,b/\d+", ["https://example.org/a,b/12"], ["https://example.org/a/12"]),
        ("(?i)LOGOUT", ["https://example.org/logout?x"], ["https://example.org/login"]),
        (r"^https://example\.org/", ["https://user:word@example.org/"], ["http://example.org/"]),
    ],
)  # fmt: skip
def test_what_a_rule_matches(rule, matched, others):
    """A domain matches itself and what is below it, on its port; everything else is searched in the URL."""
    for url in matched:
        assert refusal(url, deny=[rule]) == f"denied by rule 1: {rule}"
        assert refusal(url, allow=[rule]) is None
    for url in others:
        assert refusal(url, deny=[rule]) is None
        assert refusal(url, allow=[rule]) == "allowed by no rule"


def test_deny_goes_first():
    """What is denied stays out though it is allowed; one allowing rule is enough; refusals name theirs."""
    rules = {"allow": ["example.org", "/en/"], "deny": ["private.example.org", r"\.pdf$", "(print)"]}
    assert refusal("https://example.org/a", **rules) is None
    assert refusal("https://other.example/en/a", **rules) is None
    assert refusal("https://other.example/fr/a", **rules) == "allowed by no rule"
    assert refusal("https://example.org/en/a.pdf", **rules) == r"denied by rule 2: \.pdf$"
    assert refusal("https://private.example.org/print", **rules) == "denied by rule 1: private.example.org"


@pytest.mark.parametrize(
    ("most", "depth", "embed", "said"),
    [
        (None, 99, False, None),
        (0, 0, False, None),
        (0, 1, False, "no seed"),
        (0, 1, True, None),
        (2, 2, False, None),
        (2, 3, False, "deeper than 2 links from a seed"),
        (2, 3, True, None),
        (2, 4, True, "deeper than 2 links from a seed"),
    ],
)
def test_depth(most, depth, embed, said):
    """Seeds have depth 0; what a page shows may be one deeper than pages are."""
    assert refusal("https://example.org/", depth, embed=embed, max_depth=most) == said


@pytest.mark.parametrize(
    ("given", "rules"),
    [
        (None, ()),
        ("", ()),
        ("a.example\n\n  # not b\n/x,y/\na.example\n", ("a.example", "/x,y/")),
        ('["a.example", "/x\\\\d/", ""]', ("a.example", r"/x\d/")),
        ("[0-9]{5}", ("[0-9]{5}",)),
        (["b.example", " a.example ", "b.example", "#"], ("b.example", "a.example")),
        (("a.example",), ("a.example",)),
    ],
)
def test_lists_of_rules(given, rules):
    """Rules come as a list, as JSON or a line each; order stays, nothing comes twice, comments go."""
    assert read_rules(given) == rules


@pytest.mark.parametrize("given", [7, True, {"a": 1}, [1]])
def test_what_is_no_list_of_rules(given):
    """A value of any other kind is refused."""
    with pytest.raises(BadArgument, match="deny: a list of rules"):
        Admission.from_config({"deny": given})


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("(", "is no regular expression: missing"),
        ("[a-", "is no regular expression"),
        ("a{99999999999}x/", "is no regular expression"),
        (".*logout", "is no domain; in a regular expression"),
        ("*", "is no domain"),
        ("a.*.example", "is no domain"),
        ("example.org:", "is no domain"),
        ("example.org:99999", "is no domain"),
    ],
)
def test_bad_rule(rule, why):
    """A rule that would match nothing by mistake is refused, and told with what is wrong with it."""
    with pytest.raises(BadArgument) as error:
        Admission.from_config({"allow": ["ok.example", rule]})
    assert repr(rule) in str(error.value)
    assert why in str(error.value)


@pytest.mark.parametrize("depth", [-1, 1.5, "2", True])
def test_bad_depth(depth):
    """A depth is a whole number, at least 0, or None."""
    with pytest.raises(BadArgument, match="max_depth"):
        Admission.from_config({"max_depth": depth})


def test_open():
    """Without any rule nobody need ask."""
    assert Admission.from_config({}).is_open
    assert Admission.from_config({"allow": [], "deny": "# none", "max_depth": None}).is_open
    assert not Admission.from_config({"max_depth": 0}).is_open
    assert not Admission.from_config({"deny": ["a.example"]}).is_open
