"""When each timer ran, from what a recording says of itself."""

from __future__ import annotations

import pytest

from builders import perfdata as build
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.abi.recorded_facts import RecordBlock, RecordingInfo
from prospect.assembly.tables.clocks import (
    clock_count,
    clock_of_id,
    describe_clocks,
    with_clock_periods,
    with_clocks,
)
from prospect.assembly.tables.run_facts import describe_run, event_info
from prospect.capture.events.event_choice import SAMPLE_TYPE
from prospect.events.decode import decode

BEGIN, END = 1_000_000_000, 9_000_000_000
BANK = [
    {"period_ns": 4_000_000, "ids": [11, 12], "cpus": [0, 1]},
    {"period_ns": 3_900_000, "ids": [21, 22], "cpus": [0, 1]},
]


def described(*, attr=None, **extras):
    attr = attr or EventAttr(type=abi.PERF_TYPE_SOFTWARE, config=0, sample_period=4_000_000)
    facts = {"scope": "system", "interval_ns": [BEGIN, END], "clocks": BANK, "cpus": [0, 1]}
    return RecordingInfo(events=(EventDescription(attr),), extras=facts | extras)


def clocks_of(info):
    events = decode([], info.events)
    return describe_clocks(info, events, describe_run(info, events, ()))


def rows(info):
    table = clocks_of(info).table
    columns = (table.clock, table.cpu, table.begin_ns, table.end_ns, table.lost)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_each_clock_of_each_cpu_ran_all_the_time():
    info = described(lost={"11": 5, "22": 7})
    assert rows(info) == [
        (0, 0, BEGIN, END, 5),
        (0, 1, BEGIN, END, 0),
        (1, 0, BEGIN, END, 0),
        (1, 1, BEGIN, END, 7),
    ]
    assert clocks_of(info).ids == (11, 12, 21, 22)
    assert clocks_of(info).table.period_ns.tolist() == [4e6, 4e6, 3.9e6, 3.9e6]
    assert (clock_count(info), clock_of_id(info)) == (2, {11: 0, 12: 0, 21: 1, 22: 1})


def test_cpu_that_went_and_came_back_has_a_row_for_each_time():
    bank = [{"period_ns": 4_000_000, "ids": [11, 12, 13], "cpus": [0, 1, 1]}]
    changes = [[3_000_000_000, 1, "offline"], [4_000_000_000, 1, "online"]]
    assert rows(described(clocks=bank, cpu_changes=changes)) == [
        (0, 0, BEGIN, END, 0),
        (0, 1, BEGIN, 3_000_000_000, 0),
        (0, 1, 4_000_000_000, END, 0),
    ]


def test_cpu_that_came_later_ran_from_then_on():
    bank = [{"period_ns": 4_000_000, "ids": [11, 12], "cpus": [0, 1]}]
    changes = [[4_000_000_000, 1, "online"]]
    assert rows(described(clocks=bank, cpu_changes=changes))[1] == (0, 1, 4_000_000_000, END, 0)


def test_a_part_of_a_session_has_the_samples_that_its_buffers_held_when_they_were_read():
    bank = [{"period_ns": 4_000_000, "ids": [11, 12, 13], "cpus": [0, 1, 2]}]
    read = [{"0": BEGIN - 5, "1": BEGIN + 7}, {"0": END - 9, "1": END + 1}]
    assert rows(described(clocks=bank, buffers_read_ns=read)) == [
        (0, 0, BEGIN - 5, END - 9, 0),
        (0, 1, BEGIN, END, 0),
        (0, 2, BEGIN, END, 0),
    ]
    went = [[BEGIN - 9, 0, "offline"]]
    assert rows(described(clocks=bank[:1], cpu_changes=went, buffers_read_ns=[{}, {}]))[0] == (
        (0, 0, BEGIN, BEGIN, 0)
    )
    for damaged in (1, [], [{}], [1, 2], [{"0": "x"}, {"0": -1}], [{"0": None}, {"x": 3}]):
        assert rows(described(clocks=bank, buffers_read_ns=damaged))[0] == (0, 0, BEGIN, END, 0)


def test_times_outside_the_interval_are_its_ends():
    bank = [{"period_ns": 4_000_000, "ids": [11], "cpus": [0]}]
    assert rows(described(clocks=bank, cpu_changes=[[2**62, 0, "offline"]])) == [
        (0, 0, BEGIN, END, 0)
    ]


@pytest.mark.parametrize(
    "bank",
    [
        None,
        7,
        [],
        [7],
        [{"period_ns": 0, "ids": [1], "cpus": [0]}],
        [{"period_ns": 5, "ids": [], "cpus": []}],
        [{"period_ns": 5, "ids": [1], "cpus": [2**31]}],
        [{"period_ns": 5, "ids": [1, -1], "cpus": [0, 0]}],
        [BANK[0], {"period_ns": 5, "ids": [1, 2], "cpus": [0]}],
        [BANK[0]] * 65,
    ],
)
def test_bank_that_makes_no_sense_is_none(bank):
    assert rows(described(clocks=bank)) == []


def test_more_openings_than_times_on_line_are_passed_over():
    bank = [{"period_ns": 4_000_000, "ids": [11, 12, 13], "cpus": [0, 0, 0]}]
    assert len(rows(described(clocks=bank))) == 1


@pytest.mark.parametrize("facts", [{"scope": "task"}, {"interval_ns": [END, BEGIN]}])
def test_run_without_a_grid_has_no_clocks(facts):
    assert rows(described(**facts)) == []


def test_hardware_counter_is_no_clock():
    counter = EventAttr(type=abi.PERF_TYPE_HARDWARE, sample_period=1000, flags=abi.FLAG_FREQ)
    assert rows(described(attr=counter)) == []


def by_perf(*records, frequency_hz=0, **facts):
    """Return the clocks of a recording that says nothing of clocks."""
    period = frequency_hz or 4_000_000
    flags = abi.FLAG_SAMPLE_ID_ALL | (abi.FLAG_FREQ if frequency_hz else 0)
    attr = EventAttr(sample_type=build.USUAL, flags=flags, sample_period=period)
    attr = attr._replace(type=abi.PERF_TYPE_SOFTWARE, config=abi.PERF_COUNT_SW_CPU_CLOCK)
    info = RecordingInfo(events=(EventDescription(attr, (7,)),), **facts)
    events = decode([RecordBlock(memoryview(b"".join(records)))], info.events)
    return describe_clocks(info, events, describe_run(info, events, ()))


RECORDS = build.RecordBuilder()
SAMPLES = [
    RECORDS.sample(id=7, pid=1, tid=1, time=BEGIN + number * 4_000_000, cpu=number % 2 * 3)
    for number in range(10)
]


def test_recording_by_perf_has_a_clock_on_each_cpu_that_was_sampled():
    interval = {"first_sample_ns": BEGIN, "last_sample_ns": END}
    lost = RECORDS.lost(7, 5, cpu=3, time=BEGIN + 1)
    found = by_perf(*SAMPLES, lost, **interval)
    table = found.table
    assert found.ids == ()
    assert list(zip(table.cpu.tolist(), table.lost.tolist(), strict=True)) == [(0, 0), (3, 5)]
    assert set(table.begin_ns.tolist()) == {BEGIN}
    assert set(table.end_ns.tolist()) == {END}


def test_rate_of_a_timer_is_a_whole_period():
    found = by_perf(*SAMPLES, frequency_hz=3000)
    assert set(found.table.period_ns.tolist()) == {333_333.0}


def timer(sample_type):
    return EventAttr(type=abi.PERF_TYPE_SOFTWARE, sample_period=1_974_684, sample_type=sample_type)


def periods_of(sample_type, clocks=BANK, beside=()):
    """Return the period of a sample of each clock, of an unknown id, and of events beside."""
    attr = timer(sample_type)
    info = described(attr=attr, clocks=clocks)
    first = info.events[0]._replace(ids=(11, 12, 21, 22))
    info = info._replace(events=(first, *beside))
    built = build.RecordBuilder(sample_type)
    ids = (11, 12, 21, 22, *(number for event in beside for number in event.ids))
    block = RecordBlock(memoryview(b"".join(built.sample(id=id_, period=77) for id_ in ids)))
    events = decode([block], info.events, [], clock_of_id(info))
    return with_clock_periods(events, info).samples.period.tolist()


def test_samples_without_a_period_have_that_of_their_own_clock():
    switches = EventDescription(timer(SAMPLE_TYPE)._replace(config=3, sample_period=1), (31,))
    own = [4_000_000, 4_000_000, 3_900_000, 3_900_000]
    assert periods_of(SAMPLE_TYPE) == own
    assert periods_of(SAMPLE_TYPE, beside=(switches,)) == [*own, 1]


def test_samples_of_older_recordings_keep_the_period_that_they_carry():
    assert periods_of(SAMPLE_TYPE | abi.PERF_SAMPLE_PERIOD) == [77] * 4


def test_clocks_that_cannot_be_told_apart_share_their_mean_period():
    untold = [{"period_ns": clock["period_ns"], "ids": clock["ids"]} for clock in BANK]
    assert periods_of(SAMPLE_TYPE, clocks=untold) == [2 * 1_974_684] * 4


def test_without_our_section_all_clocks_together_are_one():
    """A recording that was cut short: hits still amount to the CPU time, not to four times it."""
    info = described(attr=timer(SAMPLE_TYPE))._replace(extras={})
    assert periods_of(SAMPLE_TYPE, clocks=None) == [1_974_684] * 4
    assert event_info(info.events[0], info).seconds_per_period == 1e-9


def test_samples_with_copies_are_those_of_the_clocks():
    """The file has them in an event of their own, before the clocks' own samples."""
    bank = [{**clock, "copy_ids": [100 + one for one in clock["ids"]]} for clock in BANK]
    attr = timer(SAMPLE_TYPE)
    info = described(attr=attr, clocks=bank, lost={"11": 3, "111": 4})
    of_clocks = info.events[0]._replace(ids=(11, 12, 21, 22))
    of_copies = of_clocks._replace(ids=(111, 112, 121, 122))
    switches = EventDescription(attr._replace(config=3, sample_period=1), (31,))
    info = info._replace(events=(of_copies, of_clocks, switches))
    built = build.RecordBuilder(SAMPLE_TYPE)
    ids = (11, 111, 31, 22, 122)
    block = RecordBlock(memoryview(b"".join(built.sample(id=id_) for id_ in ids)))
    events = decode([block], info.events, [], clock_of_id(info))
    joined, one = with_clocks(events, info)
    assert joined.samples.event.tolist() == [0, 0, 1, 0, 0]
    assert joined.samples.clock.tolist() == [0, 0, 0, 1, 1]
    assert joined.samples.period.tolist() == [4_000_000, 4_000_000, 1, 3_900_000, 3_900_000]
    assert [event.name for event in one.events] == [of_copies.name, switches.name]
    assert set(one.events[0].ids) == {*of_clocks.ids, *of_copies.ids}
    lost = describe_clocks(one, joined, describe_run(one, joined, ())).table.lost
    assert sorted(lost.tolist()) == [0, 0, 0, 7]
    # Who says that other events' ids are copies of a clock's is not believed.
    forged = info._replace(events=(switches, of_clocks, of_copies))
    assert with_clocks(events, forged)[1].events == forged.events
