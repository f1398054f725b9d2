"""The reference names every reason that a row can have, and no other."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

from crawlproj.items import FetchStatus, ScheduleStatus
from crawlproj.pages import failure
from crawlproj.pages.classify import UNASKED
from crawlproj.pages.record import STORE_ERROR

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
REFERENCE = (ROOT / "docs/reference/statuses.md").read_text(encoding="utf-8")
WORD = re.compile(r"[a-z]+(?:_[a-z]+)*")
#: What makes a reason of its first argument, or of `reason=`.
MAKERS = frozenset({"Disregarded", "RetryLater", "Verdict", "_failed", "_refetch", "replace"})


def documented() -> set[str]:
    """Return the words of the first column of the table of reasons."""
    table = REFERENCE.partition("## Reasons")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return {word for row in rows for word in re.findall(r"`(\w+)`", row) if not word.startswith("http_")}


def of_failures() -> set[str]:
    """Return what `explain` may say."""
    tables = [*failure._NAMES, *((word, None) for _, word in (*failure._TYPES, *failure._BROWSER))]
    words = {word for word, _ in tables} | set(failure._ERRNO.values()) | set(failure._CURL.values())
    tree = ast.parse(Path(failure.__file__).read_text(encoding="utf-8"))
    (function,) = [node for node in tree.body if getattr(node, "name", None) == "_reason"]
    returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    return words | {word for value in returned for word in constants(value)}


def constants(node: ast.AST | None) -> Iterator[str]:
    """Yield the words that an expression may be, a branch of `a if b else c` or of `a or c` among them."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from constants(node.body)
        yield from constants(node.orelse)
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from constants(value)


def said_in_passing() -> set[str]:
    """Return what else is made a reason, anywhere in the code."""
    words: set[str] = set()
    for folder in ("crawlproj", "middlewares", "pipelines", "extensions"):
        for path in (ROOT / folder).rglob("*.py"):
            if "demo" in path.parts:
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "why":
                    words.update(filter(WORD.fullmatch, constants(node.value)))
                if not isinstance(node, ast.Call) or getattr(node.func, "id", None) not in MAKERS:
                    continue
                for given in [*node.args, *(each.value for each in node.keywords if each.arg == "reason")]:
                    words.update(filter(WORD.fullmatch, constants(given)))
    return words


def test_every_reason_is_in_the_reference() -> None:
    """And every word of the reference is one that a row may have."""
    words = of_failures() | said_in_passing() | {UNASKED, STORE_ERROR}
    assert {"robots", "offsite", "callback_error", "no_response", "too_large"} <= words
    assert documented() == words


def test_every_status_is_in_the_reference() -> None:
    """Those that a row of a page can have."""
    first = set(re.findall(r"^\| `(\w+)` \|", REFERENCE, re.MULTILINE))
    assert {each.value for each in FetchStatus} <= first
    assert {each.value for each in ScheduleStatus} - {"scheduled", "leased"} <= first
