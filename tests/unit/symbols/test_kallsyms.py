import numpy as np
import pytest

from prospect.profile.naming import NameSource
from prospect.symbols.kernel.kernel_listings import module_of, parse_kallsyms
from prospect.symbols.table import SymbolTable

BASE = 0xFFFFFFFF81000000


def listing(*rows: tuple[int, str, str]) -> bytes:
    return "".join(f"{BASE + offset:016x} {kind} {name}\n" for offset, kind, name in rows).encode()


def name_at(table: SymbolTable, offset: int) -> bytes | None:
    row = int(table.lookup(np.array([BASE + offset], np.uint64))[0])
    return table.name(row) if row >= 0 else None


def test_a_symbol_reaches_to_the_next_one() -> None:
    table = parse_kallsyms(listing((0, "T", "first"), (0x40, "t", "second"), (0x90, "W", "third")))
    assert name_at(table, 0x3F) == b"first"
    assert name_at(table, 0x40) == b"second"
    assert table.is_global.tolist() == [True, False, True]
    assert set(table.source.tolist()) == {NameSource.KALLSYMS}


def test_lines_may_stand_in_any_order() -> None:
    table = parse_kallsyms(listing((0x40, "t", "second"), (0, "T", "first")))
    assert name_at(table, 0x10) == b"first"


def test_of_several_names_the_last_listed_is_shown_as_perf_does() -> None:
    table = parse_kallsyms(listing((0, "T", "_stext"), (0, "T", "_text"), (0, "t", "entry")))
    assert name_at(table, 4) == b"entry"
    assert table.alias_names(0) == [b"_text", b"_stext"]


def test_read_only_data_ends_no_symbol_and_code_among_data_has_its_name() -> None:
    table = parse_kallsyms(listing((0, "T", "code"), (0x10, "R", "constant"), (0x20, "D", "data")))
    assert name_at(table, 0x18) == b"code"
    assert name_at(table, 0x20) == b"data"


def test_a_module_is_known_by_its_brackets_and_ends_with_its_page() -> None:
    table = parse_kallsyms(
        listing(
            (0, "T", "core"),
            (0x1000000, "t", "nft_eval\t[nf_tables]"),
            (0x5000000, "t", "bpf_prog_1\t[bpf]"),
        )
    )
    assert [module_of(table, row) for row in range(3)] == [b"", b"[nf_tables]", b"[bpf]"]
    assert name_at(table, 0x1000FFF) == b"nft_eval"
    assert name_at(table, 0x1003000) is None
    assert name_at(table, 0x20000) is None
    assert name_at(table, 0x5000001) == b"bpf_prog_1"


def test_neighbours_in_one_module_leave_no_gap() -> None:
    table = parse_kallsyms(listing((0, "t", "one\t[m]"), (0x9000, "t", "two\t[m]")))
    assert name_at(table, 0x8FFF) == b"one"


def test_hidden_addresses_give_an_empty_table() -> None:
    assert len(parse_kallsyms(b"0000000000000000 T _text\n0000000000000000 t foo\n")) == 0


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n\n\n",
        b"ffffffff81000000 T \n",
        b"ffffffff81000000  T name\n",
        b"fffffff\xff81000000 T name\n",
        b"ffffffff81000000 T",
        b"The real System.map is in the linux-image-6.1.0-dbg package\n",
        b"ffffffff81000000 t $x.12\n",
        b"ffffffff81000000 U undefined\n",
        b"81000000 T of_32_bits_and_long_enough_for_a_line\n",
    ],
)
def test_lines_that_are_none_are_skipped(line: bytes) -> None:
    assert len(parse_kallsyms(line)) == 0
    assert len(parse_kallsyms(line.rstrip(b"\n") + b"\n" + listing((0, "T", "real")))) == 1


def test_the_last_symbol_of_all_addresses_does_not_wrap() -> None:
    table = parse_kallsyms(b"ffffffffffffff00 T top\n")
    assert len(table) in {0, 1}
    assert all(end > start for start, end in zip(table.start, table.end, strict=True))
