"""Source lines of the kernel: of an image that stands in for vmlinux, linked where kernels are."""

import os
import shutil
import subprocess

import pytest

from builders.profile_builder import ProfileBuilder
from prospect.assembly.code.location_lines import NO_IMAGE, describe_lines, kernel_with_lines
from prospect.assembly.code.recorded_objects import RecordedObjects
from prospect.files.rights import EVERYBODY
from prospect.lines.debug_info import NO_DEBUG_INFO
from prospect.lines.finder import LineFinder
from prospect.profile.model import CPUMODE_KERNEL, KIND_KERNEL
from prospect.records import replace
from prospect.symbols.images.image_files import open_image, received_images
from prospect.symbols.images.image_symbols import read_symbol_table
from prospect.symbols.kernel.kernel_listings import address_of
from prospect.symbols.naming_options import SymbolOptions
from prospect.symbols.objects import ObjectKey
from prospect.symbols.symbolizer import Symbolizer

pytest.importorskip("symbolic")
pytestmark = pytest.mark.skipif(
    not shutil.which("gcc") or os.uname().machine != "x86_64", reason="builds a small C program"
)

SOURCE = """\
static inline int mix(int x) {
    return x * 31 ^ x >> 7;
}
__attribute__((noinline)) int do_work(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += mix(sum + i);
    return sum;
}
void _start(void) { do_work(9); }
"""
LINKED_AT = 0xFFFFFFFF81000000
MOVED_BY = 0x1E00000


@pytest.fixture(scope="module")
def vmlinux(tmp_path_factory):
    directory = tmp_path_factory.mktemp("kernel")
    (directory / "kernel.c").write_text(SOURCE)
    flags = [
        "-g",
        "-O2",
        "-nostdlib",
        "-static",
        "-fno-pie",
        "-no-pie",
        "-mcmodel=kernel",
        "-Wl,--build-id",
    ]
    place = [f"-Wl,-Ttext-segment={LINKED_AT:#x}", "-Wl,--defsym=_text=_start"]
    command = ["gcc", *flags, *place, "-o", "vmlinux", "kernel.c"]
    subprocess.run(command, cwd=directory, check=True)
    return directory / "vmlinux"


def options_of(path, **more):
    found = open_image(os.fsencode(path))
    table = read_symbol_table(found.image)
    return SymbolOptions(
        hostname="elsewhere",
        kernel_release="6.1-other",
        kernel_build_id=found.image.build_id,
        kernel_text=address_of(table, b"_text") + MOVED_BY,
        kernel_image=str(path),
        **more,
    )


def lines_of(path, options):
    """Return the frames of all instructions of do_work, as the moved kernel had them; and notes."""
    table = read_symbol_table(open_image(os.fsencode(path)).image)
    row = next(
        row for row in range(len(table)) if b"do_work" in (table.name(row), *table.alias_names(row))
    )
    start, end = int(table.start[row]), int(table.end[row])
    build = ProfileBuilder()
    process = build.process("x", 1, is_command=True)
    kernel = build.object("[kernel.kallsyms]", KIND_KERNEL)
    work = build.function("do_work", kernel, start + MOVED_BY)
    for offset in range(end - start):
        build.hit(process, work, 1, CPUMODE_KERNEL, offset=offset)
    profile = build.build()
    key = ObjectKey(b"[kernel.kallsyms]", kind=KIND_KERNEL)
    recorded = RecordedObjects(
        {kernel: key}, {kernel: []}, options, Symbolizer(options), LineFinder(None)
    )
    lines = describe_lines(profile, recorded)
    frames = [
        [
            (lines.names[lines.name_index[at]], int(lines.line[at]))
            for at in range(*lines.frame_start[row : row + 2].tolist())
        ]
        for row in range(len(lines))
    ]
    return frames, lines


def test_each_instruction_of_a_moved_kernel_has_its_line_and_what_is_inlined(vmlinux):
    frames, lines = lines_of(vmlinux, options_of(vmlinux, use_cache=False))
    assert len(frames) > 10
    assert {tuple(name for name, _ in one) for one in frames} == {
        ("do_work",),
        ("do_work", "mix"),
    }
    assert all(one[1][1] == 2 and one[0][1] == 7 for one in frames if len(one) == 2)
    assert lines.notes == {}
    assert [name.rpartition("/")[2] for name in lines.files] == ["kernel.c"]


def test_a_kernel_is_found_by_its_build_id_too(vmlinux, monkeypatch):
    options = replace(options_of(vmlinux, use_cache=False), kernel_image=None)
    monkeypatch.setattr(
        "prospect.assembly.code.location_lines.downloaded_debug_files",
        lambda build_id: received_images(
            [os.fsencode(vmlinux)] if build_id == options.kernel_build_id else []
        ),
    )
    kernel = kernel_with_lines(options, None)
    assert kernel.shift == MOVED_BY
    assert kernel.found.file.speaks_for == EVERYBODY  # a server sent it
    assert kernel_with_lines(replace(options, kernel_build_id=b"other"), None) == NO_IMAGE


def test_without_debug_information_a_note_says_what_is_missing(vmlinux, tmp_path):
    bare = tmp_path / "vmlinux"
    subprocess.run(["strip", "-g", "-o", bare, vmlinux], check=True)
    frames, lines = lines_of(bare, options_of(bare, use_cache=False))
    assert not any(frames)
    assert list(lines.notes.values()) == [NO_DEBUG_INFO]
    nowhere = replace(options_of(bare, use_cache=False), kernel_image=None, kernel_build_id=b"")
    frames, lines = lines_of(bare, nowhere)
    assert not any(frames)
    assert list(lines.notes.values()) == [NO_IMAGE]
