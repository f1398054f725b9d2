"""What is committed about packaging agrees with the code."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PACKAGES = ("crawlproj", "middlewares", "extensions", "pipelines", "spiders")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="session")
def egg_names(egg: Path) -> set[str]:
    with zipfile.ZipFile(egg) as archive:
        return set(archive.namelist())


def test_every_data_file_travels(egg_names: set[str]) -> None:
    """Whatever lies in a package beside its modules is in the egg: SQL, Lua, pages, pictures."""
    missing = [name for name in _files() if not name.endswith(".py") and name not in egg_names]
    assert missing == []
    for kind in (".lua", ".sql", ".html", ".css", ".png", ".pdf", ".json", ".txt"):
        assert any(name.endswith(kind) for name in egg_names), kind


def test_every_module_travels_and_nothing_else(egg_names: set[str]) -> None:
    """The egg holds all five packages, and neither tests nor what lies around in a checkout."""
    modules = {name for name in _files() if name.endswith(".py")}
    assert modules <= egg_names
    assert {name.partition("/")[0] for name in egg_names} == {*PACKAGES, "EGG-INFO"}


def test_the_egg_says_where_the_settings_are(egg: Path) -> None:
    """Deployed, the project is found by its entry point: there is no scrapy.cfg in an egg."""
    with zipfile.ZipFile(egg) as archive:
        text = archive.read("EGG-INFO/entry_points.txt").decode()
    assert re.search(r"\[scrapy\]\s+settings = crawlproj\.settings", text)


def test_constraints_are_names_and_versions() -> None:
    """Each line pins one version; there is no address, no path and no name twice."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    names = [canonicalize_name(line.partition("==")[0]) for line in lines]
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
    assert len(names) == len(set(names))


def test_every_requirement_is_pinned() -> None:
    """Each requirement of pyproject.toml, extras included, has its version in the constraints."""
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines())
    pinned = {canonicalize_name(name): version for name, version in pins.items()}
    for requirement in _requirements():
        version = pinned.get(canonicalize_name(requirement.name))
        assert version, f"{requirement.name} is not pinned"
        assert requirement.specifier.contains(version), f"{requirement} is not what is pinned"


def test_every_import_is_required() -> None:
    """A distribution that the code imports is named in pyproject.toml, not left to another one."""
    required = {canonicalize_name(requirement.name) for requirement in _requirements()}
    known = packages_distributions()
    paths = [path for folder in (*PACKAGES, "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    imported = {name for path in paths for name in _imports(path)}
    own = {*PACKAGES, "tests", "benchmarks", "compression"}  # the last is Python's own from 3.14 on
    foreign = imported - own - sys.stdlib_module_names
    missing = {
        name: known.get(name, [])
        for name in foreign
        if not required & {canonicalize_name(each) for each in known.get(name, [name])}
    }
    assert missing == {}


def test_the_versions_agree() -> None:
    """The package and its metadata have one version."""
    found = subprocess.run(
        [sys.executable, "-c", "import crawlproj; print(crawlproj.__version__)"],
        cwd=ROOT, text=True, capture_output=True, check=True,
    )  # fmt: skip
    assert found.stdout.strip() == PROJECT["version"]


def _files() -> list[str]:
    """Return every file of the packages, but for what tools leave there."""
    return [
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and not any(part.startswith((".", "__pycache__")) for part in path.parts)
    ]


def _requirements() -> list[Requirement]:
    texts = [*PROJECT["dependencies"], *chain(*PROJECT["optional-dependencies"].values())]
    return [each for each in map(Requirement, texts) if each.name != PROJECT["name"]]


def _imports(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.partition(".")[0])
    return names
