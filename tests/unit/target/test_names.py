"""Files that a target sends are kept for its own recordings, and replace no others."""

import os
from pathlib import Path

import pytest

from builders.elf import code, elf_file
from builders.perfdata import USUAL, FileBuilder, RecordBuilder
from builders.perfdata_features import feature_string
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.perfdata.reader import open_recording
from prospect.symbols.images.debug_files import EXECUTABLE, KERNEL_LISTING, kept_for, kept_name
from prospect.symbols.kernel.kernel_listings import kept_listings
from prospect.target.target_names import LiveNames, keep, mark_target

ID = bytes(range(20))
CLOCK = EventDescription(EventAttr(sample_type=USUAL, flags=abi.FLAG_SAMPLE_ID_ALL), (1,), "clock")
RECORDS = RecordBuilder(USUAL)
SAMPLES = [RECORDS.sample(ip=i, pid=5, tid=5, time=i, id=1) for i in range(50)]
FILE = FileBuilder([CLOCK], SAMPLES, {3: feature_string("host"), 4: feature_string("6.1")}).file()
PROGRAM = elf_file(sections=[code()], build_id=ID)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PROSPECT_NO_CACHE", raising=False)
    return tmp_path / "prospect"


def marked(path: Path, content: bytes, target: str) -> str | None:
    path.write_bytes(content)
    with path.open("r+b") as file:
        if not mark_target(file.fileno(), target):
            assert path.read_bytes() == content
            return None
    with open_recording(str(path)) as recording:
        assert sum(len(block.data) for block in recording.blocks()) >= sum(map(len, SAMPLES))
        assert recording.damage == []
        return recording.info.target


@pytest.mark.parametrize("target", ["root@db1", "ssh://user@[::1]:22", "\udcff"])
def test_a_recording_says_which_target_it_came_from(tmp_path: Path, target: str) -> None:
    assert marked(tmp_path / "file", FILE, target) == target
    stream = FileBuilder([CLOCK], SAMPLES, {}).pipe()
    assert marked(tmp_path / "pipe", stream, target) == target
    # A mark that the target wrote itself does not count.
    assert marked(tmp_path / "pipe", (tmp_path / "pipe").read_bytes(), "other") == "other"
    assert marked(tmp_path / "file", (tmp_path / "file").read_bytes(), "other") is None


@pytest.mark.parametrize("size", [0, 8, 100, 104, 300, len(FILE) - 60])
def test_a_damaged_recording_is_left_as_it_is(tmp_path: Path, size: int) -> None:
    assert marked(tmp_path / "file", FILE[:size], "there") is None


def sends(content: bytes):
    return lambda _, descriptor: os.write(descriptor, content) == len(content)


def names(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*.*"))


def test_what_a_target_sends_replaces_nothing(cache: Path) -> None:
    victim = cache / kept_name(ID, EXECUTABLE)
    cache.mkdir(0o700)
    victim.write_bytes(b"a server's")
    of_target = Path(kept_for("there").path)
    for content in (PROGRAM, elf_file(sections=[code(), code()], build_id=ID)):
        live = LiveNames(sends(content), "there")
        live._keep_mapped(live._kept, (8, 1, 4711), "/opt/whatever", 1)
        assert live.read["build_id"] == [ID.hex()]
        keep(kept_for("there"), "/opt/whatever", ID, sends(content), is_kernel=False)
    assert victim.read_bytes() == b"a server's"
    assert (of_target / victim.name).read_bytes() == PROGRAM
    assert names(of_target) == [victim.name]
    keep(kept_for("there"), "/bin/x", bytes(20), sends(PROGRAM), is_kernel=False)
    assert names(of_target) == [victim.name]


def test_a_kernels_listing_names_the_kernel_of_its_target_only(tmp_path: Path, cache: Path) -> None:
    listing = b"ffffffff81000000 T _text\nffffffff81000100 T planted\nffffffff81000200 T _end\n"
    for one in (listing, b""):
        keep(kept_for("there"), "/proc/kallsyms", ID, sends(one), is_kernel=True)
    assert not (cache / kept_name(ID, KERNEL_LISTING)).exists()
    (table,) = kept_listings(ID, "", str(tmp_path), "there")
    assert b"planted" in bytes(table.strings)
    for other in ("", "elsewhere"):
        assert list(kept_listings(ID, "", str(tmp_path), other)) == []
