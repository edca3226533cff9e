"""Rows of a table for a long index, looked up in parts."""

import numpy as np
import pytest

from prospect.columns.table_rows import looked_up


@pytest.mark.parametrize("rows", [0, 1, (1 << 16) + 1, 200_000])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint16])
def test_every_part_of_an_index_finds_its_rows(rows, dtype):
    table = np.random.default_rng(1).integers(0, 1 << 40, 500)
    index = np.random.default_rng(2).integers(0, len(table), rows).astype(dtype)
    found = looked_up(table, index)
    assert found.dtype == table.dtype
    assert np.array_equal(found, table[index])


def test_a_row_that_is_not_there_is_an_error():
    with pytest.raises(IndexError):
        looked_up(np.arange(3), np.array([0, 3], np.int32))
