"""The account that PostgreSQL runs as when we are root, and its way to its files."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import struct
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

from crawlproj.servers.process import environment, identity

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ACCOUNT = "pgserver"  # what the package of the programs calls it too

_ACL = "system.posix_acl_access"
_ACL_VERSION = 2
_USER_OBJ, _USER, _GROUP_OBJ, _GROUP, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
_NOBODY = 0xFFFF_FFFF  # the id of entries that have none
_SEARCH = 0o1


def server_account() -> tuple[int, int]:
    """Return user and group of the account, created when there is none."""
    with suppress(KeyError):
        return pwd.getpwnam(ACCOUNT)[2:4]
    useradd = ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/bin/false", ACCOUNT]
    adduser = ["adduser", "-S", "-D", "-H", "-s", "/bin/false", ACCOUNT]
    command = useradd if shutil.which("useradd") else adduser
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    try:  # another process may have been quicker, so its word is not the exit code's
        return pwd.getpwnam(ACCOUNT)[2:4]
    except KeyError:
        why = done.stderr.strip() or f"exit code {done.returncode}"
        raise PermissionError(f"no account {ACCOUNT!r} can be made to run it: {why}") from None


def let_in(owner: tuple[int, int], folders: Iterable[Path], programs: Path) -> None:
    """Let *owner* reach each of *folders* and run what is in *programs*, when it cannot yet.

    A folder on the way gets one more entry in its access list: that this account may pass through,
    which is less than listing it. Nobody else gets anything. Only where the file system has no
    access lists is the folder opened to everybody who knows the name of something inside.
    """
    if os.geteuid() != 0 or _succeeds(owner, _ALL, *folders, programs):
        return
    for folder in (*folders, programs):
        for step in reversed((folder, *folder.parents)):
            if not _succeeds(owner, _ENTER, step):
                _open_for(step, owner[0])
    if not _succeeds(owner, _ALL, *folders, programs):
        _publish(programs.parent)  # a package installed with a strict umask


_ENTER = 'cd -- "$1"'
_ALL = """
for each; do cd -- "$each" || exit; done
test -r ../share/postgresql/postgres.bki && ./postgres --version
"""


def _succeeds(owner: tuple[int, int], script: str, *arguments: Path) -> bool:
    # Asked as that user: access lists and whatever else there is have their say.
    done = subprocess.run(  # noqa: S603
        ["/bin/sh", "-c", script, "sh", *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        check=False, cwd="/", env=environment(), **identity(owner),
    )  # fmt: skip
    return done.returncode == 0


def _publish(package: Path) -> None:
    """Make the files of an installed package readable: there is nothing secret in them."""
    libraries = package.parent.with_name(package.parent.name + ".libs")
    for root in (package, libraries):
        for path in (root, *root.rglob("*")):
            mode = stat.S_IMODE(path.stat().st_mode)
            path.chmod(mode | 0o044 | (0o011 if mode & stat.S_IXUSR else 0))


def _open_for(folder: Path, user: int) -> None:
    try:
        os.setxattr(folder, _ACL, with_search(_access_list(folder), user))
    except (OSError, AttributeError):
        folder.chmod(stat.S_IMODE(folder.stat().st_mode) | stat.S_IXOTH)


def _access_list(folder: Path) -> bytes:
    with suppress(OSError):
        return os.getxattr(folder, _ACL)
    mode = folder.stat().st_mode
    parts = ((_USER_OBJ, mode >> 6), (_GROUP_OBJ, mode >> 3), (_OTHER, mode))
    return struct.pack("<I", _ACL_VERSION) + b"".join(
        struct.pack("<HHI", tag, bits & 7, _NOBODY) for tag, bits in parts
    )


def with_search(access_list: bytes, user: int) -> bytes:
    """Return *access_list*, as Linux keeps it, with the right of *user* to pass through."""
    entries = {(tag, who): bits for tag, bits, who in struct.iter_unpack("<HHI", access_list[4:])}
    group_bits = entries[_GROUP_OBJ, _NOBODY]
    entries[_MASK, _NOBODY] = entries.get((_MASK, _NOBODY), group_bits) | _SEARCH
    entries[_USER, user] = entries.get((_USER, user), 0) | _SEARCH
    packed = (struct.pack("<HHI", tag, bits, who) for (tag, who), bits in sorted(entries.items()))
    return access_list[:4] + b"".join(packed)
