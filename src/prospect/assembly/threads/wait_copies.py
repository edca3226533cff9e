"""Samples of switches whose stacks are copied once: both events become one, with all copies.

Source: `prospect.capture.following.wait_stacks` writes the samples, with a key of each stack as
their raw data.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.records import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.abi.attr import EventDescription
    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.events.record_columns import Events, UserStates


def with_one_switch_event(events: Events, info: RecordingInfo) -> tuple[Events, RecordingInfo]:
    """Return records and description with samples of switches in one event, all with their stacks.

    A recording that copies each stack again stays as it is.
    """
    row = _with_copies(info.events)
    if row < 0:
        return events, info
    copied, plain = info.events[row : row + 2]
    one = copied._replace(ids=(*copied.ids, *plain.ids), fields=())
    samples = events.samples
    of_switch = (samples.event == row) | (samples.event == row + 1)
    user = samples.user and _with_known_stacks(events, samples.user, of_switch)
    event = samples.event - (samples.event > row)
    return (
        replace(events, samples=replace(samples, event=event, user=user)),
        info._replace(events=(*info.events[:row], one, *info.events[row + 2 :])),
    )


def _with_copies(described: Sequence[EventDescription]) -> int:
    """Return the row of the event with copies, which the one without follows; -1 for none."""
    for row, (one, following) in enumerate(itertools.pairwise(described)):
        attr = one.attr
        is_switch = (attr.type, attr.config) == (
            abi.PERF_TYPE_SOFTWARE,
            abi.PERF_COUNT_SW_CONTEXT_SWITCHES,
        )
        has_copies = attr.sample_type & abi.PERF_SAMPLE_STACK_USER
        is_pair = (following.attr.type, following.attr.config) == (attr.type, attr.config)
        is_pair &= not following.attr.sample_type & abi.PERF_SAMPLE_STACK_USER
        if is_switch and has_copies and is_pair and one.fields and following.fields:
            return row
    return -1


def _with_known_stacks(
    events: Events, states: UserStates, of_switch: NDArray[np.bool_]
) -> UserStates:
    """Return the states with those of samples whose stack another sample has."""
    raw = events.samples.raw
    if raw is None or not len(states.sample):
        return states
    chosen = np.flatnonzero(of_switch.take(raw.sample))
    sample, key = raw.sample.take(chosen), raw.values[0].take(chosen)
    place = np.minimum(np.searchsorted(states.sample, sample), max(len(states.sample) - 1, 0))
    has_own = states.sample.take(place) == sample
    known, first = np.unique(key[has_own], return_index=True)
    if not len(known):
        return states
    wanted = np.flatnonzero(~has_own)
    at = np.searchsorted(known, key.take(wanted))
    is_known = known.take(at, mode="clip") == key.take(wanted)
    of_state = place[has_own].take(first.take(at[is_known]))
    every = np.concatenate((states.sample, sample.take(wanted[is_known])))
    rows = np.concatenate((np.arange(len(states.sample)), of_state))
    order = np.argsort(every, kind="stable")
    rows = rows.take(order)
    return replace(
        states,
        sample=every.take(order),
        abi=states.abi.take(rows),
        registers=states.registers[rows],
        stack_block=states.stack_block.take(rows),
        stack_begin=states.stack_begin.take(rows),
        stack_bytes=states.stack_bytes.take(rows),
    )
