"""What every test can ask for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["crawlproj.testing.plugin"]

ROOT = Path(__file__).parents[1]


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
