import errno
import mmap
import os
import socket
from pathlib import Path

import pytest

from prospect.files import held_files
from prospect.files.system_files import read_system_file
from prospect.files.untrusted_open import OpenFile, open_file, open_named
from prospect.profile.naming import NameSource

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


def test_any_name_opens(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/a b\nc\xff"
    Path(os.fsdecode(path)).write_bytes(b"content")
    file = open_file(path)
    assert isinstance(file, OpenFile)
    assert bytes(file.data) == b"content"
    assert file.inode == Path(os.fsdecode(path)).stat().st_ino
    assert file.owner == os.geteuid()


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for path in (tmp_path / "fifo", tmp_path / "socket", tmp_path, Path("/dev/null")):
            assert open_file(os.fsencode(path)) == NameSource.NO_ELF


def test_a_device_is_not_even_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = []
    real = os.open

    def spy(path: object, flag: int, *args: object, **named: object) -> int:
        flags.append(flag)
        return real(path, flag, *args, **named)

    monkeypatch.setattr(os, "open", spy)
    assert open_file(b"/dev/zero") == NameSource.NO_ELF
    assert flags
    assert all(flag & os.O_PATH for flag in flags)


@pytest.mark.parametrize("path", [b"", b"/no/such/file", b"nul\0inside", b"x" * 5000])
def test_a_name_of_nothing_is_no_file(path: bytes) -> None:
    assert open_file(path) == NameSource.NO_FILE


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    os.mkfifo(tmp_path / "fifo")
    before = set(Path("/proc/self/fd").iterdir())
    for name in ("file", "fifo", "none"):
        open_file(os.fsencode(tmp_path / name))
        open_named(os.fsencode(tmp_path / name), os.geteuid())
    assert set(Path("/proc/self/fd").iterdir()) == before


@AS_ROOT
def test_a_big_file_of_another_user_is_read_and_not_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_files, "MAPPED_FROM_BYTES", 1)
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10000)
    assert isinstance(open_file(os.fsencode(path)).data.obj, mmap.mmap)
    os.chown(path, 65534, 65534)
    read = open_file(os.fsencode(path))
    os.truncate(path, 0)
    # Touching the mapping of a file that was cut would kill this process.
    assert bytes(read.data) == b"x" * 10000


@AS_ROOT
def test_a_sparse_giant_of_another_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    os.truncate(path, 1 << 42)
    os.chown(path, 65534, 65534)
    assert open_file(os.fsencode(path)) == NameSource.NO_ELF


def test_below_a_root_no_link_leads_out(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "lib").mkdir(parents=True)
    (root / "lib" / "file").write_bytes(b"inside")
    (tmp_path / "secret").write_bytes(b"outside")
    (root / "etc").symlink_to(tmp_path)
    (root / "lib" / "link").symlink_to("/secret")
    base = os.fsencode(root)
    assert bytes(open_named(b"/lib/file", os.geteuid(), root=base).data) == b"inside"
    for path in (b"/etc/secret", b"/lib/link", b"/../secret", b"/", b"/lib", b"/none"):
        assert isinstance(open_named(path, os.geteuid(), root=base), NameSource)


def test_a_system_file_is_read_to_its_end_or_bound() -> None:
    assert read_system_file("/proc/self/comm")
    assert len(read_system_file("/proc/self/maps", largest_bytes=10)) == 10
    assert read_system_file("/proc/no/such/file") == b""
    assert read_system_file("/proc/self") == b""


def test_what_cannot_be_read_is_not_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PCI device's memory in /sys is such a file: touching its mapping touches the device."""

    def refuse(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    def never(*_: object, **__: object) -> None:
        raise AssertionError("mapped")

    monkeypatch.setattr(held_files, "MAPPED_FROM_BYTES", 1)
    monkeypatch.setattr(os, "pread", refuse)
    monkeypatch.setattr("mmap.mmap", never)
    (tmp_path / "resource0").write_bytes(bytes(100))
    assert open_file(os.fsencode(tmp_path / "resource0")) == NameSource.NO_FILE
