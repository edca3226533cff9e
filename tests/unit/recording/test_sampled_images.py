"""Copies are kept if the records have an address in one of their mappings."""

from __future__ import annotations

import numpy as np

from prospect.capture.machine.image_copies import ImageCopy
from prospect.perfdata.format import PERF_RECORD_COMPRESSED
from prospect.recording.sampled_images import met


def copy(*ranges):
    return ImageCopy((8, 1, 2), b"", b"/x", 1, [(0, 1)], 0, list(ranges), 0)


def words_of(words):
    return memoryview(np.array(words, np.uint64))


def test_an_address_in_any_mapping_counts_and_its_beginning_does_not():
    copies = [
        copy((0x1000, 0x2000)),
        copy((0x3000, 0x4000), (0x7F00_0000_0000, 0x7F00_0000_1000)),
        copy((0x1800, 0x2800)),  # of another process
        copy(),
        copy((0x9000, 0xA000)),
    ]
    assert met(copies, words_of([])) == [False] * 5
    for words, expected in (
        ([5, 0x1000, 0x3000, 0x9000, 0xA000], [False] * 5),
        ([0x1001], [True, False, False, False, False]),
        ([0x1900], [True, False, True, False, False]),
        ([0x2000], [False, False, True, False, False]),
        ([0x7F00_0000_0FFF, 1 << 63], [False, True, False, False, False]),
        ([0x9FFF, 0x3001], [False, True, False, False, True]),
    ):
        assert met(copies, words_of(words)) == expected
        assert met(copies, words_of(words * 300_000)) == expected
        for others in (
            20_000,
            100_000,
        ):  # only the first words, or the last, are addresses of files
            assert met(copies, words_of([*words, *[5] * others])) == expected
            assert met(copies, words_of([*[5] * others, *words])) == expected


def test_of_packed_records_all_are_kept():
    head = PERF_RECORD_COMPRESSED | 4096 << 48
    assert met([copy((1, 2))], words_of([head, 9])) == [True]
