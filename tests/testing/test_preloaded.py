"""A command that is forked is the command that a person starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from crawlproj.testing.preloaded import Preloaded

if TYPE_CHECKING:
    from collections.abc import Callable

    from crawlproj.testing.project import Project

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere commands are not forked")

TELLS = """
import os, random, signal, sys

print(*sys.argv, sep="|", file=sys.stderr)
print(os.getcwd(), os.environ.get("WORD"), random.random(), sys.stdin.read() == "", flush=True)
print("early" if "crawlproj.settings" not in sys.modules else "late")
"""


def told(scrapy: Project) -> list[str]:
    """Return what a process says of itself when it imports the spiders."""
    done = scrapy("list")
    assert done.returncode == 0, done.stderr
    return [*done.stdout.splitlines()[0].rsplit(" ", 3), done.stderr.strip().split("|", 1)[1]]


def test_a_fork_has_its_own_folder_environment_and_arguments(
    scrapy: Project, spider_source: Callable[[str], None], preloaded: Preloaded
) -> None:
    """What a forked command finds around it is what one with an interpreter of its own finds."""
    spider_source(TELLS)
    scrapy.env["WORD"] = "one"
    first = told(scrapy)
    scrapy.env["WORD"] = "two"
    second = told(scrapy)
    scrapy.preloaded = None
    real = told(scrapy)
    assert [first[1], second[1], real[1]] == ["one", "two", "two"]
    assert first[2] != second[2]  # chance is its own, too
    for forked in (first, second):
        assert [forked[0], *forked[3:]] == [real[0], *real[3:]]


def test_the_project_is_imported_anew(scrapy: Project, spider_source: Callable[[str], None]) -> None:
    """A fork begins without a module of the project's."""
    spider_source(
        "import sys\nprint(sorted(n for n, m in sys.modules.items() if (getattr(m, '__file__', None) or '')"
        ".startswith(sys.path[0] + '/crawlproj/testing')))"
    )
    assert scrapy("list").stdout.splitlines()[0] == "[]"


def test_exit_codes_and_signals_come_back(scrapy: Project, spider_source: Callable[[str], None]) -> None:
    """The exit code of a fork is that of its command, or the signal that ended it."""
    assert scrapy("crawl", "nobody").returncode == 3
    assert scrapy("nonsense").returncode == 2
    spider_source("import time\nprint('here', flush=True)\ntime.sleep(600)")
    for sent in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        process = scrapy.start("list")
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.communicate(timeout=0.01)
        process.send_signal(sent)
        _, said = process.communicate(timeout=60)
        assert process.poll() == process.wait() == -sent, said
        assert ("KeyboardInterrupt" in said) == (sent == signal.SIGINT)
        with pytest.raises(ProcessLookupError):
            os.kill(process.pid, 0)
        process.kill()  # it is gone: nobody else's process is meant


def test_what_python_itself_reads_gets_an_interpreter(preloaded: Preloaded) -> None:
    """An environment that changes the interpreter is not forked into."""
    env = dict(os.environ)
    assert preloaded.fits(env)
    assert preloaded.fits({**env, "PYTHONPATH": "/x", "WORD": "1"})
    for name in ("PYTHONHASHSEED", "PYTHONWARNINGS", "LC_ALL", "TZ"):
        assert not preloaded.fits({**env, name: "1"})


def test_it_ends_with_its_owner() -> None:
    """Nothing is left when a session ends, however it ends."""
    with Preloaded() as started:
        pid = started._process.pid
        started._process.stdin.close()  # as the kernel does when the session is killed
        assert started._process.wait(60) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
