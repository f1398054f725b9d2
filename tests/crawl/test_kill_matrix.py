"""A worker that ends at any moment of a crawl's life, for whatever reason, costs nothing but time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.kill_matrix import CELLS, Cell, Matrix
from tests.postgres import sql

if TYPE_CHECKING:
    from pathlib import Path

    from psycopg import Connection

    from crawlproj.testing.project import Project
    from crawlproj.testing.site import Site


__all__ = ["sql"]

#: Of what `benchmarks.kill_matrix` tries: each moment with one worker and with three, each signal four times.
GROUPS = {
    "alone, before the end": (
        Cell("setup", "SIGKILL", 1),
        Cell("start", "SIGINT twice", 1),
        Cell("mid-crawl", "SIGTERM", 1),
    ),
    "alone, at the end": (
        Cell("draining", "SIGKILL", 1),
        Cell("cleanup", "SIGTERM", 1),
        Cell("closed", "SIGKILL", 1),
    ),
    "of three, before the end": (
        Cell("setup", "SIGINT twice", 3),
        Cell("start", "SIGTERM", 3),
        Cell("mid-crawl", "SIGKILL", 3),
    ),
    "of three, at the end": (
        Cell("draining", "SIGTERM", 3),
        Cell("cleanup", "SIGKILL", 3),
        Cell("closed", "SIGINT twice", 3),
    ),
}


@pytest.mark.parametrize("cells", GROUPS.values(), ids=GROUPS)
def test_every_page_is_there_and_the_run_is_sealed_once(
    cells: tuple[Cell, ...], site: Site, scrapy: Project, tmp_path: Path, redis_url: str, sql: Connection
) -> None:
    """As in a crawl that nobody disturbs; nothing beats, is leased or is on the run after its end."""
    assert set(cells) <= set(CELLS)
    matrix = Matrix(scrapy, site, tmp_path, redis_url=redis_url, database=sql)
    found = {str(cell): faults for cell in cells if (faults := matrix.faults(cell))}
    assert found == {}
