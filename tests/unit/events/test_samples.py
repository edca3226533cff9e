"""The columns of samples: every sample_type, several events, clocks, call chains."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from builders import perfdata
from builders.perfdata import RecordBuilder, record
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.abi.recorded_facts import RecordBlock
from prospect.errors import RecordingError
from prospect.events import decode as decoding
from prospect.events import record_starts
from prospect.events.decode import decode

_FREQ, _SAMPLE_ID_ALL = 1 << 10, 1 << 18
_TIMES_ID_LOST = 0b10111  # PERF_FORMAT_TOTAL_TIME_ENABLED, TOTAL_TIME_RUNNING, ID, LOST
_GROUP = 1 << 3
_PERF = perfdata.IP | perfdata.TID | perfdata.TIME | perfdata.ID | perfdata.CPU | perfdata.PERIOD
_CHAINED = perfdata.USUAL | perfdata.CALLCHAIN


def event(sample_type=perfdata.USUAL, ids=(7,), **attr):
    attr = {"flags": _SAMPLE_ID_ALL | _FREQ} | attr
    return EventDescription(EventAttr(sample_type=sample_type, **attr), ids)


def decoded(events, *parts, **options):
    return decode([RecordBlock(memoryview(b"".join(parts)))], events, **options)


def samples_of(events, *parts, **options):
    found = decoded(events, *parts, **options)
    assert found.damage == ()
    return found.samples


def chains(samples):
    bounds = samples.chain_start.tolist()
    return [samples.chain[a:b].tolist() for a, b in itertools.pairwise(bounds)]


@pytest.mark.parametrize(
    "sample_type",
    [
        perfdata.USUAL,
        _PERF,
        _PERF | perfdata.ADDR | perfdata.STREAM_ID,
        _PERF | perfdata.RAW | perfdata.BRANCH_STACK | perfdata.DATA_SRC | perfdata.WEIGHT,
        _CHAINED | perfdata.REGS_USER | perfdata.STACK_USER | perfdata.READ,
    ],
)
def test_every_field_is_read_from_its_place(sample_type):
    make = RecordBuilder(sample_type)
    samples = samples_of(
        [event(sample_type)],
        make.sample(ip=0xFFFF_8000_0000_0001, pid=5, tid=6, time=77, cpu=3, period=9, misc=1, id=7),
        make.sample(ip=0x1000, pid=-1, tid=-1, time=78, cpu=300, period=10, misc=2, id=7),
    )
    assert samples.ip.tolist() == [0xFFFF_8000_0000_0001, 0x1000]
    assert samples.task.tolist() == [5 | 6 << 32, (1 << 64) - 1]
    assert samples.time_ns.tolist() == [77, 78]
    assert samples.mode.tolist() == [1, 2]
    assert samples.cpu.tolist() == [3, 300]
    assert samples.period.tolist() == [9, 10]
    dtypes = [samples.ip, samples.task, samples.time_ns, samples.mode, samples.cpu, samples.period]
    assert [column.dtype.name for column in dtypes] == [
        *["uint64"] * 3,
        "uint8",
        "uint16",
        "uint64",
    ]


def test_what_samples_do_not_carry_has_a_default():
    make = RecordBuilder(perfdata.ADDR)
    samples = samples_of([event(perfdata.ADDR)], make.sample(), make.sample())
    assert samples.ip.tolist() == [0, 0]
    assert samples.task.view(np.int32).tolist() == [-1] * 4
    assert samples.time_ns.tolist() == [0, 0]
    assert samples.cpu.tolist() == [0xFFFF] * 2
    assert samples.period.tolist() == [1, 1]
    assert samples.chain_start is None


def test_no_samples_are_empty_columns():
    samples = samples_of([event()], RecordBuilder().finished_round())
    assert len(samples) == 0
    assert samples.ip.dtype == np.uint64
    assert samples.period.shape == samples.event.shape == samples.clock.shape == (0,)


def test_a_fixed_period_that_samples_do_not_carry_is_the_events():
    types = perfdata.IDENTIFIER | perfdata.IP
    make = RecordBuilder(types)
    fixed = event(types, (7,), flags=_SAMPLE_ID_ALL, sample_period=1000)
    rate = event(types, (8,), sample_period=4000)
    samples = samples_of([fixed, rate], make.sample(id=8), make.sample(id=7), make.sample(id=8))
    assert samples.period.tolist() == [1, 1000, 1]


def test_equal_periods_take_no_memory():
    samples = samples_of([event()], RecordBuilder().sample(id=7, period=250) * 10_000)
    assert samples.period.strides == samples.event.strides == samples.clock.strides == (0,)
    assert samples.period[9_999] == 250


def test_columns_that_code_may_reinterpret_are_whole_arrays():
    samples = samples_of([event()], RecordBuilder().sample(id=7, pid=1, tid=1) * 100)
    assert samples.task.view(np.uint32).shape == (200,)
    assert samples.cpu.flags.c_contiguous


def test_the_ring_tells_the_cpu_where_samples_do_not():
    make = RecordBuilder(perfdata.IP)
    blocks = [
        RecordBlock(memoryview(make.sample()), cpu=2),
        RecordBlock(memoryview(make.sample()), cpu=-1),
        RecordBlock(memoryview(make.sample()), cpu=0),
    ]
    assert decode(blocks, [event(perfdata.IP)]).samples.cpu.tolist() == [2, 0xFFFF, 0]


def test_samples_of_several_blocks_stand_in_their_order():
    make = RecordBuilder()
    rows = [make.sample(ip=row, time=1000 - row, id=7, period=1 + row // 50) for row in range(100)]
    blocks = [RecordBlock(memoryview(row)) for row in rows]
    samples = decode(blocks, [event()]).samples
    assert samples.ip.tolist() == list(range(100))
    assert samples.period.tolist() == [1] * 50 + [2] * 50


def test_a_block_may_be_reused_once_the_next_is_asked_for():
    make = RecordBuilder()
    ring = bytearray(len(make.sample() + make.comm(1, 1, "name")))

    def drained():
        for row in range(50):
            ring[:] = make.sample(ip=row, id=7) + make.comm(row, row, f"n{row % 10:03}", time=row)
            yield RecordBlock(memoryview(ring))

    found = decode(drained(), [event()])
    assert found.samples.ip.tolist() == list(range(50))
    assert found.tasks.pid.tolist() == list(range(50))
    assert [found.names[row] for row in found.tasks.name[8:12]] == [
        b"n008",
        b"n009",
        b"n000",
        b"n001",
    ]


@pytest.mark.parametrize("sample_type", [perfdata.USUAL, _PERF])
@pytest.mark.parametrize("ids", [(7, 8, 9), (7, 1 << 20, 1 << 63)])
def test_ids_tell_the_event(sample_type, ids):
    make = RecordBuilder(sample_type)
    events = [event(sample_type, ids[:2]), event(sample_type, ids[2:])]
    parts = [make.sample(id=id_, ip=id_) for id_ in (ids[2], ids[0], ids[1], ids[2])]
    samples = samples_of(events, *parts)
    assert samples.event.tolist() == [1, 0, 0, 1]
    assert samples.event.dtype == np.uint16


def test_an_id_of_zero_is_the_first_events():
    make = RecordBuilder()
    events = [event(ids=(7,)), event(ids=(8,))]
    assert samples_of(events, make.sample(id=8), make.sample(id=0)).event.tolist() == [1, 0]


def test_ids_do_not_matter_to_a_single_event():
    make = RecordBuilder()
    samples = samples_of([event()], *[make.sample(id=row) for row in range(20)])
    assert len(samples) == 20
    assert samples.event.tolist() == [0] * 20


def test_samples_of_no_event_are_left_out_and_named():
    make = RecordBuilder()
    events = [event(ids=(7,)), event(ids=(9,))]
    parts = [make.sample(id=row, ip=row) for row in (6, 7, 8, 9, 10)]
    found = decoded(events, *parts)
    assert found.samples.ip.tolist() == [7, 9]
    assert found.damage == ("samples left out, with an id that no event has: 3",)
    assert found.counts == {9: 5}


def test_events_of_different_sample_types_are_read_each_by_its_own():
    plain = perfdata.IDENTIFIER | perfdata.IP | perfdata.TIME
    rich = perfdata.USUAL | perfdata.CALLCHAIN | perfdata.ADDR
    events = [
        event(plain, (7,), flags=_SAMPLE_ID_ALL, sample_period=55),
        event(rich, (8,)),
    ]
    a, b = RecordBuilder(plain), RecordBuilder(rich)
    parts = [
        a.sample(ip=1, time=10, id=7),
        b.sample(ip=2, time=20, pid=3, tid=4, cpu=5, period=6, addr=99, chain=[8, 9], id=8),
    ]
    samples = samples_of(events, *parts * 3)
    assert samples.ip.tolist() == [1, 2] * 3
    assert samples.time_ns.tolist() == [10, 20] * 3
    assert samples.task.tolist() == [(1 << 64) - 1, 3 | 4 << 32] * 3
    assert samples.cpu.tolist() == [0xFFFF, 5] * 3
    assert samples.period.tolist() == [55, 6] * 3
    assert chains(samples) == [[], [8, 9]] * 3


def test_the_id_at_a_common_place_tells_different_sample_types_apart():
    plain = perfdata.IP | perfdata.TID | perfdata.ID
    rich = plain | perfdata.CPU | perfdata.PERIOD
    a, b = RecordBuilder(plain), RecordBuilder(rich)
    samples = samples_of(
        [event(plain, (7,)), event(rich, (8,))],
        a.sample(ip=1, id=7),
        b.sample(ip=2, id=8, cpu=3, period=4),
    )
    assert samples.event.tolist() == [0, 1]
    assert samples.cpu.tolist() == [0xFFFF, 3]


@pytest.mark.parametrize("types", [(perfdata.IP, perfdata.IP | perfdata.TID), (65, 71)])
def test_different_sample_types_without_a_common_id_are_refused(types):
    events = [event(types[0], (7,)), event(types[1], (8,))]
    with pytest.raises(RecordingError, match="cannot be told apart"):
        decode([], events)


def test_a_recording_without_events_is_refused():
    with pytest.raises(RecordingError, match="no event"):
        decode([], [])


def test_ids_tell_the_clocks_of_a_bank():
    make = RecordBuilder()
    bank = event(ids=(10, 11, 20, 21))
    clocks = {10: 0, 11: 0, 20: 1, 21: 1}
    parts = [make.sample(id=id_) for id_ in (10, 21, 20, 11, 99)]
    samples = samples_of([bank], *parts, clock_of_id=clocks)
    assert samples.clock.tolist() == [0, 1, 1, 0, 0]
    assert samples.event.tolist() == [0] * 5


def test_a_clock_that_no_bank_can_have_is_refused():
    with pytest.raises(RecordingError, match="clock"):
        decode([], [event()], clock_of_id={7: 256})


def test_more_events_than_a_byte_counts():
    make = RecordBuilder()
    events = [event(ids=(1000 + row,)) for row in range(600)]
    parts = [make.sample(id=1000 + row) for row in range(600)]
    assert samples_of(events, *parts).event.tolist() == list(range(600))


def test_call_chains_stand_back_to_back():
    make = RecordBuilder(_CHAINED)
    given = [[(1 << 64) - 512, 5, 6], [], [7], [(1 << 64) - 128, 8, (1 << 64) - 512, 9]]
    samples = samples_of([event(_CHAINED)], *[make.sample(chain=c, id=7) for c in given * 300])
    assert chains(samples) == given * 300
    assert samples.chain_start.dtype == np.int64


def test_recordings_without_a_single_chain_have_none():
    samples = samples_of([event(_CHAINED)], RecordBuilder(_CHAINED).sample(id=7) * 2)
    assert samples.chain_start is None
    assert samples.chain is None


@pytest.mark.parametrize("read_format", [0, 1, 3, 4, _TIMES_ID_LOST])
def test_the_chain_stands_behind_one_read_value(read_format):
    types = _CHAINED | perfdata.READ
    make = RecordBuilder(types, read_format=read_format)
    samples = samples_of([event(types, read_format=read_format)], make.sample(chain=[5, 6], id=7))
    assert chains(samples) == [[5, 6]]


@pytest.mark.parametrize("read_format", [0, 1, 3, 4, _TIMES_ID_LOST])
def test_the_chain_stands_behind_a_group_of_read_values(read_format):
    types = _CHAINED | perfdata.READ
    times, each = (read_format & 3).bit_count(), 1 + (read_format & 20).bit_count()
    make = RecordBuilder(types, read_format=_GROUP | read_format)
    parts = [
        make.sample(read=[nr, *[99] * (times + nr * each)], chain=[nr, 6], id=7)
        for nr in (2, 0, 1, 5)
    ]
    samples = samples_of([event(types, read_format=_GROUP | read_format)], *parts)
    assert chains(samples) == [[2, 6], [0, 6], [1, 6], [5, 6]]


@pytest.mark.parametrize("nr", [4, 1 << 31, 1 << 63, (1 << 64) - 1])
def test_a_chain_longer_than_its_record_is_left_out_and_named(nr):
    make = RecordBuilder(_CHAINED)
    whole = make.sample(ip=1, chain=[5, 6, 7], id=7)
    hostile = bytearray(whole)
    hostile[-32:-24] = nr.to_bytes(8, "little")
    found = decoded([event(_CHAINED)], whole, bytes(hostile), whole)
    assert chains(found.samples) == [[5, 6, 7], [], [5, 6, 7]]
    assert found.damage == ("call chains left out, longer than their record: 1",)


@pytest.mark.parametrize("nr", [3, 1 << 40, (1 << 64) - 1, 0x5555_5555_5555_5556])
def test_read_values_longer_than_their_record_leave_no_chain(nr):
    types = _CHAINED | perfdata.READ
    make = RecordBuilder(types, read_format=_GROUP | _TIMES_ID_LOST)
    whole = make.sample(read=[1, 2, 2, 3, 3, 3], chain=[5], id=7)
    hostile = bytearray(whole)
    hostile[-64:-56] = nr.to_bytes(8, "little")
    found = decoded([event(types, read_format=_GROUP | _TIMES_ID_LOST)], whole, bytes(hostile))
    assert chains(found.samples) == [[5], []]
    assert len(found.damage) == 1


def test_a_sample_that_ends_before_its_chain_has_none():
    types = perfdata.IP | perfdata.CALLCHAIN
    cut = perfdata.record(9, (5).to_bytes(8, "little"))
    found = decoded([event(types)], cut, RecordBuilder(types).sample(ip=6, chain=[8]))
    assert found.samples.ip.tolist() == [5, 6]
    assert chains(found.samples) == [[], [8]]


def test_samples_shorter_than_their_fields_are_left_out_and_named():
    make = RecordBuilder()
    found = decoded([event()], make.sample(ip=5, id=7), perfdata.record(9, bytes(16)))
    assert found.samples.ip.tolist() == [5]
    assert found.damage == ("samples left out, shorter than their event's fields: 1",)


def test_a_chain_may_end_behind_the_words_that_are_proved_at_a_time(monkeypatch):
    monkeypatch.setattr(record_starts, "BATCH_WORDS", 64)
    make = RecordBuilder(_CHAINED)
    given = [[1], list(range(600)), *[[2]] * 300]
    samples = samples_of([event(_CHAINED)], *[make.sample(chain=c, id=7) for c in given])
    assert chains(samples) == given


def test_read_formats_may_differ_where_nothing_is_read_behind_them():
    types = perfdata.IP | perfdata.READ
    events = [event(types, read_format=0), event(types, (8,), read_format=_TIMES_ID_LOST)]
    parts = [RecordBuilder(types).sample(ip=1), RecordBuilder(types, read_format=3).sample(ip=2)]
    assert samples_of(events, *parts).ip.tolist() == [1, 2]


@pytest.mark.parametrize("behind", [0, perfdata.DATA_PAGE_SIZE, perfdata.CODE_PAGE_SIZE])
@pytest.mark.parametrize("before", [0, perfdata.CALLCHAIN, perfdata.CALLCHAIN | perfdata.PHYS_ADDR])
def test_a_sample_has_the_control_group_that_stands_before_its_end(before, behind):
    kinds = perfdata.USUAL | perfdata.CGROUP | before | behind
    make = RecordBuilder(kinds)
    samples = samples_of(
        [event(kinds)],
        make.sample(id=7, cgroup=1, data_page_size=4096, code_page_size=8192),
        make.sample(id=7, cgroup=77, data_page_size=4096, code_page_size=8192),
    )
    assert samples.control_group.tolist() == [1, 77]


def test_events_with_and_without_control_groups_in_one_recording():
    with_groups, without = perfdata.USUAL | perfdata.CGROUP, perfdata.USUAL
    samples = samples_of(
        [event(with_groups), event(without, ids=(8,))],
        RecordBuilder(with_groups).sample(id=7, cgroup=5),
        RecordBuilder(without).sample(id=8),
    )
    assert samples.control_group.tolist() == [5, 0]
    assert samples_of([event()], RecordBuilder().sample(id=7)).control_group is None
    # What stands behind it has any length: nothing says where it is.
    unknown = with_groups | perfdata.AUX
    made = RecordBuilder(unknown).sample(id=7, cgroup=5)
    assert samples_of([event(unknown)], made).control_group is None


def test_control_groups_have_paths_and_the_last_one_counts():
    kinds = perfdata.USUAL | perfdata.CGROUP
    make = RecordBuilder(kinds)
    found = decoded(
        [event(kinds)],
        make.cgroup(1, b"/"),
        make.cgroup(9, b"/system.slice/a.service", time=5, id=7),
        make.cgroup(9, b"/b", time=6, id=7),
        make.cgroup(10, b"/c", time=7, id=7),
    )
    assert found.control_groups == {1: b"/", 9: b"/b", 10: b"/c"}
    assert found.damage == ()


def test_windows_of_one_event_stand_beside_those_of_several(monkeypatch):
    monkeypatch.setattr(record_starts, "_SMALL_WORDS", 8)
    monkeypatch.setattr(record_starts, "WINDOW_WORDS", 32)
    make = RecordBuilder(_PERF)
    ids = [7] * 20 + [8, 7] * 10 + [8] * 20 + [9] * 3 + [0] * 20
    parts = [make.sample(ip=at, pid=1, tid=1, time=at, id=id_) for at, id_ in enumerate(ids)]
    found = decoded([event(_PERF, ids=(7,)), event(_PERF, ids=(8,))], *parts)
    assert found.damage == ("samples left out, with an id that no event has: 3",)
    kept = [(at, id_) for at, id_ in enumerate(ids) if id_ != 9]
    assert found.samples.ip.tolist() == [at for at, _ in kept]
    assert found.samples.event.tolist() == [int(id_ == 8) for _, id_ in kept]


_DEFERRED, _USER, _KERNEL = 2**64 - 640, 2**64 - 512, 2**64 - 128


def deferred(make, cookie, *addresses, count=None):
    count = len(addresses) if count is None else count
    body = make.words(cookie, count, *addresses)
    return make.side(abi.PERF_RECORD_CALLCHAIN_DEFERRED, body, pid=5, tid=6, time=99, id=7)


def test_a_chain_that_was_deferred_goes_on_in_its_own_record():
    make = RecordBuilder(_CHAINED)
    some = {"pid": 5, "tid": 6, "id": 7}
    samples = samples_of(
        [event(_CHAINED)],
        make.sample(ip=1, time=1, chain=(_KERNEL, 1, 2, _DEFERRED, 77), **some),
        make.sample(ip=3, time=2, chain=(_USER, 3, 4), **some),
        make.sample(ip=1, time=3, chain=(_KERNEL, 5, _DEFERRED, 77), **some),
        deferred(make, 77, _USER, 0x1000, 0x2000),
        make.sample(ip=1, time=4, chain=(_DEFERRED, 78), **some),
        make.sample(ip=1, time=5, chain=(_KERNEL, 9, _DEFERRED, 79), **some),
        deferred(make, 78, _USER, 0x3000),
    )
    assert chains(samples) == [
        [_KERNEL, 1, 2, _USER, 0x1000, 0x2000],
        [_USER, 3, 4],
        [_KERNEL, 5, _USER, 0x1000, 0x2000],
        [_USER, 0x3000],
        [_KERNEL, 9],  # its record was lost
    ]


def test_damaged_deferred_chains_stay_within_their_records(monkeypatch):
    make = RecordBuilder(_CHAINED)
    some = {"pid": 5, "tid": 6, "id": 7}
    kept = make.sample(ip=1, time=1, chain=(_KERNEL, 1, _DEFERRED, 77), **some)
    for count in (3, 1 << 40, (1 << 64) - 1):
        samples = samples_of([event(_CHAINED)], kept, deferred(make, 77, _USER, count=count))
        assert chains(samples)[0][:3] == [_KERNEL, 1, _USER]
        assert len(chains(samples)[0]) < 12
    last = make.sample(ip=1, time=1, chain=(_KERNEL, 1, _DEFERRED), **some)
    follows = make.sample(ip=1, time=2, chain=(77,), **some)
    samples = samples_of([event(_CHAINED)], last, follows, deferred(make, 77, _USER))
    assert chains(samples) == [[_KERNEL, 1], [77]]
    monkeypatch.setattr(decoding, "MOST_ADDED_BYTES", 16)
    samples = samples_of([event(_CHAINED)], kept, kept, kept, deferred(make, 77, _USER, 0x1000))
    assert [len(chain) for chain in chains(samples)] == [4, 2, 2]


def test_records_of_perf_that_hold_no_samples_are_passed_over():
    make = RecordBuilder(perfdata.USUAL)
    sample = make.sample(ip=1, time=1, pid=5, tid=6, id=7)
    found = decoded([event()], *(sample + record(kind, bytes(24)) for kind in (84, 85, 86)))
    assert found.damage == ()
    assert len(found.samples) == 3
