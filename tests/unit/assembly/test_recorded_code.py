"""Call-frame rows of large images: a child makes them, a file has them, whoever unwinds maps it."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from prospect.assembly.stacks import recorded_code
from prospect.assembly.stacks.recorded_code import RecordedCode
from prospect.elf import frame_rows
from prospect.symbols.naming_options import SymbolOptions
from prospect.symbols.objects import ObjectKey
from prospect.symbols.symbolizer import Symbolizer
from prospect.symbols.table_cache import SymbolCache


@pytest.fixture
def code(tmp_path):
    # The C library: an interpreter may be a few lines that call its shared library.
    mapped = {Path(line.split()[-1]) for line in Path("/proc/self/maps").read_text().splitlines()}
    path = next(path for path in mapped if path.name.startswith("libc.so"))
    symbolizer = Symbolizer(SymbolOptions(use_cache=False))
    key = ObjectKey(bytes(path), inode=path.stat().st_ino)
    found = symbolizer.images.find(key, [])
    symbolizer.cache = SymbolCache(tmp_path / "cache")
    made = RecordedCode(None, SimpleNamespace(mappings=()), None, symbolizer)
    made.keys, made._images = [key], {0: (found.image, found)}
    return made


def not_here(*_):
    raise AssertionError


def test_a_child_makes_those_of_a_large_image_once(code, monkeypatch):
    expected = frame_rows.read_frame_rows(code._images[0][0])
    monkeypatch.setattr(recorded_code, "_LARGE_BYTES", 0)
    parent, real = os.getpid(), frame_rows.read_frame_rows

    def in_a_child(*images):
        assert os.getpid() != parent
        return real(*images)

    monkeypatch.setattr(recorded_code, "read_frame_rows", in_a_child)
    found = code.rows_of(0)
    assert np.array_equal(found.start, expected.start)
    assert np.array_equal(found.rule, expected.rule)
    assert not found.start.flags.owndata
    monkeypatch.setattr(recorded_code, "read_frame_rows", not_here)
    assert len(code.rows_of(0)) == len(expected)


def test_where_there_can_be_no_child_or_no_file_they_are_made_here(code, monkeypatch, tmp_path):
    monkeypatch.setattr(recorded_code, "_LARGE_BYTES", 0)
    (tmp_path / "cache").write_text("no directory")
    assert len(code.rows_of(0)) > 100

    def refuse(*_):
        raise OSError

    monkeypatch.setattr(recorded_code.Child, "start", refuse)
    assert len(code.rows_of(0)) > 100


def test_rows_that_take_too_long_are_none(code, monkeypatch):
    monkeypatch.setattr(recorded_code, "_LARGE_BYTES", 0)
    monkeypatch.setattr(recorded_code, "LONGEST_RULES_S", 0.0)
    assert code.rows_of(0) is None
