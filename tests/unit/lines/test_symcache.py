import itertools
import random

import numpy as np
import pytest

from builders.symcache import NONE, SymcacheBuilder
from prospect.lines.symcache import SymCache, lookup_each


def frames_at(content, *addresses):
    """Return (function, file, line) of the frames at each address, the outermost first."""
    found = SymCache.parse(content).lookup(np.array(addresses, np.uint64))
    rows = [
        (
            found.names[name].decode() if name >= 0 else None,
            found.files[file] if file >= 0 else None,
            line,
        )
        for name, file, line in zip(
            found.name_index.tolist(), found.file_index.tolist(), found.line.tolist(), strict=True
        )
    ]
    bounds = found.start.tolist()
    return [rows[a:b] for a, b in itertools.pairwise(bounds)]


@pytest.fixture
def builder():
    return SymcacheBuilder()


def test_an_address_has_the_location_that_starts_last_before_it(builder):
    file, function = builder.file("a.c", "/src"), builder.function("f")
    builder.range(0x10, file, 7, function)
    builder.range(0x20, file, 8, function)
    builder.end(0x30)
    assert frames_at(builder.build(), 0xF, 0x10, 0x1F, 0x20, 0x2F, 0x30, 2**40) == [
        [],
        [("f", "/src/a.c", 7)],
        [("f", "/src/a.c", 7)],
        [("f", "/src/a.c", 8)],
        [("f", "/src/a.c", 8)],
        [],
        [],
    ]


def test_inlined_functions_follow_the_one_that_holds_them(builder):
    file = builder.file("a.c", "/src")
    outer, middle, inner = map(builder.function, ("outer", "middle", "inner"))
    call = builder.caller(file, 3, outer)
    call_inside = builder.caller(file, 5, middle, call)
    builder.range(0x10, file, 9, inner, call_inside)
    builder.range(0x20, file, 4, outer)
    assert frames_at(builder.build(), 0x20, 0x10) == [
        [("outer", "/src/a.c", 4)],
        [("outer", "/src/a.c", 3), ("middle", "/src/a.c", 5), ("inner", "/src/a.c", 9)],
    ]


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        (("a.c", "", ""), "a.c"),
        (("a.c", "lib", "/build"), "/build/lib/a.c"),
        (("a.c", "/lib", "/build"), "/lib/a.c"),
        (("../a.c", "lib/./x", "/build"), "/build/lib/a.c"),
        (("", "", ""), None),
    ],
)
def test_a_path_is_made_whole(builder, parts, path):
    builder.range(0, builder.file(*parts), 1, builder.function("f"))
    assert frames_at(builder.build(), 0) == [[("f", path, 1)]]


def test_what_is_not_known_is_none(builder):
    builder.range(0, NONE, NONE, NONE)
    builder.range(8, NONE, 0, NONE, 5_000)
    assert frames_at(builder.build(), 8) == [[(None, None, 0)]]


def test_a_name_of_more_than_127_bytes_is_whole(builder):
    builder.range(0, NONE, 1, builder.function("n" * 300))
    assert frames_at(builder.build(), 0) == [[("n" * 300, None, 1)]]


def test_functions_and_files_are_listed_once(builder):
    file, function = builder.file("a.c"), builder.function("f")
    for address in range(0, 64, 8):
        builder.range(address, file, address, function)
    found = SymCache.parse(builder.build()).lookup(np.arange(64, dtype=np.uint64))
    assert found.names == [b"f"]
    assert found.files == ["a.c"]


def test_a_circle_of_inlining_ends(builder):
    function = builder.function("f")
    builder.callers.append((NONE, 1, function, 1))
    builder.callers.append((NONE, 2, function, 0))
    builder.range(0, NONE, 3, function, 0)
    (frames,) = frames_at(builder.build(), 0)
    assert 2 < len(frames) <= 250


def test_an_empty_one_knows_nothing(builder):
    content = builder.build()
    assert frames_at(content, 0, 5) == [[], []]
    assert not SymCache.parse(content).has_lines


@pytest.mark.parametrize("version", [7, 8, 10])
def test_another_version_is_left_to_the_library(builder, version):
    assert SymCache.parse(builder.build(version)) is None


@pytest.mark.parametrize("field", [44, 48, 52, 56, 60])
def test_a_table_that_does_not_fit_is_refused(builder, field):
    builder.range(0, builder.file("a.c"), 1, builder.function("f"))
    content = bytearray(builder.build())
    content[field : field + 4] = b"\xff\xff\xff\x7f"
    assert SymCache.parse(content) is None


def test_any_damage_gives_frames_or_is_refused(builder):
    file, outer, inner = builder.file("a.c", "/src"), builder.function("f"), builder.function("g")
    call = builder.caller(file, 3, outer)
    for address in range(0, 256, 8):
        builder.range(address, file, address, inner, call)
    whole = builder.build()
    random_ = random.Random(4)
    address = np.arange(300, dtype=np.uint64)
    for _ in range(2000):
        content = bytearray(whole[: random_.choice((len(whole), random_.randrange(len(whole))))])
        for _ in range(random_.randrange(1, 8)):
            if content:
                content[random_.randrange(len(content))] = random_.randrange(256)
        symcache = SymCache.parse(content)
        if symcache is not None:
            found = symcache.lookup(address)
            assert found.start[-1] == len(found.line) <= 250 * len(address)


def test_the_library_reads_what_is_built_here_as_we_do(builder):
    pytest.importorskip("symbolic")
    file = builder.file("a.c", "lib", "/src")
    outer, inner = builder.function("outer"), builder.function("inner")
    call = builder.caller(file, 3, outer)
    builder.range(0x10, file, 9, inner, call)
    builder.range(0x20, file, 4, outer)
    builder.end(0x30)
    content, address = builder.build(), np.arange(0x40, dtype=np.uint64)
    ours, theirs = SymCache.parse(content).lookup(address), lookup_each(content, address)
    assert ours.start.tolist() == theirs.start.tolist()
    assert ours.line.tolist() == theirs.line.tolist()
    for found in (ours, theirs):
        assert sorted(found.names) == [b"inner", b"outer"]
        assert found.files == ["/src/lib/a.c"]
    assert [ours.names[i] for i in ours.name_index] == [theirs.names[i] for i in theirs.name_index]
