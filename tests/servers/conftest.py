"""Fixtures of the tests of the embedded servers."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest

from crawlproj.servers.embedded import join, leave
from crawlproj.testing.servers import fast_folder
from tests.servers.support import User


@pytest.fixture
def folder():
    """A private folder of this test."""
    with tempfile.TemporaryDirectory(prefix="c-", dir=fast_folder(), ignore_cleanup_errors=True) as path:
        yield Path(path).resolve()


@pytest.fixture
def new_home(folder):
    """A place for servers, not there yet; what runs in it is stopped in the end."""
    home = folder / "home"
    yield home
    while User.all:
        User.all[-1].kill()
    if home.exists():
        leave(home, now=True)


@pytest.fixture(scope="session")
def made_data():
    """PostgreSQL's files as a first start makes them: making them is most of what a start costs."""
    with tempfile.TemporaryDirectory(prefix="c-", dir=fast_folder(), ignore_cleanup_errors=True) as path:
        home = Path(path) / "home"
        join(home, valkey=False)
        leave(home, now=True)
        yield home / "postgres"


@pytest.fixture
def home(new_home, made_data):
    """A place for servers that have been there before."""
    new_home.mkdir(mode=0o700)
    subprocess.run(["cp", "-a", made_data, new_home], check=True)
    return new_home
