"""What the fleet knows of a domain, as it is kept."""

from __future__ import annotations

import math

import pytest

from crawlproj.sampler.profile import Profile, delay_ms


@pytest.mark.parametrize(
    ("seconds", "milliseconds"),
    [
        (0.5, 500),
        (3, 3000),
        (0.0004, 1),  # something is not nothing
        (3600, 3_600_000),  # cut by the knob, not here
        (1e12, 86_400_000),
        (math.inf, 86_400_000),
        (0, 0),
        (-1, 0),
        (math.nan, 0),
    ],
)
def test_a_crawl_delay_in_milliseconds(seconds: float, milliseconds: int) -> None:
    """Whole ones, never fewer than asked for."""
    assert delay_ms(seconds) == milliseconds


def test_a_profile_is_read_from_its_hash() -> None:
    """What is none of ours is left out."""
    flat = [b"crawl_delay_ms", b"2000", b"lang:ja", b"3", b"lang:en", b"x", b"renders", b"1"]
    profile = Profile.from_hash("a.example", flat)
    assert (profile.crawl_delay_ms, profile.votes, profile.samples) == (2000, {"ja": 3}, 3)
    assert profile.language == "ja"


def test_nothing_is_known_of_a_new_domain_but_its_country() -> None:
    """No crawl-delay is not a crawl-delay of none."""
    profile = Profile.from_hash("www.example.jp", [])
    assert (profile.crawl_delay_ms, profile.samples, profile.language) == (None, 0, "ja")
