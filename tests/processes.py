"""Modules of the tests that run as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crawlproj.testing.preloaded import Forked, Preloaded

ROOT = Path(__file__).parents[1]

_preloaded: Preloaded | None = None


@pytest.fixture(scope="session", autouse=True)
def forked_processes(preloaded: Preloaded | None) -> Iterator[None]:
    """Fork them where that is possible; for the conftest of a folder whose tests start many."""
    global _preloaded  # noqa: PLW0603  # what starts them is called from anywhere
    _preloaded = preloaded
    yield
    _preloaded = None


def start(
    module: str, *args: str, stdin: str = "", env: dict[str, str] | None = None
) -> subprocess.Popen[str] | Forked:
    """Start `python -m module` in the project's folder, with *env* added to the environment."""
    environment = {**os.environ, **(env or {})}
    with tempfile.TemporaryFile() as given:
        given.write(stdin.encode())
        given.seek(0)
        if _preloaded and _preloaded.fits(environment):
            return _preloaded.start(args, folder=ROOT, env=environment, module=module, stdin=given)
        return subprocess.Popen(
            [sys.executable, "-m", module, *args],
            cwd=ROOT,
            env=environment,
            text=True,
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )


def run(
    module: str, *args: str, stdin: str = "", env: dict[str, str] | None = None, timeout: float = 100
) -> tuple[str, str]:
    """Run `python -m module` to its end, which must be a good one; return what it printed."""
    process = start(module, *args, stdin=stdin, env=env)
    try:
        stdout, stderr = process.communicate(timeout=timeout)
    finally:
        process.kill()
    assert process.wait() == 0, stderr
    return stdout, stderr
