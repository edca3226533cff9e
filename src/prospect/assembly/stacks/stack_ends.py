"""Unwound stacks → `StackQuality`: how many are whole, where the others end, and what would help.

How large a copy a cut stack would have needed follows from its thread: where other samples of the
same thread were unwound to the outermost function, the stack's far end is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import numbered
from prospect.profile.stack_quality import StackEnds, StackQuality
from prospect.records import NamedTuple
from prospect.unwind import model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.symbols.objects import ObjectKey
    from prospect.unwind.model import UnwindInput, Unwound

_PLACES_SHOWN = 10
_HELD_SHARE = 0.99
_SIZE_STEP_BYTES = 1024
_NO_OBJECT = "code without an image"


def describe_stack_quality(  # noqa: PLR0913, PLR0917 - facts from as many stages
    taken: UnwindInput,
    unwound: Unwound,
    task: NDArray[np.uint64],
    keys: Sequence[ObjectKey],
    copy_bytes: int,
    continued: int,
) -> StackQuality:
    """Sum up what unwinding found.

    Args:
        taken: what was unwound.
        unwound: what came of it.
        task: u64[n] pid and tid of each sample.
        keys: the objects, by the rows that the sites have.
        copy_bytes: how much of a stack was asked for.
        continued: how many stacks were made longer by other means.
    """
    has_copy = taken.stack_block >= 0
    copied = np.flatnonzero(has_copy)
    end = unwound.end.take(copied)
    counts = np.bincount(end, minlength=len(model.END_NAMES)).tolist()
    depth = np.sort(np.diff(unwound.start).take(copied)[end == model.END_CUT])
    needed = _needed_sizes(taken, unwound, task, copied)
    return StackQuality(
        samples=len(taken),
        without_copy=len(taken) - len(copied),
        copy_bytes=copy_bytes,
        by_end={name: count for name, count in zip(model.END_NAMES, counts, strict=True) if count},
        continued=continued,
        cut_frames=(int(depth[(len(depth) - 1) // 2]), int(depth[-1])) if len(depth) else (0, 0),
        size_for_99=needed.size_bytes,
        is_size_least=needed.is_least,
        places=_places(unwound, copied, keys),
        by_pid=_by_pid(task.take(copied), end == model.END_CUT),
    )


class _Needed(NamedTuple):
    """A size of copies that would do, 0 where the recorded one does; whether it may not yet."""

    size_bytes: int
    is_least: bool


def _needed_sizes(
    taken: UnwindInput,
    unwound: Unwound,
    task: NDArray[np.uint64],
    copied: NDArray[np.int64],
) -> _Needed:
    """Find the size that would have held 99 % of the stacks that end whole or were cut."""
    end = unwound.end.take(copied)
    whole, cut = copied[end == model.END_COMPLETE], copied[end == model.END_CUT]
    ended = len(whole) + len(cut)
    if len(cut) <= (1 - _HELD_SHARE) * ended:
        return _Needed(0, is_least=False)
    number, first = numbered(task)
    # A copy ends where the stack's mapping does, or before: of several the nearest is the best.
    top = np.full(len(first), np.iinfo(np.uint64).max, np.uint64)
    behind = taken.sp.take(whole) + taken.stack_bytes.take(whole).astype(np.uint64)
    np.minimum.at(top, number.take(whole), behind)
    top = top.take(number.take(cut))
    sp = taken.sp.take(cut)
    is_known = (top < np.iinfo(np.uint64).max) & (top > sp)
    least = unwound.needed_bytes.take(cut).astype(np.uint64)
    size = np.sort(np.where(is_known, np.maximum(top - sp, least), least))
    # The whole ones fit into what was recorded: they are the smaller part of the order.
    rank = int(np.ceil(_HELD_SHARE * ended)) - len(whole) - 1
    steps = -(-int(size[max(rank, 0)]) // _SIZE_STEP_BYTES)
    return _Needed(steps * _SIZE_STEP_BYTES, is_least=not is_known.all())


def _by_pid(task: NDArray[np.uint64], is_cut: NDArray[np.bool_]) -> dict[int, tuple[int, int]]:
    """Count copies and the cut ones by process."""
    pid, place, copies = np.unique(
        task & np.uint64(0xFFFF_FFFF), return_inverse=True, return_counts=True
    )
    cut = np.bincount(place, is_cut, len(pid)).astype(np.int64)
    counts = zip(copies.tolist(), cut.tolist(), strict=True)
    return dict(zip(pid.tolist(), counts, strict=True))


def _places(
    unwound: Unwound, copied: NDArray[np.int64], keys: Sequence[ObjectKey]
) -> tuple[StackEnds, ...]:
    """Count stacks that are not whole by the object of their last frame and the reason."""
    is_short = (unwound.end != model.END_COMPLETE) & (np.diff(unwound.start) > 0)
    rows = copied[is_short.take(copied)]
    if not len(rows):
        return ()
    site = unwound.site.take(unwound.start.take(rows + 1) - 1)
    object_row = unwound.sites.object.take(site).astype(np.int64)
    reasons = len(model.END_NAMES)
    code, count = np.unique((object_row + 1) * reasons + unwound.end.take(rows), return_counts=True)
    order = np.argsort(-count, kind="stable")[:_PLACES_SHOWN]
    found = []
    for packed, samples in zip(code[order].tolist(), count[order].tolist(), strict=True):
        row, reason = divmod(packed, reasons)
        path = keys[row - 1].path.decode(errors="surrogateescape") if row else _NO_OBJECT
        found.append(StackEnds(path, model.END_NAMES[reason], samples))
    return tuple(found)
