"""Files of other users share a memory: the smallest have it first, whichever is asked for first."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from builders.elf import Section, Symbol, code, debug_link_section, elf_file
from prospect.assembly.code.recorded_objects import RecordedObjects
from prospect.assembly.stacks.recorded_code import RecordedCode
from prospect.elf import elf_layout
from prospect.files.budget import CostlyError, ReadBudget, of_others
from prospect.lines.finder import LineFinder
from prospect.profile.naming import NameSource
from prospect.symbols.images.recorded_images import RecordedImages
from prospect.symbols.naming_options import SymbolOptions
from prospect.symbols.objects import HitObject, Missing, ObjectKey
from prospect.symbols.symbolizer import Symbolizer

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of others")
STRANGER, NEIGHBOUR = 4242, 4243
FUNCTION = Symbol("f", 0x1000, 64)


@pytest.fixture(autouse=True)
def memory(monkeypatch):
    """Four megabytes for all files of others that stay."""
    assert of_others.bytes < 1 << 20
    monkeypatch.setenv("PROSPECT_MEMORY", str((4 << 20) * 4 // 3 + of_others.bytes))


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A directory that everybody may reach, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        yield Path(directory)


def written(path: Path, owner: int, padding: int, **parts) -> ObjectKey:
    """Write an image with a build id of its own, and `padding` bytes besides."""
    sections = [code(), *parts.pop("sections", ()), Section("padding", bytes(padding))]
    build_id = path.name.encode().ljust(20, b"\1")
    path.write_bytes(elf_file(sections=sections, build_id=build_id, **parts))
    os.chown(path, owner, owner)
    return ObjectKey(bytes(path), build_id)


def with_debug_file(directory: Path, name: str, owner: int, padding: int) -> ObjectKey:
    """Write a stripped image, and the debug file that it names."""
    link = debug_link_section(f"{name}.debug", 0)
    key = written(directory / name, owner, 0, sections=[link])
    debug = directory / f"{name}.debug"
    parts = [code(size=0x1000), Section("padding", bytes(padding))]
    debug.write_bytes(elf_file(sections=parts, symbols=[FUNCTION], build_id=key.build_id))
    os.chown(debug, owner, owner)
    return key


def names(symbolizer: Symbolizer, keys: list[ObjectKey]) -> list[str]:
    """Name the first byte of each image's code."""
    symbolizer.fetch([HitObject(key, (), 1) for key in keys], None)
    found = []
    for key in keys:
        image = symbolizer.images.find(key, ())
        offset = np.zeros(1, np.uint64)
        if not isinstance(image, Missing):
            offset = image.image.offset_of_svma(np.array([0x1000], np.uint64))
        answer = symbolizer.resolve(key, (), offset).named
        is_named = answer.function[0] >= 0 and answer.source[0] >= 0
        found.append(answer.name[0] if is_named else NameSource(answer.reason[0]).name)
    return found


def symbolizer() -> Symbolizer:
    return Symbolizer(SymbolOptions(use_cache=False, budget=ReadBudget(1 << 30)))


def test_a_big_image_that_is_asked_for_first_leaves_memory_to_small_ones(open_path):
    keys = [
        written(open_path / "big", STRANGER, 3 << 20, symbols=[FUNCTION]),
        *(
            written(open_path / f"small{n}", NEIGHBOUR, 1 << 20, symbols=[FUNCTION])
            for n in range(3)
        ),
    ]
    assert names(symbolizer(), keys) == ["NO_BUDGET", "f", "f", "f"]
    assert names(symbolizer(), keys[:1]) == ["f"]


def test_a_big_debug_file_that_is_asked_for_first_leaves_memory_to_small_ones(open_path):
    keys = [
        with_debug_file(open_path, "big", STRANGER, 3 << 20),
        *(with_debug_file(open_path, f"small{n}", NEIGHBOUR, 1 << 20) for n in range(3)),
    ]
    namer = symbolizer()
    assert names(namer, keys)[1:] == ["f", "f", "f"]
    assert names(namer, keys)[0] != "f"
    (note,) = namer.notes
    assert str(open_path / "big") in note
    assert "debug file" in note
    assert "PROSPECT_MEMORY" in note
    del namer
    assert names(symbolizer(), keys[:1]) == ["f"]


def test_a_debug_file_is_weighed_with_its_holes_where_they_are_read(open_path):
    """A table of symbols that is a hole costs nothing to keep and much to read."""
    key = with_debug_file(open_path, "sparse", STRANGER, 0)
    debug = open_path / "sparse.debug"
    size = 24 << 20
    hole = Section(".symtab", b"", elf_layout.SHT_SYMTAB, link=".strtab", entsize=24, size=size)
    parts = [code(size=0x1000), Section(".strtab", b"\0"), hole]
    debug.write_bytes(elf_file(sections=parts, build_id=key.build_id))
    os.truncate(debug, size + (1 << 20))
    namer = Symbolizer(SymbolOptions(use_cache=False, budget=ReadBudget(16 << 20)))
    assert names(namer, [key]) == ["NO_BUDGET"]
    assert str(open_path / "sparse") in namer.notes[0]


def test_lines_of_small_debug_files_are_read_beside_a_big_one(open_path):
    keys = [
        with_debug_file(open_path, "big", STRANGER, 3 << 20),
        *(with_debug_file(open_path, f"small{n}", NEIGHBOUR, 1 << 20) for n in range(3)),
    ]
    options = SymbolOptions(use_cache=False)
    rows = dict(enumerate(keys))
    recorded = RecordedObjects(
        keys=rows,
        pids={row: [] for row in rows},
        options=options,
        symbolizer=Symbolizer(options),
        lines=LineFinder(None),
    )
    recorded.prepare_frames((row, recorded.image(row)) for row in rows)
    images = recorded.symbolizer.images
    found = [images.debug_file(key, images.find(key, ())) for key in keys]
    assert [one is not None for one in found] == [False, True, True, True]
    _, note = recorded.frames_here(0, recorded.image(0), np.array([0x1000], np.uint64))
    assert "PROSPECT_MEMORY" in note
    with pytest.raises(CostlyError):
        recorded._debug_file(0, recorded.image(0))
    # Where there is none, that is said instead.
    (open_path / "small0.debug").unlink()
    images.let_go()
    lines = RecordedObjects(rows, recorded.pids, options, recorded.symbolizer, LineFinder(None))
    _, note = lines.frames_here(1, recorded.image(1), np.array([0x1000], np.uint64))
    assert "install its debug symbols" in note


def test_while_stacks_are_unwound_no_file_takes_what_those_met_later_need(open_path):
    keys = [
        written(open_path / "big", STRANGER, 3 << 20, symbols=[FUNCTION]),
        written(open_path / "small", NEIGHBOUR, 1 << 20, symbols=[FUNCTION]),
    ]
    namer = symbolizer()
    before = of_others.bytes
    rows = RecordedCode(None, SimpleNamespace(mappings=()), None, namer)
    for key in keys:
        rows._find_all([(key, [])])
    assert rows._row(keys[0], []) < 0 <= rows._row(keys[1], [])
    assert of_others.bytes > before
    del rows, key
    namer.images.let_go()
    assert of_others.bytes == before
    assert names(namer, keys[:1]) == ["f"]


def test_what_is_weighed_is_not_held(open_path):
    key = written(open_path / "image", STRANGER, 1 << 20)
    images = RecordedImages(SymbolOptions())
    before = of_others.bytes
    found, held_bytes = of_others.weigh(lambda: images.find(key, ()))
    assert isinstance(found, Missing)
    assert held_bytes == (open_path / "image").stat().st_size
    assert of_others.bytes == before
    assert of_others.weigh(lambda: 7) == (7, 0)
