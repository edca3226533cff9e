"""Copies are kept if the records have an address in one of their mappings."""

from __future__ import annotations

import numpy as np

from prospect.capture.machine.image_copies import ImageCopy
from prospect.perfdata.format import PERF_RECORD_COMPRESSED
from prospect.recording.sampled_images import met


def copy(*ranges):
    return ImageCopy((8, 1, 2), b"", b"/x", 1, [(0, 1)], 0, list(ranges), 0)


def are_met(copies, words):
    return met(copies, memoryview(np.array(words, np.uint64)))


def test_an_address_in_any_mapping_counts_and_its_beginning_does_not():
    copies = [
        copy((0x1000, 0x2000)),
        copy((0x3000, 0x4000), (0x7F00_0000_0000, 0x7F00_0000_1000)),
        copy((0x1800, 0x2800)),  # of another process
        copy(),
        copy((0x9000, 0xA000)),
    ]
    assert are_met(copies, []) == [False] * 5
    for words, expected in (
        ([5, 0x1000, 0x3000, 0x9000, 0xA000], [False] * 5),
        ([0x1001], [True, False, False, False, False]),
        ([0x1900], [True, False, True, False, False]),
        ([0x2000], [False, False, True, False, False]),
        ([0x7F00_0000_0FFF, 1 << 63], [False, True, False, False, False]),
        ([0x9FFF, 0x3001], [False, True, False, False, True]),
    ):
        assert are_met(copies, words) == expected
        assert are_met(copies, words * 300_000) == expected
        # Only the first words, or the last, are addresses of files. 0x5000 is beside them.
        for others in ([5] * 20_000, [0x5000] * 20_000, [5] * 1_000_000):
            assert are_met(copies, [*words, *others]) == expected
            assert are_met(copies, [*others, *words]) == expected


def test_mappings_of_many_pages():
    copies = [copy((0x5555_0001_0000, 0x5555_0501_0000))]
    for word in (0x5555_0001_0001, 0x5555_00FF_FFFF, 0x5555_0100_0000, 0x5555_0500_FFFF):
        assert are_met(copies, [7, word, 8]) == [True]
    for word in (0x5555_0001_0000, 0x5555_0501_0000, 0x5555_0000_FFFF, 0x0001_5555_0200_0000):
        assert are_met(copies, [7, word, 8]) == [False]


def test_of_packed_records_all_are_kept():
    head = PERF_RECORD_COMPRESSED | 4096 << 48
    assert are_met([copy((1, 2))], [head, 9]) == [True]
