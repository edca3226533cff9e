import struct

import pytest

from builders.elf import Section, Symbol, code, elf_file, rela
from prospect.elf import elf_layout
from prospect.elf.image import ElfImage
from prospect.elf.symbols import read_plt

GOT = 0x4000
IMPORTS = [Symbol("puts", 0, section=0), Symbol("exit", 0, section=0)]


def x86_stub(address, slot, before=b"", size=16):
    jump = before + b"\xff\x25"
    body = jump + struct.pack("<i", slot - (address + len(jump) + 4))
    return body + b"\x90" * (size - len(body))


def x86_image(name, stubs, entries, entsize=16, relocations=".rela.plt"):
    sections = [
        Section(
            name,
            b"".join(stubs),
            flags=elf_layout.SHF_ALLOC | elf_layout.SHF_EXECINSTR,
            addr=0x1000,
            entsize=entsize,
        ),
        Section(relocations, rela(entries), elf_layout.SHT_RELA, entsize=24),
    ]
    return ElfImage.parse(elf_file(sections=sections, dynamic_symbols=IMPORTS))


@pytest.mark.parametrize(
    ("name", "before", "size"),
    [
        (".plt", b"", 16),
        (".plt.sec", b"\xf3\x0f\x1e\xfa", 16),
        (".plt.sec", b"\xf3\x0f\x1e\xfa\xf2", 16),
        (".plt.got", b"", 8),
    ],
)
def test_x86_64_stubs_are_named_by_the_slot_that_they_load(name, before, size):
    stubs = [
        x86_stub(0x1000, GOT + 8, size=size),  # the header's jump: its slot has no relocation
        x86_stub(0x1000 + size, GOT + 32, before, size),
        x86_stub(0x1000 + 2 * size, GOT + 24, before, size),
    ]
    entries = [
        (GOT + 24, elf_layout.R_X86_64_JUMP_SLOT, 1, 0),
        (GOT + 32, elf_layout.R_X86_64_JUMP_SLOT, 2, 0),
    ]
    found = read_plt(x86_image(name, stubs, entries, entsize=size))
    assert found.start.tolist() == [0x1000 + size, 0x1000 + 2 * size]
    assert found.end.tolist() == [0x1000 + 2 * size, 0x1000 + 3 * size]
    assert found.symbol.tolist() == [2, 1]


def test_an_entry_size_of_zero_means_sixteen():
    stubs = [b"\x90" * 16, x86_stub(0x1010, GOT)]
    entries = [(GOT, elf_layout.R_X86_64_GLOB_DAT, 1, 0)]
    found = read_plt(x86_image(".plt", stubs, entries, entsize=0, relocations=".rela.dyn"))
    assert found.start.tolist() == [0x1010]


def test_a_slot_that_a_resolver_fills_gives_the_resolver():
    entries = [(GOT, elf_layout.R_X86_64_IRELATIVE, 0, 0x2345)]
    found = read_plt(x86_image(".plt", [x86_stub(0x1000, GOT)], entries))
    assert found.symbol.tolist() == [0]
    assert found.resolver.tolist() == [0x2345]


def test_a_relocation_of_data_names_no_stub():
    entries = [(GOT, 1, 1, 0)]  # R_X86_64_64
    assert len(read_plt(x86_image(".plt", [x86_stub(0x1000, GOT)], entries)).start) == 0


def aarch64_stub(address, slot, bti):
    page = (slot >> 12) - ((address + 4 * bti) >> 12)
    adrp = 0x90000010 | (page & 3) << 29 | (page >> 2 & 0x7FFFF) << 5
    load = 0xF9400211 | (slot & 0xFFF) >> 3 << 10
    words = [adrp, load, 0x91000210, 0xD61F0220]
    if bti:
        words = [0xD503245F, *words, 0xD503201F]
    return struct.pack(f"<{len(words)}I", *words)


@pytest.mark.parametrize("bti", [False, True])
@pytest.mark.parametrize("got", [0x20000, 0x400])
def test_aarch64_stubs_are_named_by_the_slot_that_they_load(bti, got):
    size = 24 if bti else 16
    address = 0x1020 if got > 0x1020 else 0x11020
    stubs = b"".join(aarch64_stub(address + i * size, got + 8 * i, bti) for i in range(2))
    sections = [
        Section(".plt", bytes(32) + stubs, flags=6, addr=address - 32),
        Section(
            ".rela.plt",
            rela([(got + 8 * i, elf_layout.R_AARCH64_JUMP_SLOT, i + 1, 0) for i in range(2)]),
            elf_layout.SHT_RELA,
        ),
    ]
    data = elf_file(sections=sections, dynamic_symbols=IMPORTS, machine=elf_layout.EM_AARCH64)
    found = read_plt(ElfImage.parse(data))
    assert found.start.tolist() == [address, address + size]
    assert found.end.tolist() == [address + size, address + 2 * size]
    assert found.symbol.tolist() == [1, 2]


def test_other_machines_have_no_stubs():
    data = elf_file(sections=[code(".plt")], machine=elf_layout.EM_RISCV)
    assert len(read_plt(ElfImage.parse(data)).start) == 0
