"""What a process had mapped: mappings with hits, and those without."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.profile.memory_map import MemoryMap

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.profile.model import Profile


def memory_map(profile: Profile, process: int, hit_rows: NDArray[np.int64]) -> MemoryMap:
    """Return what a process had mapped, in the order of addresses.

    Args:
        profile: completed.
        process: its row.
        hit_rows: i64[k] rows of `profile.mappings` that are of the process.
    """
    hit, objects = profile.mappings, profile.objects
    unhit = profile.unhit_mappings(process) if profile.unhit_mappings else MemoryMap.empty()
    start = np.concatenate((hit.start.take(hit_rows), unhit.start))
    end = np.concatenate((hit.end.take(hit_rows), unhit.end))
    path = [objects.path[row] for row in hit.object_index.take(hit_rows).tolist()] + unhit.path
    order = np.lexsort((end, start))
    return MemoryMap(
        start=start[order],
        end=end[order],
        pgoff=np.concatenate((hit.pgoff.take(hit_rows), unhit.pgoff))[order],
        prot=np.concatenate((hit.prot.take(hit_rows), unhit.prot))[order],
        hits=np.concatenate((hit.hits.take(hit_rows), unhit.hits))[order],
        path=[path[row] for row in order.tolist()],
        read_ns=unhit.read_ns,
    )
