"""A profile without its waits: what a report of time on the CPU counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.records import replace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import HitTable, SampleTable


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
