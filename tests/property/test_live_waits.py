"""Cut into parts anywhere, threads ran and waited as long, by the same stacks, as in one piece."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from builders.examples import examples
from builders.sources import CLOCK, CLOCK_ID, BuiltSource
from builders.switches import PERIOD, RECORDS, SWITCH, SWITCH_ID
from prospect.abi import constants as abi
from prospect.abi.recorded_facts import RecordingInfo
from prospect.analysis.pipeline import build_profile
from prospect.analysis.profile_request import ProfileRequest
from prospect.columns.buffers import gather
from prospect.figures.stacks.stack_weights import with_waits
from prospect.live.growing import GrowingProfile
from prospect.live.record_limiters import Bounds
from prospect.options import NamingOptions
from prospect.records import replace

BEGIN = 1_000
PID = 5
FIRST_TIDS = (5, 6, 7)
LATE_TIDS = (8, 9)

steps = st.lists(
    st.tuples(
        st.sampled_from((*FIRST_TIDS, *LATE_TIDS)),
        st.integers(3, 90),
        st.sampled_from(("waits", "preempted", "ends", "unsampled", "sampled")),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=40,
)


def switch_out(time, tid, *, preempted):
    misc = abi.PERF_RECORD_MISC_SWITCH_OUT
    if preempted:
        misc |= abi.PERF_RECORD_MISC_SWITCH_OUT_PREEMPT
    body = RECORDS.pack("ii", 0, 0)
    return RECORDS.side(15, body, misc=misc, pid=PID, tid=tid, time=time)


def sample(time, tid, place, event_id, period):
    ip = 0x400000 + place
    return RECORDS.sample(time=time, pid=PID, tid=tid, ip=ip, id=event_id, period=period)


def records_of(drawn):
    """Return records, each with its time; and when it all ends."""
    time = BEGIN
    told = [(0, RECORDS.comm(PID, PID, "prog", time=0))]
    on_cpu = dict.fromkeys(FIRST_TIDS, True)
    for tid in FIRST_TIDS:
        time += 1
        if tid != PID:
            told.append((time, RECORDS.fork(PID, PID, tid, PID, time=time)))
        time += 1
        told.append((time, RECORDS.switch(other=(0, 0), pid=PID, tid=tid, time=time)))
    for tid, later, what, place in drawn:
        time += later
        if tid not in on_cpu:
            told.append((time, RECORDS.fork(PID, PID, tid, PID, time=time)))
            on_cpu[tid] = False
        elif not on_cpu[tid]:
            told.append((time, RECORDS.switch(other=(0, 0), pid=PID, tid=tid, time=time)))
            on_cpu[tid] = True
        elif what == "sampled":
            told.append((time, sample(time, tid, place, CLOCK_ID, PERIOD)))
        elif what == "ends" and tid != PID:
            told.append((time, RECORDS.exit(PID, PID, tid, PID, time=time)))
            told.append((time + 2, switch_out(time + 2, tid, preempted=False)))
            del on_cpu[tid]
            time += 2
        else:
            if what != "unsampled":
                told.append((time - 1, sample(time - 1, tid, place, SWITCH_ID, 1)))
            told.append((time, switch_out(time, tid, preempted=what == "preempted")))
            on_cpu[tid] = False
    return told, time + 50


def info_of(begin, end):
    return RecordingInfo(events=(CLOCK, SWITCH), extras={"interval_ns": [begin, end]})


def in_one_piece(told, end):
    source = BuiltSource([record for _, record in told], info_of(BEGIN, end))
    options = NamingOptions(use_cache=False, debuginfod_s=0), ProfileRequest(stacks=True)
    return build_profile(source, *options)


def in_parts(told, end, cuts, most_samples=10**6):
    growing = GrowingProfile(Bounds(most_samples), stacks=True, use_cache=False, off_cpu=True)
    bounds = [BEGIN, *sorted(cut for cut in set(cuts) if BEGIN < cut < end), end]
    for begin, until in itertools.pairwise(bounds):
        first = begin if begin > BEGIN else 0
        last = until if until < end else end + 1
        data = b"".join(record for time, record in told if first <= time < last)
        growing.add(data, info_of(begin, until), {})
    return growing.profile()


def lives(profile):
    threads = profile.threads
    columns = (
        threads.tid,
        threads.begin_ns,
        threads.end_ns,
        threads.cpu_ns,
        threads.runnable_ns,
        threads.blocked_ns,
        threads.unknown_ns,
        threads.blocks,
        threads.preemptions,
    )
    return list(zip(*(column.tolist() for column in columns), threads.name, strict=True))


def by_stack(profile):
    """Return the time of waits by event, thread and address."""
    profile = with_waits(profile)
    samples, hits = profile.samples, profile.hits
    hit = samples.hit_index
    names = [profile.run.events[row].name for row in hits.event[hit].tolist()]
    address = profile.locations.address[hits.location_index[hit]].tolist()
    sums = Counter()
    rows = zip(names, samples.tid.tolist(), address, samples.period.tolist(), strict=True)
    for *key, period in rows:
        sums[tuple(key)] += period
    return +sums


@settings(max_examples=examples(60))
@given(steps, st.lists(st.integers(BEGIN + 1, BEGIN + 2_000), max_size=6))
@example([(6, 10, "waits", 1)], [BEGIN + 20, BEGIN + 40, BEGIN + 60])
@example([(6, 10, "ends", 1), (7, 9, "waits", 0)], [BEGIN + 17, BEGIN + 18, BEGIN + 19])
def test_times_by_thread_and_by_stack_are_those_of_the_whole(drawn, cuts):
    told, end = records_of(drawn)
    whole, joined = in_one_piece(told, end), in_parts(told, end, cuts)
    assert lives(joined) == lives(whole)
    is_lost = any(what == "unsampled" for _, _, what, _ in drawn)
    if not is_lost and not any(time + 1 in cuts for time, _ in told):
        # Between the sample and the switch that it is of, the stack is lost; not the time.
        assert by_stack(joined) == by_stack(whole)
        assert joined.threads.stackless_ns.tolist() == whole.threads.stackless_ns.tolist()
    hits, samples = joined.hits, joined.samples
    assert hits.count.sum() == len(samples)
    assert hits.period.sum() == samples.period.sum()
    assert hits.count.sum() == whole.hits.count.sum()


@settings(max_examples=examples(40))
@given(steps, st.lists(st.integers(BEGIN + 30, BEGIN + 600), min_size=3, max_size=8))
def test_what_is_left_after_forgetting_adds_up(drawn, cuts):
    told, end = records_of([step for step in drawn if step[2] != "unsampled"])
    joined = in_parts(told, end, [cut for cut in cuts if cut < end - 10], most_samples=2)
    threads = joined.threads
    lives = threads.cpu_ns + threads.runnable_ns + threads.blocked_ns + threads.unknown_ns
    assert lives.tolist() == threads.life_ns.tolist()
    assert (threads.begin_ns >= joined.run.begin_ns).all()
    assert (threads.end_ns <= joined.run.end_ns).all()
    assert (threads.process_index < len(joined.processes)).all()
    waited_ns = threads.runnable_ns + threads.blocked_ns - threads.stackless_ns
    if not any(time + 1 in cuts for time, _ in told):
        assert sum(by_stack(without_clock(joined)).values()) == waited_ns.sum()


def without_clock(profile):
    return replace(profile, samples=gather(profile.samples, np.empty(0, np.intp)))
