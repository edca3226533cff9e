import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prospect.symbols.table import latest_pieces

RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 25)), max_size=20)


@given(RANGES)
def test_each_address_belongs_to_the_latest_range_over_it(ranges: list[tuple[int, int]]) -> None:
    start = np.array([low for low, _ in ranges], np.uint64)
    end = np.array([low + size for low, size in ranges], np.uint64)
    expected = [-1] * 90
    for row, (low, size) in enumerate(ranges):
        expected[low : low + size] = [row] * size
    owner = [-1] * 90
    pieces = [column.tolist() for column in latest_pieces(start, end)]
    for low, high, row in zip(*pieces, strict=True):
        assert owner[low:high] == [-1] * (high - low)
        owner[low:high] = [row] * (high - low)
    assert owner == expected
    assert pieces[0] == sorted(pieces[0])


def test_neighbouring_pieces_of_one_range_are_one_piece() -> None:
    start, end = np.array([0, 2], np.uint64), np.array([9, 9], np.uint64)
    assert [column.tolist() for column in latest_pieces(start, end)] == [[0, 2], [2, 9], [0, 1]]
