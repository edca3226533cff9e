"""Instructions and lines of a recording built by hand, whose images are built by hand too."""

import os
import shutil
import subprocess
from functools import partial

import numpy as np
import pytest

from builders import perfdata as build
from builders.elf import Symbol, code, elf_file
from builders.sources import CLOCK_ID, BuiltSource
from prospect.analysis.pipeline import build_profile
from prospect.analysis.profile_request import ProfileRequest
from prospect.assembly.code import code as assembly_code
from prospect.assembly.code.code import CodeChoice
from prospect.elf.image import ElfImage
from prospect.estimate.flat_tables import hits_table
from prospect.options import NamingOptions
from prospect.profile.optional_tables import innermost
from prospect.symbols.images.image_symbols import read_symbol_table

pytest.importorskip("iced_x86")

RECORDS = build.RecordBuilder()
TAIL = {"id": CLOCK_ID, "cpu": 1}
AVMA = 0x7F0000000000
# work: call helper; jne work; ret — helper: ret, 16 bytes further
WORK = bytes.fromhex("e80b000000 75f9 c3".replace(" ", ""))
CODE = WORK.ljust(16, b"\x90") + b"\xc3".ljust(16, b"\x90")


def profile_of(path, addresses, *, lines=False, with_lines=False, name=None):
    """Profile samples at addresses of an image that is mapped from its offset 0 on."""
    status = path.stat() if path.exists() else None
    sample = partial(RECORDS.sample, period=10_000_000, pid=10, tid=10, **TAIL)
    records = [
        RECORDS.comm(10, 10, "program"),
        RECORDS.mmap2(
            10, 10, AVMA, 1 << 20, name or str(path), inode=status.st_ino if status else 1
        ),
        *(sample(ip=AVMA + at, time=100 + n) for n, at in enumerate(addresses)),
    ]
    choice = CodeChoice(lambda profile: np.arange(len(profile.functions)), with_lines=with_lines)
    options = NamingOptions(use_cache=False), ProfileRequest(lines=lines, code=choice)
    return build_profile(BuiltSource(records), *options)


def image(path, **options):
    path.write_bytes(
        elf_file(
            sections=[code(data=CODE)],
            symbols=[Symbol("work", 0x1000, 8), Symbol("helper", 0x1010, 1)],
            **options,
        )
    )
    return path


def offset_of(path, svma):
    found = ElfImage.parse(path.read_bytes()).offset_of_svma(np.array([svma], np.uint64))
    return int(found[0])


def test_a_function_has_its_instructions_and_the_names_of_its_targets(tmp_path):
    path = image(tmp_path / "image")
    profile = profile_of(path, [offset_of(path, 0x1005)])
    table = profile.code
    assert profile.functions.name == ["work"]
    assert table.reason == [""]
    assert table.address.tolist() == [0x1000, 0x1005, 0x1007]
    assert [text.split()[0] for text in table.text] == ["call", "jne", "ret"]
    assert table.target_name == ["helper", "work", ""]
    assert table.lines is None


def test_hits_without_a_name_are_disassembled_around_them(tmp_path):
    path = tmp_path / "image"
    path.write_bytes(elf_file(sections=[code(data=CODE)]))
    profile = profile_of(path, [offset_of(path, 0x1005)])
    assert profile.functions.name == [""]
    assert profile.code.address[:2].tolist() == [0x1005, 0x1007]


def test_hits_without_a_name_far_apart_are_not(tmp_path):
    path = tmp_path / "image"
    path.write_bytes(elf_file(sections=[code(data=b"\x90" * 200_000)]))
    first = offset_of(path, 0x1000)
    assert profile_of(path, [first, first + 199_999]).code.reason == [assembly_code.TOO_WIDE]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("/none/such", "the file is gone"),
        ("//anon", assembly_code.NO_JIT_CODE),
        ("[vdso]", assembly_code.OTHER_VDSO),
    ],
)
def test_what_has_no_code_says_why(tmp_path, name, says):
    reason = profile_of(tmp_path / "none", [0x100], name=name).code.reason
    assert len(reason) == 1
    assert says in reason[0]


def test_an_image_that_was_replaced_has_no_code(tmp_path):
    path, other = image(tmp_path / "image"), image(tmp_path / "other")
    at = offset_of(path, 0x1005)
    status = path.stat()
    other.replace(path)
    records = [
        RECORDS.comm(10, 10, "program"),
        RECORDS.mmap2(10, 10, AVMA, 1 << 20, str(path), inode=status.st_ino),
        RECORDS.sample(ip=AVMA + at, pid=10, tid=10, time=100, period=1, **TAIL),
    ]
    choice = CodeChoice(lambda profile: np.arange(len(profile.functions)))
    profile = build_profile(
        BuiltSource(records), NamingOptions(use_cache=False), ProfileRequest(code=choice)
    )
    assert "is not the recorded one" in profile.code.reason[0]


@pytest.mark.parametrize("size", [1 << 40, 2**64 - 0x1000])
def test_a_symbol_that_lies_about_its_size_gets_what_the_file_has(tmp_path, size):
    path = tmp_path / "image"
    path.write_bytes(elf_file(sections=[code(data=CODE)], symbols=[Symbol("work", 0x1000, size)]))
    table = profile_of(path, [offset_of(path, 0x1005)]).code
    assert 3 < len(table.address) <= len(CODE)


def test_a_file_that_was_cut_off_gives_what_is_left(tmp_path):
    path = image(tmp_path / "image", with_section_headers=False)
    at = offset_of(path, 0x1005)
    os.truncate(path, at + 1)
    profile = profile_of(path, [at])
    assert profile.functions.name == [""]
    assert len(profile.code.address) <= 1


def test_no_function_chosen_is_an_empty_table(tmp_path):
    path = image(tmp_path / "image")
    records = [RECORDS.comm(10, 10, "program")]
    choice = CodeChoice(lambda _: np.zeros(0, np.int64))
    profile = build_profile(
        BuiltSource(records), NamingOptions(use_cache=False), ProfileRequest(code=choice)
    )
    assert len(profile.code) == 0
    assert len(profile.code.lines) == 0
    assert path.exists()


@pytest.mark.skipif(not shutil.which("gcc"), reason="builds a small C program")
def test_locations_and_instructions_have_lines(tmp_path):
    pytest.importorskip("symbolic")
    source = "int twice(int x)\n{\n    return x + x;\n}\n"
    path = tmp_path / "library.so"
    (tmp_path / "twice.c").write_text(source)
    command = ["gcc", "-g", "-O1", "-shared", "-o", str(path), str(tmp_path / "twice.c")]
    subprocess.run(command, check=True)
    table = read_symbol_table(ElfImage.parse(path.read_bytes()))
    start = int(table.start[table.names(range(len(table))).index(b"twice")])
    at = offset_of(path, start)
    profile = profile_of(path, [at, at, 0xFFFF0], lines=True, with_lines=True)
    columns = hits_table(profile)
    hit = columns["function"] == "twice"
    assert set(columns["line"][hit].tolist()) <= {2, 3}
    assert set(columns["file"][hit]) == {str(tmp_path / "twice.c")}
    assert set(columns["line"][~hit].tolist()) == {0}
    lines = profile.code.lines
    file_index, line = innermost(lines, np.arange(len(lines)))
    mine = profile.code.start[profile.functions.name.index("twice")]
    assert line[mine] in (2, 3)
    assert profile.code.source[int(file_index[mine]), 3] == "    return x + x;"


def test_an_object_without_debug_information_is_noted(tmp_path):
    path = image(tmp_path / "image")
    profile = profile_of(path, [offset_of(path, 0x1005)], lines=True)
    assert "no debug information" in profile.lines.notes[profile.objects.path.index(str(path))]
    assert set(hits_table(profile)["file"]) == {""}
