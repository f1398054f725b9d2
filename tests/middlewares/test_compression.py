"""A compressed body that ends early is no page."""

from __future__ import annotations

import gzip
import zlib

import brotli
import pytest
import zstandard

from tests.middlewares.answers import answering

TEXT = b"".join(b"<p>Paragraph %d is not like the others.</p>\n" % n for n in range(2000))
BODIES = {
    "gzip": gzip.compress(TEXT),
    "deflate": zlib.compress(TEXT),
    "br": brotli.compress(TEXT),
    "zstd": zstandard.compress(TEXT),
}


def test_whole_and_cut_bodies_with_a_real_engine() -> None:
    """A whole page is a page in every encoding; half of one is a failure that is tried again."""
    with answering() as site:
        whole = [
            site.add(f"/whole/{name}", body=body, Content_Encoding=name) for name, body in BODIES.items()
        ]
        cut = [
            site.add(f"/cut/{name}", body=body[: len(body) * 4 // 5], Content_Encoding=name)
            for name, body in BODIES.items()
        ]
        last = {"url": site.add("/last", body=BODIES["gzip"][:-9], Content_Encoding="gzip"), "attempts": 4}
        told = site.crawl(*whole, *cut, last)
    assert [each["outcome"] for each in told[:4]] == ["callback 200"] * 4
    assert all("Paragraph 1999" in each["text"] for each in told[:4])
    assert [(each["outcome"], each["reason"]) for each in told[4:8]] == [("RetryLater", "truncated")] * 4
    assert (told[8]["outcome"], told[8]["text"]) == ("ResponseDataLossError", None)


@pytest.mark.parametrize("by", ["setting", "meta"])
def test_half_a_page_is_passed_to_who_wants_it(by: str) -> None:
    """With Scrapy's word for it, the spider gets what there is."""
    with answering() as site:
        page = {"url": site.add("/", body=BODIES["gzip"][:-50], Content_Encoding="gzip")}
        if by == "meta":
            page["meta"] = {"download_fail_on_dataloss": False}
        (told,) = site.crawl(page, **({"DOWNLOAD_FAIL_ON_DATALOSS": False} if by == "setting" else {}))
    assert told["outcome"] == "callback 200"
    assert "Paragraph 1000 " in told["text"]
