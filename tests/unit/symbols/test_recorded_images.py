from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from builders.elf import code, elf_file
from prospect.symbols.images.recorded_images import RecordedImages
from prospect.symbols.naming_options import SymbolOptions
from prospect.symbols.objects import ObjectKey

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
