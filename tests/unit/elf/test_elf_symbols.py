import pytest

from builders.elf import Section, Symbol, code, elf_file
from prospect.elf import elf_layout
from prospect.elf.image import ElfImage
from prospect.elf.symbols import NO_SECTION, read_symbols

SYMBOLS = [
    Symbol("f", 0x1000, 16),
    Symbol("v", 0x1010, 8, kind=elf_layout.STT_OBJECT, binding=elf_layout.STB_WEAK, visibility=2),
    Symbol("absolute", 5, section=elf_layout.SHN_ABS),
    Symbol("undefined", 0, section=elf_layout.SHN_UNDEF),
]


@pytest.mark.parametrize("is_64", [True, False])
@pytest.mark.parametrize("extended", [True, False])
def test_columns_hold_what_was_written(is_64, extended):
    data = elf_file(sections=[code()], symbols=SYMBOLS, is_64=is_64, extended_indexes=extended)
    symbols = read_symbols(ElfImage.parse(data), b".symtab")
    assert symbols.value.tolist() == [0, 0x1000, 0x1010, 5, 0]
    assert symbols.size.tolist() == [0, 16, 8, 0, 0]
    assert symbols.kind.tolist() == [0, 2, 1, 2, 2]
    assert symbols.binding.tolist() == [0, 1, 2, 1, 1]
    assert symbols.visibility.tolist() == [0, 0, 2, 0, 0]
    assert symbols.section.tolist() == [0, 1, 1, NO_SECTION, 0]
    start = int(symbols.name[3])
    assert bytes(symbols.strings[start : start + 9]) == b"absolute\0"


def test_a_section_number_beyond_the_image_is_no_section():
    data = elf_file(sections=[code()], symbols=[Symbol("f", 0x1000, section=200)])
    assert read_symbols(ElfImage.parse(data), b".symtab").section.tolist() == [0, NO_SECTION]


def test_a_table_of_another_type_is_not_read():
    data = elf_file(sections=[Section(".symtab", bytes(48))])
    assert read_symbols(ElfImage.parse(data), b".symtab") is None


def test_a_missing_string_table_leaves_no_strings():
    data = elf_file(sections=[Section(".symtab", bytes(48), elf_layout.SHT_SYMTAB, link=999)])
    symbols = read_symbols(ElfImage.parse(data), b".symtab")
    assert len(symbols) == 2
    assert len(symbols.strings) == 0
