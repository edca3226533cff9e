"""One budget for all files of names: the smallest first, and what is left out says so."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from builders.elf import Section, Symbol, code, elf_file
from prospect.assembly.stacks.recorded_code import RecordedCode
from prospect.errors import UsageError
from prospect.files import untrusted_open
from prospect.files.budget import (
    DEFAULT_BYTES,
    Cost,
    ReadBudget,
    of_others,
    setting_for,
    size_in_bytes,
)
from prospect.files.held_files import data_extents
from prospect.profile.model import KIND_ANON, KIND_ELF
from prospect.profile.naming import NameSource
from prospect.symbols.jit.map_files import find_map_file, map_file_costs, parse_map_file
from prospect.symbols.naming_options import SymbolOptions
from prospect.symbols.objects import HitObject, ObjectKey
from prospect.symbols.symbolizer import Symbolizer

ANON = b"//anon"
# Above every process id that Linux gives (PID_MAX_LIMIT), and not those of a test beside this one.
PIDS = (1 << 30) + 2 * os.getpid(), (1 << 30) + 2 * os.getpid() + 1


@pytest.fixture
def map_files():
    paths = [Path(f"/tmp/perf-{pid}.map") for pid in PIDS]
    yield paths
    for path in paths:
        path.unlink(missing_ok=True)


def named(symbolizer, key, pids, address):
    found = symbolizer.resolve(key, pids, np.array([address], np.uint64))
    return (*found.named.name, "")[0]


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), ("500M", 500 << 20), ("4g", 4 << 30), (" 7 ", 7), ("1T", 1 << 40)]
)
def test_sizes(text, size):
    assert size_in_bytes(text) == size


@pytest.mark.parametrize("text", ["lots", "-1", "1.5G", "5MB", "9" * 13])
def test_what_is_no_size_is_said(text, monkeypatch):
    monkeypatch.setenv("PROSPECT_MEMORY", text)
    with pytest.raises(UsageError, match=r"PROSPECT_MEMORY=.*500M"):
        ReadBudget.of_environment()


def test_the_variable_sets_the_budget(monkeypatch):
    assert ReadBudget.of_environment().most_bytes == DEFAULT_BYTES
    monkeypatch.setenv("PROSPECT_MEMORY", "3G")
    assert ReadBudget.of_environment().most_bytes == 3 << 30


def test_the_smallest_are_read_first_and_what_they_keep_is_spent():
    budget = ReadBudget(100)
    left_out = budget.admit([Cost(90, 30, "big"), Cost(10, 5, "a"), Cost(20, 10, "b")])
    assert list(left_out) == ["big"]
    assert "PROSPECT_MEMORY" in left_out["big"]
    assert budget.left_bytes == 85


def test_a_sparse_map_file_costs_what_it_holds(map_files):
    with map_files[0].open("wb") as file:
        file.write(b"1000 10 first\n")
        file.seek(250 << 20)
        file.write(b"\n2000 10 last\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began_s = time.process_time()
    found = find_map_file(PIDS[0], None)
    table = parse_map_file(found.without_holes())
    assert table.names(range(len(table))) == [b"first", b"last"]
    assert found.held_bytes < 1 << 16
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB
    assert time.process_time() - began_s < 5


def test_a_sparse_file_of_another_user_reads_as_zeros_where_it_has_holes(tmp_path):
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.write(b"head")
        file.seek(1 << 20)
        file.write(b"tail")
    path.chmod(0o666)  # others may change it, so that it is read, not mapped
    found = untrusted_open.open_file(bytes(path))
    assert bytes(found.data) == path.read_bytes()
    assert found.held_bytes == untrusted_open.held_bytes_of(bytes(path), os.geteuid())
    with path.open("rb") as file:
        assert len(list(data_extents(file.fileno(), 4 + (1 << 20)))) == 2


def test_a_map_file_of_nothing_but_a_hole_is_none(map_files):
    map_files[0].write_bytes(b"")
    os.truncate(map_files[0], 1 << 20)
    assert find_map_file(PIDS[0], None).note == ""


def test_of_two_map_files_the_big_one_is_left_out_and_named(map_files):
    map_files[0].write_bytes(b"".join(b"%x 10 f%d\n" % (64 * row, row) for row in range(1000)))
    map_files[1].write_bytes(b"1000 10 small\n")
    key = ObjectKey(ANON, kind=KIND_ANON)
    symbolizer = Symbolizer(SymbolOptions(use_cache=False, budget=ReadBudget(50_000)))
    symbolizer.fetch([HitObject(key, [pid], 1) for pid in PIDS], None)
    assert named(symbolizer, key, [PIDS[1]], 0x1000) == "small"
    assert named(symbolizer, key, [PIDS[0]], 64) != "f1"
    ((pid, note),) = symbolizer.process_notes
    assert pid == PIDS[0]
    assert str(map_files[0]) in note
    assert "PROSPECT_MEMORY" in note


def test_a_usual_map_file_of_a_hundred_megabytes_fits_into_the_default():
    peak_bytes, _ = map_file_costs(100 << 20)
    assert peak_bytes <= DEFAULT_BYTES
    assert map_file_costs(75 << 20, 1 << 20)[0] <= map_file_costs(75 << 20)[0]


@pytest.mark.parametrize(
    ("line", "rows"), [(b"%x 40 the_name_of_a_usual_function\n", 3000), (b"%x 1 a\n", 9000)]
)
def test_what_is_left_out_says_with_which_setting_it_is_read(map_files, monkeypatch, line, rows):
    """A file of short lines takes more than its size tells, which is seen as it is read."""
    map_files[0].write_bytes(b"".join(line % (64 * row) for row in range(rows)))
    key = ObjectKey(ANON, kind=KIND_ANON)
    setting = "1M"
    for is_read in (False, True):
        monkeypatch.setenv("PROSPECT_MEMORY", setting)
        options = SymbolOptions(use_cache=False, budget=ReadBudget.of_environment())
        symbolizer = Symbolizer(options)
        symbolizer.fetch([HitObject(key, PIDS[:1], 1)], None)
        assert bool(named(symbolizer, key, PIDS[:1], 0)) == is_read
        for _, note in symbolizer.process_notes:
            assert str(map_files[0]) in note
            setting = note.partition("with PROSPECT_MEMORY=")[2].split()[0]


@pytest.mark.parametrize(
    ("size", "setting"), [(1, "1M"), (1 << 20, "1M"), (1 << 30, "1024M"), ((1 << 30) + 1, "2G")]
)
def test_a_setting_is_no_less_than_what_is_wanted(size, setting):
    assert setting_for(size) == f"PROSPECT_MEMORY={setting}"
    assert size_in_bytes(setting) >= size


def test_an_image_with_a_sparse_symbol_table_is_left_out_and_named(tmp_path):
    path = tmp_path / "image"
    path.write_bytes(elf_file(sections=[code()], symbols=[Symbol("f", 0x1000, 64)]))
    key = ObjectKey(bytes(path), inode=path.stat().st_ino)
    assert key.kind == KIND_ELF
    symbolizer = Symbolizer(SymbolOptions(use_cache=False, budget=ReadBudget(100)))
    symbolizer.fetch([HitObject(key, [], 1)], None)
    found = symbolizer.resolve(key, [], np.array([0], np.uint64))
    assert found.named.reason.tolist() == [NameSource.NO_BUDGET]
    assert "PROSPECT_MEMORY" in found.note
    assert str(path) in symbolizer.notes[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of others")
def test_what_files_of_others_hold_together_is_bounded_until_they_are_let_go(tmp_path, monkeypatch):
    monkeypatch.setenv("PROSPECT_MEMORY", "3M")
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.write_bytes(bytes(1 << 20) + b"end")
        os.chown(path, 4242, 4242)
    before = of_others.bytes
    held = [untrusted_open.open_file(bytes(path)) for path in paths]
    assert held[2] == NameSource.NO_BUDGET
    assert of_others.bytes - before == sum(len(one.data) for one in held[:2])
    del held
    assert of_others.bytes == before
    again = untrusted_open.open_file(bytes(paths[2]))
    assert bytes(again.data[-3:]) == b"end"
    # A link more is another name of it, which costs again.
    names = [tmp_path / f"link{number}" for number in range(4)]
    for name in names:
        name.hardlink_to(paths[0])
    held = [untrusted_open.open_file(bytes(name)) for name in names]
    assert held[1:] == [NameSource.NO_BUDGET] * 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of others")
def test_of_our_own_files_as_much_is_read_as_there_is(tmp_path, monkeypatch):
    monkeypatch.setenv("PROSPECT_MEMORY", "1K")
    path = tmp_path / "own"
    path.write_bytes(bytes(1 << 20))
    path.chmod(0o666)
    assert len(untrusted_open.open_file(bytes(path)).data) == 1 << 20


def test_rows_for_unwinding_are_paid_for_by_files_of_others_only(tmp_path):
    path = tmp_path / "image"
    path.write_bytes(elf_file(sections=[code(), Section(".eh_frame", bytes(1 << 16))]))
    symbolizer = Symbolizer(SymbolOptions(use_cache=False, budget=ReadBudget(1 << 20)))
    key = ObjectKey(bytes(path), inode=path.stat().st_ino)
    found = symbolizer.images.find(key, [])
    rows = RecordedCode(None, SimpleNamespace(mappings=()), None, symbolizer)
    rows.keys = [key]
    assert found.file.owner == os.geteuid()
    assert rows._is_affordable(key, found, None)
    found = found._replace(file=found.file._replace(owner=4242))
    rows._images = {0: (found.image, found)}
    assert rows.rows_of(0) is None
    (note,) = symbolizer.notes
    assert str(path) in note
    assert "unwinding" in note
    assert "PROSPECT_MEMORY" in note
