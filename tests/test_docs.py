"""The documentation names what there is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from crawlproj.knobs import KNOBS

ROOT = Path(__file__).parents[1]
SETTINGS = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")


def assigned() -> dict[str, str]:
    """Return the settings of the project and their values as they are written."""
    tree = ast.parse((ROOT / "crawlproj/settings.py").read_text(encoding="utf-8"))
    return {
        node.targets[0].id: ast.unparse(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }


def read_by_config() -> set[str]:
    """Return the settings that are ours: those that the configuration reads, knobs among them."""
    names = re.findall(r'"([A-Z][A-Z_]{3,})"', (ROOT / "crawlproj/config.py").read_text(encoding="utf-8"))
    return {*names, *(knob.setting for knob in KNOBS.values())}


@pytest.mark.parametrize("name", sorted(read_by_config()))
def test_every_setting_of_ours_is_documented(name: str) -> None:
    """It is assigned in settings.py and has a paragraph in the reference."""
    assert name in assigned()
    assert f"**{name}**" in SETTINGS


@pytest.mark.parametrize("name", sorted(re.findall(r"\*\*([A-Z_]{4,})\*\* — Default: `\d+`", SETTINGS)))
def test_the_documented_default_is_the_default(name: str) -> None:
    """A number in the reference is the number in settings.py."""
    (default,) = re.findall(rf"\*\*{name}\*\* — Default: `(\d+)`", SETTINGS)
    assert int(ast.literal_eval(assigned()[name])) == int(default)


@pytest.mark.parametrize("path", sorted((ROOT / "crawlproj/commands").glob("[!_]*.py")), ids=lambda p: p.stem)
def test_every_command_is_documented(path: Path) -> None:
    """Its name is in the reference, as it is typed, or among Scrapy's own."""
    text = (ROOT / "docs/reference/commands.md").read_text(encoding="utf-8")
    assert re.search(rf"`(scrapy )?{path.stem}\b", text)


@pytest.mark.parametrize(
    "page", ["README.md", *(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
)
def test_links_between_pages_lead_somewhere(page: str) -> None:
    """A relative link is a file."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", text):
        assert (ROOT / page).parent.joinpath(target).exists(), target
