"""Where the bytes of page objects are kept: each distinct content once, zstd-compressed.

That is the table `body`, or any place that fsspec knows: there a body is the file `<aa>/<hash>.zst`,
and its row in `body` says in which place.
"""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import zstandard

from crawlproj.exceptions import BadSetting, BodyDamaged, BodyStoreFailed
from crawlproj.redaction import redact, what_it_says, without_login

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

KEEP_SECONDS = 60.0  #: how long a place may take for one batch; after that it counts as away
_AT_ONCE = 16
_WANT = "a URL like file:///srv/bodies or s3://bucket/bodies"


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """One content on its way into the store."""

    hash: bytes  #: 32 bytes
    size: int  #: before compression
    data: bytes  #: zstd


class BodyStore(Protocol):
    """Takes bodies before the transaction that stores their pages begins."""

    @property
    def address(self) -> str | None:
        """What rows say of where their bodies are; None: bodies go into the rows."""

    def check(self) -> None:
        """Raise BadSetting if bodies cannot be kept. Blocks."""

    async def keep(self, bodies: Sequence[Body]) -> None:
        """Return when all of *bodies* are safe. Raises BodyStoreFailed; then some of them may be."""


class DatabaseBodies:
    """Every body goes into the table `body`, in the statement that stores its page."""

    address = None

    def check(self) -> None:
        """Whether the database answers is somebody else's question."""

    async def keep(self, bodies: Sequence[Body]) -> None:
        """Do nothing."""


class FolderBodies:
    """Bodies are files in a folder that fsspec reaches; rows say which folder."""

    def __init__(self, given: str) -> None:
        """Raise BadSetting when fsspec does not know the place, or needs a package that is not there."""
        self._given = given
        self._folder = _folder(given)
        self.address = self._folder.address
        self._at_work: asyncio.Future[Exception | None] | None = None

    def check(self) -> None:
        """Raise BadSetting unless a body can be kept: the empty one is, as good as any."""
        try:
            self._folder.write([Body(hash=body_hash(b""), size=0, data=zstandard.compress(b""))])
        except Exception as error:  # noqa: BLE001  # every file system has errors of its own
            why = what_it_says(error, self._given)
            want = f"a place that can be written to ({why})"
            raise BadSetting("BODY_STORE", redact(self._given), want) from None

    async def keep(self, bodies: Sequence[Body]) -> None:
        """Return when all of *bodies* are safe. A batch that hangs is waited for, and never doubled."""
        where = redact(self._given)
        try:
            async with asyncio.timeout(KEEP_SECONDS):
                if self._at_work is not None:
                    await asyncio.wait([self._at_work])
                self._at_work = _in_a_thread(self._folder.write, bodies)
                error = await asyncio.shield(self._at_work)
        except TimeoutError:
            raise BodyStoreFailed(where, f"no answer for {KEEP_SECONDS:.0f} s") from None
        if error is not None:
            raise BodyStoreFailed(where, what_it_says(error, self._given)) from error


def body_store(address: str | None) -> BodyStore:
    """Return the body store that the setting BODY_STORE names. Raises BadSetting."""
    return DatabaseBodies() if address is None else FolderBodies(address)


def read_body(address: str, name: bytes, setting: str | None = None) -> bytes:
    """Return the body called *name* from the place that its row names. Blocks.

    Raises BodyStoreFailed when the place does not give it, BodyDamaged when what it gives is not the body.
    Rows hold no logins: the *setting* BODY_STORE lends its own, when it means the same place.
    """
    given = setting if setting is not None and _shortened(setting) == _shortened(address) else address
    try:
        packed = _folder(given).read(name)
    except BadSetting as error:
        raise BodyStoreFailed(redact(address), str(error)) from None
    except FileNotFoundError:
        raise BodyStoreFailed(redact(address), f"there is no body {name.hex()} any more") from None
    except Exception as error:  # every file system has errors of its own
        raise BodyStoreFailed(redact(address), what_it_says(error, given)) from error
    return _unpacked(packed, name, redact(address))


def _unpacked(packed: bytes, name: bytes, where: str) -> bytes:
    """Return what a file holds, if that is the body called *name*. Raises BodyDamaged."""
    try:
        body = zstandard.ZstdDecompressor().decompress(packed)
    except (zstandard.ZstdError, MemoryError):  # a damaged size can be any size
        raise BodyDamaged(where, name.hex(), "its file cannot be decompressed") from None
    if body_hash(body) != name:
        raise BodyDamaged(where, name.hex(), "its file has another content")
    return body


def body_hash(body: bytes) -> bytes:
    """Return the 32 bytes that name a content."""
    return blake2b(body, digest_size=32).digest()


class _Folder:
    """Files in any file system; an upload to an object store is there as a whole, or it is not."""

    def __init__(self, files: Any, root: str, address: str) -> None:
        self._files = files
        self._root = root.rstrip("/")
        self.address = address

    def write(self, bodies: Sequence[Body]) -> None:
        self._files.pipe({self._path(body.hash): body.data for body in bodies})

    def read(self, name: bytes) -> bytes:
        return bytes(self._files.cat_file(self._path(name)))

    def _path(self, name: bytes) -> str:
        digits = name.hex()
        return f"{self._root}/{digits[:2]}/{digits}.zst"


class _RenamingFolder(_Folder):
    """Files where a half-written one would be seen, and can be renamed: SFTP, SMB, HDFS and the like."""

    def write(self, bodies: Sequence[Body]) -> None:
        for body in bodies:
            path = self._path(body.hash)
            if self._files.exists(path):
                continue
            part = f"{path}.{uuid4().hex}.part"
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._files.pipe_file(part, body.data)
            self._files.mv(part, path)


class _LocalFolder(_Folder):
    """Files of this machine. They are on the disk before the row that names them is.

    Many are written at once: a disk is as quickly done with sixteen of them as with one.
    """

    def write(self, bodies: Sequence[Body]) -> None:
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="bodies") as pool:
            folders = {path.parent for path in pool.map(self._write, bodies) if path is not None}
            for _ in pool.map(_to_disk, folders):
                pass

    def _write(self, body: Body) -> Path | None:
        path = Path(self._path(body.hash))
        if path.exists():
            return None
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{uuid4().hex}.part")
        try:
            with part.open("xb") as file:
                file.write(body.data)
                file.flush()
                os.fsync(file.fileno())
            part.rename(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        return path


def _to_disk(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _folder(given: str) -> _Folder:
    """Return the folder that an address means. Raises BadSetting."""
    if "://" not in given:
        raise BadSetting("BODY_STORE", given, f"a URL, file://{given}" if given.startswith("/") else _WANT)
    # It takes a tenth of a second, which only those who use it pay.
    from fsspec.core import url_to_fs  # noqa: PLC0415
    from fsspec.implementations.local import LocalFileSystem  # noqa: PLC0415
    from fsspec.spec import AbstractFileSystem  # noqa: PLC0415

    try:
        files, root = url_to_fs(given)
    except Exception as error:  # noqa: BLE001  # every file system has errors of its own
        why = what_it_says(error, given)
        raise BadSetting("BODY_STORE", redact(given), f"{_WANT} that fsspec can open ({why})") from None
    if isinstance(files, LocalFileSystem):
        path = without_login(given).partition("://")[2]
        if not path.startswith(("/", "~")):  # fsspec would look for it where the process was started
            want = f"a whole path after three slashes, {_with_three(path)}"
            raise BadSetting("BODY_STORE", redact(given), want)
        return _LocalFolder(files, root, f"file://{root}")
    renames = type(files).mv is not AbstractFileSystem.mv
    return (_RenamingFolder if renames else _Folder)(files, root, _shortened(given))


def _with_three(path: str) -> str:
    return f"file:///{path.removeprefix('./') or 'srv/bodies'}"


def _shortened(address: str) -> str:
    return without_login(address).rstrip("/")


def _in_a_thread(
    work: Callable[[Sequence[Body]], None], bodies: Sequence[Body]
) -> asyncio.Future[Exception | None]:
    """Run *work* in a thread that a process does not wait for when it ends: a place may hang for ever.

    The result is the error that it ended with.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Exception | None] = loop.create_future()

    def settle(error: Exception | None) -> None:
        if not ended.done():
            ended.set_result(error)

    def run() -> None:
        error: Exception | None = None
        try:
            work(bodies)
        except Exception as caught:  # noqa: BLE001  # whoever waits is told
            error = caught
        with suppress(RuntimeError):  # the loop has been closed meanwhile
            loop.call_soon_threadsafe(settle, error)

    threading.Thread(target=run, name="bodies", daemon=True).start()
    return ended
