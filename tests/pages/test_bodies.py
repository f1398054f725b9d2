"""Places where bodies are kept outside of the database."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import threading
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import fsspec
import pytest
import zstandard
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from crawlproj.exceptions import BadSetting, BodyDamaged, BodyStoreFailed
from crawlproj.pages import bodies as module
from crawlproj.pages.bodies import Body, DatabaseBodies, body_hash, body_store, read_body

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def body(content: bytes) -> Body:
    return Body(hash=body_hash(content), size=len(content), data=zstandard.compress(content))


@pytest.fixture
def place(tmp_path: Path) -> str:
    return f"file://{tmp_path}/some where/bodies"


@pytest.fixture
def memory() -> Iterator[str]:
    """A place in this process, as one that needs no folders and renames nothing."""
    yield f"memory://{uuid4().hex}"
    MemoryFileSystem.store.clear()


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_unset_is_the_database() -> None:
    """Without the setting, rows hold the bodies themselves."""
    store = body_store(None)
    assert isinstance(store, DatabaseBodies)
    assert store.address is None
    store.check()


async def test_body_is_a_file_named_by_its_content(place: str, tmp_path: Path) -> None:
    """It lies at <aa>/<hash>.zst, compressed, and a second time nothing is written."""
    store = body_store(place)
    store.check()
    assert store.address == place
    one = body(b"<p>one")
    await store.keep([one, body(b"two")])
    name = one.hash.hex()
    found = files(tmp_path / "some where/bodies")
    assert zstandard.decompress(found[f"{name[:2]}/{name}.zst"]) == b"<p>one"
    assert len(found) == 3  # these two, and the empty one of the check
    path = tmp_path / "some where/bodies" / name[:2] / f"{name}.zst"
    before = path.stat()
    await store.keep([one])
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert read_body(place, one.hash) == b"<p>one"


async def test_any_place_that_fsspec_knows(memory: str) -> None:
    """What goes into an object store comes back the same."""
    store = body_store(memory)
    store.check()
    contents = [bytes([n]) * n for n in range(40)]
    await store.keep([body(content) for content in contents])
    assert [read_body(store.address or "", body_hash(content)) for content in contents] == contents


class Renaming(DirFileSystem):
    """A file system over another one that can rename, as SFTP is: its half-written files are seen."""

    protocol = "renaming"
    seen: list[str] = []  # noqa: RUF012  # what was ever written to

    def __init__(self, **options: Any) -> None:
        super().__init__(path="/", fs=fsspec.filesystem("memory"), **options)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path.removeprefix("renaming://")

    def pipe_file(self, path: str, value: bytes, **options: Any) -> None:
        self.seen.append(path)
        super().pipe_file(path, value, **options)

    def mv(self, path1: str, path2: str, **options: Any) -> None:
        super().mv(path1, path2, **options)


async def test_half_written_file_never_has_the_name_of_a_body(memory: str) -> None:
    """Where files can be renamed they get their name when they are whole; one that has it is left alone."""
    fsspec.register_implementation("renaming", Renaming, clobber=True)
    store = body_store(f"renaming://{memory.removeprefix('memory://')}")
    one = body(b"one")
    await store.keep([one])
    await store.keep([one])
    (written,) = Renaming.seen
    assert written.endswith(".part")
    assert read_body(store.address or "", one.hash) == b"one"
    assert not [name for name in MemoryFileSystem.store if name.endswith(".part")]


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("/srv/bodies", "must be a URL, file:///srv/bodies, not"),
        ("bodies", "must be a URL like"),
        ("file://srv/bodies", "after three slashes, file:///srv/bodies, not 'file://srv/bodies'"),
        ("file://./bodies", "after three slashes, file:///bodies, not"),
        ("file://", "after three slashes, file:///srv/bodies, not"),
        ("local://srv/bodies", "after three slashes, file:///srv/bodies, not"),
        ("nosuch://bodies", "Protocol not known: nosuch"),
        ("s3://bucket/bodies", "Install s3fs"),
        ("ftp://me:hush@127.0.0.1:1/bodies", "refused"),
    ],
)
def test_what_is_no_place_is_refused_in_one_sentence(address: str, says: str) -> None:
    """An unknown protocol, a missing package, a server that is not there: the setting, and why."""
    with pytest.raises(BadSetting, match="BODY_STORE") as refused:
        body_store(address)
    assert says in str(refused.value)
    assert "hush" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_place_that_cannot_be_written_to_is_refused(tmp_path: Path) -> None:
    """It is found out before anything is fetched."""
    (tmp_path / "file").touch()
    for address in ("file:///proc/bodies", f"file://{tmp_path}/file"):
        with pytest.raises(BadSetting, match="written to"):
            body_store(address).check()


async def test_failure_is_told_in_one_sentence(place: str, tmp_path: Path, monkeypatch: Any) -> None:
    """A full disk fails the batch, names the place, and leaves no half-written file."""

    def full(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BodyStoreFailed, match="No space left on device") as failed:
        await body_store(place).keep([body(b"one")])
    assert place in str(failed.value)
    assert files(tmp_path) == {}


async def test_place_that_hangs_does_not_hold_the_loop(place: str, monkeypatch: Any) -> None:
    """A place that does not answer counts as away after a time, and gets no second batch beside the first."""
    monkeypatch.setattr(module, "KEEP_SECONDS", 0.05)
    answers, asked = threading.Event(), []
    write = module._LocalFolder.write

    def hang(self: Any, batch: Any) -> None:
        asked.append(len(batch))
        answers.wait(30)
        write(self, batch)

    monkeypatch.setattr(module._LocalFolder, "write", hang)
    store = body_store(place)
    for _ in range(3):
        with pytest.raises(BodyStoreFailed, match="no answer"):
            await store.keep([body(b"one")])
    assert asked == [1]
    answers.set()
    monkeypatch.setattr(module, "KEEP_SECONDS", 30)
    await store.keep([body(b"one"), body(b"two")])
    assert asked == [1, 2]
    assert read_body(place, body_hash(b"two")) == b"two"


async def test_late_error_of_a_hanging_place_is_no_error_of_the_next_batch(
    place: str, monkeypatch: Any
) -> None:
    """What became of the batch that was given up says nothing of the next one."""
    monkeypatch.setattr(module, "KEEP_SECONDS", 0.05)
    answers = threading.Event()
    write = module._LocalFolder.write

    def hang(self: Any, batch: Any) -> None:
        if not answers.is_set():
            answers.wait(30)
            raise OSError("stale file handle")
        write(self, batch)

    monkeypatch.setattr(module._LocalFolder, "write", hang)
    store = body_store(place)
    with pytest.raises(BodyStoreFailed, match="no answer"):
        await store.keep([body(b"one")])
    answers.set()
    monkeypatch.setattr(module, "KEEP_SECONDS", 30)
    await asyncio.gather(store.keep([body(b"one")]))
    assert read_body(place, body_hash(b"one")) == b"one"


async def test_body_that_is_not_what_its_name_says(place: str, tmp_path: Path) -> None:
    """What is gone, or damaged, is told and never handed out; a damaged one is named, with its place."""
    await body_store(place).keep([body(b"one"), body(b"two"), body(b"three")])
    paths = {name.rpartition("/")[2][:-4]: tmp_path / name for name in files(tmp_path)}
    paths[body_hash(b"one").hex()].write_bytes(zstandard.compress(b"another"))
    paths[body_hash(b"two").hex()].unlink()
    with pytest.raises(BodyDamaged, match="another"):
        read_body(place, body_hash(b"one"))
    whole = paths[body_hash(b"three").hex()].read_bytes()
    for broken in (b"", b"?", whole[:5], whole[:-1], b"\x28\xb5\x2f\xfd\xe0" + b"\xfe" * 8):
        paths[body_hash(b"three").hex()].write_bytes(broken)
        with pytest.raises(BodyDamaged) as damaged:
            read_body(place, body_hash(b"three"))
        assert str(damaged.value) == (
            f"the body {body_hash(b'three').hex()} in {place} is damaged: its file cannot be decompressed"
        )
    with pytest.raises(BodyStoreFailed, match="there is no body"):
        read_body(place, body_hash(b"two"))
    with pytest.raises(BodyStoreFailed, match="Protocol not known"):
        read_body("nosuch://bodies", body_hash(b"one"))


def test_login_is_lent_by_the_setting(monkeypatch: Any) -> None:
    """Rows hold no passwords: a body is read with that of the setting, where it means the same place."""
    opened: list[str] = []

    def folder(given: str) -> Any:
        opened.append(given)
        raise BadSetting("BODY_STORE", given, "another one")

    monkeypatch.setattr(module, "_folder", folder)
    for setting in (None, "sftp://me:hush@h/bodies/", "sftp://me:hush@h/others"):
        with pytest.raises(BodyStoreFailed):
            read_body("sftp://h/bodies", b"?" * 32, setting)
    assert opened == ["sftp://h/bodies", "sftp://me:hush@h/bodies/", "sftp://h/bodies"]


def test_hash_names_the_content() -> None:
    """Equal bodies have equal names of 32 bytes, others have not."""
    assert body_hash(b"a") == body_hash(b"a") != body_hash(b"b")
    assert len(body_hash(b"")) == 32
