"""A website to crawl: many hosts, the same pages on each, served by nginx on loopback."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LINKS = 21
PAGE_BYTES = 8_000
WORDS = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "a",
    "is",
    "that",
    "for",
    "it",
    "as",
    "was",
    "with",
    "be",
    "by",
    "on",
    "not",
    "he",
    "his",
    "but",
    "at",
    "are",
    "this",
    "have",
    "from",
    "or",
    "had",
    "an",
    "they",
    "which",
    "one",
    "you",
    "were",
    "all",
    "her",
    "she",
    "there",
    "would",
    "their",
    "we",
    "him",
    "been",
    "has",
    "when",
    "who",
    "will",
    "no",
    "more",
    "if",
    "out",
    "so",
    "river",
    "stone",
    "market",
    "winter",
    "letter",
    "garden",
    "harbour",
    "window",
    "bread",
    "silver",
    "engine",
    "captain",
    "morning",
    "valley",
]


def write_pages(folder: Path, pages: int) -> None:
    """Write pages of about 8 KB with 21 links each; every page can be reached from the first."""
    chance = random.Random(7)  # the same site every time
    for number in range(pages):
        others = {(number * 2 + 1) % pages, (number * 2 + 2) % pages}
        while len(others) < LINKS:
            others.add(chance.randrange(pages))
        links = "".join(f'<li><a href="/{other}.html">Chapter {other}</a></li>' for other in sorted(others))
        text: list[str] = []
        while sum(map(len, text)) < PAGE_BYTES - len(links) - 300:
            text.append("<p>" + " ".join(chance.choices(WORDS, k=90)).capitalize() + ".</p>\n")
        head = f'<meta charset="utf-8"><title>Chapter {number}</title>'
        body = f"<main><h1>Chapter {number}</h1>{''.join(text)}</main><nav><ul>{links}</ul></nav>"
        page = f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>'
        (folder / f"{number}.html").write_text(page)


@contextmanager
def served(folder: Path, hosts: int, pages: int) -> Iterator[list[str]]:
    """Serve made-up pages while the block runs; gives the first URL of each host."""
    root = folder / "www"
    root.mkdir()
    write_pages(root, pages)
    with serving(folder, root, hosts) as origins:
        yield [f"{origin}/0.html" for origin in origins]


@contextmanager
def serving(folder: Path, root: Path, hosts: int) -> Iterator[list[str]]:
    """Serve *root* on loopback addresses while the block runs; gives their origins. *folder* is scratch."""
    nginx = shutil.which("nginx") or "/usr/sbin/nginx"
    with socket.socket() as probe:
        probe.bind(("127.0.1.1", 0))
        port = probe.getsockname()[1]
    addresses = [f"127.0.1.{number + 1}" for number in range(hosts)]
    listen = "".join(f"listen {address}:{port} backlog=1024;\n" for address in addresses)
    user = "user root;\n" if os.geteuid() == 0 else ""  # else nginx's worker could not read our scratch
    log, config = folder / "error.log", folder / "nginx.conf"
    config.write_text(
        f"{user}worker_processes 1; daemon off; pid {folder}/nginx.pid; error_log {log};\n"
        "events { worker_connections 4096; }\n"
        "http { access_log off; charset utf-8; default_type application/octet-stream;\n"
        "types { text/html html; text/plain txt; text/css css; application/javascript js; image/png png; }\n"
        f"server {{ {listen} root {root}; }} }}\n"
    )
    server = subprocess.Popen([nginx, "-e", str(log), "-c", str(config)])
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex((addresses[-1], port)) == 0:
                    break
            if server.poll() is not None:
                raise SystemExit(log.read_text())
            time.sleep(0.02)
        yield [f"http://{address}:{port}" for address in addresses]
    finally:
        server.terminate()
        server.wait()
