"""Where the sockets of embedded servers are."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

LONGEST = 103  # bytes of a socket's path: Linux takes 107, macOS 103
_NAME_LENGTH = 24  # room for the file's name below the folder
_PATIENCE = 5.0


def socket_folder(folder: Path) -> Path:
    """Return the folder for the socket of the server whose files are in *folder*.

    It is *folder* itself, unless its path is too long for a socket, or has a comma, which libpq takes
    for the end of a host: then it is a short one, private as well, derived from the path.
    """
    raw = os.fsencode(folder)
    if len(raw) + _NAME_LENGTH <= LONGEST and b"," not in raw:
        return folder
    # Not $TMPDIR or $XDG_RUNTIME_DIR: all processes of a project have to find the same one.
    return Path(f"/tmp/crawlproj-{hashlib.blake2b(raw, digest_size=10).hexdigest()}")  # noqa: S108


def remove(folder: Path) -> None:
    """Remove the folder outside of *folder* that the socket of its stopped server was in, if any."""
    if (place := socket_folder(folder)) != folder:
        with suppress(OSError):  # not there, or somebody else's
            place.rmdir()


def make_private(folder: Path, owner: tuple[int, int]) -> None:
    """Create *folder* for *owner* alone; refuse one that somebody else has put there."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() != owner[0]:
        os.chown(folder, *owner)
        found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner[0]:
        raise PermissionError(f"{folder} belongs to somebody else")
    if stat.S_IMODE(found.st_mode) != 0o700:  # noqa: PLR2004
        folder.chmod(0o700)


def ask(path: Path, question: bytes, *, size: int) -> bytes:
    """Return the first *size* bytes of the answer to *question*; empty when nobody is there."""
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_PATIENCE)
        connection.connect(os.fspath(path))
        connection.sendall(question)
        answer = b""
        while len(answer) < size and (part := connection.recv(size - len(answer))):
            answer += part
        return answer
    return b""
