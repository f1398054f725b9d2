"""Access lists, as Linux keeps them."""

from __future__ import annotations

import os
import struct
import subprocess

import pytest

from crawlproj.servers import accounts


def entries(access_list):
    """The entries of *access_list*."""
    return [(tag, bits, who) for tag, bits, who in struct.iter_unpack("<HHI", access_list[4:])]


def of(*parts):
    """An access list of *parts*."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *part) for part in parts)


NONE = 0xFFFFFFFF


def test_search_is_added_for_one_user_and_nothing_else():
    """The mask lets the new entry count; owner, group and others stay as they were."""
    before = of((1, 7, NONE), (4, 0, NONE), (0x20, 0, NONE))
    after = entries(accounts.with_search(before, 1001))
    assert after == [(1, 7, NONE), (2, 1, 1001), (4, 0, NONE), (0x10, 1, NONE), (0x20, 0, NONE)]


def test_entries_of_others_stay():
    """A list that an administrator has made keeps all it says."""
    before = of(
        (1, 7, NONE), (2, 5, 7), (2, 4, 1001), (4, 5, NONE), (8, 6, 3), (0x10, 7, NONE), (0x20, 0, NONE)
    )
    after = entries(accounts.with_search(before, 1001))
    assert after == [
        (1, 7, NONE), (2, 5, 7), (2, 5, 1001), (4, 5, NONE), (8, 6, 3), (0x10, 7, NONE), (0x20, 0, NONE),
    ]  # fmt: skip


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for other accounts")
def test_the_kernel_takes_it(folder):
    """One account passes through a closed folder; the owner's and the others' rights are untouched."""
    inside = folder / "closed" / "open"
    inside.mkdir(parents=True)
    inside.chmod(0o755)
    closed = inside.parent
    folder.chmod(0o755)
    closed.chmod(0o700)
    enter = ["/bin/sh", "-c", f"cd {inside}"]

    def code(user):
        return subprocess.run(enter, user=user, group=user, extra_groups=[], check=False, cwd="/").returncode

    assert code(65534) != 0
    accounts._open_for(closed, 65534)
    assert code(65534) == 0
    assert code(65533) != 0
    assert closed.stat().st_mode & 0o707 == 0o700
