"""Fixtures of the tests of the embedded servers."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from crawlproj.servers.embedded import leave
from crawlproj.testing.servers import fast_folder
from tests.servers.support import User


@pytest.fixture
def folder():
    """A private folder of this test."""
    with tempfile.TemporaryDirectory(prefix="c-", dir=fast_folder(), ignore_cleanup_errors=True) as path:
        yield Path(path).resolve()


@pytest.fixture
def home(folder):
    """A place for servers, not there yet; what runs in it is stopped in the end."""
    home = folder / "home"
    yield home
    while User.all:
        User.all[-1].kill()
    if home.exists():
        leave(home, now=True)
