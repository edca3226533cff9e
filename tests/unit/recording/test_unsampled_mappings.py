"""A recording of a command has mappings of other processes only as far as samples need them."""

from __future__ import annotations

import os

import pytest

from builders.perfdata import CALLCHAIN, IDENTIFIER, IP, MISC_KERNEL, TID, TIME, RecordBuilder
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.recording import unsampled_mappings
from prospect.recording.unsampled_mappings import drop_unsampled_mappings

KIND = IDENTIFIER | IP | TID | TIME
BUILD = RecordBuilder(KIND)
CLOCK = EventDescription(
    EventAttr(sample_type=KIND, flags=abi.FLAG_SAMPLE_ID_ALL), (7,), "cpu-clock"
)
WITH_CHAINS = CLOCK._replace(attr=CLOCK.attr._replace(sample_type=KIND | CALLCHAIN), ids=(8,))
OF_KERNEL = WITH_CHAINS._replace(
    attr=WITH_CHAINS.attr._replace(flags=abi.FLAG_EXCLUDE_CALLCHAIN_USER), ids=(9,)
)
EVENTS = (CLOCK, WITH_CHAINS, OF_KERNEL)
DATA = abi.PERF_RECORD_MISC_USER | abi.PERF_RECORD_MISC_MMAP_DATA
COMMAND, CHILD, OTHER, HEIR, STARTED = 10, 11, 20, 21, 22
HEAD = b"what is before the records"


def mapping(pid, number, name="/lib/one", **more):
    """The mapping of 0x1000 bytes at 0x1000 times a number; its inode is the number."""
    where = (pid, pid, 0x1000 * number, 0x1000, name)
    return BUILD.mmap2(*where, inode=number, time=1, id=7, **more)


def sample(pid, ip, **more):
    return BUILD.sample(ip=ip, pid=pid, tid=pid, time=2, **{"id": 7} | more)


def fork(pid, parent, **more):
    return BUILD.fork(pid, parent, time=1, id=7, **more)


def dropped(records, *, own=(COMMAND,), events=EVENTS):
    """Return the indices of the records that are dropped, and the inodes of files that are left."""
    fd = os.memfd_create("recording", os.MFD_CLOEXEC)
    try:
        os.write(fd, HEAD + b"".join(records))
        files = drop_unsampled_mappings(fd, len(HEAD), events, own)
        left = os.pread(fd, 1 << 20, 0)
    finally:
        os.close(fd)
    assert left.startswith(HEAD)
    left = left[len(HEAD) :]
    missing = []
    for number, record in enumerate(records):
        if left.startswith(record):
            left = left[len(record) :]
        else:
            missing.append(number)
    assert not left
    return missing, files and {inode for _, _, inode in files}


def test_mappings_of_other_processes_without_a_sampled_address_are_dropped():
    records = [
        mapping(OTHER, 1),
        mapping(OTHER, 2),
        mapping(OTHER, 3, misc=DATA),
        sample(OTHER, 0x2FFF),
        sample(OTHER, 0x3008),
        mapping(OTHER, 4),
        BUILD.comm(OTHER, OTHER, "other", time=1, id=7),
    ]
    assert dropped(records) == ([0, 2, 5], {2})


def test_the_commands_and_its_descendants_mappings_stay():
    records = [
        fork(COMMAND, OTHER),
        mapping(COMMAND, 1),
        mapping(CHILD, 2, misc=DATA),
        fork(CHILD, COMMAND),
        mapping(HEIR, 3),
        fork(HEIR, CHILD),
    ]
    assert dropped(records) == ([], {1, 2, 3})
    assert dropped(records, own=(CHILD,)) == ([1], {2, 3})


def test_a_child_needs_the_mappings_that_it_got_from_its_parent():
    before = fork(STARTED, OTHER, misc=abi.PERF_RECORD_MISC_FORK_EXEC)
    records = [mapping(OTHER, 1), mapping(OTHER, 2), fork(HEIR, OTHER), sample(HEIR, 0x1000)]
    assert dropped([*records, before, sample(STARTED, 0x2000)]) == ([1], {1})


def test_samples_in_the_kernel_need_no_mapping():
    assert dropped([mapping(OTHER, 1), sample(OTHER, 0x1000, misc=MISC_KERNEL)]) == ([0], set())


@pytest.mark.parametrize(("number", "expected"), [(8, []), (9, [1])])
def test_processes_whose_samples_have_callers_keep_all_mappings(number, expected):
    build = RecordBuilder(KIND | CALLCHAIN)
    called = build.sample(ip=0x1000, pid=OTHER, tid=OTHER, time=2, id=number, chain=[0x1000])
    assert dropped([mapping(OTHER, 1), mapping(OTHER, 2), called])[0] == expected


@pytest.mark.parametrize("name", ["/tmp/jit-20.dump", "/usr/lib/jvm/libjvm.so"])
def test_mappings_that_say_who_names_code_stay(name):
    records = [mapping(OTHER, 1), mapping(OTHER, 2, name)]
    assert dropped([*records, sample(OTHER, 0x1000)]) == ([], {1, 2})
    assert dropped([*records, sample(HEIR, 0x1000)])[0] == [0, 1]


@pytest.mark.parametrize("name", ["//anon", "/anon_hugepage (deleted)"])
def test_code_that_was_moved_from_an_executable_needs_that_ones_mappings(name):
    records = [mapping(OTHER, 1), mapping(OTHER, 2, name), fork(HEIR, OTHER)]
    for pid in (OTHER, HEIR):
        assert dropped([*records, sample(pid, 0x2000)]) == ([], {1, 2})
    assert dropped([*records, sample(OTHER, 0x1000)])[0] == [1]


@pytest.mark.parametrize(
    "last",
    [
        sample(OTHER, 0x1000, id=4711),
        sample(OTHER, 0x1000)[:-8],
        sample(OTHER, 0x1000)[:8],
        sample(OTHER, 0x1000)[:4],
        bytes(8),
        b"\x09\0\0\0\x02\0\x08\0" + bytes(8),
        mapping(OTHER, 3)[:-8],
    ],
    ids=["unknown", "cut", "head", "half a head", "zeros", "short", "cut mapping"],
)
def test_what_is_no_chain_of_known_records_stays(last):
    assert dropped([mapping(OTHER, 1), last]) == ([], None)


def test_a_large_recording_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(unsampled_mappings, "LARGEST_COMPACTED_BYTES", len(mapping(OTHER, 1)) - 1)
    assert dropped([mapping(OTHER, 1)]) == ([], None)


def test_a_recording_of_many_records_stays_as_it_is(monkeypatch):
    records = [sample(HEIR, 0x1000), mapping(OTHER, 1)]
    monkeypatch.setattr(unsampled_mappings, "MOST_COMPACTED_RECORDS", 1)
    assert dropped(records) == ([], None)
    monkeypatch.setattr(unsampled_mappings, "MOST_COMPACTED_RECORDS", 2)
    assert dropped(records)[0] == [1]


@pytest.mark.parametrize(("samples", "is_dropped"), [(1, True), (100, False)])
def test_mappings_that_are_a_small_part_stay(samples, is_dropped):
    records = [*[sample(HEIR, 0x1000)] * samples, mapping(OTHER, 1)]
    assert dropped(records)[0] == ([samples] if is_dropped else [])


def test_a_recording_without_records_stays_empty():
    assert dropped([]) == ([], None)


def test_nothing_is_dropped_without_the_process_of_each_sample():
    plain = EventDescription(EventAttr(sample_type=IDENTIFIER | IP), (5,), "cpu-clock")
    assert dropped([mapping(OTHER, 1)], events=(*EVENTS, plain)) == ([], None)


def test_a_file_that_cannot_be_read_stays():
    read, write = os.pipe()
    try:
        assert drop_unsampled_mappings(write, 0, EVENTS, (COMMAND,)) is None
    finally:
        os.close(read)
        os.close(write)
