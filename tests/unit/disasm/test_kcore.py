"""Code of the kernel: from a core file like /proc/kcore, and from a vmlinux."""

import struct
from pathlib import Path

import pytest

from builders.elf import Section, Segment, Symbol, build_id_note, code, elf_file
from prospect.disasm import kernel_code
from prospect.disasm.code_image import code_at
from prospect.disasm.kernel_code import KernelImage, LiveKernel, open_kernel
from prospect.elf import elf_layout
from prospect.elf.image import ElfImage
from prospect.symbols.kernel.kernel_listings import KernelPlaces
from prospect.symbols.naming_options import SymbolOptions

TEXT = 0xFFFFFFFF81000000
MODULE = 0xFFFFFFFFC0000000
CODE = bytes(range(64))


def core_file(*segments, kind=elf_layout.ET_CORE):
    """Return a core file with segments (address, bytes, size that it claims or None)."""
    offset = 64 + 56 * len(segments)
    headers, content = b"", b""
    for address, data, size in segments:
        claimed = len(data) if size is None else size
        headers += struct.pack(
            "<IIQQQQQQ",
            elf_layout.PT_LOAD,
            7,
            offset + len(content),
            address,
            0,
            claimed,
            claimed,
            4096,
        )
        content += data
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = ident + struct.pack(
        "<HHIQQQIHHHHHH", kind, elf_layout.EM_X86_64, 1, 0, 64, 0, 0, 64, 56, len(segments), 0, 0, 0
    )
    return header + headers + content


@pytest.fixture
def core(tmp_path):
    def write(*segments, **options):
        path = tmp_path / "kcore"
        path.write_bytes(core_file(*segments, **options))
        return str(path)

    return write


def test_code_is_where_the_core_file_has_it(core):
    opened = LiveKernel.open(core((TEXT, CODE, None), (MODULE, CODE[::-1], None)))
    assert opened.image.machine == elf_layout.EM_X86_64
    assert opened.code_at(TEXT, 8) == CODE[:8]
    assert opened.code_at(TEXT + 60, 8) == CODE[60:]
    assert opened.code_at(MODULE + 1, 2) == CODE[::-1][1:3]
    for address in (TEXT - 1, TEXT + 64, 0):
        assert opened.code_at(address, 8) == kernel_code.NOT_THERE
    opened.close()


@pytest.mark.parametrize("size", [1 << 40, 2**64 - 1])
def test_a_size_that_is_a_lie_gives_what_is_there(core, size):
    opened = LiveKernel.open(core((TEXT, CODE, size)))
    assert opened.code_at(TEXT, 1000) == CODE
    assert opened.code_at(TEXT + 0x1000, 8) == kernel_code.NOT_THERE
    opened.close()


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"nothing" * 100])
def test_what_is_no_core_file_is_refused(tmp_path, content):
    path = tmp_path / "kcore"
    path.write_bytes(content)
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert "not a core file" in LiveKernel.open(str(path))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_an_ordinary_image_is_no_core_file(core):
    assert "not a core file" in LiveKernel.open(core((TEXT, CODE, None), kind=elf_layout.ET_DYN))


def test_without_a_core_file_it_says_what_to_do(tmp_path):
    assert "-L" in LiveKernel.open(str(tmp_path / "none"))


def vmlinux(tmp_path, build_id=b"\1" * 20):
    path = tmp_path / "vmlinux"
    path.write_bytes(
        elf_file(
            sections=[code(address=TEXT, data=CODE)],
            symbols=[Symbol("_text", TEXT), Symbol("do_work", TEXT + 16, 16)],
            build_id=build_id,
        )
    )
    return path


def test_code_of_a_given_vmlinux_is_moved_to_where_the_kernel_stood(tmp_path):
    path = vmlinux(tmp_path)
    options = SymbolOptions(
        kernel_image=str(path), kernel_build_id=b"\1" * 20, kernel_text=TEXT + 0x1000000
    )
    kernel = open_kernel(options)
    assert isinstance(kernel, KernelImage)
    assert kernel.shift == 0x1000000
    assert kernel.code_at(TEXT + 0x1000000 + 16, 16) == CODE[16:32]
    assert kernel.code_at(MODULE, 16) == kernel_code.NOT_IN_IMAGE


def test_a_vmlinux_of_another_kernel_is_refused(tmp_path):
    options = SymbolOptions(kernel_image=str(vmlinux(tmp_path)), kernel_build_id=b"\2" * 20)
    assert "build id" in open_kernel(options)


def places(tmp_path, text=TEXT, build_id=b"\1" * 20):
    (tmp_path / "notes").write_bytes(build_id_note(build_id))
    (tmp_path / "kallsyms").write_text(f"{text:x} T _text\n{text + 16:x} T do_work\n")
    return KernelPlaces(
        kallsyms=str(tmp_path / "kallsyms"),
        notes=str(tmp_path / "notes"),
        modules=str(tmp_path / "modules"),
        boot_id=str(tmp_path / "boot_id"),
        root=str(tmp_path),
    )


def test_the_running_kernel_is_read_if_it_is_the_recorded_one(tmp_path, core):
    options = SymbolOptions(kernel_build_id=b"\1" * 20, kernel_text=TEXT)
    kernel = open_kernel(options, None, places(tmp_path), core((TEXT, CODE, None)))
    assert isinstance(kernel, LiveKernel)
    assert kernel.code_at(TEXT, 4) == CODE[:4]
    assert kernel.code_at(MODULE, 4) == kernel_code.NOT_THERE
    kernel.close()


def test_another_kernel_or_another_boot_is_not_read(tmp_path, core):
    path = core((TEXT, CODE, None))
    other = SymbolOptions(kernel_build_id=b"\2" * 20)
    assert open_kernel(other, None, places(tmp_path), path) == kernel_code.NOT_RUNNING
    moved = SymbolOptions(kernel_build_id=b"\1" * 20, kernel_text=TEXT + 0x1000)
    assert open_kernel(moved, None, places(tmp_path), path) == kernel_code.MOVED


def test_code_ends_with_its_segment_and_with_the_file():
    section = Section(".x", CODE)
    whole = elf_file(sections=[section], segments=[Segment(vaddr=0x1000, filesz=1 << 30)])
    image = ElfImage.parse(whole)
    assert len(code_at(image, 0x1000, 1 << 20)) == len(whole)
    assert len(code_at(image, 0x1000 + len(whole) - 3, 100)) == 3
    assert len(code_at(image, 0xFFF, 100)) == 0
    assert len(code_at(image, 2**64 - 1, 100)) == 0
