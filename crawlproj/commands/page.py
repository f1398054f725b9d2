"""`scrapy page`: one page's story, or why there is none."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from crawlproj import cli
from crawlproj.commands.pages import SHORT_ID, shaped
from crawlproj.exceptions import BadArgument, NotFound, WrongUsage
from crawlproj.items import ScheduleStatus
from crawlproj.output import (
    Output,
    ago,
    duration,
    flat,
    harmless,
    is_terminal,
    moment,
    number,
    one_line,
    size,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from psycopg import Connection

    from crawlproj.config import Config
    from crawlproj.connections import Addresses
    from crawlproj.frontier.codec import Codec
    from crawlproj.pages.rows import Content

_MORE = (
    "host",
    "detail",
    "redirect_to",
    "content_id",
    "content_status",
    "etag",
    "last_modified",
    "next_fetch_at",
)
_SEVERAL = 20
_ID_DIGITS = 32


class Command(cli.Command):
    """Tell the story of one page."""

    json = True
    usage = "URL|ID [--crawl NAME] [--text | --body] [--json]"
    summary = "Tell the story of one page, or why it was never fetched"
    details = (
        "ID is that of a page or of a page object, or its first digits. Without --crawl, the crawl that\n"
        "touched the page last. --text and --body print what stands as the page's content: the last good\n"
        "answer, which a later failure does not replace. Exit code 3 if there is no such page."
    )
    examples = (
        "scrapy page https://m.example.hk/about",
        "scrapy page 7f2a9c --crawl news --text",
        "scrapy page https://m.example.hk/logo.png --body > logo.png",
    )
    arguments = (1, 1)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add what is to be printed."""
        super().add_options(parser)
        parser.add_argument("--crawl", metavar="NAME", help="the crawl's name or number")
        content = parser.add_mutually_exclusive_group()
        content.add_argument("--text", action="store_true", help="print its main text")
        content.add_argument("--body", action="store_true", help="print its body, byte for byte")

    def work(self, args: list[str], opts: argparse.Namespace) -> int | None:
        """Find the page and print what is asked for."""
        if opts.json and (opts.text or opts.body):
            raise WrongUsage("--json has neither text nor body: leave it out")
        codec = _codec(self.config)
        digits = _digits(codec, args[0])
        with self.database() as connection:
            page, others = _find(connection, digits, opts.crawl)
            if page is None:
                addresses = self.addresses()
                raise NotFound(asyncio.run(_absence(addresses, connection, codec, args[0], opts.crawl)))
            if opts.text:
                _print_text(_content(connection, page))
            elif opts.body:
                _print_body(_body(_content(connection, page), self.config))
            else:
                _tell(Output(as_json=opts.json), connection, page, others)
        return None


def _codec(config: Config) -> Codec:
    from crawlproj.frontier.codec import Codec  # noqa: PLC0415  # keeps `scrapy` quick to start

    return Codec.from_config(config)


def _digits(codec: Codec, word: str) -> str:
    """Return the id, or its first digits, that a URL or an id means. Raises BadUrl."""
    from crawlproj.frontier.canonical import normalise  # noqa: PLC0415  # keeps `scrapy` quick to start

    if 0 < len(word) <= _ID_DIGITS and set(word.lower()) <= set("0123456789abcdef"):
        return word.lower()
    return codec.page_key(normalise(word)).hex()


def _find(
    connection: Connection[Any], digits: str, crawl: str | None
) -> tuple[dict[str, Any] | None, list[str]]:
    """Return the page, and the names of the other crawls that have it."""
    from crawlproj.crawls.rows import find_crawl  # noqa: PLC0415  # keeps `scrapy` quick to start
    from crawlproj.pages.rows import find_pages  # noqa: PLC0415

    name = find_crawl(connection, crawl).name if crawl is not None else None
    found = find_pages(connection, digits, crawl_name=name)
    if len({page["id"] for page in found}) > 1:
        raise BadArgument(f"{len(found)} pages have an id that begins with {digits!r}: give more digits")
    return (found[0] if found else None), [page["crawl_name"] for page in found[1:]]


async def _absence(
    addresses: Addresses, connection: Connection[Any], codec: Codec, word: str, crawl: str | None
) -> str:
    from crawlproj.absence import why_absent  # noqa: PLC0415  # keeps `scrapy` quick to start
    from crawlproj.crawls.rows import find_crawl  # noqa: PLC0415
    from crawlproj.frontier.canonical import normalise, split_login  # noqa: PLC0415

    if "://" not in word:
        return f"there is no page and no page object with the id {word}"
    run, (wire, _) = find_crawl(connection, crawl), split_login(normalise(word))
    async with cli.open_frontier(addresses, run.frontier) as frontier:
        why = await why_absent(connection, run, wire, codec.queue(wire), frontier)
    return f"{wire} was never fetched by crawl {run.name!r}: {why}"


def _content(connection: Connection[Any], page: Mapping[str, Any]) -> Content:
    from crawlproj.pages.rows import page_content  # noqa: PLC0415  # keeps `scrapy` quick to start

    content = page_content(connection, bytes.fromhex(page["content_id"])) if page["content_id"] else None
    if content is None:
        state = page["fetch_status"] or page["schedule_status"]
        raise NotFound(f"nothing is stored of {page['url']}: {state} ({page['reason'] or 'no reason'})")
    return content


def _print_text(content: Content) -> None:
    if content.text is None:
        raise NotFound("the page is binary and has no text; --body prints it")
    sys.stdout.write(harmless(content.text) if is_terminal(sys.stdout) else content.text)
    if not content.text.endswith("\n"):
        sys.stdout.write("\n")


def _body(content: Content, config: Config) -> bytes:
    """Return the body from where it was put. Raises BodyStoreFailed."""
    from crawlproj.pages.bodies import read_body  # noqa: PLC0415  # keeps `scrapy` quick to start

    if content.body is not None:
        return content.body
    if content.body_at is None:
        raise NotFound(f"the body {content.body_hash.hex()} is no longer kept")
    return read_body(content.body_at, content.body_hash, config.body_store)


def _print_body(body: bytes) -> None:
    if not is_terminal(sys.stdout):
        sys.stdout.buffer.write(body)
    elif b"\0" in body:
        raise WrongUsage("the body is binary, which a terminal cannot show: send it to a file")
    else:
        sys.stdout.write(harmless(body.decode(errors="replace")))


def _tell(out: Output, connection: Connection[Any], page: dict[str, Any], others: Sequence[str]) -> None:
    from crawlproj.pages import rows  # noqa: PLC0415  # keeps `scrapy` quick to start

    name, key = page["crawl_name"], bytes.fromhex(page["id"])
    fetches = rows.page_fetches(connection, name, key)
    objects = rows.page_objects(connection, name, key)
    items = rows.page_items(connection, name, key)
    if out.for_people:
        out.record(_story(page, fetches, objects, items, others))
        return
    row = shaped(page) | {"id": page["id"], "crawl": name, "run": page["run"]}
    row |= {field: page[field] for field in _MORE}
    row |= {"first_seen": fetches[0]["at"] if fetches else None, "last_seen": page["reported_at"]}
    row |= {"fetches": fetches, "objects": objects, "items": items}
    if out.as_json:
        out.json(row)
    else:
        out.record(flat(row))


def _story(
    page: Mapping[str, Any],
    fetches: Sequence[Mapping[str, Any]],
    objects: Sequence[Mapping[str, Any]],
    items: Sequence[Any],
    others: Sequence[str],
) -> Iterator[tuple[str, str]]:
    now = datetime.now(UTC)
    yield "url", page["url"]
    if page["canonical_url"] != page["url"]:
        yield "canonical", page["canonical_url"]
    yield "fetch_status", one_line(page["fetch_status"])
    yield "schedule_status", page["schedule_status"] + (f" ({page['reason']})" if page["reason"] else "")
    if page["detail"]:
        yield "detail", page["detail"]
    if page["redirect_to"]:
        yield "redirects to", page["redirect_to"]
    yield (
        "crawl",
        f"{page['crawl_name']} · run {page['run']}" + (f" · also in {', '.join(others)}" if others else ""),
    )
    yield "found", f"depth {page['depth']}" + (f" · tag {page['source_tag']}" if page["source_tag"] else "")
    seen = fetches[0]["at"] if fetches else page["reported_at"]
    yield "first seen", f"{moment(seen)} ({ago(seen, now=now)})"
    yield "last seen", f"{moment(page['reported_at'])} ({ago(page['reported_at'], now=now)})"
    if page["next_fetch_at"]:
        yield "next fetch", moment(page["next_fetch_at"])
    yield from _attempts(fetches)
    yield from _stored(page, objects)
    if items:
        yield "items", number(len(items))


def _attempts(fetches: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    if len(fetches) > _SEVERAL:
        yield "attempts", f"{number(len(fetches))}, the last {_SEVERAL}:"
    for fetch in fetches[-_SEVERAL:]:
        words = [
            moment(fetch["at"]),
            f"run {fetch['run']}",
            str(fetch["fetch_status"] or fetch["schedule_status"]),
            *([str(fetch["http_status"])] if fetch["http_status"] else []),
            *([fetch["reason"]] if fetch["reason"] else []),
            *([duration(fetch["duration_ms"] / 1000)] if fetch["duration_ms"] is not None else []),
            *([size(fetch["bytes"])] if fetch["bytes"] else []),
            f"by {fetch['worker']}",
        ]
        refused = fetch["schedule_status"] == ScheduleStatus.DISREGARDED
        yield "no attempt" if refused else f"attempt {fetch['attempt']}", " · ".join(words)


def _stored(page: Mapping[str, Any], objects: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Tell of what stands as the page's content, and of its health when it was fetched last."""
    for each in objects:
        mark = "content" if each["object_id"] == page["content_id"] else "older content"
        words = [
            each["object_id"][:SHORT_ID],
            each["fetch_status"],
            *([each["title"]] if each["title"] else []),
            *([each["content_type"]] if each["content_type"] else []),
            size(each["body_size"]),
            *([f"{number(each['text_length'])} characters"] if each["text_length"] is not None else []),
            *([each["language"]] if each["language"] else []),
            moment(each["fetched_at"]),
        ]
        yield mark, " · ".join(words)
    if page["health_signal"]:
        yield (
            "health",
            " · ".join(f"{name} {one_line(value)}" for name, value in page["health_signal"].items()),
        )
