"""A server that answers as it is told, and leased crawls of it."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from tests import processes

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Answers:
    """Answers by path, and the headers of every request that came."""

    base: str = ""
    by_path: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    asked: dict[str, list[dict[str, str]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, path: str, status: int = 200, body: bytes = b"<p>text", **headers: str) -> str:
        """Answer *path* in this way; return its URL."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.by_path[path] = (status, {"Content-Type": "text/html", **named}, body)
        return self.base + path

    def crawl(self, *requests: dict[str, Any] | str, **settings: Any) -> list[dict[str, Any]]:
        """Fetch under leases and return what came of each request, in their order."""
        given = [{"url": each} if isinstance(each, str) else each for each in requests]
        stdout, stderr = processes.run(
            "tests.middlewares.leased_crawl", json.dumps(settings), json.dumps(given)
        )
        told = {line["given"]: line for line in map(json.loads, stdout.splitlines())}
        assert set(told) == {each["url"] for each in given}, stderr
        return [told[each["url"]] for each in given]


@contextmanager
def answering() -> Iterator[Answers]:
    """Serve answers on a port of this machine."""
    answers = Answers()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answers.asked[self.path].append(dict(self.headers.items()))
            status, headers, body = answers.by_path[self.path]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        answers.base = f"http://127.0.0.1:{server.server_port}"
        try:
            yield answers
        finally:
            server.shutdown()
