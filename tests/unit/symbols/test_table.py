import numpy as np

from prospect.profile.naming import NameSource
from prospect.symbols.symbols_limits import MOST_ALIASES
from prospect.symbols.table import build_symbol_table


def table(*rows, rank=None, limit=1000, texts=None):
    """Build from (name, start, end)."""
    strings, starts = b"", []
    for name, _, _ in rows:
        starts.append(len(strings))
        strings += name + b"\0"
    count = len(rows)
    return build_symbol_table(
        strings=strings if texts is None else texts,
        start=np.array([row[1] for row in rows], np.uint64),
        end=np.array([row[2] for row in rows], np.uint64),
        limit=np.full(count, limit, np.uint64),
        name_start=np.array(starts, np.int64),
        is_global=np.ones(count, np.bool_),
        source=np.full(count, NameSource.SYMTAB, np.uint8),
        rank=rank,
    )


def found(symbols, *addresses):
    rows = symbols.lookup(np.array(addresses, np.uint64))
    assert rows.dtype == np.int32
    return [symbols.name(row).decode() if row >= 0 else "" for row in rows.tolist()]


def test_ends_are_exclusive_and_gaps_name_nothing():
    symbols = table((b"b", 30, 40), (b"a", 10, 20))
    assert found(symbols, 9, 10, 19, 20, 29, 30, 39, 40) == ["", "a", "a", "", "", "b", "b", ""]


def test_an_unknown_size_reaches_to_the_next_symbol_and_at_the_end_to_the_limit():
    symbols = table((b"a", 10, 10), (b"b", 30, 30), limit=50)
    assert found(symbols, 29, 30, 49, 50) == ["a", "b", "b", ""]


def test_of_symbols_one_in_another_the_inner_one_is_found_and_the_outer_goes_on_behind_it():
    symbols = table((b"outer", 10, 100), (b"inner", 20, 30), (b"innermost", 22, 24))
    assert found(symbols, 15, 21, 23, 25, 50) == ["outer", "inner", "innermost", "inner", "outer"]


def test_the_lowest_rank_of_one_address_is_the_symbol_and_the_others_are_aliases():
    rows = ((b"x", 5, 9), (b"third", 10, 20), (b"first", 10, 15), (b"second", 10, 20))
    ranks = np.array([0, 3, 1, 2])
    symbols = table(*rows, rank=ranks.take)
    assert symbols.names(range(len(symbols))) == [b"x", b"first"]
    assert symbols.end.tolist() == [9, 15]
    assert symbols.alias_names(0) == []
    assert symbols.alias_names(1) == [b"second", b"third"]


def test_of_very_many_aliases_the_best_are_given():
    symbols = table(*((b"%d" % number, 10, 20) for number in range(100)))
    assert symbols.alias_names(0) == [b"%d" % number for number in range(1, MOST_ALIASES + 1)]


def test_ranks_are_asked_only_of_rows_that_share_an_address():
    asked = []

    def rank(rows):
        asked.extend(rows.tolist())
        return rows

    table((b"a", 1, 2), (b"b", 5, 6), (b"c", 5, 7), (b"d", 9, 10), rank=rank)
    assert sorted(asked) == [1, 2]


def test_what_covers_nothing_is_left_out_with_its_aliases():
    symbols = table((b"gone", 60, 60), (b"also", 60, 60), (b"a", 10, 20), limit=50)
    assert symbols.names(range(len(symbols))) == [b"a"]
    assert len(symbols.alias_row) == 0


def test_a_name_outside_the_text_is_left_out():
    symbols = table((b"abc", 1, 2), (b"def", 3, 4), texts=b"abc\0")
    assert symbols.names(range(len(symbols))) == [b"abc"]


def test_a_name_without_its_nul_ends_with_the_text():
    assert table((b"abc", 1, 2), texts=b"abc").name(0) == b"abc"


def test_a_name_longer_than_a_page_is_whole():
    assert table((b"x" * 5000, 1, 2)).name(0) == b"x" * 5000


def test_names_with_lengths_need_no_nul():
    symbols = build_symbol_table(
        strings=b"ffff T one\nffff t two\t[module]\n",
        start=np.array([1, 2], np.uint64),
        end=np.array([2, 3], np.uint64),
        limit=np.array([9, 9], np.uint64),
        name_start=np.array([7, 18]),
        name_length=np.array([3, 3]),
        is_global=np.array([True, False]),
        source=np.full(2, NameSource.KALLSYMS, np.uint8),
    )
    assert symbols.names([0, 1]) == [b"one", b"two"]


def test_an_empty_table_covers_nothing():
    symbols = table()
    assert len(symbols) == 0
    assert found(symbols, 0, 2**64 - 1) == ["", ""]


def test_addresses_at_both_ends_of_the_space_are_looked_up():
    top = 2**64 - 1
    symbols = table((b"low", 0, 1), (b"high", top - 1, top))
    assert found(symbols, 0, 1, top - 1, top) == ["low", "", "high", ""]
