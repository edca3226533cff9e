"""Texts that others write: a table comes out of any bytes, in bounded time, or nothing does."""

import time

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prospect.symbols.jit.map_files import parse_map_file
from prospect.symbols.kernel.kernel_listings import address_of, module_of, parse_kallsyms
from prospect.symbols.table import SymbolTable

HEX = st.text("0123456789abcdefABCDEFxX", max_size=18).map(str.encode)
JUNK = st.binary(max_size=12)
MAP_LINE = st.tuples(HEX | JUNK, st.sampled_from([b" ", b"", b"\t", b"  "]), HEX | JUNK, JUNK)
LISTING_LINE = st.tuples(
    st.integers(0, 2**64 - 1).map(lambda number: b"%016x" % number) | HEX,
    st.sampled_from([b" T ", b" t ", b" d ", b" ? ", b"T", b" "]),
    st.sampled_from([b"name", b"_text", b"x\t[m]", b"\t[]", b"]", b"$x", b"a\t\t[b]"]) | JUNK,
)


def check(table: SymbolTable) -> None:
    assert (table.end > table.start).all()
    assert (table.start[1:] > table.start[:-1]).all()
    probes = np.concatenate((table.start, table.end, np.array([0, 2**64 - 1], np.uint64)))
    for row in set(table.lookup(probes).tolist()) - {-1}:
        assert b"\n" not in table.name(row)
        table.alias_names(row)
        module_of(table, row)


@given(st.lists(MAP_LINE.map(lambda parts: b"%b%b%b %b" % parts) | JUNK))
def test_any_map_file_gives_a_sound_table(lines: list[bytes]) -> None:
    check(parse_map_file(b"\n".join(lines)))


@given(st.lists(LISTING_LINE.map(b"".join) | JUNK))
def test_any_kernel_listing_gives_a_sound_table(lines: list[bytes]) -> None:
    table = parse_kallsyms(b"\n".join(lines))
    check(table)
    address_of(table, b"_text")


def test_texts_made_to_be_slow_are_not() -> None:
    nested = b"".join(b"%x %x n\n" % (n, 2**40 - 2 * n) for n in range(100_000))
    texts = [
        b"\n" * 4_000_000,
        b" " * 4_000_000,
        b"1 1 " + b"x" * 4_000_000,
        nested,
        b"".join(reversed(nested.splitlines(keepends=True))),
    ]
    begin = time.process_time()
    for text in texts:
        check_size = parse_map_file(text)
        assert len(check_size) <= 200_000
        parse_kallsyms(text)
    assert time.process_time() - begin < 20
