"""Recordings of some threads' switches: whose lives they tell, and in which calls threads wait."""

from __future__ import annotations

import struct

import pytest

from builders import perfdata as build
from builders.sources import CLOCK, BuiltSource
from builders.switches import BEGIN, END, RECORDS
from prospect.abi import constants as abi
from prospect.abi.attr import EventDescription
from prospect.abi.recorded_facts import RecordingInfo
from prospect.analysis.pipeline import build_profile
from prospect.analysis.profile_request import ProfileRequest
from prospect.figures.report.waiting import waiting
from prospect.options import NamingOptions
from prospect.profile.complete import complete

SWITCH_ID, WAKING_ID, STACK_ID = 21, 22, 23
SAMPLE_TYPE = (
    abi.PERF_SAMPLE_IDENTIFIER
    | abi.PERF_SAMPLE_TID
    | abi.PERF_SAMPLE_TIME
    | abi.PERF_SAMPLE_CPU
    | abi.PERF_SAMPLE_RAW
)
TRACED = CLOCK.attr._replace(
    type=abi.PERF_TYPE_TRACEPOINT, config=1, sample_period=1, sample_type=SAMPLE_TYPE
)
SWITCH = EventDescription(
    TRACED, (SWITCH_ID,), "sched:sched_switch", ((32, 8), (56, 4), (64, 4), (68, 4), (72, 8))
)
WAKING = EventDescription(
    TRACED._replace(config=2), (WAKING_ID,), "sched:sched_waking", ((24, 4), (0, 2))
)
STACK = EventDescription(
    TRACED._replace(
        type=abi.PERF_TYPE_SOFTWARE,
        config=abi.PERF_COUNT_SW_CONTEXT_SWITCHES,
        sample_type=SAMPLE_TYPE & ~abi.PERF_SAMPLE_RAW,
    ),
    (STACK_ID,),
    "context-switches",
)
PREV, NEXT = 1, 2
PREEMPTED, SLEEPS, FOR_DISK = 0x100, 1, 2
READ, FUTEX, NONE = 0, 202, -1
KERNEL = 1
BUILDER = build.RecordBuilder(SAMPLE_TYPE)


def switch(time, prev, state, following, followed, call=NONE, ran_ns=0):  # noqa: PLR0917 - its fields
    task = (prev, prev, 0, state, following, 0, call, followed, ran_ns)
    raw = struct.pack("<HBBi16xiiq16xiiiiq", 1, 0, 0, *task)
    return BUILDER.sample(time=time, pid=prev, tid=prev, id=SWITCH_ID, raw=raw, misc=KERNEL)


def wake(time, by, woken, flags=0):
    raw = struct.pack("<HBBi16xiii", 2, flags, 0, by, woken, 0, 0)
    return BUILDER.sample(time=time, pid=by, tid=by, id=WAKING_ID, raw=raw, misc=KERNEL)


def stack(time, tid, cpu=0):
    builder = build.RecordBuilder(STACK.attr.sample_type)
    return builder.sample(time=time, pid=tid, tid=tid, cpu=cpu, id=STACK_ID, misc=KERNEL)


def tick(time, tid):
    (clock_id,) = CLOCK.ids
    return RECORDS.sample(time=time, pid=tid, tid=tid, id=clock_id)


# Thread 5 is followed, 7 once it wakes 5; 9 is not, and has the CPU in between.
RUN = [
    RECORDS.comm(5, 5, "prog", is_exec=True, time=BEGIN),
    RECORDS.comm(7, 7, "server", time=0),
    RECORDS.comm(9, 9, "other", time=0),
    RECORDS.comm(11, 11, "idler", time=0),
    switch(2_000, 9, PREEMPTED, 5, NEXT),
    switch(12_000, 5, SLEEPS, 9, PREV, READ),
    wake(20_000, 7, 5),
    switch(21_000, 7, FOR_DISK, 5, PREV | NEXT, NONE),
    switch(41_000, 5, SLEEPS, 9, PREV, FUTEX),
    wake(46_000, 9, 5, flags=8),
    switch(51_000, 9, PREEMPTED, 5, NEXT),
    switch(61_000, 5, PREEMPTED, 7, PREV | NEXT),
    switch(71_000, 7, PREEMPTED, 5, PREV | NEXT),
]


def followed(records=RUN, *, first=(5,), events=(CLOCK, SWITCH, WAKING), extras=(), **wanted):
    info = RecordingInfo(
        arch="x86_64",
        events=events,
        extras={"interval_ns": [BEGIN, END], "followed_threads": list(first)} | dict(extras),
    )
    naming = NamingOptions(use_cache=False, debuginfod_s=0)
    return build_profile(BuiltSource(list(records), info), naming, ProfileRequest(**wanted))


@pytest.fixture(scope="module")
def profile():
    return followed(waits=True)


def test_only_followed_threads_have_lives(profile):
    assert profile.threads.tid.tolist() == [5, 7]


def test_a_followed_thread_is_what_its_switches_say(profile):
    threads = profile.threads
    assert threads.life_ns[0] == END - BEGIN
    assert threads.cpu_ns[0] == 10_000 + 20_000 + 10_000 + 30_000
    assert threads.runnable_ns[0] == 1_000 + 5_000 + 10_000
    assert threads.blocked_ns[0] == 1_000 + 8_000 + 5_000
    assert threads.unknown_ns.tolist() == [0, 0]


def test_a_thread_that_wakes_a_followed_one_is_followed_from_then_on(profile):
    threads = profile.threads
    assert int(threads.begin_ns[1]) == 20_000
    assert threads.cpu_ns[1] == 1_000 + 10_000
    assert threads.blocked_ns[1] == 40_000


def test_a_wait_has_its_system_call_and_who_ended_it(profile):
    found = waiting(complete(profile), "4")
    blockers = {one.name: (one.waits, round(one.seconds * 1e9)) for one in found.blockers}
    assert blockers == {
        "exception page fault": (1, 40_000),
        "read": (1, 8_000),
        "futex": (1, 5_000),
    }
    assert {(one.name, one.who) for one in found.wakers} == {
        ("read", "server"),
        ("futex", "(interrupt)"),
    }


def test_waits_without_stacks_are_no_stacks(profile):
    assert waiting(complete(profile), "4").stacks == ()


def test_a_thread_that_never_left_its_cpu_is_there_if_it_was_followed_from_the_beginning():
    assert followed(first=(5, 11)).threads.tid.tolist() == [5, 7, 11]


def test_calls_of_32_bit_programs_have_their_own_names():
    records = [*RUN[:5], switch(12_000, 5, SLEEPS, 9, PREV, 3 | 1 << 16)]
    found = waiting(complete(followed(records, waits=True)), "4")
    assert [one.name for one in found.blockers] == ["read"]


def test_a_number_without_a_name_is_shown():
    records = [*RUN[:5], switch(12_000, 5, SLEEPS, 9, PREV, 5000)]
    found = waiting(complete(followed(records, waits=True)), "4")
    assert [one.name for one in found.blockers] == ["syscall_5000"]


def test_an_arrival_without_a_record_is_known_by_how_long_the_thread_has_run():
    # It left at 12,000 after 10,000 ns, and again at 40,000 after 18,000.
    records = [
        RUN[0],
        RUN[2],
        RUN[4],
        switch(2_000, 9, PREEMPTED, 5, NEXT),
        switch(12_000, 5, PREEMPTED, 1, PREV, ran_ns=10_000),
        switch(40_000, 5, SLEEPS, 9, PREV, READ, ran_ns=18_000),
        switch(60_000, 9, PREEMPTED, 5, NEXT),
    ]
    threads = followed(records).threads
    assert threads.unknown_ns.tolist() == [0]
    assert threads.cpu_ns.tolist() == [10_000 + 8_000 + END - 60_000]
    assert threads.runnable_ns.tolist() == [20_000]


def test_an_account_that_cannot_be_right_says_nothing():
    records = [
        RUN[0],
        switch(2_000, 9, PREEMPTED, 5, NEXT),
        switch(12_000, 5, PREEMPTED, 1, PREV, ran_ns=10_000),
        switch(40_000, 5, SLEEPS, 9, PREV, READ, ran_ns=99_000),
    ]
    assert followed(records).threads.unknown_ns[0] == 28_000


def test_a_thread_that_waits_throughout_is_there_without_any_switch():
    threads = followed(RUN[:4], first=(11,)).threads
    assert threads.tid.tolist() == [11]
    assert threads.blocked_ns.tolist() == [END - BEGIN]


def test_stacks_belong_to_the_switch_that_is_recorded_before_them():
    """Beside another profiler a stack may have any time; 7 has left on another CPU."""
    records = [*RUN[:6], stack(12_600, 5), stack(13_000, 7, cpu=1), *RUN[6:9], stack(3_000, 5)]
    profile = followed([*records, *RUN[9:]], events=(CLOCK, STACK, SWITCH, WAKING), waits=True)
    waits = profile.waits
    assert waits.tid.tolist() == [5, 5, 5, 5]
    assert sorted(waits.begin_ns.tolist()) == [12_000, 20_000, 41_000, 46_000]
    assert waits.length_ns.sum() == 8_000 + 1_000 + 5_000 + 5_000
    assert profile.threads.stackless_ns.tolist() == [10_000 + 1_000, 40_000 + END - 71_000]
    assert [event.name for event in profile.run.events] == [CLOCK.name]


# Half way between two that differ: 13,000 and 16,000; the last sample was of 7, as was the end.
@pytest.mark.parametrize(
    ("ticks", "had"),
    [((), {-1: 8_000}), ((14_000, 18_000), {9: 1_000, 11: 3_000, 7: 4_000})],
)
def test_samples_tell_who_had_a_cpu_that_several_others_had(ticks, had):
    """Thread 9 begins, 11 and 7 are met in samples, and 7 gives the CPU back to 5."""
    records = [
        RECORDS.comm(5, 5, "prog", is_exec=True, time=2_000),
        switch(2_000, 9, PREEMPTED, 5, NEXT),
        switch(12_000, 5, PREEMPTED, 9, PREV),
        *(tick(time, tid) for time, tid in zip(ticks, (11, 7), strict=False)),
        switch(20_000, 7, PREEMPTED, 5, NEXT),
        RECORDS.exit(5, 1, 5, 1, time=80_000),
    ]
    takers = followed(records, extras={"command_pid": 5}, path=True).wall.takers
    found = dict(zip(takers.tid.tolist(), takers.length_ns.tolist(), strict=True))
    assert found == had
