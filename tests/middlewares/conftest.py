"""Fixtures of the middlewares' tests."""

from tests.processes import forked_processes

__all__ = ["forked_processes"]
