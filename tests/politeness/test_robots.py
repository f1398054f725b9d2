"""What a robots.txt says."""

from __future__ import annotations

import zlib

import pytest

from crawlproj.politeness.robots import (
    MAX_BYTES,
    Finding,
    RobotsFile,
    Rules,
    from_answer,
    lifetime,
)

AGENT = "crawlproj (+https://crawlproj.invalid)"


@pytest.mark.parametrize(
    ("status", "finding"),
    [
        (200, Finding.RULES),
        (206, Finding.RULES),
        (301, Finding.ABSENT),  # a redirect that could not be followed
        (400, Finding.ABSENT),
        (401, Finding.ABSENT),
        (403, Finding.ABSENT),
        (404, Finding.ABSENT),
        (410, Finding.ABSENT),
        (429, Finding.UNREACHABLE),
        (500, Finding.UNREACHABLE),
        (503, Finding.UNREACHABLE),
        (599, Finding.UNREACHABLE),
    ],
)
def test_every_status_has_a_meaning(status: int, finding: Finding) -> None:
    """4xx: there is none, everything is allowed. 5xx and "too many requests": nothing is, for now."""
    assert from_answer(status, b"User-agent: *\nDisallow: /").finding is finding


@pytest.mark.parametrize("finding", list(Finding))
def test_nothing_is_allowed_where_nobody_could_say(finding: Finding) -> None:
    """An absent file forbids nothing, one that cannot be had everything."""
    allowed = finding in {Finding.RULES, Finding.ABSENT, Finding.SKIPPED}
    assert Rules(RobotsFile(finding=finding)).allows("http://e.test/x", AGENT) is allowed


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("http://e.test/", True),
        ("http://e.test/private/1", False),
        ("http://e.test/private/but/this", True),
        ("http://e.test/a/b.pdf", False),
        ("http://e.test/a/b.pdf?x=1", True),
    ],
)
def test_rules_are_obeyed(url: str, allowed: bool) -> None:
    """The longest match counts; * and $ mean what they do."""
    body = b"User-agent: *\nDisallow: /private\nAllow: /private/but\nDisallow: /*.pdf$\n"
    assert Rules(from_answer(200, body)).allows(url, AGENT) is allowed


def test_the_group_of_our_own_name_counts() -> None:
    """And with it, its crawl-delay."""
    body = b"User-agent: *\nDisallow: /\n\nUser-agent: crawlproj\nCrawl-delay: 3\nDisallow: /no\n"
    rules = Rules(from_answer(200, body))
    assert rules.allows("http://e.test/x", AGENT)
    assert not rules.allows("http://e.test/x", "other/1.0")
    assert rules.crawl_delay(AGENT) == 3
    assert rules.crawl_delay("other/1.0") is None


@pytest.mark.parametrize("delay", [b"-1", b"nan", b"inf", b"soon", b""])
def test_a_crawl_delay_that_is_none_is_none(delay: bytes) -> None:
    """A site's typing error neither stops nor floods it."""
    rules = Rules(from_answer(200, b"User-agent: *\nCrawl-delay: " + delay + b"\nDisallow: /x\n"))
    assert rules.crawl_delay(AGENT) is None


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff\xfe\x00", b"<html><body>not found</body></html>", b"\x00" * 1000, b"Disallow: /\n"],
)
def test_rubbish_forbids_nothing(body: bytes) -> None:
    """Also a rule without a user agent before it."""
    assert Rules(from_answer(200, body)).allows("http://e.test/x", AGENT)


def test_a_byte_order_mark_does_not_hide_the_first_line() -> None:
    """Editors put it there."""
    rules = Rules(from_answer(200, b"\xef\xbb\xbfUser-agent: *\nDisallow: /x\n"))
    assert not rules.allows("http://e.test/x", AGENT)


def test_a_long_file_is_cut_between_lines() -> None:
    """Half a rule would be another rule: `Disallow: /` instead of `Disallow: /private`."""
    head = b"User-agent: *\nDisallow: /first\n"
    rule = b"Disallow: /private"
    comment = b"#" * (MAX_BYTES - len(head) - len(rule) + len(b"private") - 1) + b"\n"
    body = head + comment + rule + b"\nDisallow: /last\n"
    file = from_answer(200, body)
    assert body[:MAX_BYTES].endswith(b"\nDisallow: /")
    assert file.body == head + comment
    rules = Rules(file)
    assert not rules.allows("http://e.test/first", AGENT)
    assert rules.allows("http://e.test/other", AGENT)


def test_one_endless_line_says_nothing() -> None:
    """There is no whole line to read."""
    assert from_answer(200, b"x" * (MAX_BYTES + 1)).body == b""


@pytest.mark.parametrize("finding", list(Finding))
@pytest.mark.parametrize("body", [b"", b"User-agent: *\nDisallow: /\xff\n" * 100])
def test_what_is_kept_is_what_was_found(finding: Finding, body: bytes) -> None:
    """Packing and unpacking change nothing."""
    file = RobotsFile(finding=finding, body=body)
    assert RobotsFile.unpack(file.pack()) == file


@pytest.mark.parametrize(
    "data", [b"", b"rules", b"\n", b"other\n", b"rules\nnot packed", b"\x80\x04\x95.", b"\xff\n"]
)
def test_what_is_none_of_ours_is_refused(data: bytes) -> None:
    """Whatever lies under our key: it is data, and bad data is seen as such."""
    assert RobotsFile.unpack(data) is None


def test_a_bomb_in_redis_stays_small() -> None:
    """No more is unpacked than was ever packed."""
    file = RobotsFile.unpack(b"rules\n" + zlib.compress(b"x" * 50_000_000))
    assert file is not None
    assert len(file.body) == MAX_BYTES


@pytest.mark.parametrize(
    ("finding", "seconds"),
    [
        (Finding.RULES, 86_400),
        (Finding.ABSENT, 86_400),
        (Finding.UNREACHABLE, 60),
        (Finding.UNRESOLVED, 1),
        (Finding.REFUSED, 1),
        (Finding.BROKEN, 1),
        (Finding.SKIPPED, 1),
    ],
)
def test_how_long_a_finding_is_good(finding: Finding, seconds: float) -> None:
    """An answer for a day, "not now" for a minute, no answer only for those who waited for it."""
    assert lifetime(finding, keep_seconds=86_400, retry_seconds=60) == seconds
