"""Profiles with fewer hits: without waits, or without addresses.

A recording of millions of samples has hundreds of thousands of addresses and some thousands of
routines, and every table of a flat report goes through the hits once more.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.columns.grouping import equal_rows, packed_keys, rows_in_groups
from prospect.columns.table_rows import gather, looked_up
from prospect.profile.complete import ProfileByRoutine
from prospect.records import asdict, replace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import HitTable, SampleTable

_MOST_KEYS = 1 << 63


def by_routine(profile: CompleteProfile) -> ProfileByRoutine:
    """Return the profile with its hits added up by process, routine, mode, cause and event.

    Returns:
        A profile with the same samples and fewer hits; the same one where nothing is to be added.
    """
    hits, samples = profile.hits, profile.samples
    if not len(hits):
        return profile
    function = profile.locations.function_index.take(hits.location_index)
    keys: list[NDArray[Any]] = [
        hits.event,
        hits.process_index,
        hits.mode,
        function,
        hits.cause_index,
    ]
    if hits.host_hour is not None:
        keys.append(hits.host_hour + 1)
    packed, sizes = packed_keys(keys)
    if math.prod(sizes) > _MOST_KEYS:
        return profile
    order, starts = equal_rows(packed)
    row_of_hit = rows_in_groups(order, starts)
    added_up = {
        "hits": replace(
            gather(hits, order.take(starts)),
            count=np.add.reduceat(hits.count.take(order), starts),
            period=np.add.reduceat(hits.period.take(order), starts),
            stack_index=None,
            label_index=None,
        ),
        "samples": replace(samples, hit_index=looked_up(row_of_hit, samples.hit_index)),
        "part_of": profile.part_of and profile.part_of.renumbered(row_of_hit),
    }
    return ProfileByRoutine(**{**asdict(profile), **added_up})


def without_waits(profile: CompleteProfile) -> CompleteProfile:
    """Return the profile without the hits and samples of events that are waits, nor these events.

    Waits are measured one by one, and have no part in what is estimated from samples.
    """
    events = profile.run.events
    is_waiting = np.array([event.is_waiting for event in events], np.bool_)
    if not is_waiting.any():
        return profile
    is_kept = ~np.append(is_waiting, False).take(profile.hits.event, mode="clip")
    number = np.where(is_kept, np.cumsum(is_kept) - 1, -1)
    return replace(
        profile,
        part_of=profile.part_of and profile.part_of.renumbered(number),
        run=replace(profile.run, events=tuple(event for event in events if not event.is_waiting)),
        hits=replace(profile.hits, **_chosen(profile.hits, is_kept)),
        samples=_kept_samples(profile.samples, is_kept, number),
    )


def _kept_samples(
    samples: SampleTable, is_kept: NDArray[np.bool_], number: NDArray[np.int64]
) -> SampleTable:
    samples = replace(samples, waker=None)
    kept = replace(samples, **_chosen(samples, is_kept.take(samples.hit_index)))
    return replace(kept, hit_index=number.astype(np.int32).take(kept.hit_index))


def _chosen(table: HitTable | SampleTable, rows: NDArray[np.bool_]) -> dict[str, Any]:
    """Return some rows of each column that the table has."""
    columns = vars(table).items()
    return {name: column[rows] for name, column in columns if column is not None}
