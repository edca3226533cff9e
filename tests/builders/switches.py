"""A recording of two threads that are switched: when each ran and waited is known to the ns."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from builders import perfdata as build
from builders.sources import CLOCK, CLOCK_ID, BuiltSource
from prospect.abi import constants as abi
from prospect.abi.attr import EventDescription
from prospect.abi.recorded_facts import RecordingInfo
from prospect.analysis.pipeline import build_profile
from prospect.analysis.profile_request import ProfileRequest
from prospect.options import NamingOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.profile.model import Profile

RECORDS = build.RecordBuilder()
SWITCH_ID, OTHER_ID = 8, 9
SWITCH = EventDescription(
    CLOCK.attr._replace(config=abi.PERF_COUNT_SW_CONTEXT_SWITCHES, sample_period=1),
    (SWITCH_ID,),
    "context-switches",
)
FAULTS = EventDescription(
    CLOCK.attr._replace(config=abi.PERF_COUNT_SW_PAGE_FAULTS, sample_period=1),
    (OTHER_ID,),
    "page-faults",
)
WAKING_ID = 10
WAKING = EventDescription(
    CLOCK.attr._replace(
        type=abi.PERF_TYPE_TRACEPOINT,
        config=371,
        sample_period=1,
        sample_type=CLOCK.attr.sample_type | abi.PERF_SAMPLE_RAW,
    ),
    (WAKING_ID,),
    "sched:sched_waking",
    fields=((28, 4), (0, 2)),
)
BEGIN, END = 1_000, 101_000
PERIOD = CLOCK.attr.sample_period


def leaves(time: int, tid: int, *, preempted: bool = False) -> bytes:
    """The sample and the record of a thread that leaves CPU 0."""
    switch = RECORDS.switch(out=True, other=(0, 0), pid=5, tid=tid, time=time + 1)
    if preempted:
        misc = abi.PERF_RECORD_MISC_SWITCH_OUT | abi.PERF_RECORD_MISC_SWITCH_OUT_PREEMPT
        body = RECORDS.pack("ii", 0, 0)
        switch = RECORDS.side(15, body, misc=misc, pid=5, tid=tid, time=time + 1)
    sample = RECORDS.sample(time=time, pid=5, tid=tid, ip=0x400000 + tid, id=SWITCH_ID, period=1)
    return sample + switch


def gets(time: int, tid: int) -> bytes:
    return RECORDS.switch(other=(0, 0), pid=5, tid=tid, time=time)


RUN = [
    RECORDS.comm(5, 5, "prog", is_exec=True, time=BEGIN),
    gets(2_000, 5),
    RECORDS.sample(time=3_000, pid=5, tid=5, ip=0x400005, id=CLOCK_ID, period=PERIOD),
    leaves(11_999, 5),
    # Process zero in between: its switches say nothing of anybody.
    RECORDS.sample(time=15_000, pid=0, tid=0, ip=0x9, id=SWITCH_ID, period=1),
    RECORDS.switch(out=True, other=(5, 5), pid=0, tid=0, time=15_001),
    gets(32_000, 5),
    RECORDS.fork(5, 5, 6, 5, time=33_000),
    leaves(39_999, 5, preempted=True),
    gets(40_000, 6),
    RECORDS.exit(5, 5, 6, 5, time=60_000),
    gets(61_000, 5),
]


def wakes(time: int, tid: int, by: int, *, flags: int = 0) -> bytes:
    """The record of a wake-up of `tid` in the context of thread `by`, with an entry's flags."""
    builder = build.RecordBuilder(WAKING.attr.sample_type)
    raw = struct.pack("<HBBi16xIi4x", 371, flags, 0, by, 0, tid)
    return builder.sample(time=time, pid=by, tid=by, ip=1, id=WAKING_ID, period=1, raw=raw)


def switched_profile(
    *events: EventDescription,
    more: Sequence[bytes] = (),
    extras: dict[str, Any] | None = None,
    **options: Any,
) -> Profile:
    facts = {"interval_ns": [BEGIN, END], **(extras or {})}
    info = RecordingInfo(events=events, extras=facts)
    source = BuiltSource([*RUN, *more], info)
    return build_profile(
        source, NamingOptions(use_cache=False, debuginfod_s=0), ProfileRequest(**options)
    )
