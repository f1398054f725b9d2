"""What a worker remembers as seen."""

from __future__ import annotations

import pytest

from crawlproj.frontier.seen_cache import SeenCache


def test_it_knows_what_was_added_and_nothing_else():
    """A wrong yes would cost a page."""
    cache = SeenCache(1000)
    for n in range(300):
        cache.add(n)
        cache.add(f"http://e.test/{n}")
    assert all(n in cache and f"http://e.test/{n}" in cache for n in range(300))
    assert 300 not in cache
    assert "0" not in cache


def test_it_never_outgrows_its_size():
    """It forgets the older half when it is full, never what was just added."""
    cache = SeenCache(100)
    for n in range(10_000):
        cache.add(n)
        assert n in cache
    known = [n for n in range(10_000) if n in cache]
    assert 50 <= len(known) <= 100
    assert known == list(range(10_000 - len(known), 10_000))


def test_adding_again_forgets_nothing():
    """A link that every page has pushes out no other."""
    cache = SeenCache(100)
    for n in range(40):
        cache.add(n)
    for _ in range(1000):
        cache.add(7)
    assert all(n in cache for n in range(40))


def test_what_is_asked_for_often_stays():
    """A link that every page has is remembered, however many others come and go."""
    cache = SeenCache(100)
    for n in range(1000):
        cache.add("menu")
        cache.add(n)
        assert "menu" in cache


@pytest.mark.parametrize("size", [0, 1])
def test_size_zero_remembers_nothing(size):
    """The cache can be switched off."""
    cache = SeenCache(size)
    cache.add(1)
    assert 1 not in cache
