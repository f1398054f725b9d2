"""The project's commands, run as a person runs them: in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from crawlproj.testing.preloaded import Forked, Preloaded
    from crawlproj.testing.site import Hits

TIMEOUT = 100  #: seconds; less than a test has, so that the process's own output is seen


class Stuck(AssertionError):
    """A command did not end in time; its output follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def json(self) -> list[Any]:
        """What it printed, one JSON value a line."""
        assert self.returncode == 0, self.stderr
        return [json.loads(line) for line in self.stdout.splitlines()]


class Project:
    """Runs `scrapy` in the project's folder, against a test's servers.

    With *preloaded* its processes are forked where they can be, else each is an interpreter of its own.
    """

    def __init__(
        self,
        folder: Path,
        *,
        work: Path,
        env: Mapping[str, str] | None = None,
        command: Sequence[str] = (sys.executable, "-m", "scrapy"),
        preloaded: Preloaded | None = None,
    ) -> None:
        self.folder = folder
        self.work = work
        self.command = command
        self.preloaded = preloaded
        self.env = {**os.environ, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1", **(env or {})}
        self._running: list[subprocess.Popen[str] | Forked] = []

    def __call__(
        self, *args: str, settings: Mapping[str, Any] | None = None, timeout: float = TIMEOUT
    ) -> Finished:
        """Run `scrapy` with *args* to its end."""
        process = self.start(*args, settings=settings)
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            stdout, stderr = process.communicate()
            message = f"scrapy {' '.join(args)} still ran after {timeout} s\n{stdout}\n{stderr}"
            raise Stuck(message) from None
        return Finished(returncode=process.wait(), stdout=stdout, stderr=stderr)

    def start(self, *args: str, settings: Mapping[str, Any] | None = None) -> subprocess.Popen[str] | Forked:
        """Start `scrapy` with *args* and return the process; what still runs at the end is killed."""
        process = self._started([args[0], *self._options(settings or {}), *args[1:]])
        self._running.append(process)
        return process

    def _started(self, args: Sequence[str]) -> subprocess.Popen[str] | Forked:
        if self.preloaded and self.preloaded.fits(self.env):
            return self.preloaded.start(args, folder=self.folder, env=self.env)
        return subprocess.Popen(
            [*self.command, *args],
            cwd=self.folder,
            env=self.env,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def add_spiders(self, source: str) -> None:
        """Let the project find the spiders in *source*, the text of a module."""
        package = self.work / "spiders_under_test"
        package.mkdir(exist_ok=True)
        (package / "__init__.py").touch()
        count = len(list(package.glob("*.py")))
        (package / f"spiders_{count}.py").write_text(source, encoding="utf-8")
        paths = [str(self.work), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.env["PYTHONPATH"] = os.pathsep.join(paths)

    def close(self) -> None:
        """Kill what still runs."""
        for process in self._running:
            if process.poll() is None:
                process.kill()
                with suppress(ValueError):  # somebody has read its output and closed it
                    process.communicate()

    def _options(self, settings: Mapping[str, Any]) -> Iterable[str]:
        if (self.work / "spiders_under_test").exists():
            settings = {"SPIDER_MODULES": "spiders,spiders_under_test", **settings}
        for name, value in settings.items():
            text = value if isinstance(value, str) else json.dumps(value)
            yield from ("-s", f"{name}={text}")


@dataclass(kw_only=True)
class Crawled:
    """A crawl that has ended, and what the project says of it."""

    name: str  #: of the crawl
    returncode: int
    stdout: str
    stderr: str
    hits: Hits  #: arrival times at `site`, by path; of this and of earlier crawls of the test
    items: list[dict[str, Any]]  #: what the spider yielded, in order
    _project: Project = field(repr=False)

    @cached_property
    def pages(self) -> list[dict[str, Any]]:
        """The rows of `scrapy pages NAME --json`."""
        return self._project("pages", self.name, "--json", "--limit", "0").json

    @cached_property
    def status(self) -> dict[str, Any]:
        """The object of `scrapy status NAME --json`."""
        (status,) = self._project("status", self.name, "--json").json
        return dict(status)

    @cached_property
    def notes(self) -> list[dict[str, Any]]:
        """The rows of `scrapy notes NAME --json`."""
        return self._project("notes", self.name, "--json").json

    def page(self, url: str) -> dict[str, Any]:
        """Return the row of one page; *url* may be no more than its path."""
        (row,) = [row for row in self.pages if row["url"] == url or _path(row["url"]) == url]
        return row


def crawl(project: Project, hits: Hits, name: str, settings: Mapping[str, Any], **given: Any) -> Crawled:
    """Run `scrapy crawl` to its end; *given* are the spider's arguments, and `timeout`."""
    timeout = given.pop("timeout", TIMEOUT)
    feed = project.work / f"items-{len(list(project.work.glob('items-*')))}.jsonl"
    settings = {
        "CRAWL_NAME": name,
        "FEEDS": {str(feed): {"format": "jsonlines"}},
        "MIN_INTERVAL_MS": 0,
        "FRONTIER_RETRY_DELAY_MS": 10,
        **settings,
    }
    arguments = []
    for key, value in given.items():
        text = " ".join(value) if isinstance(value, list | tuple) else str(value)
        arguments += ["-a", f"{key}={text}"]
    done = project("crawl", name, *arguments, settings=settings, timeout=timeout)
    lines = feed.read_text(encoding="utf-8").splitlines() if feed.exists() else []
    return Crawled(
        name=str(settings["CRAWL_NAME"]),
        returncode=done.returncode,
        stdout=done.stdout,
        stderr=done.stderr,
        hits=hits,
        items=[json.loads(line) for line in lines],
        _project=project,
    )


def _path(url: str) -> str:
    return "/" + url.split("/", 3)[-1]
