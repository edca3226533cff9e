"""What a recording by perf says of its run, where no section of ours does."""

from __future__ import annotations

import pytest

from builders import perfdata as build
from builders.sources import CLOCK, CLOCK_ATTR, CLOCK_ID
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.abi.recorded_facts import RecordBlock, RecordingInfo
from prospect.assembly.extras import recorded_until
from prospect.assembly.tables.run_facts import describe_run, event_info
from prospect.events.decode import decode

RECORDS = build.RecordBuilder()
SECONDS_5 = 5_000_000_000


def run_of(info, cpus=(0, 1)):
    samples = (
        RECORDS.sample(time=time, cpu=cpu, id=CLOCK_ID)
        for cpu, time in zip(cpus, (1, 1 + SECONDS_5), strict=True)
    )
    events = decode([RecordBlock(memoryview(b"".join(samples)))], (CLOCK,))
    return describe_run(info, events, ()), recorded_until(info, events)


def test_a_files_own_time_only_bounds_the_end_of_what_it_records():
    run, until = run_of(RecordingInfo(events=(CLOCK,), recorded_at=1000.0))
    assert until == 1000.0
    assert run.started_at == 0.0  # a copy of the file is younger than the recording


def test_the_end_that_the_recorder_told_tells_the_start_of_a_copied_file():
    run, until = run_of(RecordingInfo(events=(CLOCK,), ended_at=900.0, recorded_at=1000.0))
    assert until == 900.0
    assert run.started_at == pytest.approx(895.0)


def test_the_clock_pair_of_perf_tells_the_start_and_not_the_end():
    run, until = run_of(RecordingInfo(events=(CLOCK,), started_at=990.0, recorded_at=1000.0))
    assert (run.started_at, until) == (990.0, 1000.0)


def test_our_own_start_and_interval_tell_the_end_of_a_copied_file():
    extras = {"started_at": 500.0, "interval_ns": [10, 10 + SECONDS_5]}
    run, until = run_of(RecordingInfo(events=(CLOCK,), recorded_at=1000.0, extras=extras))
    assert (run.started_at, until) == (500.0, pytest.approx(505.0))


def test_what_is_recorded_and_not_read_is_said():
    attr = CLOCK_ATTR._replace(sample_type=build.USUAL | build.BRANCH_STACK, branch_sample_type=1)
    described = (
        EventDescription(attr, (CLOCK_ID,), "cycles"),
        EventDescription(CLOCK_ATTR._replace(type=9), (CLOCK_ID + 1,), "intel_pt//u"),
    )
    records = [RECORDS.aux(0, 4096), RECORDS.itrace_start(7, 7)]
    events = decode([RecordBlock(memoryview(b"".join(records)))], (CLOCK,))
    traces, branches = describe_run(RecordingInfo(events=described), events, ()).limits
    assert "traces of intel_pt" in traces
    assert "perf inject --itrace" in traces
    assert "branch stacks" in branches
    of_stacks = attr._replace(branch_sample_type=1 << 11)
    described = (EventDescription(of_stacks, (CLOCK_ID,), "cycles"),)
    quiet = decode([], described)
    assert describe_run(RecordingInfo(events=described), quiet, ()).limits == ()


@pytest.mark.parametrize(
    ("flags", "sample_type", "is_system_wide"),
    [
        (0, build.USUAL, True),  # perf record -a
        (abi.FLAG_ENABLE_ON_EXEC, build.USUAL, False),  # perf record COMMAND
        (0, build.USUAL & ~build.CPU, False),  # perf record -p PID
    ],
)
def test_the_scope_of_perf_is_seen_in_its_event(flags, sample_type, is_system_wide):
    attr = CLOCK_ATTR._replace(flags=CLOCK_ATTR.flags | flags, sample_type=sample_type)
    event = EventDescription(attr, (CLOCK_ID,), "cpu-clock")
    run, _ = run_of(RecordingInfo(events=(event,)))
    assert run.system_wide == is_system_wide


def test_cpus_are_counted_from_the_samples_and_unknown_ones_not_at_all():
    assert run_of(RecordingInfo(events=(CLOCK,)))[0].cpus == 2
    assert run_of(RecordingInfo(events=(CLOCK,)), cpus=(3, 0xFFFF))[0].cpus == 1


def test_a_rate_is_told_by_the_event_or_by_the_recorder_or_by_the_period():
    by_frequency = EventAttr(sample_period=50, flags=abi.FLAG_FREQ)
    assert event_info(EventDescription(by_frequency), RecordingInfo(extras={})).frequency_hz == 50
    assert event_info(CLOCK, RecordingInfo(extras={"frequency_hz": 200})).frequency_hz == 200
    assert event_info(CLOCK, RecordingInfo(extras={})).frequency_hz == 100
    assert event_info(CLOCK, RecordingInfo(extras={"frequency_hz": -3})).frequency_hz == 100


@pytest.mark.parametrize(
    ("sample_type", "flags", "stack_bytes", "tells"),
    [
        (abi.PERF_SAMPLE_IP, 0, 0, False),
        (abi.PERF_SAMPLE_CALLCHAIN, 0, 0, True),
        (abi.PERF_SAMPLE_CALLCHAIN, abi.FLAG_EXCLUDE_CALLCHAIN_USER, 0, False),
        (abi.PERF_SAMPLE_CALLCHAIN, abi.FLAG_EXCLUDE_CALLCHAIN_USER, 8192, True),
    ],
)
def test_a_run_knows_whether_callers_in_user_space_were_recorded(
    sample_type, flags, stack_bytes, tells
):
    attr = CLOCK_ATTR._replace(
        sample_type=CLOCK_ATTR.sample_type | sample_type,
        flags=CLOCK_ATTR.flags | flags,
        sample_stack_user=stack_bytes,
    )
    run, _ = run_of(RecordingInfo(events=(CLOCK._replace(attr=attr),)))
    assert run.has_user_callers is tells


@pytest.mark.parametrize(
    ("arch", "extras", "is_known"),
    [
        ("x86_64", {}, True),
        ("i686", {}, True),
        ("aarch64", {}, False),  # by perf, which does not say
        ("aarch64", {"counters_are_nmis": False}, False),
        ("aarch64", {"counters_are_nmis": True}, True),
        ("aarch64", {"counters_are_nmis": "yes"}, False),
        ("ppc64le", {}, False),
    ],
)
def test_a_counter_sees_masked_stretches_only_where_it_is_known_to(arch, extras, is_known):
    attr = CLOCK_ATTR._replace(
        type=abi.PERF_TYPE_HARDWARE, config=abi.PERF_COUNT_HW_CPU_CYCLES, sample_period=4000
    )
    event = EventDescription(attr, (CLOCK_ID,), "cycles")
    run, _ = run_of(RecordingInfo(events=(event,), arch=arch, extras=extras))
    assert ("which also samples" in run.clock) == is_known
    assert ("re-enables them" in run.clock) != is_known
