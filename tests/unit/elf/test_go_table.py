"""Go's own function table: each version, place and form, and what damaged ones give."""

import random

import numpy as np
import pytest

from builders.elf import Symbol, code, elf_file
from builders.go_table import TABLE, TEXT, VERSIONS, GoFunction, go_image
from prospect.elf import elf_layout
from prospect.elf.go_table import GO_1_16, GO_1_18, GO_1_20, read_go_table
from prospect.elf.image import ElfImage
from prospect.profile.naming import NameSource
from prospect.symbols.images.image_symbols import read_symbol_table

TREE = (("main.inner", 5),)
FUNCTIONS = [
    GoFunction("runtime.text0", 32),
    GoFunction("main.(*shape).area", 64, calls=((-1, 16), (0, 48)), tree=TREE),
    GoFunction("main.sum[...]", 96),
    GoFunction("main.main.func1", 16, flags=1),
]


def read(*arguments, **keywords):
    return read_go_table(ElfImage.parse(go_image(*arguments, **keywords)))


def names(table):
    return [bytes(table.names[at:]).partition(b"\0")[0].decode() for at in table.name.tolist()]


def check(table):
    assert names(table) == [function.name for function in FUNCTIONS]
    ends = TEXT + np.cumsum([function.size for function in FUNCTIONS])
    assert table.end.tolist() == ends.tolist()
    assert table.start.tolist() == [TEXT, *ends.tolist()[:-1]]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_64", [True, False])
def test_functions_of_each_version(version, is_64):
    machine = elf_layout.EM_X86_64 if is_64 else elf_layout.EM_386
    table = read(FUNCTIONS, version, is_64=is_64, machine=machine)
    check(table)
    assert table.version == version
    assert table.flags.tolist() == [0, 0, 0, 1]
    address = np.array([TEXT - 1, TEXT, TEXT + 31, TEXT + 32, TEXT + 207, TEXT + 208], np.uint64)
    assert table.row_of(address).tolist() == [-1, 0, 0, 1, 3, -1]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("word", [38, 40, 43])
def test_inlined_calls_are_found_wherever_moduledata_has_their_address(version, word):
    table = read(FUNCTIONS, version, gofunc_word=word)
    tree = table.tree(np.arange(4))
    assert (tree >= 0).tolist() == [False, True, False, False]
    name, call = table.tree_fields(tree[1:2], np.zeros(1, np.int64))
    assert bytes(table.names[name[0] :]).startswith(b"main.inner\0")
    assert call.tolist() == [5]


@pytest.mark.parametrize(
    "keywords",
    [
        {"section": ".data.rel.ro.gopclntab"},
        {"section": ".data.rel.ro"},
        {"with_section_headers": False},
        {"stated_text": 0},
        {"is_relocated": True},
        {"is_relocated": True, "stated_text": 0},
        {"with_module": False},
        {"with_module": False, "stated_text": 0},
    ],
    ids=str,
)
def test_the_table_is_found_without_its_section_and_the_code_without_its_address(keywords):
    check(read(FUNCTIONS, GO_1_20, **keywords))


def test_without_moduledata_there_are_no_inlined_calls():
    table = read(FUNCTIONS, GO_1_18, with_module=False)
    assert (table.tree(np.arange(4)) == -1).all()


def test_no_table_is_read_if_its_functions_are_not_in_the_code():
    assert read(FUNCTIONS, GO_1_20, with_module=False, stated_text=TEXT + 16) is None
    assert read(FUNCTIONS, GO_1_20, text_bytes=b"\x90" * 64) is None


def test_other_images_have_none():
    assert read_go_table(ElfImage.parse(elf_file(sections=[code()]))) is None
    # Go 1.15, whose header has no offsets
    old = read(FUNCTIONS, GO_1_20, edit=lambda table: b"\xfb" + table[1:])
    assert old is None


def test_functions_whose_start_is_not_above_all_before_are_left_out():
    def swap(table):
        at = table.index((32).to_bytes(4, "little"), 80)
        return table[:at] + bytes(4) + table[at + 4 :]

    assert names(read(FUNCTIONS, GO_1_20, edit=swap)) == [
        "runtime.text0",
        "main.sum[...]",
        "main.main.func1",
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_damage_gives_a_table_or_none(version):
    chance = random.Random(version)
    sound = go_image(FUNCTIONS, version)
    begin = sound.index(version.to_bytes(4, "little"))
    for _ in range(300):
        image = bytearray(sound)
        for _ in range(chance.randint(1, 6)):
            image[chance.randrange(begin, begin + 700)] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
        table = read_go_table(ElfImage.parse(bytes(image)))
        if table is None:
            continue
        rows = np.arange(len(table))
        table.tree_fields(table.tree(rows), rows)
        table.values.unpacked(table.stack_depths(rows)).at(table.stack_depths(rows), rows)


def test_symbols_of_a_stripped_image_come_from_the_table():
    table = read_symbol_table(ElfImage.parse(go_image(FUNCTIONS, GO_1_18)))
    assert table.names(range(len(table))) == [one.name.encode() for one in FUNCTIONS]
    assert set(table.source.tolist()) == {NameSource.GO_TABLE}
    assert table.is_full


def test_the_symbol_table_goes_before_it_and_exported_functions_with_it():
    own = Symbol("main.named", TEXT, 208)
    table = read_symbol_table(ElfImage.parse(go_image(FUNCTIONS, GO_1_20, symbols=[own])))
    assert table.names(range(len(table))) == [b"main.named"]
    exported = Symbol("c_function", TEXT + 0x1000, 16, section=".c")
    image = go_image(
        FUNCTIONS,
        GO_1_20,
        dynamic_symbols=[exported],
        sections=[code(".c", TEXT + 0x1000, b"\x90" * 16)],
    )
    table = read_symbol_table(ElfImage.parse(image))
    assert table.names([0, len(table) - 1]) == [b"runtime.text0", b"c_function"]


def test_a_segment_of_code_may_have_the_table_of_go_1_16_relocated():
    table = read(FUNCTIONS, GO_1_16, section=".data.rel.ro")
    check(table)
    assert table.module[0] == TABLE
