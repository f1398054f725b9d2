"""Pages that an earlier run has stored are asked for only if they have changed."""

from __future__ import annotations

import pytest

from tests.middlewares.answers import Answers, answering

DATE = "Wed, 21 Oct 2015 07:28:00 GMT"


def sent(site: Answers, path: str) -> list[tuple[str | None, str | None]]:
    return [(asked.get("If-None-Match"), asked.get("If-Modified-Since")) for asked in site.asked[path]]


@pytest.mark.parametrize("etag", ['"a"', 'W/"x"', '"x-gzip"', '"a,b"', '"é"', "unquoted", '"\xa0"'])
def test_etag_goes_out_byte_for_byte(etag: str) -> None:
    """Quotes, weakness and suffixes are the server's, and so are bytes above ASCII."""
    with answering() as site:
        (told,) = site.crawl({"url": site.add("/"), "validators": {"etag": etag}})
    wanted = etag if etag.isprintable() else None
    assert sent(site, "/") == [(wanted, None)]
    assert told["sent_validators"] is (wanted is not None)


def test_both_validators_go_out() -> None:
    """The server takes the one it prefers."""
    with answering() as site:
        (told,) = site.crawl({"url": site.add("/"), "validators": {"etag": '"a"', "last_modified": DATE}})
    assert sent(site, "/") == [('"a"', DATE)]
    assert (told["outcome"], told["text"], told["sent_validators"]) == ("callback 200", "text", True)
    assert told["headers"] == []


def test_not_modified_reaches_no_callback() -> None:
    """It ends in the errback with the answer, whose new ETag is not lost."""
    with answering() as site:
        url = site.add("/", 304, b"", ETag='"y"')
        every = {"url": url, "validators": {"etag": '"x"'}, "meta": {"handle_httpstatus_all": True}}
        (told,) = site.crawl(every)
    assert (told["outcome"], told["etag"], told["text"]) == ("NotModified", '"y"', None)
    assert told["health_signal"] is None


def test_page_without_validators_is_asked_for_as_it_is() -> None:
    """A page may be known and have none."""
    with answering() as site:
        (told,) = site.crawl({"url": site.add("/"), "validators": {}})
    assert sent(site, "/") == [(None, None)]
    assert told["sent_validators"] is False


def test_spiders_own_headers_stay() -> None:
    """Who sets one of them wants no other, and a 304 to it is the spider's to handle."""
    own = {"headers": {"If-None-Match": '"own"'}, "validators": {"etag": '"ours"', "last_modified": DATE}}
    with answering() as site:
        plain = {"url": site.add("/", 304, b""), **own}
        handled = {"url": site.add("/handled", 304, b""), "meta": {"handle_httpstatus_list": [304]}, **own}
        told = site.crawl(plain, handled)
    assert sent(site, "/") == sent(site, "/handled") == [('"own"', None)]
    assert [each["outcome"] for each in told] == ["HttpError", "callback 304"]
    assert [each["sent_validators"] for each in told] == [False, False]


def test_unasked_304_is_fetched_again_once() -> None:
    """The first one goes back to the frontier; a later one is what it is."""
    with answering() as site:
        first = {"url": site.add("/first", 304, b"")}
        second = {"url": site.add("/second", 304, b""), "attempts": 1}
        told = site.crawl(first, second)
    assert [(each["outcome"], each["reason"]) for each in told] == [
        ("RetryLater", "unasked_304"),
        ("HttpError", None),
    ]


def test_validators_do_not_follow_a_redirect() -> None:
    """They belong to one URL; sent to another, they could make it look unchanged."""
    with answering() as site:
        target = site.add("/new")
        old = site.add("/old", 302, b"", Location=target)
        (told,) = site.crawl({"url": old, "validators": {"etag": '"old"'}})
    assert sent(site, "/old") == [('"old"', None)]
    assert told["url"] == target
    assert told["redirected_with"] == []


def test_request_without_a_lease_is_left_alone() -> None:
    """A download through the engine has no stored content to compare with."""
    with answering() as site:
        site.crawl({"url": site.add("/"), "leased": False, "validators": {"etag": '"a"'}})
    assert sent(site, "/") == [(None, None)]
