"""Samples of software events that the kernel prepared for somebody else's event first.

Comes in: samples of context switches. Goes out: whose they are, and when they were taken. Where two
profilers sample one software event on a CPU, the kernel fills in one perf_sample_data for both, and
what the first event wanted is not filled in again for the second: its samples come with the id of
the other profiler's event, and with the time of the other's clock. Whatever stands in a recording's
own rings was written by its own events, so that such an id only says that this has happened. The
record of the switch itself, which follows in the ring, has the right time.

Source: ___perf_sw_event(), perf_prepare_sample() and __perf_event_header__init_id() in
``kernel/events/core.c`` (Linux 6.18; since 6.2, when `sample_flags` came to be shared).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.events.schema import Schema

    Words = NDArray[np.uint64]
    Rows = NDArray[np.int64]

# From a sample to the record of its switch: copies of stacks, and an interrupt between.
_SOON_NS = 100_000_000
_MASK_TYPE = np.uint64(0xFFFFFFFF)
_SWITCH_TYPES = np.array([abi.PERF_RECORD_SWITCH, abi.PERF_RECORD_SWITCH_CPU_WIDE], np.uint64)
_SIZE_SHIFT = np.uint64(51)
_OUT_BIT = np.uint64(abi.PERF_RECORD_MISC_SWITCH_OUT << 32)


class SharedSamples(NamedTuple):
    """Samples that may be shared.

    Attributes:
        end: i64[n] where each sample ends, which is where the next record begins.
        rows: i64[n] their events.
        is_foreign: bool[n] whether they have the id of an event that is not of the recording.
    """

    end: Rows
    rows: Rows
    is_foreign: NDArray[np.bool_]


def true_times(
    words: Words, met: SharedSamples, task: Words, time_ns: Words, schema: Schema
) -> Words:
    """Return the samples' times, u64[n]: those of context switches by their own clock.

    Args:
        words: the block.
        met: the samples.
        task: u64[n] whose they are.
        time_ns: u64[n] as the samples have it.
        schema: of the recording.
    """
    tail_time, tail_task = schema.switch_tail
    of_switch = np.flatnonzero(met.rows == schema.switch_event)
    if not (tail_time and tail_task and len(of_switch)):
        return time_ns
    at = met.end.take(of_switch)
    header = words.take(at, mode="clip")
    record_end = at + (header >> _SIZE_SHIFT).view(np.int64)
    is_switch = np.isin(header & _MASK_TYPE, _SWITCH_TYPES) & ((header & _OUT_BIT) != 0)
    is_own = is_switch & (record_end > at) & (record_end <= len(words))
    is_own &= words.take(record_end + tail_task, mode="clip") == task.take(of_switch)
    switch_ns = words.take(record_end + tail_time, mode="clip")
    ahead = (switch_ns - time_ns.take(of_switch)).view(np.int64)
    is_soon = (ahead >= 0) & (ahead <= _SOON_NS)
    if (is_soon | ~is_own).all():
        return time_ns
    # Where a ring was emptied between the two, by how much the clocks differ elsewhere.
    differs = np.int64(np.median(ahead[is_own & ~is_soon]))
    shifted = (time_ns.take(of_switch).view(np.int64) + differs).view(np.uint64)
    is_wrong = np.where(is_own, ~is_soon, met.is_foreign.take(of_switch))
    found = time_ns.copy()
    found[of_switch[is_wrong]] = np.where(is_own, switch_ns, shifted)[is_wrong]
    return found
