from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from builders.elf import code, elf_file
from prospect.abi.recorded_facts import KeptImage
from prospect.files.rights import EVERYBODY
from prospect.profile.naming import NameSource
from prospect.symbols.images.recorded_images import RecordedImages
from prospect.symbols.naming_options import SymbolOptions
from prospect.symbols.objects import Missing, ObjectKey

if TYPE_CHECKING:
    from pathlib import Path

ID, OTHER_ID = bytes(range(1, 21)), bytes(range(2, 22))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lib.so"
    path.write_bytes(elf_file(sections=[code()], build_id=ID))
    return path


def key(path: Path, inode: int, build_id: bytes = ID) -> ObjectKey:
    return ObjectKey(os.fsencode(path), build_id, inode=inode)


def is_other(path: Path, inode: int, build_id: bytes = ID, until: float = 0.0) -> bool:
    """Ask of a path with only one file in the recording, and of one with several."""
    images = RecordedImages(SymbolOptions(recorded_until=until))
    alone = images.is_other(key(path, inode, build_id), is_only=True)
    assert images.is_other(key(path, inode, build_id), is_only=False) >= alone
    return alone


def test_a_path_with_the_inode_and_the_build_id_means_one_file(file: Path) -> None:
    assert not is_other(file, file.stat().st_ino)


def test_another_build_id_is_that_of_another_file(file: Path) -> None:
    assert is_other(file, file.stat().st_ino, OTHER_ID)
    assert is_other(file, file.stat().st_ino + 1, OTHER_ID)


def test_another_inode_is_that_of_a_container_where_the_path_has_two(file: Path) -> None:
    images = RecordedImages(SymbolOptions())
    assert images.is_other(key(file, file.stat().st_ino + 1), is_only=False)


def test_a_copy_that_was_put_there_after_the_recording_is_known_by_its_build_id(
    file: Path,
) -> None:
    recorded_inode, until = file.stat().st_ino, time.time()
    copy = file.with_name("copy")
    while copy.exists() is False or copy.stat().st_ctime <= until:
        copy.write_bytes(file.read_bytes())
    os.utime(copy, (1, 1))  # as `cp -p` and tar do
    copy.replace(file)
    assert file.stat().st_ino != recorded_inode
    assert not is_other(file, recorded_inode, until=until)


def test_a_file_that_was_replaced_before_the_end_has_the_build_id_of_the_later_one(
    file: Path,
) -> None:
    # perf reads the build ids of its table from the paths, at the end of the recording.
    assert is_other(file, file.stat().st_ino + 1, until=time.time() + 60)


def test_nothing_is_known_of_files_that_are_gone_or_on_other_machines(file: Path) -> None:
    assert not is_other(file.parent / "gone", 5)
    elsewhere = RecordedImages(SymbolOptions(hostname="no-such-host"))
    assert not elsewhere.is_other(key(file, file.stat().st_ino + 1), is_only=False)


def kept(number: int, build_id: bytes, content: bytes, size: int | None = None) -> KeptImage:
    size = len(content) if size is None else size
    pieces = ((0, len(content)),)
    return KeptImage((8, 1, number), build_id, b"/gone", size, pieces, lambda: content, 10**18)


def test_a_file_that_is_gone_is_the_one_that_the_recording_keeps() -> None:
    first, second = (elf_file(sections=[code(data=bytes([n]) * 64)]) for n in (1, 2))
    with_id = elf_file(sections=[code()], build_id=ID)
    images = (kept(7, b"", first), kept(7, b"", second), kept(9, ID, with_id))
    found = RecordedImages(SymbolOptions(images=images))
    by_id = found.find(ObjectKey(b"/gone", ID), ())
    assert not isinstance(by_id, Missing)
    assert by_id.file.data == with_id
    by_inode = found.find(ObjectKey(b"/gone", b"", 8, 1, 7), ())
    assert not isinstance(by_inode, Missing)
    assert by_inode.file.data == second
    assert by_inode.file.owner == EVERYBODY
    assert by_inode.file.modified_ns == 10**18
    for absent in (ObjectKey(b"/gone", OTHER_ID), ObjectKey(b"/gone", b"", 8, 2, 7)):
        assert isinstance(found.find(absent, ()), Missing)


def test_of_file_systems_that_had_one_number_after_another_the_path_tells() -> None:
    """As AppImages have that run one after another."""
    first, second = (elf_file(sections=[code(data=bytes([n]) * 64)]) for n in (1, 2))
    images = kept(7, b"", first)._replace(path=b"/mnt/first/app"), kept(7, b"", second)
    found = RecordedImages(SymbolOptions(images=images))
    for path, content in ((b"/mnt/first/app", first), (b"/gone", second), (b"/linked", second)):
        image = found.find(ObjectKey(path, b"", 8, 1, 7), ())
        assert not isinstance(image, Missing)
        assert image.file.data == content


def test_a_kept_file_that_is_damaged_or_too_large_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = RecordedImages(SymbolOptions(images=(kept(7, ID, b"no ELF"),)))
    found = damaged.find(ObjectKey(b"/gone", ID), ())
    assert isinstance(found, Missing)
    assert found.reason == NameSource.NO_ELF
    monkeypatch.setenv("PROSPECT_MEMORY", "1M")
    large = elf_file(sections=[code(data=bytes(2 << 20))], build_id=ID)
    found = RecordedImages(SymbolOptions(images=(kept(7, ID, large),))).find(
        ObjectKey(b"/gone", ID), ()
    )
    assert isinstance(found, Missing)
    assert found.reason == NameSource.NO_BUDGET
