"""Lines of images that the machine's compiler makes: inlined, split, shared, cached, hostile."""

import itertools
import os
import shutil
import struct
import subprocess

import numpy as np
import pytest

from builders.elf import Section, code, elf_file
from prospect.elf import elf_layout
from prospect.elf.image import ElfImage
from prospect.files.untrusted_open import open_file
from prospect.lines import conversion, debug_info, finder
from prospect.lines.debug_info import BoundedReader
from prospect.lines.finder import LineFinder
from prospect.profile.naming import NameSource
from prospect.symbols.images.image_files import DebugImage, FoundImage, open_image
from prospect.symbols.images.image_symbols import read_symbol_table
from prospect.symbols.table_cache import SymbolCache

pytest.importorskip("symbolic")
NEEDS_GCC = pytest.mark.skipif(not shutil.which("gcc"), reason="builds small C programs")

SOURCE = """\
static inline int mix(int x) {
    return x * 31 ^ x >> 7;
}
__attribute__((noinline)) int work(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += mix(sum + i);
    return sum;
}
int main(int argc, char **argv) {
    return work(argc);
}
"""


def build(directory, *flags, name="program"):
    (directory / "program.c").write_text(SOURCE)
    options = ["-g", "-O2", "-Wl,--build-id", *flags]
    command = ["gcc", *options, "-o", name, str(directory / "program.c")]
    subprocess.run(command, check=True, cwd=directory)
    return open_image(os.fsencode(directory / name))


def addresses_of(found, function):
    table = read_symbol_table(found.image)
    row = table.names(range(len(table))).index(function)
    return np.arange(table.start[row], table.end[row], dtype=np.uint64)


def frames_of(found, address, cache=None, debug=None):
    frames, note = LineFinder(cache).frames(found, lambda: debug, address)
    bounds = frames.start.tolist()
    return [
        [
            (frames.names[name].decode(), frames.files[file].rpartition("/")[2], line)
            for name, file, line in zip(
                frames.name_index[a:b].tolist(),
                frames.file_index[a:b].tolist(),
                frames.line[a:b].tolist(),
                strict=True,
            )
        ]
        for a, b in itertools.pairwise(bounds)
    ], note


@NEEDS_GCC
@pytest.mark.parametrize(
    "flags",
    [("-gdwarf-4",), ("-gdwarf-5",), ("-gz",), ("-no-pie",), ("-m32",)],
    ids=lambda flags: flags[0],
)
def test_each_instruction_has_its_line_and_what_is_inlined_there(tmp_path, flags):
    try:
        found = build(tmp_path, *flags)
    except subprocess.CalledProcessError:
        pytest.skip(f"this gcc builds nothing with {flags}")
    frames, note = frames_of(found, addresses_of(found, b"work"))
    assert note == ""
    assert {names for one in frames for names in [tuple(name for name, _, _ in one)]} == {
        ("work",),
        ("work", "mix"),
    }
    for one in frames:
        assert {file for _, file, _ in one} == {"program.c"}
        assert 4 <= one[0][2] <= 9
        assert all(line == 2 for name, _, line in one if name == "mix")
        assert len(one) == 1 or one[0][2] == 7


@NEEDS_GCC
@pytest.mark.parametrize("packing", ["none", "zlib", "zlib-gnu", "zstd"])
def test_lines_of_a_separate_debug_file_are_those_of_the_whole_one(tmp_path, packing):
    found = build(tmp_path)
    expected, _ = frames_of(found, addresses_of(found, b"work"))
    options = subprocess.check_output(["objcopy", "--help"], text=True)
    if packing not in options:
        pytest.skip("objcopy does not pack so")
    packed = f"--compress-debug-sections={packing}"
    for command in (
        ["objcopy", "--only-keep-debug", packed, "program", "program.debug"],
        ["strip", "-o", "stripped", "program"],
    ):
        subprocess.run(command, cwd=tmp_path, check=True)
    stripped = open_image(os.fsencode(tmp_path / "stripped"))
    debug = DebugImage(*open_image(os.fsencode(tmp_path / "program.debug")), NameSource.DEBUG_FILE)
    address = addresses_of(found, b"work")
    assert frames_of(stripped, address, debug=debug) == (expected, "")
    assert frames_of(stripped, address) == ([[]] * len(address), debug_info.NO_DEBUG_INFO)


@NEEDS_GCC
@pytest.mark.skipif(not shutil.which("dwz"), reason="needs dwz")
def test_names_in_a_shared_debug_file_are_said_to_be_missing(tmp_path):
    build(tmp_path, name="one")
    build(tmp_path, name="other")
    ran = subprocess.run(
        ["dwz", "-m", "shared.debug", "one", "other"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    found = open_image(os.fsencode(tmp_path / "one"))
    if ran.returncode or not debug_info.is_shared(found.image):
        pytest.skip("dwz found nothing to share")
    frames, note = LineFinder(None).frames(found, lambda: None, addresses_of(found, b"work"))
    assert frames.start[-1] > 0
    assert note == debug_info.SHARED


@NEEDS_GCC
def test_debug_information_is_read_once_and_then_kept_on_disk(tmp_path, monkeypatch):
    found, cache = build(tmp_path), SymbolCache(tmp_path / "cache")
    address = addresses_of(found, b"work")
    expected = frames_of(found, address, cache)
    monkeypatch.setattr(finder, "convert", lambda _: pytest.fail("read again"))
    assert frames_of(found, address, cache) == expected
    changed = build(tmp_path, "-O1")
    with pytest.raises(pytest.fail.Exception, match="read again"):
        frames_of(changed, address, cache)


@NEEDS_GCC
@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")
def test_a_file_of_another_user_is_read_in_a_child(tmp_path, monkeypatch):
    expected = frames_of(found := build(tmp_path), address := addresses_of(found, b"work"))
    os.chown(tmp_path / "program", 65534, 65534)
    foreign = open_image(os.fsencode(tmp_path / "program"))
    monkeypatch.setattr(finder, "convert", lambda _: pytest.fail("read in this process"))
    assert frames_of(foreign, address) == expected


def found_of(tmp_path, content):
    path = tmp_path / "image"
    path.write_bytes(content)
    return FoundImage(open_file(os.fsencode(path)), ElfImage.parse(content))


@pytest.mark.parametrize(
    "section",
    [
        Section(
            ".debug_info", struct.pack("<IIQQ", 1, 0, 1 << 60, 1), flags=elf_layout.SHF_COMPRESSED
        ),
        Section(".zdebug_info", b"ZLIB" + struct.pack(">Q", 1 << 60)),
    ],
    ids=["compressed", "old"],
)
def test_what_claims_to_unpack_to_more_than_memory_is_not_unpacked(tmp_path, monkeypatch, section):
    monkeypatch.setattr(finder, "convert", lambda _: pytest.fail("given to the library"))
    found = found_of(tmp_path, elf_file(sections=[code(), section]))
    frames, note = frames_of(found, np.array([0x1000], np.uint64))
    assert frames == [[]]
    assert note == debug_info.UNREADABLE


@NEEDS_GCC
def test_debug_information_of_others_has_what_is_left_of_the_budget(tmp_path, monkeypatch):
    found = build(tmp_path)
    of_a_stranger = found._replace(file=found.file._replace(speaks_for=4242))
    address = addresses_of(found, b"work")[:1]
    assert frames_of(of_a_stranger, address)[0] == frames_of(found, address)[0] != [[]]
    # Less than the file itself has; less than the library takes; and no time at all.
    for bytes_, seconds in ((1 << 10, 180.0), (len(found.image.data), 180.0), (1 << 30, 0.0)):
        monkeypatch.setenv("PROSPECT_MEMORY", str(bytes_))
        monkeypatch.setattr(debug_info, "ALL_READING_S", seconds)
        monkeypatch.setattr(conversion, "_OWN_BYTES", 1 << 20)
        assert frames_of(of_a_stranger, address) == ([[]], debug_info.COSTLY)
    assert frames_of(found, address)[0] != [[]]


@NEEDS_GCC
def test_of_other_users_files_the_smallest_is_read_first(tmp_path, monkeypatch):
    found = [build(tmp_path, f"-Wl,--defsym=n={n}", name=f"program{n}") for n in range(4)]
    sizes = (3 << 20, 1 << 20, 2 << 20, 4 << 20)
    of_whom = (4242, 4243, 4242, 0)
    found = [
        one._replace(
            file=one.file._replace(speaks_for=uid, inode=row),
            image=ElfImage.parse(bytes(one.image.data) + bytes(size)),
        )
        for row, (one, size, uid) in enumerate(zip(found, sizes, of_whom, strict=True))
    ]
    asked = []

    def convert(self, data, uid):
        asked.append((len(data) >> 20, uid))

    monkeypatch.setattr(BoundedReader, "convert", convert)
    lines = LineFinder(None)
    lines.prepare([(one, lambda: None) for one in found])
    assert asked == [(1, 4243), (2, 4242), (3, 4242)]
    frames, note = lines.frames(found[3], lambda: None, addresses_of(found[3], b"work")[:1])
    assert frames.files
    assert note == ""


def test_no_user_takes_all_the_time_that_other_users_files_may(monkeypatch):
    given = []

    def convert(data, most_bytes, seconds):
        given.append(seconds)
        clock[0] += seconds

    clock = [0.0]
    monkeypatch.setattr(debug_info, "convert_in_child", convert)
    monkeypatch.setattr(debug_info.time, "monotonic", lambda: clock[0])
    reader = BoundedReader()
    for _ in range(9):
        reader.convert(bytes(100_000_000), 4242)
    assert sum(given) == pytest.approx(120)
    for uid in range(5000, 5040):
        reader.convert(bytes(100_000_000), uid)
    assert sum(given) <= 180.001
    del given[:]
    reader = BoundedReader()
    for _ in range(9):
        reader.convert(bytes(100_000_000), 4242)
    reader.convert(bytes(1_000_000), 4243)
    assert given[-1] == 6.0


def test_garbage_for_debug_information_gives_no_lines(tmp_path):
    junk = bytes(range(256)) * 4
    names = (".debug_info", ".debug_abbrev", ".debug_line", ".debug_str")
    found = found_of(tmp_path, elf_file(sections=[code(), *(Section(n, junk) for n in names)]))
    frames, note = frames_of(found, np.array([0x1000], np.uint64))
    assert frames == [[]]
    assert note


def test_debug_information_of_a_newer_version_is_said_to_be_that(tmp_path):
    for version, note in ((6, debug_info.TOO_NEW.format(version=6)), (77, debug_info.UNREADABLE)):
        unit = struct.pack("<IHBBI", 9, version, 1, 8, 0) + b"\0"
        path = tmp_path / "program"
        path.write_bytes(elf_file(sections=[code(), Section(".debug_info", unit)]))
        found = open_image(os.fsencode(path))
        assert frames_of(found, np.array([16], np.uint64)) == ([[]], note)


@NEEDS_GCC
def test_damaged_debug_information_never_ends_the_process(tmp_path):
    found = build(tmp_path)
    whole, address = bytes(found.image.data), addresses_of(found, b"work")
    random = np.random.default_rng(7)
    debug = [
        (int(section["offset"]), int(section["size"]))
        for name in (b".debug_info", b".debug_line", b".debug_abbrev", b".debug_str")
        for section in [found.image.sections[found.image.find_section(name)]]
    ]
    for _ in range(60):
        content = bytearray(whole)
        for _ in range(20):
            offset, size = debug[random.integers(len(debug))]
            content[offset + random.integers(size)] = random.integers(256)
        frames_of(found_of(tmp_path, bytes(content)), address)


@pytest.mark.skipif(not shutil.which("g++"), reason="builds a small C++ program")
def test_a_function_whose_cold_part_stands_first_has_its_own_name(tmp_path):
    source = (
        "#include <stdexcept>\nvolatile int seen;\n"
        'extern "C" __attribute__((noinline)) int work(int n) {\n'
        "    for (int i = 0; i < n; i++) { seen += i; if (seen == 7) throw std::exception(); }\n"
        "    return seen;\n}\n"
        "int main(int argc, char **argv) { return work(argc); }\n"
    )
    (tmp_path / "cold.cc").write_text(source)
    command = ["g++", "-g", "-O2", "-o", "cold", str(tmp_path / "cold.cc")]
    subprocess.run(command, check=True, cwd=tmp_path)
    found = open_image(os.fsencode(tmp_path / "cold"))
    frames, _ = frames_of(found, addresses_of(found, b"work"))
    assert {name for (name, *_), *_ in frames} == {"work"}
