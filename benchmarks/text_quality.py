"""Which pages count as empty, and what is taken for their main text: our rule beside others.

    python -m benchmarks.text_quality [--pages 300] [--corpora FOLDER] [--wrong]

Debian's manuals are pages that all have something to read (`apt install python3.11-doc apache2-doc
debian-handbook`; or unpack the packages below a FOLDER); the hand-made ones of tests/pages/samples.py have a
right answer each. The others are asked if they are there (`pip install trafilatura readability-lxml`).
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from resiliparse.extract.html2text import extract_plain_text
from selectolax.lexbor import LexborHTMLParser

from crawlproj.pages.decode import decode
from crawlproj.pages.text import characters, read_html
from tests.pages.samples import SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_WORD = re.compile(r"[A-Za-z0-9_]+|[^\W\x00-\x7f]")
THRESHOLDS = (1, 10, 25, 50, 100, 200)


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Pages of one kind, and where their main text stands."""

    name: str
    folder: str
    pattern: str
    main: str  #: a selector
    around: str = ""  #: a selector of what is no main text, inside of it
    package: str


CORPORA = (
    Corpus(
        name="Python manual",
        folder="usr/share/doc/python3.11/html",
        pattern="**/*.html",
        main="div.body",
        around="a.headerlink",
        package="python3.11-doc",
    ),
    *(
        Corpus(
            name=f"Apache manual, {language}",
            folder="usr/share/doc/apache2-doc/manual",
            pattern=f"{language}/**/*.html",
            main="#preamble, #page-content, #directive-list, #manual-content",
            around="#quickview, .toplang, .bottomlang, .top, #comments_section",
            package="apache2-doc",
        )
        for language in ("en", "de", "fr", "ja", "ko", "tr", "zh-cn")
    ),
    *(
        Corpus(
            name=f"Debian handbook, {language}",
            folder="usr/share/doc/debian-handbook/html",
            pattern=f"{language}/*.html",
            main="section, div.section, div.chapter, div.preface, div.book, div.appendix, div.index",
            around="ul.docnav, p#title",
            package="debian-handbook",
        )
        for language in ("en-US", "ar-MA", "de-DE", "ja-JP", "ko-KR", "ru-RU", "zh-CN")
    ),
)


@dataclass(slots=True)
class Page:
    """A page with the words that are its main text, and those that are not."""

    name: str
    html: str
    done: bool = True
    main: Counter[str] | None = None
    around: Counter[str] | None = None
    keeps: Sequence[str] = ()
    drops: Sequence[str] = ()


@dataclass(slots=True)
class Figures:
    """What one extractor made of a corpus."""

    lengths: list[int] = field(default_factory=list)
    kept: list[float] = field(default_factory=list)
    left_out: list[float] = field(default_factory=list)
    seconds: float = 0.0


def ours(html: str) -> str:
    return read_html(html).main or ""


def resiliparse(html: str) -> str:
    return extract_plain_text(html, main_content=True, alt_texts=False, list_bullets=False)


def visible(html: str) -> str:
    return extract_plain_text(html, main_content=False, alt_texts=False, list_bullets=False)


def trafilatura(html: str) -> str:
    extract = importlib.import_module("trafilatura").extract  # it may not be there

    return extract(html) or "" if html.strip() else ""


def readability(html: str) -> str:
    document = importlib.import_module("readability").Document  # it may not be there

    try:
        return LexborHTMLParser(document(html).summary()).text(separator=" ")
    except Exception:  # noqa: BLE001  # a page without a body
        return ""


EXTRACTORS: dict[str, Callable[[str], str]] = {
    "ours": ours,
    "resiliparse": resiliparse,
    "visible text": visible,
}
OTHERS: dict[str, Callable[[str], str]] = {"trafilatura": trafilatura, "readability": readability}


def corpora(root: Path, most: int) -> Iterator[tuple[str, list[Page]]]:
    """Yield the pages of every corpus that is there, no more than *most* of each, evenly spread."""
    for corpus in CORPORA:
        paths = sorted((root / corpus.folder).glob(corpus.pattern)) if (root / corpus.folder).is_dir() else []
        if not paths:
            print(f"{corpus.name} is not there: apt install {corpus.package}")
            continue
        step = max(1, len(paths) // most)
        pages = [page for path in paths[::step] if (page := read(path, corpus)) is not None]
        yield corpus.name, pages
    yield (
        "hand-made",
        [Page(each.name, each.html, each.done, keeps=each.keeps, drops=each.drops) for each in SAMPLES],
    )


def read(path: Path, corpus: Corpus) -> Page | None:
    html, _ = decode(path.read_bytes(), "text/html")
    if 'http-equiv="refresh"' in html.lower():
        return None
    tree = LexborHTMLParser(html)
    for node in tree.css("script, style, template, noscript"):
        node.decompose()
    everything = words(tree.body.text(separator=" ") if tree.body else "")
    if corpus.around:
        for node in tree.css(corpus.around):
            node.decompose()
    main: Counter[str] = Counter()
    for node in outermost(tree, corpus.main):
        main += words(node)
    if not main:
        return None  # a page of links to the languages, and the like
    return Page(str(path), html, main=main, around=everything - main)


def outermost(tree: LexborHTMLParser, selector: str) -> Iterator[str]:
    """Yield the texts of what *selector* finds, without those that stand in each other."""
    found = {node.mem_id: node for node in tree.css(selector)}
    for node in found.values():
        parent = node.parent
        while parent is not None and parent.mem_id not in found:
            parent = parent.parent
        if parent is None:
            yield node.text(separator=" ")


def words(text: str) -> Counter[str]:
    """Return the words of a text, of letters beyond ASCII each alone: not all scripts write words apart."""
    return Counter(_WORD.findall(text))


def measure(pages: Sequence[Page], extract: Callable[[str], str]) -> Figures:
    figures = Figures()
    for page in pages:
        start = time.process_time()
        text = extract(page.html)
        figures.seconds += time.process_time() - start
        figures.lengths.append(characters(text))
        if page.main is not None:
            found = words(text)
            figures.kept.append((found & page.main).total() / page.main.total())
            if page.around:
                figures.left_out.append(1 - (found - page.main & page.around).total() / page.around.total())
        else:
            flat = " ".join(text.split())
            figures.kept += [float(piece in flat) for piece in page.keeps]
            figures.left_out += [float(piece not in flat) for piece in page.drops]
    return figures


def wrong(pages: Sequence[Page], lengths: Sequence[int], below: int) -> tuple[list[str], list[str]]:
    """Return the wrong empties and the wrong dones of a rule: empty below so many characters."""
    judged = [(page, length >= below) for page, length in zip(pages, lengths, strict=True)]
    return (
        [page.name for page, done in judged if page.done and not done],
        [page.name for page, done in judged if done and not page.done],
    )


def table(rows: Sequence[Sequence[object]]) -> None:
    shown = [[f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        print(
            row[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
        )
    print()


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=300, help="of each corpus at most")
    parser.add_argument("--corpora", type=Path, default=Path("/"), help="where the packages are unpacked")
    parser.add_argument("--wrong", action="store_true", help="name the pages that are judged wrong")
    options = parser.parse_args()
    extractors = EXTRACTORS | {name: each for name, each in OTHERS.items() if importlib.util.find_spec(name)}
    for name in sorted(OTHERS.keys() - extractors.keys()):
        print(f"{name} is not installed and is left out")
    quality = [["main text", "pages", "", *extractors]]
    speed = [["ms a page (CPU)", *extractors]]
    judged: list[tuple[list[Page], dict[str, list[int]]]] = []
    for name, pages in corpora(options.corpora, options.pages):
        figures = {label: measure(pages, extract) for label, extract in extractors.items()}
        quality.append([name, len(pages), "kept", *(mean(each.kept) for each in figures.values())])
        quality.append(["", "", "left out", *(mean(each.left_out) for each in figures.values())])
        speed.append([name, *(1000 * each.seconds / len(pages) for each in figures.values())])
        judged.append((pages, {label: each.lengths for label, each in figures.items()}))
    print("\nShare of the words of the main text that are kept, and of all other words that are left out\n")
    table(quality)
    table(speed)
    print("Wrong empties and wrong dones, when a page is empty below so many characters\n")
    manuals = sum(len(pages) for pages, _ in judged[:-1])
    rows: list[list[object]] = [
        ["rule", "below", f"{manuals} manual pages", f"{len(SAMPLES)} hand-made", "", ""]
    ]
    rows.append(["", "", "wrong empty", "wrong empty", "wrong done", "wrong"])
    for label in extractors:
        for below in THRESHOLDS:
            found = [wrong(pages, lengths[label], below) for pages, lengths in judged]
            empties, dones = found[-1]
            elsewhere = sum(len(each) for each, _ in found[:-1])
            rows.append([label, below, elsewhere, len(empties), len(dones), len(empties) + len(dones)])
    table(rows)
    if options.wrong:
        for pages, lengths in judged:
            for kind, names in zip(("empty", "done"), wrong(pages, lengths["ours"], 1), strict=True):
                for name in names:
                    print(f"wrongly {kind}: {name}")


if __name__ == "__main__":
    main()
