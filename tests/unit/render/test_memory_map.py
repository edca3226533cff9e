"""The memory map of a process: which mappings are listed, and what is said of the others."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from prospect.profile.optional_tables import EXECUTE, READ, WRITE, MemoryMap
from prospect.render.text.details import memory_map_lines
from prospect.render.text.style import Style

PAGE = 4096


def mapped(*rows, read_ns=None):
    """Make a map of (start, size, prot, hits, path)."""
    start, size, prot, hits, path = zip(*rows, strict=True)
    starts = np.array(start, np.uint64)
    return MemoryMap(
        start=starts,
        end=starts + np.array(size, np.uint64),
        pgoff=np.zeros(len(rows), np.uint64),
        prot=np.array(prot, np.int8),
        hits=np.array(hits, np.int64),
        path=list(path),
        read_ns=read_ns,
    )


def lines(mapping):
    run, processes = SimpleNamespace(begin_ns=10**9), SimpleNamespace(name=["p"], pid=[7])
    profile = SimpleNamespace(run=run, processes=processes)
    view = SimpleNamespace(memory_map=lambda _: mapping, profile=profile)
    return list(memory_map_lines(view, 0, Style(colour=False)))[3:]


def test_a_whole_map_says_when_it_was_read():
    rows = (
        (0x400000, PAGE, READ | EXECUTE, 3, "/bin/p"),
        (0x500000, 2 * PAGE, READ | WRITE, 0, "[heap]"),
        (0x600000, PAGE, 0, 0, "//anon"),
    )
    assert lines(mapped(*rows, read_ns=1_250_000_000)) == [
        "Samples       Start         End  KiB  Perm      Offset  Filename",
        "      3  0x00400000  0x00401000    4  r-x   0x00000000  /bin/p",
        "      0  0x00500000  0x00502000    8  rw-   0x00000000  [heap]",
        "      0  0x00600000  0x00601000    4  ---   0x00000000  //anon",
        "- 3 mappings, 16 KiB; those of data as they were 0.25 s after recording began",
        "",
    ]


def test_a_map_without_data_says_so_and_what_is_unknown_is_a_question_mark():
    assert lines(mapped((0x400000, PAGE, -1, 0, "/bin/p")))[1:] == [
        "      0  0x00400000  0x00401000    4  ?     0x00000000  /bin/p",
        "- 1 mapping, 4 KiB; executable ones only: the recording has none of data",
        "",
    ]


def test_a_process_without_mappings_has_no_section():
    assert lines(MemoryMap.empty()) == []


def test_of_very_many_mappings_the_largest_of_data_are_listed_and_all_that_have_code_or_hits():
    rows = [(PAGE * 1000 * at, PAGE * (1 + at % 100), READ, 0, f"/data/{at}") for at in range(200)]
    rows[0] = (0, PAGE, READ, 1, "/hit")
    rows[100] = (100_000 * PAGE, PAGE, READ | EXECUTE, 0, "/code")
    found = lines(mapped(*rows, read_ns=10**9))
    listed = [line.split()[-1] for line in found[1:-3]]
    largest = [f"/data/{at}" for at in range(200) if at % 100 >= 68]
    assert listed == ["/hit", *largest[:32], "/code", *largest[32:]]
    smaller = 2 * sum(range(2, 69)) * 4
    assert found[-3] == f"- Left out: 134 smaller mappings of data, {smaller} KiB"
    assert found[-2].startswith(f"- 200 mappings, {2 * 4 * sum(range(1, 101))} KiB; ")


def test_what_several_mappings_cover_is_counted_once():
    rows = [(0, 9 * PAGE, 5, 0, "/a"), (PAGE, PAGE, 5, 0, "/b"), (8 * PAGE, 3 * PAGE, 5, 0, "/c")]
    assert mapped(*rows).mapped_bytes == 11 * PAGE
    assert MemoryMap.empty().mapped_bytes == 0
