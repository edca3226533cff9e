"""Unwound stacks → `StackCopies`: which are whole, where others end, what would have held them.

How large a copy a cut stack would have needed follows from its thread: where other samples of the
same thread were unwound to the outermost function, the stack's far end is known.
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
    frames = np.diff(unwound.start)
    end = np.where(has_copy, unwound.end, NO_COPY).astype(np.int8)
    needed, is_least = _needed_bytes(taken, unwound, task, end)
    is_short = has_copy & (unwound.end != model.END_COMPLETE) & (frames > 0)
    last = unwound.site.take(unwound.start[1:][is_short] - 1)
    rows, place_of = np.unique(unwound.sites.object.take(last), return_inverse=True)
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
    number, first = numbered(task)
    # A copy ends where the stack's mapping does, or before: of several the nearest is the best.
    top = np.full(len(first), np.iinfo(np.uint64).max, np.uint64)
    behind = taken.sp.take(whole) + taken.stack_bytes.take(whole).astype(np.uint64)
    np.minimum.at(top, number.take(whole), behind)
    top = top.take(number.take(cut))
    sp = taken.sp.take(cut)
    is_known = (top < np.iinfo(np.uint64).max) & (top > sp)
    least = unwound.needed_bytes.take(cut).astype(np.uint64)
    needed[cut] = np.where(is_known, np.maximum(top - sp, least), least).astype(np.int64)
    is_least[cut] = ~is_known
    return needed, is_least
