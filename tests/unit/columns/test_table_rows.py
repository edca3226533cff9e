"""Rows of a table: looked up in parts for a long index, and inserted."""

import numpy as np
import pytest

from prospect.columns.buffers import inserted, looked_up
from prospect.records import Record


class Table(Record):
    numbers: np.ndarray
    others: np.ndarray | None


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


def test_rows_are_inserted_before_others_column_by_column():
    table = Table(np.array([1, 3, 5], np.int32), None)
    found = inserted(table, Table(np.array([2, 6, 7], np.int32), None), np.array([1, 3, 3]))
    assert found.numbers.tolist() == [1, 2, 3, 5, 6, 7]
    assert found.numbers.dtype == np.int32
    assert found.others is None
