"""Fixtures of the download handler's tests."""

from tests.processes import forked_processes

__all__ = ["forked_processes"]
