"""The waits of a profile as samples of further events: what formats of call stacks show as time.

A profile keeps waits in their own table (`WaitTable`). A flame graph of wall time, a timeline,
or the callers of a wait need them next to the samples of the clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.columns.grouping import alike, exact_sums
from prospect.columns.table_rows import appended, gather
from prospect.profile.complete import complete
from prospect.profile.model import HitTable, SampleTable
from prospect.records import replace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import Profile, WaitTable


def with_waits(profile: Profile) -> CompleteProfile:
    """Return a completed profile with its waits as samples, after all others.

    They are of the events `RunInfo.wait_events`, which follow `RunInfo.events`; their periods are
    their lengths in ns. The waits of a part of a recording, which has no samples, become hits.
    """
    profile = complete(profile)
    waits = profile.waits
    if waits is None:
        return profile
    hits, samples = profile.hits, profile.samples
    event = (len(profile.run.events) + waits.is_runnable).astype(np.uint16)
    columns: dict[str, NDArray[Any]] = {
        "process_index": waits.process_index,
        "comm_index": waits.comm_index,
        "location_index": waits.location_index,
        "mode": waits.mode,
        "event": event,
        "entry_reason_index": waits.entry_reason_index,
    }
    if waits.label_index is not None:
        columns["label_index"] = waits.label_index
    is_part = profile.part_of is not None
    if is_part and waits.stack_index is not None:
        columns["stack_index"] = waits.stack_index
    found = alike(list(columns.values()))
    rows = len(found.row)
    of_waits = HitTable(
        **{name: column.take(found.row) for name, column in columns.items()},
        count=np.bincount(found.place, minlength=rows).astype(np.int64),
        period=exact_sums(found.place, waits.length_ns.astype(np.int64), rows),
    )
    if not is_part:
        more = _samples(waits, found.place + np.int32(len(hits)))
        samples = appended(samples, more, np.arange(len(waits)))
    return replace(
        profile,
        run=replace(
            profile.run, events=(*profile.run.events, *profile.run.wait_events), wait_events=()
        ),
        hits=appended(hits, of_waits, np.arange(rows)),
        samples=samples,
        waits=None,
    )


def waits_alone(profile: CompleteProfile) -> CompleteProfile:
    """Return a profile with its waits as its only samples, in the order of their table."""
    nothing = np.empty(0, np.intp)
    return with_waits(
        replace(
            profile,
            hits=gather(profile.hits, nothing),
            samples=gather(profile.samples, nothing),
            part_of=None,
        )
    )


def _samples(waits: WaitTable, hit_index: NDArray[np.int32]) -> SampleTable:
    return SampleTable(
        hit_index=hit_index,
        time_ns=waits.begin_ns,
        cpu=waits.cpu,
        clock=np.zeros(len(waits), np.uint8),
        period=waits.length_ns,
        tid=waits.tid,
        stack_index=waits.stack_index,
    )
