"""Workers that end at each moment of a crawl's life, by each signal, one alone and one of three.

    python -m benchmarks.kill_matrix [--only WORD] [--within 900]

A small site is crawled once in peace. Then, for each moment, signal and number of workers, a worker ends
itself there (`tests/crawl/killer.py`), others go on if there are any, and a fresh one finishes what is left.
Is every page there once, was the run sealed once, and not before? A run that drains has a limit on targets:
those that it counts are there, whoever has fetched them, and no others. One line says how each of these
crawls went, the last one how many were right. Exits with 6 if one was not, or if time ran out.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import crawlproj
import crawlproj.schema
from crawlproj.connections import connect_database, open_redis
from crawlproj.demo import LoopThread
from crawlproj.frontier.frontier import Frontier
from crawlproj.scripts import Scripts
from crawlproj.servers.embedded import join, leave
from crawlproj.testing.preloaded import Preloaded
from crawlproj.testing.project import Project
from crawlproj.testing.site import Site
from tests.crawl.killer import BY, MOMENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from psycopg import Connection

    from crawlproj.testing.preloaded import Forked
    from crawlproj.testing.project import Finished

    Process = subprocess.Popen[str] | Forked

SAYS_NO = 6  #: the exit code of a check that failed
LEAVES = 12
LEASE_SECONDS = 2
BEAT_SECONDS = LEASE_SECONDS / 3
PATIENCE = 60  #: seconds for what takes a few
POLL = 0.05
WORKERS = (1, 3)
WORDS = "<main><p>" + "Some words that anybody can read, quite a few of them. " * 5 + "</p></main>"

#: Each change of a run's state leaves a row.
LOG = """
CREATE TABLE IF NOT EXISTS state_change (name text, was text, becomes text);
CREATE OR REPLACE FUNCTION log_state() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO state_change VALUES (NEW.name, OLD.status, NEW.status); RETURN NEW; END $$;
CREATE OR REPLACE TRIGGER log_state AFTER UPDATE OF status ON crawl
    FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION log_state();
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """One crawl of the matrix."""

    moment: str
    by: str
    workers: int

    def __str__(self) -> str:
        return f"{self.moment}, {self.by}, {self.workers} worker{'s' * (self.workers > 1)}"


CELLS = tuple(Cell(*each) for each in product(MOMENTS, BY, WORKERS))


class Matrix:
    """Crawls the cells, one after the other, each under a name of its own."""

    def __init__(
        self, project: Project, site: Site, folder: Path, *, redis_url: str, database: Connection[Any]
    ) -> None:
        self._project = project
        self._site = site
        self._folder = folder
        self._redis_url = redis_url
        self._database = database
        self._number = 0
        self._undisturbed: set[tuple[Any, ...]] = set()
        database.execute(LOG)
        site.add("/", page(f"/{n}" for n in range(LEAVES)))
        for n in range(LEAVES):
            # The last ones take longer: while they do, a run with a limit drains.
            site.add(f"/{n}", page([f"/behind/{n}"]), delay=0.5 if n >= LEAVES - 4 else 0.1)
        site.add("/behind/*", page(()))

    def faults(self, cell: Cell) -> list[str]:
        """Return what went wrong in a cell, a line each."""
        if not self._undisturbed:
            done = self.crawl(self.settings("peaceful"))
            assert done.returncode == 0, done.stderr
            self._undisturbed = self.pages("peaceful")
            assert len(self._undisturbed) == 1 + 2 * LEAVES
        self._number += 1
        return _Run(self, cell, f"cell-{self._number}").faults(self._undisturbed)

    def crawl(self, settings: dict[str, Any]) -> Finished:
        """Crawl to the end."""
        return self._project("crawl", "site", *self._arguments(), settings=settings, timeout=PATIENCE)

    def start(self, settings: dict[str, Any]) -> Process:
        """Start a worker."""
        return self._project.start("crawl", "site", *self._arguments(), settings=settings)

    def settings(self, name: str) -> dict[str, Any]:
        """Return how it is crawled."""
        speed = {"MIN_INTERVAL_MS": 0, "HOST_MAX_IN_FLIGHT": 4, "LEASE_SECONDS": LEASE_SECONDS}
        return {"CRAWL_NAME": name, "ROBOTSTXT_OBEY": False, **speed}

    def _arguments(self) -> tuple[str, ...]:
        return "-a", f"seeds={self._site.url}/"

    def pages(self, name: str) -> set[tuple[Any, ...]]:
        """Return the pages of a crawl, and what became of each."""
        return set(
            self.rows("SELECT url, fetch_status, schedule_status FROM page WHERE crawl_name = %s", name)
        )

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Ask the database."""
        return self._database.execute(query.encode(), values).fetchall()

    def mark(self, name: str) -> Path:
        """Return the file that says which process has ended itself."""
        return self._folder / f"{name}.mark"

    async def check(self, frontier: str, *, sealed: bool) -> list[str]:
        """Return what is inconsistent about a frontier, or that it is there though its run is *sealed*."""
        redis = open_redis(self._redis_url)
        scripts = Scripts(redis, "look")
        try:
            there = Frontier(redis, scripts, frontier)
            if not await there.exists():
                return []
            return ["it is left behind"] if sealed else await there.check()
        finally:
            await scripts.close()
            await redis.aclose()


class _Run:
    """The crawl of one cell."""

    def __init__(self, matrix: Matrix, cell: Cell, name: str) -> None:
        self._matrix = matrix
        self._cell = cell
        self._name = name
        self._found: list[str] = []

    def faults(self, wanted: set[tuple[Any, ...]]) -> list[str]:
        """Crawl, and return what is not as it should be."""
        matrix, cell, mark = self._matrix, self._cell, self._matrix.mark(self._name)
        settings = matrix.settings(self._name)
        if cell.moment == "draining":
            settings["MAX_TARGET"] = 1 + LEAVES  # the first pages reach it
        killing = {
            "KILL_AT": cell.moment,
            "KILL_BY": cell.by,
            "KILL_MARK": str(mark),
            "EXTENSIONS": {"tests.crawl.killer.Killer": 1},
        }
        workers = [
            matrix.start({**settings, **killing, "WORKER_ID": f"{self._name}-{n}"})
            for n in range(cell.workers)
        ]
        # A worker that comes when the run is over makes no next one.
        fresh = {**settings, "CRAWL_JOIN": True, "WORKER_ID": f"{self._name}-fresh"}
        try:
            if not within(PATIENCE, lambda: mark.exists() and mark.read_text()):
                return ["no worker has come to this moment"]
            number = [each.pid for each in workers].index(int(mark.read_text().split()[0]))
            self._see_off(workers[number], f"{self._name}-{number}")
            if len(mark.read_text().split()) != len(BY[cell.by]):
                self._found.append("not tried: it ended before all signals had come")
            if not self._is_sealed():
                workers.append(matrix.start(fresh))
            for worker in workers:
                try:
                    _, err = worker.communicate(timeout=PATIENCE)
                except subprocess.TimeoutExpired:
                    return [*self._found, "a worker does not come to an end"]
                late = worker is workers[-1] and worker.returncode == 3  # nothing was left to join
                if worker is not workers[number] and worker.returncode != 0 and not late:
                    self._found.append(f"another worker ended with {worker.returncode}: {err[-300:]}")
        finally:
            for worker in workers:
                worker.kill()
        self._look(wanted)
        return self._found

    def _see_off(self, worker: Process, name: str) -> None:
        """Wait for the end of who has ended itself; see that nothing of it beats, and that all adds up."""
        try:
            _, err = worker.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self._found.append("it does not come to an end")
            return
        codes = {-9} if self._cell.by == "SIGKILL" else {11}
        if self._cell.moment in {"cleanup", "closed"} and codes == {11}:
            codes.add(0)  # it had done all it had to
        if worker.returncode not in codes:
            self._found.append(f"it ended with {worker.returncode}: {err[-300:]}")
        before = self._held_until(name)
        ((due, frontier),) = self._matrix.rows(
            "SELECT retry_at, frontier FROM crawl WHERE name = %s AND run = 1", self._name
        )
        time.sleep(BEAT_SECONDS * 1.5)  # it would have beaten by now
        if (after := self._held_until(name)) and after != before:
            self._found.append(f"its lease was renewed after its end, from {before} to {after}")
        if self._cell.workers == 1:
            ((now_due,),) = self._matrix.rows(
                "SELECT retry_at FROM crawl WHERE name = %s AND run = 1", self._name
            )
            if now_due != due:
                self._found.append(f"the run was due at {due}, and then at {now_due}")
            if not self._is_sealed():
                self._check(frontier, sealed=False)

    def _check(self, frontier: str, *, sealed: bool) -> None:
        matrix = self._matrix
        faults = asyncio.run(matrix.check(frontier, sealed=sealed))
        if faults and sealed and self._cell.by == "SIGINT twice":
            # Stopped at once between the seal and the drop: the next worker, of any crawl, drops it.
            matrix.crawl(matrix.settings("tidying"))
            faults = asyncio.run(matrix.check(frontier, sealed=sealed))
        self._found += [f"frontier: {fault}" for fault in faults]

    def _held_until(self, worker: str) -> list[tuple[Any, ...]]:
        return self._matrix.rows("SELECT expires_at FROM worker_lease WHERE worker = %s", worker)

    def _is_sealed(self) -> bool:
        return self._matrix.rows("SELECT status FROM crawl WHERE name = %s", self._name) == [("sealed",)]

    def _look(self, wanted: set[tuple[Any, ...]]) -> None:
        """See that every page is there, and that the run was sealed once, when nothing was left of it."""
        matrix, name = self._matrix, self._name
        reason, left_over = "done", 0
        if self._cell.moment == "draining":
            reason, left_over = "ExceedTargetsCountLimit", LEAVES
            wanted = {page for page in wanted if "/behind/" not in page[0]}
        ends = [(1, "sealed", None, reason)]
        pages = matrix.pages(name)
        if pages != wanted:
            lost, others = sorted(wanted - pages), sorted(pages - wanted)
            self._found.append(
                f"{len(lost)} pages are missing, as {lost[:2]}; {len(others)} are others, as {others[:2]}"
            )
        runs = matrix.rows(
            "SELECT run, status, retry_at, stop_reason FROM crawl WHERE name = %s ORDER BY run", name
        )
        if runs != ends:
            self._found.append(f"its runs are not as they should be: {runs}")
        ((left, frontier),) = matrix.rows(
            "SELECT counts -> 'queued', frontier FROM crawl WHERE name = %s ORDER BY run DESC LIMIT 1", name
        )
        if left != left_over:
            self._found.append(f"{left} URLs were queued when it was sealed")
        self._check(frontier, sealed=True)
        changes = matrix.rows("SELECT was, becomes FROM state_change WHERE name = %s", name)
        if changes != [("queued", "started"), ("started", "sealed")]:
            self._found.append(f"its states were {changes}")
        if leases := matrix.rows(
            "SELECT worker FROM worker_lease JOIN crawl ON crawl.id = crawl_id WHERE name = %s", name
        ):
            self._found.append(f"workers are left on the run: {leases}")


def page(links: Iterator[str] | list[str] | tuple[()]) -> str:
    """Return a page with text and links."""
    return f"<html><body>{WORDS}{''.join(f'<a href={link!r}>x</a>' for link in links)}</body></html>"


def within(seconds: float, condition: Callable[[], object]) -> bool:
    """Wait for *condition*, for so long at most; say whether it has come."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL)
    return True


def main() -> int:
    """Crawl every cell on servers of its own and say how each went."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument(
        "--only", default="", metavar="WORD", help="cells whose line has it: 'SIGKILL', 'setup'"
    )
    options.add_argument("--within", type=float, default=900, help="seconds that the whole matrix may take")
    given = options.parse_args()
    cells = [cell for cell in CELLS if given.only in str(cell)]
    began, wrong, done = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory(prefix="kill-matrix-") as name:
        home = Path(name) / "home"
        joined = join(home)
        env = {"REDIS_URL": str(joined.redis_url), "DATABASE_URL": str(joined.database_url)}
        root = Path(crawlproj.__path__[0]).parent
        try:
            with (
                Preloaded() as preloaded,
                LoopThread() as loop,
                Site(loop) as site,
                connect_database(env["DATABASE_URL"]) as database,
            ):
                crawlproj.schema.migrate(database)
                project = Project(root, work=Path(name), env=env, preloaded=preloaded)
                matrix = Matrix(project, site, Path(name), redis_url=env["REDIS_URL"], database=database)
                for cell in cells:
                    if time.monotonic() - began > given.within:
                        break
                    at = time.monotonic()
                    faults = matrix.faults(cell)
                    done, wrong = done + 1, wrong + bool(faults)
                    verdict = "; ".join(faults) or "right"
                    print(f"{cell!s:<36} {time.monotonic() - at:5.1f} s  {verdict}", flush=True)
        finally:
            leave(home, now=True)
    print(f"{done - wrong} of {len(cells)} right, {wrong} wrong, {len(cells) - done} not tried")
    return SAYS_NO if wrong or done < len(cells) else 0


if __name__ == "__main__":
    sys.exit(main())
