"""What this project does not write, because it has cost somebody a day."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("crawlproj", "middlewares", "extensions", "pipelines", "spiders")
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))

#: Call -> why not.
BANNED = {
    "asyncio.wait_for": "before Python 3.12 it swallows cancellations: use asyncio.timeout",
    "pickle.loads": "whoever can write the bytes runs code",
    "time.sleep": "the event loop stands still",
}
ALLOWED = {
    "time.sleep": ("crawlproj/servers", "crawlproj/commands", "crawlproj/testing")
}  # no event loop there


def calls(path: Path) -> set[str]:
    """Return the dotted calls of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


@pytest.mark.parametrize("name", BANNED)
def test_banned_calls(name: str) -> None:
    """No module of ours calls it, but where it is meant."""
    found = [
        str(path.relative_to(ROOT))
        for path in SOURCES
        if name in calls(path) and not str(path.relative_to(ROOT)).startswith(ALLOWED.get(name, ()))
    ]
    assert not found, BANNED[name]
