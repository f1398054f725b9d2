"""Crawl a folder of HTML files and compare what is stored with an independent walk of the files.

    python -m benchmarks.completeness /usr/share/doc/python3.11/html [index.html]

nginx serves the folder on loopback; `scrapy crawl site` crawls it with MIN_INTERVAL_MS=0. The walk
reads the files with the standard library alone. Exits with 1 when a page is missing, doubled, or has
another status than the files say.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

from scrapy.linkextractors import IGNORED_EXTENSIONS

from benchmarks.website import serving


class Links(HTMLParser):
    """Collects the links of one page."""

    def __init__(self) -> None:
        super().__init__()
        self.base: str | None = None
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an anchor, an area or a base."""
        href = dict(attrs).get("href")
        if href and tag in {"a", "area"}:
            self.found.append(href)
        elif href and tag == "base":
            self.base = self.base or href


def walk(folder: Path, start: str) -> dict[str, bool]:
    """Return every URL that can be reached from *start*, and whether its file is there."""
    reached: dict[str, bool] = {}
    waiting = [start]
    while waiting:
        url = waiting.pop()
        if url in reached:
            continue
        file = folder / unquote(urlsplit(url).path).lstrip("/")
        if file.is_dir():
            file /= "index.html"
        reached[url] = file.is_file()
        if reached[url] and file.suffix == ".html":
            waiting += links_of(file, url)
    return reached


def links_of(file: Path, url: str) -> list[str]:
    """Return the links of a file to the same host, without their fragments."""
    parser = Links()
    parser.feed(file.read_text(encoding="utf-8", errors="replace"))
    base = urljoin(url, parser.base or "")
    found = []
    for href in parser.found:
        link = urljoin(base, href.strip()).partition("#")[0]
        parts = urlsplit(link)
        extension = parts.path.rpartition("/")[2].rpartition(".")[2].lower()
        if (
            not href.startswith("#")
            and parts.scheme in {"http", "https"}
            and parts.netloc == urlsplit(url).netloc
            and extension not in IGNORED_EXTENSIONS
        ):
            found.append(link if parts.path else link + "/")
    return found


def scrapy(*arguments: str, home: str) -> str:
    """Run a command of the project and return what it prints."""
    environment = {**os.environ, "CRAWLPROJ_HOME": home}
    command = [sys.executable, "-m", "scrapy", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"scrapy {arguments[0]} ended with {done.returncode}")
    return done.stdout


def main() -> None:
    """Crawl, walk, compare."""
    folder = Path(sys.argv[1]).resolve()
    first = sys.argv[2] if len(sys.argv) > 2 else "index.html"
    with tempfile.TemporaryDirectory() as name, serving(Path(name), folder, hosts=1) as hosts:
        start = f"{hosts[0]}/{first}"
        home = str(Path(name) / "home")
        began = time.monotonic()
        scrapy(
            "crawl", "site", "-a", f"seeds={start}", "-s", "MIN_INTERVAL_MS=0", "-s", "HOST_MAX_IN_FLIGHT=16",
            "-s", "CRAWL_NAME=completeness", "-s", "ROBOTSTXT_OBEY=0", home=home,
        )  # fmt: skip
        seconds = time.monotonic() - began
        pages = [
            json.loads(line) for line in scrapy("pages", "completeness", "--json", home=home).splitlines()
        ]
        status = json.loads(scrapy("status", "completeness", "--json", home=home))
        faults = compare(walk(folder, start), pages)
        describe(pages, status, seconds)
        for fault in faults[:20]:
            print(fault)
    raise SystemExit(1 if faults or status["status"] != "sealed" else 0)


def compare(expected: dict[str, bool], pages: list[dict[str, object]]) -> list[str]:
    """Return what differs, one sentence each."""
    times = Counter(str(page["url"]) for page in pages)
    faults = [f"fetched {n} times: {url}" for url, n in times.items() if n > 1]
    faults += [f"not in the walk: {url}" for url in times if url not in expected]
    faults += [f"missing: {url}" for url in expected if url not in times]
    for page in pages:
        want = ("done", 200) if expected.get(str(page["url"])) else ("failed", 404)
        if (page["fetch_status"], page["http_status"]) != want:
            faults.append(f"{page['fetch_status']} {page['http_status']} {page['reason']}: {page['url']}")
    return faults


def describe(pages: list[dict[str, object]], status: dict[str, object], seconds: float) -> None:
    """Print figures for people."""
    lengths = sorted(
        (page["health_signal"]["text_length"], page["url"])  # type: ignore[index]
        for page in pages
        if page["health_signal"]
    )
    print(f"{len(pages)} pages in {seconds:.1f} s, {status['status']}, {status['counts']}")
    print(f"text_length: median {statistics.median(length for length, _ in lengths)}; the ten shortest:")
    for length, url in lengths[:10]:
        print(f"  {length:>6}  {url}")


if __name__ == "__main__":
    main()
