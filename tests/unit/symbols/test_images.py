import lzma
import struct

import numpy as np
import pytest

from builders.eh_frame import frame_sections
from builders.elf import Section, Symbol, code, elf_file, rela
from prospect.elf import elf_layout
from prospect.elf.image import ElfImage
from prospect.profile.naming import NameSource
from prospect.symbols.images.image_symbols import read_symbol_table

DATA = Section(".data", bytes(64), flags=elf_layout.SHF_ALLOC, addr=0x8000)


def table_of(debug=None, **keywords):
    keywords.setdefault("sections", [code(), DATA])
    debug_image = ElfImage.parse(elf_file(**debug)) if debug else None
    return read_symbol_table(ElfImage.parse(elf_file(**keywords)), debug_image)


def name_at(table, address):
    row = int(table.lookup(np.array([address], np.uint64))[0])
    return table.name(row).decode() if row >= 0 else None


def source_at(table, address):
    return NameSource(table.source[table.lookup(np.array([address], np.uint64))[0]])


def all_names(table):
    return [name.decode() for name in table.names(range(len(table)))]


def test_local_functions_count_as_well_as_exported_ones():
    symbols = [
        Symbol("local", 0x1000, 16, binding=elf_layout.STB_LOCAL),
        Symbol("weak", 0x1010, 16, binding=elf_layout.STB_WEAK),
        Symbol("resolver", 0x1020, 16, kind=elf_layout.STT_GNU_IFUNC),
    ]
    table = table_of(symbols=symbols)
    assert all_names(table) == ["local", "weak", "resolver"]
    assert table.is_global.tolist() == [False, True, True]
    assert set(table.source.tolist()) == {NameSource.SYMTAB}


@pytest.mark.parametrize(
    "symbol",
    [
        Symbol("undefined", 0x1000, 16, section=elf_layout.SHN_UNDEF),
        Symbol("absolute", 0x1000, 16, section=elf_layout.SHN_ABS),
        Symbol("common", 0x1000, 16, section=elf_layout.SHN_COMMON),
        Symbol("section", 0x1000, 16, kind=elf_layout.STT_SECTION),
        Symbol("file", 0x1000, 16, kind=4),
        Symbol("thread_local", 0x1000, 16, kind=6),
        Symbol("variable", 0x8000, 8, kind=elf_layout.STT_OBJECT, section=".data"),
        Symbol("data_label", 0x8000, 0, kind=elf_layout.STT_NOTYPE, section=".data"),
        Symbol("hidden", 0x1000, 0, kind=elf_layout.STT_NOTYPE, visibility=elf_layout.STV_HIDDEN),
        Symbol("", 0x1000, 16),
    ],
)
def test_what_names_no_code_is_left_out(symbol):
    assert all_names(table_of(symbols=[symbol])) == []


@pytest.mark.parametrize("kind", [elf_layout.STT_NOTYPE, elf_layout.STT_OBJECT])
def test_labels_and_objects_count_in_executable_sections(kind):
    assert all_names(table_of(symbols=[Symbol("entry", 0x1000, 0, kind=kind)])) == ["entry"]


@pytest.mark.parametrize(
    ("machine", "left"),
    [
        (elf_layout.EM_AARCH64, ["$code"]),
        (elf_layout.EM_ARM, ["$code"]),
        (elf_layout.EM_X86_64, ["$d", "$x.7", "$code"]),
    ],
)
def test_mapping_symbols_of_arm_are_left_out(machine, left):
    names = ["$d", "$x.7", "$code"]
    symbols = [Symbol(n, 0x1000 + 4 * i, 4, kind=0) for i, n in enumerate(names)]
    assert all_names(table_of(symbols=symbols, machine=machine)) == left


def test_mapping_symbols_of_riscv_may_name_extensions():
    symbols = [Symbol("$xrv64i2p1", 0x1000, 4, kind=0), Symbol("f", 0x1004, 4)]
    assert all_names(table_of(symbols=symbols, machine=elf_layout.EM_RISCV)) == ["f"]


def test_the_thumb_bit_is_no_part_of_the_address():
    table = table_of(symbols=[Symbol("f", 0x1001, 4)], machine=elf_layout.EM_ARM, is_64=False)
    assert table.start.tolist() == [0x1000]


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (Symbol("a", 0x1000, 16, binding=2), Symbol("bb", 0x1000, 0)),
        (Symbol("a", 0x1000, 16, binding=2), Symbol("bb", 0x1000, 16, kind=elf_layout.STT_NOTYPE)),
        (Symbol("_a", 0x1000, 16, binding=0), Symbol("bb", 0x1000, 16, binding=2)),
        (Symbol("_a", 0x1000, 16), Symbol("bb", 0x1000, 16, binding=0)),
        (Symbol("a", 0x1000, 16), Symbol("_bbbb", 0x1000, 16)),
        (Symbol("_a", 0x1000, 16), Symbol("__a", 0x1000, 16)),
        (Symbol("longer", 0x1000, 16), Symbol("short", 0x1000, 16)),
    ],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_the_best_of_one_address_is_chosen_as_perf_does(better, worse, swapped):
    table = table_of(symbols=[worse, better] if swapped else [better, worse])
    assert all_names(table) == [better.name]
    assert table.alias_names(0) == [worse.name.encode()]


def test_of_equally_good_symbols_the_first_is_chosen():
    table = table_of(symbols=[Symbol("one", 0x1000, 16), Symbol("two", 0x1000, 16)])
    assert all_names(table) == ["one"]


def test_an_unknown_size_ends_with_its_section():
    sections = [code(".init", 0x800, bytes(0x20)), code()]
    symbols = [Symbol("_init", 0x800, section=".init"), Symbol("main", 0x1000, 16)]
    table = table_of(sections=sections, symbols=symbols)
    assert (name_at(table, 0x81F), name_at(table, 0x820)) == ("_init", None)


def test_a_size_beyond_the_address_space_counts_as_unknown():
    table = table_of(symbols=[Symbol("f", 0x1000, 2**64 - 8), Symbol("g", 0x1100, 16)])
    assert (name_at(table, 0x10FF), name_at(table, 0x1105)) == ("f", "g")


def test_symbols_of_the_debug_file_come_first_and_say_so():
    debug = {"sections": [code(size=0x1000)], "symbols": [Symbol("local", 0x1000, 16, binding=0)]}
    table = table_of(debug, dynamic_symbols=[Symbol("exported", 0x1000, 16)])
    assert (name_at(table, 0x1000), source_at(table, 0x1000)) == ("local", NameSource.DEBUG_FILE)


def test_a_debug_file_without_symbols_is_passed_over():
    table = table_of({"sections": [code(size=16)]}, symbols=[Symbol("f", 0x1000, 16)])
    assert source_at(table, 0x1000) == NameSource.SYMTAB


def test_without_symtab_what_lies_between_exported_functions_becomes_a_bracket():
    exported = [Symbol("qsort", 0x1080, 16), Symbol("bsearch", 0x1010, 16)]
    table = table_of(dynamic_symbols=exported)
    at = {0x1000: "->bsearch", 0x1010: "bsearch", 0x101F: "bsearch", 0x1020: "bsearch->qsort"}
    at |= {0x107F: "bsearch->qsort", 0x1080: "qsort", 0x1090: "qsort->", 0x1FFF: "qsort->"}
    assert {address: name_at(table, address) for address in at} == at
    assert name_at(table, 0xFFF) is None
    assert name_at(table, 0x2000) is None
    assert source_at(table, 0x1010) == NameSource.DYNSYM
    assert source_at(table, 0x1020) == NameSource.BRACKET


def test_a_bracket_does_not_reach_over_the_end_of_its_section():
    sections = [code(), code(".fini", 0x2000, bytes(64)), code(".other", 0x3000, bytes(64))]
    exported = [Symbol("f", 0x1000, 16), Symbol("_fini", 0x2010, 16, section=".fini")]
    table = table_of(sections=sections, dynamic_symbols=exported)
    assert name_at(table, 0x1FFF) == "f->"
    assert name_at(table, 0x2000) == "->_fini"
    assert name_at(table, 0x3000) is None


def test_a_bracket_begins_where_the_longest_of_overlapping_functions_ends():
    exported = [Symbol("f", 0x1000, 0x80), Symbol("f_tail", 0x1010, 16), Symbol("g", 0x1100, 16)]
    table = table_of(dynamic_symbols=exported)
    assert name_at(table, 0x107F) == "f"
    assert name_at(table, 0x1080) == "f_tail->g"


def test_an_exported_function_of_unknown_size_covers_its_first_byte_only():
    table = table_of(dynamic_symbols=[Symbol("f", 0x1000), Symbol("g", 0x1040, 16)])
    assert [name_at(table, a) for a in (0x1000, 0x1001, 0x1040)] == ["f", "f->g", "g"]


def test_the_aliases_of_a_stripped_image_keep_to_their_symbol():
    exported = [Symbol("f", 0x1020, 16), Symbol("_f", 0x1020, 16), Symbol("g", 0x1080, 16)]
    table = table_of(dynamic_symbols=exported)
    row = int(table.lookup(np.array([0x1020], np.uint64))[0])
    assert (table.name(row), table.alias_names(row)) == (b"f", [b"_f"])
    assert table.alias_names(row + 1) == []


def test_an_image_without_any_symbol_names_nothing():
    assert len(table_of()) == 0
    assert len(table_of(sections=[])) == 0
    assert len(table_of(with_section_headers=False, dynamic_symbols=[Symbol("f", 0x1000)])) == 0


def mini_debug(data):
    return Section(".gnu_debugdata", lzma.compress(data, preset=0))


def test_mini_debug_info_fills_in_what_is_not_exported():
    packed = elf_file(
        sections=[code(size=0x1000)], symbols=[Symbol("local", 0x1010, 16, binding=0)]
    )
    table = table_of(
        sections=[code(), mini_debug(packed)], dynamic_symbols=[Symbol("exported", 0x1000, 16)]
    )
    assert [name_at(table, a) for a in (0x1000, 0x1010, 0x1020)] == ["exported", "local", None]
    assert source_at(table, 0x1000) == NameSource.DYNSYM
    assert source_at(table, 0x1010) == NameSource.MINI_DEBUG


@pytest.mark.parametrize(
    "section",
    [
        lambda: Section(".gnu_debugdata", b"not xz"),
        lambda: mini_debug(b"not ELF"),
        lambda: mini_debug(bytes(200 << 20)),  # made when it is its turn: packing takes seconds
    ],
)
def test_mini_debug_info_that_cannot_be_read_leaves_the_brackets(section):
    table = table_of(sections=[code(), section()], dynamic_symbols=[Symbol("f", 0x1000, 16)])
    assert name_at(table, 0x1010) == "f->"


def plt_image(target, addend=0, kind=elf_layout.R_X86_64_JUMP_SLOT, **keywords):
    stub = b"\xff\x25" + struct.pack("<i", 0x4000 - 0x506) + b"\x90" * 10
    plt = Section(".plt", stub, flags=6, addr=0x500, entsize=16)
    relocations = Section(".rela.plt", rela([(0x4000, kind, target, addend)]), elf_layout.SHT_RELA)
    return table_of(sections=[code(), plt, relocations], **keywords)


def test_stubs_are_named_by_what_they_jump_to():
    imported = [Symbol("puts", 0, section=0)]
    for keywords in ({}, {"symbols": [Symbol("main", 0x1000, 16)]}):
        table = plt_image(1, dynamic_symbols=imported, **keywords)
        assert [name_at(table, a) for a in (0x500, 0x50F, 0x510)] == ["puts@plt", "puts@plt", None]
        assert source_at(table, 0x500) == NameSource.PLT


def test_a_stub_with_a_resolver_has_the_resolvers_name():
    resolver = Symbol("strlen", 0x1000, 16, kind=elf_layout.STT_GNU_IFUNC)
    for keywords in ({"dynamic_symbols": [resolver]}, {"symbols": [resolver]}):
        table = plt_image(0, 0x1000, elf_layout.R_X86_64_IRELATIVE, **keywords)
        assert name_at(table, 0x500) == "strlen@plt"


def test_a_symbol_at_a_stub_keeps_its_name():
    symbols = [Symbol("own", 0x500, 16, section=".plt")]
    table = plt_image(1, symbols=symbols, dynamic_symbols=[Symbol("puts", 0, section=0)])
    assert name_at(table, 0x500) == "own"


# Static functions at 0x1040 and 0x1080 between the exported ones at 0x1000 and 0x1100.
FUNCTIONS = [(0x1000, 0x30), (0x1040, 0x20), (0x1080, 0x10), (0x1100, 0x40), (0x1200, 0x10)]
EXPORTED = [Symbol("f", 0x1000, 0x30), Symbol("g", 0x1100, 0x40)]


def bounded(exported, functions=FUNCTIONS, **keywords):
    sections = [code(), *frame_sections(functions)]
    return table_of(sections=sections, dynamic_symbols=exported, **keywords)


def test_function_bounds_cut_the_bracket():
    table = bounded(EXPORTED)
    assert {address: name_at(table, address) for address in range(0x1000, 0x1220, 0x10)} == {
        **dict.fromkeys(range(0x1000, 0x1030, 0x10), "f"),
        0x1030: "f->g",
        **dict.fromkeys((0x1040, 0x1050), "f->g [fn 1 of 2]"),
        **dict.fromkeys((0x1060, 0x1070), "f->g"),
        0x1080: "f->g [fn 2 of 2]",
        **dict.fromkeys(range(0x1090, 0x1100, 0x10), "f->g"),
        **dict.fromkeys(range(0x1100, 0x1140, 0x10), "g"),
        **dict.fromkeys(range(0x1140, 0x1200, 0x10), "g->"),
        0x1200: "g-> [fn 1 of 1]",
        0x1210: "g->",
    }
    row = int(table.lookup(np.array([0x1055], np.uint64))[0])
    assert (int(table.start[row]), int(table.end[row])) == (0x1040, 0x1060)
    assert source_at(table, 0x1055) == NameSource.BOUNDS
    assert source_at(table, 0x1035) == NameSource.BRACKET
    assert not table.is_global[row]


def test_bounds_say_where_an_exported_function_of_unknown_size_ends():
    table = bounded([Symbol("f", 0x1000), Symbol("g", 0x1100, 0x40)])
    assert name_at(table, 0x102F) == "f"
    assert source_at(table, 0x102F) == NameSource.DYNSYM
    assert name_at(table, 0x1030) == "f->g"
    without = table_of(dynamic_symbols=[Symbol("f", 0x1000), Symbol("g", 0x1100, 0x40)])
    assert name_at(without, 0x102F) == "f->g"


def test_a_function_that_reaches_into_an_exported_one_ends_there():
    table = bounded(EXPORTED, [(0x1080, 0x200)])
    assert name_at(table, 0x10FF) == "f->g [fn 1 of 1]"
    assert name_at(table, 0x1100) == "g"
    assert name_at(table, 0x1140) == "g->"


def test_functions_that_overlap_each_other_end_where_the_next_one_begins():
    table = bounded(EXPORTED, [(0x1040, 0x80), (0x1080, 0x10)])
    assert name_at(table, 0x107F) == "f->g [fn 1 of 2]"
    assert name_at(table, 0x1080) == "f->g [fn 2 of 2]"
    assert name_at(table, 0x1090) == "f->g"


def test_without_any_symbol_functions_are_known_by_their_bounds():
    for symbols in ([], None):
        table = bounded(symbols)
        assert name_at(table, 0x1045) == "[fn at 0x1040]"
        assert name_at(table, 0x1035) is None
        assert set(table.source.tolist()) == {NameSource.NO_NAME_BOUNDS}
        assert not table.is_full


def test_what_lies_outside_the_code_is_no_function():
    table = bounded([], [(0x800, 0x10), (0x1FF0, 0x100), (0x6000, 0x10)])
    assert all_names(table) == ["[fn at 0x1ff0]"]
    assert table.end.tolist() == [0x2000]


def test_the_procedure_linkage_table_is_no_function():
    plt = Section(".plt", b"\x90" * 0x40, flags=6, addr=0x500, entsize=16)
    frames = frame_sections([(0x500, 0x40), (0x1000, 0x10)])
    table = table_of(sections=[code(), plt, *frames], dynamic_symbols=[])
    assert all_names(table) == ["[fn at 0x1000]"]


def test_bounds_are_not_used_beside_a_full_symbol_table():
    table = bounded(EXPORTED, symbols=[Symbol("whole", 0x1000, 16)])
    assert all_names(table) == ["whole"]


def test_names_from_a_server_say_so():
    debug = ElfImage.parse(elf_file(sections=[code(size=0x1000)], symbols=[Symbol("f", 0x1000, 9)]))
    image = ElfImage.parse(elf_file(sections=[code()]))
    table = read_symbol_table(image, debug, NameSource.DEBUG_SERVER)
    assert source_at(table, 0x1000) == NameSource.DEBUG_SERVER
    assert table.is_full
