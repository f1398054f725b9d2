"""What every test can ask for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

pytest_plugins = ["crawlproj.testing.plugin"]

ROOT = Path(__file__).parents[1]

# Else each of the hundreds of processes that are started here compiles the project for itself.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell has what it starts in the background ignore Ctrl-C, and with it all that is started here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("any machine", deadline=None)  # how long an example takes is no property of it
settings.load_profile("any machine")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Say how many processes test: two a core, for crawls wait; none beside us on a server that is shared.

    A test may close every connection of its Redis, and flush the scripts of all its databases.
    """
    if os.environ.get("TEST_REDIS_URL"):
        return 0
    return min(2 * (os.cpu_count() or 1), 8)


@pytest.fixture(scope="session")
def egg(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project as scrapyd-deploy builds it; nothing is left in the checkout."""
    work = tmp_path_factory.mktemp("egg")
    subprocess.run(
        [
            sys.executable, "setup.py", "--quiet",
            "egg_info", f"--egg-base={work}",
            "build", f"--build-base={work / 'build'}",
            "bdist_egg", f"--bdist-dir={work / 'bdist'}", f"--dist-dir={work / 'dist'}",
        ],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    (built,) = (work / "dist").glob("*.egg")
    return built
