"""`scrapy migrate`: bring the database's schema up to date, or ask whether it is."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from crawlproj import cli
from crawlproj.exceptions import SchemaMismatch
from crawlproj.output import Output, duration

if TYPE_CHECKING:
    import argparse

CHECK_SAID_NO = 6


class Command(cli.Command):
    """Apply the migrations that are missing."""

    usage = "[--check]"
    summary = "Bring the schema of the database up to date"
    details = (
        "All that is missing is applied in one transaction. The embedded database does this by itself;\n"
        "a database given in DATABASE_URL waits for this command. Several may run at once."
    )
    examples = (
        "scrapy migrate            apply what is missing",
        "scrapy migrate --check    change nothing; exit code 6 if something is missing",
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add --check."""
        super().add_options(parser)
        parser.add_argument("--check", action="store_true", help="only say whether something is missing")

    def work(self, args: list[str], opts: argparse.Namespace) -> int | None:
        """Migrate, or compare."""
        from crawlproj import schema  # noqa: PLC0415  # keeps `scrapy` quick to start
        from crawlproj.connections import connect_database  # noqa: PLC0415

        out = Output()
        with contextlib.closing(connect_database(self.addresses(redis=False).database_url)) as connection:
            have, want = schema.check(connection)
            if opts.check:
                return _compare(out, have, want)
            began = time.monotonic()
            applied = schema.migrate(connection)
            if applied:
                steps = " · ".join(name.replace("_", " ") for name in applied)
                out.line(f"{have} → {want}  {steps} · done in {duration(time.monotonic() - began)}")
            else:
                out.line(f"schema {have}, nothing to do")
        return None


def _compare(out: Output, have: int, want: int) -> int:
    if have > want:
        raise SchemaMismatch(f"the database has schema {have}, newer than the {want} of this code")
    if have < want:
        out.line(f"schema {have}, this code wants {want}: run `scrapy migrate`")
        return CHECK_SAID_NO
    out.line(f"schema {have}, as this code wants it")
    return 0
