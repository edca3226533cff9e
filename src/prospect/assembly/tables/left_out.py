"""What a recording holds that no profile shows → sentences that say so, and what shows it.

Comes in: the events of a recording and its record counts. Goes out: sentences for the notes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prospect.abi.attr import EventDescription
    from prospect.events.columns import Events
    from prospect.events.python_records import PythonRecords

_PID = np.uint64((1 << 32) - 1)
# Units that write traces, by the beginning of their events' names.
_TRACERS = ("intel_pt", "intel_bts", "cs_etm", "arm_spe", "hisi_ptt")


def left_out(described: Sequence[EventDescription], events: Events) -> Iterator[str]:
    """Yield a sentence for each kind of data that is recorded and not read.

    Args:
        described: the events of the recording.
        events: its decoded records.
    """
    if events.counts.get(abi.PERF_RECORD_AUX):
        tracers = " and ".join(sorted({name for name in map(_tracer, described) if name}))
        yield (
            f"The recording has traces of {tracers or 'the processor'}, which are not decoded: "
            "perf inject --itrace=i100usg -o OUTPUT turns them into samples that are read, "
            "perf script --itrace shows them."
        )
    if any(_has_branches(event) for event in described):
        yield (
            "The recording has branch stacks, which are not shown here: perf report --sort "
            "symbol_from,symbol_to shows them."
        )
    if events.python is not None and events.python.left_out:
        yield _names_left_out(events.python)


def _names_left_out(python: PythonRecords) -> str:
    """Say how many names of Python functions had no room where they are kept."""
    total = sum(count for _, count in python.left_out)
    image, _ = max(python.left_out, key=lambda one: one[1])
    pids = python.task[python.image == image] & _PID
    whose = f"process {int(pids[0])}" if len(pids) else "one process"
    return (
        f"Python functions: names that had no room: {total}, most of them of {whose}; these "
        "functions have no names."
    )


def _tracer(event: EventDescription) -> str:
    return next((tracer for tracer in _TRACERS if event.name.startswith(tracer)), "")


def _has_branches(event: EventDescription) -> bool:
    """Whether samples have branches that are not the calls of their stacks, which are read."""
    is_asked = event.attr.sample_type & abi.PERF_SAMPLE_BRANCH_STACK
    is_stack = event.attr.branch_sample_type & abi.PERF_SAMPLE_BRANCH_CALL_STACK
    return bool(is_asked and not is_stack)
