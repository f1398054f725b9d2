"""Small crawls, as processes of their own."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests import processes

if TYPE_CHECKING:
    import subprocess

    from crawlproj.testing.preloaded import Forked


@dataclass(kw_only=True)
class Told:
    """What a small crawl said."""

    results: dict[str, dict[str, Any]]  #: by the URL that was given
    delays: list[tuple[str, float]]
    stderr: str

    def said(self, url: str) -> Any:
        """Return the status of a URL, or the error it met."""
        result = self.results[url]
        return result.get("error", result["status"])


@dataclass
class SmallCrawl:
    """Starts small crawls that share one Redis."""

    redis_url: str
    running: list[subprocess.Popen[str] | Forked] = field(default_factory=list)

    def start(self, *urls: str, **settings: Any) -> subprocess.Popen[str] | Forked:
        """Start a worker on *urls*."""
        process = processes.start(
            "tests.middlewares.small_crawl", self.redis_url, json.dumps(settings), *urls
        )
        self.running.append(process)
        return process

    def end(self, process: subprocess.Popen[str] | Forked, timeout: float = 100) -> Told:
        """Wait for a worker and return what it said."""
        stdout, stderr = process.communicate(timeout=timeout)
        assert process.returncode == 0, stderr
        lines = [json.loads(line) for line in stdout.splitlines()]
        return Told(
            results={line["url"]: line for line in lines if "url" in line},
            delays=[(line["host"], line["seconds"]) for line in lines if "seconds" in line],
            stderr=stderr,
        )

    def __call__(self, *urls: str, **settings: Any) -> Told:
        """Run a worker on *urls* to its end."""
        return self.end(self.start(*urls, **settings))

    def close(self) -> None:
        """Kill what still runs."""
        for process in self.running:
            if process.poll() is None:
                process.kill()
                process.communicate()
