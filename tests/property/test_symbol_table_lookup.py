"""Looking up a column of addresses, against the definition looked up one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prospect.profile.naming import NameSource
from prospect.symbols.table import build_symbol_table

SPAN = 64
rows = st.lists(
    st.tuples(st.integers(0, SPAN), st.integers(0, SPAN), st.integers(0, SPAN + 8)), max_size=40
)
bases = st.sampled_from([0, 0x400000, 2**63 - SPAN, 2**64 - 4 * SPAN])


def build(symbols, base):
    columns = np.array(symbols, np.uint64).reshape(-1, 3)
    start = columns[:, 0] + np.uint64(base)
    texts = [b"%d\0" % index for index in range(len(symbols))]
    lengths = [0, *(len(text) for text in texts)]
    return build_symbol_table(
        strings=b"".join(texts),
        start=start,
        end=start + columns[:, 1],
        limit=columns[:, 2] + np.uint64(base),
        name_start=np.cumsum(lengths)[:-1],
        is_global=np.zeros(len(symbols), np.bool_),
        source=np.full(len(symbols), NameSource.SYMTAB, np.uint8),
    )


def covering(symbols, base, address):
    """Of the symbols that cover an address the one that starts last, of those the first row."""
    starts = sorted({start for start, _, _ in symbols})
    best = None
    for start in starts:
        index, (_, size, limit) = next((i, s) for i, s in enumerate(symbols) if s[0] == start)
        following = next((other for other in starts if other > start), SPAN * 4)
        end = start + size if size else min(following, limit)
        if start + base <= address < end + base:
            best = b"%d" % index
    return best


@given(rows, bases)
def test_lookup_is_the_definition(symbols, base):
    table = build(symbols, base)
    address = np.arange(2 * SPAN + 2, dtype=np.uint64) + np.uint64(base)
    found = table.lookup(address)
    for at, row in zip(address.tolist(), found.tolist(), strict=True):
        expected = covering(symbols, base, at)
        assert (table.name(row) if row >= 0 else None) == expected


@given(rows, bases)
def test_every_row_that_covers_anything_is_kept_as_symbol_or_as_alias(symbols, base):
    table = build(symbols, base)
    assert (table.start[1:] > table.start[:-1]).all()
    assert (table.end > table.start).all()
    kept = {
        name for row in range(len(table)) for name in [table.name(row), *table.alias_names(row)]
    }
    starts = set(table.start.tolist())
    assert kept == {b"%d" % i for i, s in enumerate(symbols) if s[0] + base in starts}
