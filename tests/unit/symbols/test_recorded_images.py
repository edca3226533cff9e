from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from builders.elf import code, elf_file
from prospect.symbols.objects import ObjectKey
from prospect.symbols.options import SymbolOptions
from prospect.symbols.recorded_images import RecordedImages

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


def test_a_path_with_the_inode_and_the_build_id_means_one_file(file: Path) -> None:
    images = RecordedImages(SymbolOptions())
    assert not images.is_other(key(file, file.stat().st_ino))


def test_another_inode_or_build_id_is_that_of_a_container(file: Path) -> None:
    images, inode = RecordedImages(SymbolOptions()), file.stat().st_ino
    assert images.is_other(key(file, inode + 1))
    assert images.is_other(key(file, inode, OTHER_ID))


def test_nothing_is_known_of_files_that_are_gone_or_on_other_machines(file: Path) -> None:
    assert not RecordedImages(SymbolOptions()).is_other(key(file.parent / "gone", 5))
    elsewhere = RecordedImages(SymbolOptions(hostname="no-such-host"))
    assert not elsewhere.is_other(key(file, file.stat().st_ino + 1))
