"""Samples → the address space that each one's process had at its time.

Comes in: sample columns in the order of the recording, and `Timeline`. Goes out: `UserContexts`.
Hits know theirs only in user mode; call chains lead from the kernel back into it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import numbered
from prospect.records import Record
from prospect.spaces.groups import look_up_tasks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.events.columns import Samples
    from prospect.spaces.timeline import Timeline


class UserContexts(Record):
    """Distinct address spaces in the states that samples met them in.

    Attributes:
        of_sample: i32[n] row of the columns below, for each sample.
        space, epoch: i32[c] for `AddressSpaces.locate`.
        process_row: i32[c] a process in that state; others may share it.
    """

    of_sample: NDArray[np.int32]
    space: NDArray[np.int32]
    epoch: NDArray[np.int32]
    process_row: NDArray[np.int32]


def find_user_contexts(samples: Samples, timeline: Timeline) -> UserContexts:
    """Find the state of the address space behind every sample."""
    states = look_up_tasks(samples, timeline)
    space, epoch = timeline.space.take(states.change), timeline.epoch.take(states.change)
    packed = space.astype(np.int64) << 32 | epoch.astype(np.int64) & 0xFFFFFFFF
    row, first = numbered(packed)
    runs = zip(states.pair, states.length, strict=True)
    of_sample = [row.take(pair).astype(np.int32).repeat(length) for pair, length in runs]
    return UserContexts(
        of_sample=np.concatenate(of_sample) if of_sample else np.empty(0, np.int32),
        space=space.take(first),
        epoch=epoch.take(first),
        process_row=timeline.process_row.take(states.change.take(first)),
    )
