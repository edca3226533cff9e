"""Switches that are drained late, after their thread went on elsewhere or ended."""

from __future__ import annotations

from builders.sources import CLOCK
from builders.switches import RECORDS, SWITCH, leaves
from prospect.abi.recorded_facts import RecordingInfo
from prospect.live.growing import GrowingProfile
from prospect.live.record_limiters import Bounds

PID = 5


def gets(time, tid=PID):
    return RECORDS.switch(other=(0, 0), pid=PID, tid=tid, time=time)


def left(time, tid=PID):
    return RECORDS.switch(out=True, other=(0, 0), pid=PID, tid=tid, time=time)


def session_of(*parts):
    """Return the threads of a session whose parts are records, each 1000 ns long."""
    growing = GrowingProfile(Bounds(10**6), stacks=True, use_cache=False, off_cpu=True)
    for number, records in enumerate(parts, 1):
        interval = [number * 1000, number * 1000 + 1000]
        info = RecordingInfo(events=(CLOCK, SWITCH), extras={"interval_ns": interval})
        told = [RECORDS.comm(PID, PID, "prog", time=0)] if number == 1 else []
        growing.add(b"".join([*told, *records]), info, {})
    return growing


def test_who_went_on_elsewhere_is_where_it_is_known_to_be():
    # It left a CPU that had been drained, and got another that had not.
    parts = ([gets(1100), gets(1900)], [left(1850), left(2500)], [])
    threads = session_of(*parts).profile().threads
    assert threads.unknown_ns.tolist() == [800]
    assert threads.cpu_ns.tolist() == [100 + 500]
    assert threads.blocked_ns.tolist() == [100 + 500 + 1000]


def test_a_part_begins_with_what_was_done_just_before_in_its_order():
    # Drained after the end of the part was noted: all of it counts as done at the begin.
    parts = ([gets(1100)], [left(1950), gets(1960), left(1970)])
    threads = session_of(*parts).profile().threads
    assert threads.unknown_ns.tolist() == [0]
    assert threads.cpu_ns.tolist() == [900]
    assert threads.blocked_ns.tolist() == [100 + 1000]
    assert threads.blocks.tolist() == [2]


def test_what_a_thread_does_after_its_end_makes_no_new_one():
    birth = RECORDS.fork(PID, PID, 6, PID, time=1200)
    death = RECORDS.exit(PID, PID, 6, PID, time=1400)
    growing = session_of([gets(1100), birth, gets(1300, 6), death], [leaves(1990, 6)], [], [])
    assert growing.profile().threads.tid.tolist() == [5, 6]
    assert growing.profile().threads.life_ns.tolist() == [4000, 200]
    assert len(growing._switches) == 1


def test_a_number_that_is_given_again_is_another_thread():
    def fork(time):
        return RECORDS.fork(PID, PID, 6, PID, time=time)

    death = RECORDS.exit(PID, PID, 6, PID, time=1400)
    growing = session_of(
        [gets(1100), fork(1200), gets(1300, 6), death], [fork(2100), gets(2200, 6)], []
    )
    threads = growing.profile().threads
    assert threads.tid.tolist() == [5, 6, 6]
    assert threads.cpu_ns.tolist() == [2900, 100, 1800]
    assert threads.runnable_ns.tolist() == [0, 100, 100]
