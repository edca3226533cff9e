"""Very many mappings of one space, in blocks: what one list of them all would say."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.examples import examples
from prospect.spaces import replay
from prospect.spaces.replay import SpaceColumns

starts = st.integers(0, 300)
widths = st.one_of(st.integers(1, 4), st.integers(1, 300))
ranges = st.lists(st.tuples(starts, widths), max_size=120)


@settings(max_examples=examples(300))
@given(ranges)
def test_blocks_say_what_one_list_says(drawn):
    bounds, owners = [], []
    blocks = replay.Blocks([], [])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay, "BLOCK_MAPPINGS", 4)
        for mapping, (start, width) in enumerate(drawn):
            end = start + width
            assert blocks.covered(start, end) == replay.covered_in(bounds, owners, start, end)
            assert blocks.covers_any(start, end) == replay.covers_any_in(bounds, start, end)
            assert blocks.covers_any(start, end) == bool(blocks.covered(start, end))
            assert blocks.is_inside(start, end) == replay.is_inside_in(bounds, start, end)
            replay.place_in(bounds, owners, start, end, mapping)
            blocks.place(start, end, mapping)
            assert blocks.covered(0, 1000) == owners
            lengths = [len(block) for block in blocks._owners]
            assert sum(lengths) == len(owners)
            assert max(lengths) <= 4


def test_no_list_of_a_space_grows_with_its_mappings():
    """What comes between others moves one list's half: with a list of all, the square of them."""
    spaces = SpaceColumns()
    version = spaces.add_space(0, -1)
    count = 20_000
    for number in range(count):
        start = number * 7919 % count * 16
        spaces.place(version, start, start + 8, number)
    assert len(spaces.covered(0, 0, count * 16)) == count
    lists = [*spaces._bounds, *spaces._owners]
    for blocks in spaces._blocks.values():
        lists += [*blocks._bounds, *blocks._owners, blocks._separators]
    assert sum(map(len, lists)) >= count
    assert max(map(len, lists)) <= 2 * replay.BLOCK_MAPPINGS
