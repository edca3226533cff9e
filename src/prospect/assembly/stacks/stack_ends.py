"""Unwound stacks → `StackCopies`: which are whole, where others end, what would have held them.

How large a copy a cut stack would have needed follows from its thread: where other samples of the
same thread were unwound to the outermost function, the stack's far end is known. A thread has more
than one stack in its life: exec puts it on another one, signals and green threads may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import numbered
from prospect.profile.stack_copies import NO_COPY, StackCopies
from prospect.unwind import model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.symbols.objects import ObjectKey
    from prospect.unwind.model import UnwindInput, Unwound

# What lies further above is another stack: a thread gets so much, unless somebody asks for more
# (`ulimit -s`, pthread_attr_setstacksize(3)).
_MOST_STACK_BYTES = 8 << 20


def stack_copies(  # noqa: PLR0913, PLR0917 - facts from as many stages
    taken: UnwindInput,
    unwound: Unwound,
    task: NDArray[np.uint64],
    keys: Sequence[ObjectKey],
    copy_bytes: int,
    is_continued: NDArray[np.bool_],
) -> StackCopies:
    """Say of each stack what unwinding found.

    Args:
        taken: what was unwound.
        unwound: what came of it.
        task: u64[n] pid and tid of each sample.
        keys: the objects, by the rows that the sites have.
        copy_bytes: how much of a stack was asked for.
        is_continued: bool[n] which stacks were made longer by other means.
    """
    has_copy = taken.stack_block >= 0
    frames = unwound.frames()
    end = np.where(has_copy, unwound.end.astype(np.int8), NO_COPY)
    needed, is_least = _needed_bytes(taken, unwound, task, end)
    is_short = has_copy & (unwound.end != model.END_COMPLETE) & (frames > 0)
    last = unwound.sites.object.take(unwound.outermost[is_short])
    rows, place_of = np.unique(last, return_inverse=True)
    place = np.full(len(end), -1, np.int32)
    place[is_short] = place_of
    return StackCopies(
        copy_bytes=copy_bytes,
        ends=model.END_NAMES,
        paths=tuple(
            keys[row].path.decode(errors="surrogateescape") if row >= 0 else ""
            for row in rows.tolist()
        ),
        pid=(task & np.uint64(0xFFFF_FFFF)).astype(np.uint32),
        end=end,
        frames=frames.astype(np.int32),
        needed_bytes=needed,
        is_least=is_least,
        place=place,
        is_continued=is_continued,
    )


def _needed_bytes(
    taken: UnwindInput, unwound: Unwound, task: NDArray[np.uint64], end: NDArray[np.int8]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the sizes that would have held cut stacks, i64[n], and which may be too small."""
    whole, cut = np.flatnonzero(end == model.END_COMPLETE), np.flatnonzero(end == model.END_CUT)
    needed, is_least = np.zeros(len(end), np.int64), np.zeros(len(end), np.bool_)
    if not len(cut):
        return needed, is_least
    number, _ = numbered(task)
    sp = taken.sp.take(cut)
    # A copy ends where the stack's mapping does, or before: of several the nearest is the best.
    behind = taken.sp.take(whole) + taken.stack_bytes.take(whole).astype(np.uint64)
    above = _next_above(number.take(cut), sp, number.take(whole), behind) - sp
    is_known = above <= _MOST_STACK_BYTES
    least = unwound.needed_bytes.take(cut).astype(np.uint64)
    needed[cut] = np.where(is_known, np.maximum(above, least), least).astype(np.int64)
    is_least[cut] = ~is_known
    return needed, is_least


def _next_above(
    group: NDArray[np.int64],
    value: NDArray[np.uint64],
    among: NDArray[np.int64],
    candidates: NDArray[np.uint64],
) -> NDArray[np.uint64]:
    """Return for each value the least candidate of its group that is above it.

    Args:
        group: i64[n] of each value.
        value: u64[n].
        among: i64[m] the group of each candidate.
        candidates: u64[m].

    Returns:
        u64[n]; the largest number where there is none.
    """
    groups, values = np.append(group, among), np.append(value, candidates)
    is_candidate = np.arange(len(groups)) >= len(group)
    # A candidate that equals a value is not above it: it comes before.
    order = np.lexsort((~is_candidate, values, groups))
    at = np.where(is_candidate.take(order), np.arange(len(order)), len(order))
    after = np.minimum.accumulate(at[::-1])[::-1]
    after = after[np.argsort(order, kind="stable")[: len(group)]]
    found = np.append(order, -1).take(after)
    is_found = (after < len(order)) & (groups.take(found) == group)
    return np.where(is_found, values.take(found), np.iinfo(np.uint64).max)
