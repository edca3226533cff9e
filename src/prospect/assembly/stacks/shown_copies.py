"""Which copies of stacks a first screen unwinds: those of the processes that it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.assembly.tables.process_table import describe_processes
from prospect.figures.processes import shown_processes
from prospect.records import replace

if TYPE_CHECKING:
    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.events.record_columns import Samples
    from prospect.options import Detail
    from prospect.spaces.attribution import Attribution
    from prospect.spaces.process_history import ProcessHistory


def with_shown_copies(
    samples: Samples,
    hits: Attribution,
    history: ProcessHistory,
    info: RecordingInfo,
    detail: Detail,
) -> Samples:
    """Return samples without copies of the stacks of processes that `-V` does not show.

    To unwind those takes most of the time of a first screen on a busy machine.
    """
    user = samples.user
    if user is None or detail not in ("2", "3"):
        return samples
    shown = shown_processes(describe_processes(history, info), detail)
    process = hits.process_row.take(hits.sample_row.take(user.sample))
    rows = np.flatnonzero(np.append(shown, False).take(process))
    return replace(samples, user=user.chosen(rows))
