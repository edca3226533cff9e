"""What was collected comes back: names, frames, code, images, the text of lines."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from prospect.archived.archive_format import decode, encode, pack, unpack
from prospect.archived.kept_answers import Answers, Asked, Code, Image, Owner, owner_of
from prospect.archived.symbolizers import (
    ArchivedSymbolizer,
    Collector,
    archived_frames,
    archived_source,
    restored_image,
)
from prospect.elf.image import ElfImage
from prospect.errors import RecordingError
from prospect.files.untrusted_open import OpenFile
from prospect.lines.symcache import Frames
from prospect.profile.builder import NamedAddresses
from prospect.profile.model import KIND_ANON, KIND_ELF, KIND_VDSO
from prospect.profile.naming import NameSource
from prospect.symbols.images.image_files import FoundImage
from prospect.symbols.naming_options import SymbolOptions
from prospect.symbols.objects import Missing, ObjectKey
from prospect.symbols.resolution import Resolution

LIBRARY = ObjectKey(b"/lib/\xff.so", b"\x01\x02", kind=KIND_ELF)
HEAP = ObjectKey(b"//anon", kind=KIND_ANON, life=1)


def addresses(*values):
    return np.array(values, np.uint64)


def named(asked, functions, function):
    return Resolution(
        NamedAddresses(
            address=asked + np.uint64(0x400000),
            function=np.array(function, np.int32),
            reason=np.full(len(asked), NameSource.SYMTAB, np.uint8),
            name=[f"{name}()" for name in functions],
            linkage_name=functions,
            aliases=[(f"{name}_too", "same") for name in functions],
            function_address=np.arange(len(functions), dtype=np.uint64),
            function_size=np.full(len(functions), 7, np.uint64),
            is_global=np.arange(len(functions)) % 2 == 0,
            source=np.full(len(functions), NameSource.SYMTAB, np.uint8),
            object_path=["/lib/\udcff.so"] * len(functions),
        ),
        "/lib/\udcff.so",
        KIND_ELF,
        "0102",
        "a note",
        {"[module]": 3},
    )


def frames(*stacks):
    """Build frames of addresses from (name, file, line), the outermost first."""
    flat = [frame for stack in stacks for frame in stack]
    names = sorted({name for name, _, _ in flat})
    files = sorted({file for _, file, _ in flat})
    return Frames(
        start=np.append(0, np.cumsum([len(stack) for stack in stacks])).astype(np.int64),
        name_index=np.array([names.index(name) for name, _, _ in flat], np.int32),
        file_index=np.array([files.index(file) for _, file, _ in flat], np.int32),
        line=np.array([line for _, _, line in flat], np.uint32),
        names=names,
        files=files,
    )


def stacks_of(found):
    flat = [
        (found.names[name], found.files[file], line)
        for name, file, line in zip(
            found.name_index.tolist(), found.file_index.tolist(), found.line.tolist(), strict=True
        )
    ]
    bounds = found.start.tolist()
    return [tuple(flat[low:high]) for low, high in itertools.pairwise(bounds)]


WORK = ((b"work", "/src/a.c", 5),)
INLINED = ((b"work", "/src/a.c", 6), (b"mix", "/src/mix.h", 2))


def answers() -> Answers:
    collector = Collector()
    first, second = addresses(0x10, 0x20, 0x30), addresses(0x20, 0x50)
    collector.add_names(Owner(LIBRARY), first, named(first, ["a", "b"], [1, 0, -1]))
    collector.add_names(Owner(LIBRARY), second, named(second, ["b", "c"], [0, 1]))
    collector.add_names(owner_of(HEAP, [7, 3]), first, named(first, ["jit"], [0, 0, 0]))
    where = addresses(0x400010, 0x400012, 0x400014, 0x400020)
    collector.add_frames(LIBRARY, where, frames(WORK, INLINED, INLINED, ()), "some are missing")
    collector.add_source(["/src/a.c"], {(0, 5): "\tx = 1;"})
    lines, tree = collector.lines()
    return Answers(
        origin="here/perf.data",
        recorded_at=12.5,
        limits=("one",),
        names=collector.names,
        images={LIBRARY: Image(64, ((8, b"abc"),)), HEAP: Missing(NameSource.NO_FILE, "gone")},
        lines=lines,
        tree=tree,
        code={
            (Owner(LIBRARY), 0x400010): Code(b"\x90\xc3", 62),
            (Owner(HEAP), 1): Code(b"", 0, "why"),
        },
        source=collector.source,
        jit_dumps={7: b"dump"},
    )


def test_plain_answers_come_back():
    kept = answers()
    again = decode(encode(kept))
    for field in ("origin", "recorded_at", "limits", "images", "code", "source", "jit_dumps"):
        assert getattr(again, field) == getattr(kept, field), field


def test_names_come_back_as_they_were_asked_for_together():
    kept, again = answers(), decode(encode(answers()))
    assert list(again.names) == list(kept.names)
    symbolizer = ArchivedSymbolizer(SymbolOptions(), again)
    for owner, several in kept.names.items():
        for one in several:
            found = symbolizer.resolve(owner.key, owner.pids, one.address)
            assert (found.path, found.note, found.build_id, found.part_kinds) == (
                one.answer.path,
                one.answer.note,
                one.answer.build_id,
                one.answer.part_kinds,
            )
            for column in NamedAddresses.__annotations__:
                mine, theirs = getattr(found.named, column), getattr(one.answer.named, column)
                assert list(mine) == list(theirs), column


def test_other_addresses_are_gathered_from_all_that_was_asked():
    symbolizer = ArchivedSymbolizer(SymbolOptions(), decode(encode(answers())))
    found = symbolizer.resolve(LIBRARY, (), addresses(0x50, 0x10, 0x77, 0x30)).named
    rows = found.function.tolist()
    assert [found.name[row] if row >= 0 else "" for row in rows] == ["c()", "b()", "", ""]
    assert found.address.tolist()[:2] == [0x400050, 0x400010]
    assert found.reason.tolist()[2] == NameSource.NO_COVER


def test_memory_without_a_file_is_told_by_process():
    symbolizer = ArchivedSymbolizer(SymbolOptions(), decode(encode(answers())))
    assert symbolizer.resolve(HEAP, [7, 3], addresses(0x10)).named.name == ["jit()"]
    assert symbolizer.resolve(HEAP, [8], addresses(0x10)).named.name == []


def test_frames_come_back_for_each_address():
    again = decode(encode(answers()))
    where = addresses(0x400020, 0x400014, 0x400012, 0x400010, 0x100)
    found, note = archived_frames(again, LIBRARY, where)
    assert stacks_of(found) == [(), INLINED, INLINED, WORK, ()]
    assert note == "some are missing"


def test_source_text_comes_back_by_file_and_line():
    again = decode(encode(answers()))
    wanted = [(1, 5), (0, 5), (1, 6), (-1, 5)]
    assert archived_source(again, ["/src/b.c", "/src/a.c"], wanted) == {(1, 5): "\tx = 1;"}


def test_an_image_that_is_none_is_missing():
    kept = decode(encode(answers())).images[LIBRARY]
    assert isinstance(kept, Image)
    assert isinstance(restored_image(LIBRARY, 0, kept), Missing)
    outside = Image(16, ((10, b"\x7fELF" * 9),))
    assert isinstance(restored_image(LIBRARY, 0, outside), Missing)
    assert isinstance(restored_image(LIBRARY, 0, Image(1 << 60, ())), Missing)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("function", 2),
        ("stretch_frame", 3),
        ("frame_parent", 1),
        ("frame_name", 10**6),
        ("name", -1),
        ("code_owner", -1),
        ("object_path", 10**6),
    ],
)
def test_rows_that_point_outside_are_refused(column, value):
    content = unpack(encode(answers()))
    columns = dict(content._columns)
    columns[column] = columns[column].copy()
    columns[column][0] = value
    with pytest.raises(RecordingError):
        decode(pack(content.facts, columns))


def test_asking_twice_keeps_one_answer():
    collector = Collector()
    asked = addresses(1, 2)
    for _ in range(2):
        collector.add_names(Owner(LIBRARY), asked, named(asked, ["a"], [0, 0]))
    (kept,) = collector.names.values()
    assert [type(one) for one in kept] == [Asked]


def test_an_image_that_was_found_stays():
    key = ObjectKey(b"[vdso]", kind=KIND_VDSO)
    image = ElfImage.parse(Path("/proc/self/exe").read_bytes())
    found = FoundImage(OpenFile(key.path, image.data, -1, 0, 0, -1, -1, 0), image)
    gone = Missing(NameSource.NO_FILE, "a vdso is no file")
    for add in (Collector.add_image, Collector.add_vdso):
        collector = Collector()
        collector.add_image(key, gone)
        assert collector.images[key] == gone
        add(collector, key, found if add == Collector.add_image else image)
        for missing in (Collector.add_image, Collector.add_vdso):
            missing(collector, key, gone)
            assert isinstance(collector.images[key], Image)
