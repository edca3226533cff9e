"""Offsets in the file and SVMAs are each other's inverse where segments do not overlap."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from builders.elf import Segment, elf_file
from prospect.elf.image import NO_ADDRESS, ElfImage

pieces = st.lists(
    st.tuples(st.integers(0, 50), st.integers(1, 100), st.integers(0, 50), st.sampled_from([4, 5])),
    max_size=8,
)


@given(pieces, st.booleans())
def test_conversions_are_inverse_and_follow_the_segments(pieces, is_64):
    segments, offset, vaddr = [], 0, 0x1000
    for gap, size, hole, flags in pieces:
        offset, vaddr = offset + gap, vaddr + hole
        segments.append(Segment(flags=flags, offset=offset, vaddr=vaddr, filesz=size))
        offset, vaddr = offset + size, vaddr + size
    image = ElfImage.parse(elf_file(segments=segments, is_64=is_64))
    column = np.arange(offset + 10, dtype=np.uint64)
    svma = image.svma_of_offset(column)
    for at, address in zip(column.tolist(), svma.tolist(), strict=True):
        holders = [s for s in segments if s.offset <= at < s.offset + s.filesz]
        expected = at - holders[0].offset + holders[0].vaddr if holders else NO_ADDRESS
        assert address == expected
    mapped = svma != NO_ADDRESS
    assert image.offset_of_svma(svma[mapped]).tolist() == column[mapped].tolist()
