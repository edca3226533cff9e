"""Samples that the kernel prepared for another recorder's event first have the id of their own."""

from __future__ import annotations

import mmap
import os
import struct

import pytest

from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.perfdata.shared_ids import mend_shared_ids

ID_AND_TASK = abi.PERF_SAMPLE_IDENTIFIER | abi.PERF_SAMPLE_TID | abi.PERF_SAMPLE_TIME
CLOCK = EventDescription(EventAttr(sample_type=ID_AND_TASK), (70, 71), "cpu-clock")
SWITCHES = EventDescription(
    EventAttr(config=abi.PERF_COUNT_SW_CONTEXT_SWITCHES, sample_type=ID_AND_TASK), (80, 81), "cs"
)
FAULTS = EventDescription(
    EventAttr(config=abi.PERF_COUNT_SW_PAGE_FAULTS, sample_type=ID_AND_TASK), (90,), "faults"
)
BEGIN = 104
HEADER = b"\x99" * BEGIN
LOST = struct.pack("<IHHQQ", abi.PERF_RECORD_LOST, 0, 24, 70, 3)


def sample(number, time=5):
    return struct.pack("<IHHQIIQ", abi.PERF_RECORD_SAMPLE, 0, 32, number, 6, 7, time)


def mended(records, events=(CLOCK, SWITCHES)):
    fd = os.memfd_create("recording", os.MFD_CLOEXEC)
    try:
        os.write(fd, HEADER + records)
        with mmap.mmap(fd, 0) as data_map:
            count = mend_shared_ids(data_map, BEGIN, events)
        found = os.pread(fd, BEGIN + len(records) + 1, 0)
    finally:
        os.close(fd)
    assert found[:BEGIN] == HEADER
    return count, found[BEGIN:]


@pytest.mark.parametrize("others", [1, 2_000])
def test_an_unknown_id_becomes_that_of_the_event_that_others_may_have_too(others):
    own = LOST + sample(70) + sample(81) + sample(71)
    count, found = mended((own + sample(4711)) * others + own)
    assert count == others
    assert found == (own + sample(80)) * others + own


def test_an_id_of_0_is_that_of_what_perf_made_up():
    assert mended(sample(0) + sample(70)) == (0, sample(0) + sample(70))


@pytest.mark.parametrize("events", [(CLOCK,), (CLOCK, SWITCHES, FAULTS)])
def test_where_it_may_be_of_none_or_of_several_it_stays(events):
    assert mended(sample(4711), events) == (0, sample(4711))


def test_a_recording_without_records_or_cut_within_one_stays():
    assert mended(b"") == (0, b"")
    cut = sample(70) + sample(4711)[:20]
    assert mended(cut) == (0, cut)
