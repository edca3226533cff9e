"""The tables of a profile that was made of sums, in place of single samples: they have no rows."""

from __future__ import annotations

import numpy as np

from prospect.profile.model import ClockTable, SampleTable


def no_samples() -> SampleTable:
    """Return the table of a profile whose hits stand for their samples."""
    return SampleTable(
        hit_index=np.empty(0, np.int32),
        time_ns=np.empty(0, np.uint64),
        cpu=np.empty(0, np.uint16),
        clock=np.empty(0, np.uint8),
    )


def no_clocks() -> ClockTable:
    """Return the table of a profile whose clocks have no grid that is known."""
    times = np.empty(0, np.uint64)
    return ClockTable(
        event=np.empty(0, np.uint16),
        clock=np.empty(0, np.uint8),
        cpu=np.empty(0, np.int32),
        period_ns=np.empty(0, np.float64),
        begin_ns=times,
        end_ns=times,
        lost=np.empty(0, np.int64),
    )
