from __future__ import annotations

from dataclasses import replace

import pytest
import zstandard

from crawlproj.frontier.codec import Codec
from crawlproj.frontier.entries import Entry
from crawlproj.items import FetchStatus, ScheduleStatus
from crawlproj.pages import record, rows
from crawlproj.pages.record import Packer
from tests.pages.pages import done, failed


def test_object_id_depends_on_crawl_page_and_body():
    """An object is a content of a page of a crawl, whenever and by whomever it was fetched."""
    page = done()
    first = Packer("news").row(page)
    assert Packer("news").row(replace(page, depth=7, headers=(), outlinks=())).object_id == first.object_id
    others = {
        Packer("other").row(page).object_id,
        Packer("news").row(replace(page, key=b"k" * 16)).object_id,
        Packer("news").row(replace(page, body=b"x")).object_id,
    }
    assert len(others | {first.object_id}) == 4
    assert len(first.object_id or b"") == 16


def test_cells_fit_the_columns():
    """A row has one cell per array of the statement, with an object and without."""
    for page in (done(), failed()):
        assert len(Packer("news").row(page).cells) == len(record.COLUMNS)


def test_recovery_log_keeps_what_a_link_needs():
    """A plain link is its URL; one that is more than that keeps the rest of its queue entry, or its depth."""
    codec = Codec()
    tagged = codec.decode("b.example", b'h1/\n{"t":"tag"}')
    entries = [
        codec.encode_link("https://a.example/1", 2),
        codec.encode_link("https://b.example/2?x=\u00e9", 2, tagged),
        Entry("https://a.example/3", "a.example", 3, 's2/3\n{"M":"POST"}'),
        codec.encode_link("https://a.example/4", 0),
        codec.encode_link("https://b.example/5", 12, tagged),
    ]
    packed = zstandard.compress(record.recovery_log(entries, depth=2))
    assert rows.links(packed) == [
        rows.Link(url=entry.url, extra=entry.data.partition("\n")[2] or None, depth=depth)
        for entry, depth in zip(entries, (None, None, None, 0, 12), strict=True)
    ]
    assert [link.extra is None for link in rows.links(packed)] == [True, False, False, True, False]
    assert rows.links(None) == []


def test_minimal_page_keeps_its_outlinks():
    """A page that cannot be stored has failed, but the links on it are still followed."""
    page = record.minimal(done(outlinks=("a", "b")), "why " * 1000)
    assert (page.fetch_status, page.schedule_status) == (FetchStatus.FAILED, ScheduleStatus.FAILED)
    assert page.outlinks == ("a", "b")
    assert len(page.detail or "") == 1000


@pytest.mark.parametrize("name", ["ETag", "etag", "ETAG"])
def test_header_names_have_no_case(name):
    """Validators are found however the server writes the header's name."""
    cells = dict(
        zip(
            [column for column, _ in record.COLUMNS],
            Packer("n").row(done(headers=((name, "x"),))).cells,
            strict=True,
        )
    )
    assert cells["etag"] == b"\0\0\0\1x"
