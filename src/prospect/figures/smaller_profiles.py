"""Profiles with fewer hits: without addresses.

A recording of millions of samples has hundreds of thousands of addresses and some thousands of
functions, and every table of a flat report goes through the hits again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.columns.grouping import equal_rows, packed_keys, rows_in_groups
from prospect.columns.table_rows import gather, looked_up
from prospect.profile.complete import ProfileByFunction
from prospect.records import asdict, replace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.profile.complete import CompleteProfile

_MOST_KEYS = 1 << 63


def by_function(profile: CompleteProfile) -> ProfileByFunction:
    """Return the profile with its hits added up by process, function, mode, entry reason and event.

    Returns:
        A profile with the same samples and fewer hits; the same one if nothing is to be added.
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
        hits.entry_reason_index,
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
    return ProfileByFunction(**{**asdict(profile), **added_up})
