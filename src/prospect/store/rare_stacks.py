"""Stacks that hardly any sample has → those of their outer frames and their own function.

Most of the different stacks of a busy host have one sample in an hour, and take nearly all of the
room. Where fewer samples than a bound share a stack, frames are left out from its inner end on,
until that many samples of one function have what is left in common. So sums by function stay as
they were, and outer frames too; that frames are missing in between shows by an address of 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.records import NamedTuple
from prospect.store.windows import stack_number

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    Numbers = NDArray[np.uint64]
    Columns = dict[str, NDArray[Any]]

_NONE = np.uint64(0)


class Stacks(NamedTuple):
    """Stacks of which rare ones are left out.

    Attributes:
        frames: columns of `schema.COLUMNS[STACKS]`: those that are left, with all their callers.
        old, new: u64[m], the numbers of stacks that are others now, the old ones ascending.
    """

    frames: Columns
    old: Numbers
    new: Numbers


def without_rare(frames: Columns, stack: Numbers, count: NDArray[np.int64], least: int) -> Stacks:
    """Leave out what fewer samples than a bound have in common.

    Args:
        frames: columns of `schema.COLUMNS[STACKS]`, each frame once, callers before what they call.
        stack: u64[s], the stacks of samples, each once.
        count: i64[s], how many samples have each.
        least: the bound.
    """
    row_of = _Rows(frames["stack"])
    caller, depth = row_of(frames["caller"]), frames["depth"].astype(np.int64)
    caller[caller >= np.arange(len(caller))] = -1  # damage
    node = row_of(stack)
    is_known = node >= 0
    stack, count, node = stack[is_known], count[is_known], node[is_known]
    functions, function = np.unique(frames["function"], return_inverse=True)
    leaf = function.take(node) * 256 + frames["mode"].astype(np.int64).take(node)
    above = _shared(node, leaf, count, _Tree(caller, depth), least)
    is_cut = above != node
    pairs, pair = np.unique(np.stack((above[is_cut], leaf[is_cut])), axis=1, return_inverse=True)
    new = _new_frames(frames, functions, pairs)
    number = new["stack"].take(pair)
    kept = _with_callers(np.unique(above[above >= 0]), caller)
    # What is left of one stack may be what another one is.
    added = ~np.isin(new["stack"], frames["stack"].take(kept))
    joined = {
        name: np.concatenate((column.take(kept), new[name].astype(column.dtype)[added]))
        for name, column in frames.items()
    }
    old = stack[is_cut]
    order = np.argsort(old)
    return Stacks(joined, old.take(order), number.take(order))


class _Rows:
    """Finds the rows of numbers."""

    def __init__(self, numbers: Numbers) -> None:
        self._order = np.argsort(numbers, kind="stable")
        self._numbers = numbers.take(self._order)

    def __call__(self, wanted: Numbers) -> NDArray[np.int64]:
        """Return i64: the row of each, -1 where there is none."""
        if not len(self._numbers):
            return np.full(len(wanted), -1, np.int64)
        at = np.minimum(np.searchsorted(self._numbers, wanted), len(self._numbers) - 1)
        return np.where(self._numbers.take(at) == wanted, self._order.take(at), -1)


class _Tree(NamedTuple):
    """The row of each frame's caller, -1 for none, and how many frames are outside of it."""

    caller: NDArray[np.int64]
    depth: NDArray[np.int64]


def _shared(
    node: NDArray[np.int64],
    leaf: NDArray[np.int64],
    count: NDArray[np.int64],
    tree: _Tree,
    least: int,
) -> NDArray[np.int64]:
    """Return i64[s]: the innermost frame that enough samples of one leaf share, -1 for none."""
    above = node.copy()
    of_depth = tree.depth.take(node)
    for level in range(int(tree.depth.max(initial=-1)), -1, -1):
        rows = np.flatnonzero((of_depth == level) & (above >= 0))
        if not len(rows):
            continue
        key = above.take(rows) * (int(leaf.max()) + 1) + leaf.take(rows)
        # A frame's own samples are not those whose frames below it were left out.
        key = 2 * key + (above.take(rows) == node.take(rows))
        _, group = np.unique(key, return_inverse=True)
        is_rare = np.bincount(group, count.take(rows)).take(group) < least
        rows = rows[is_rare]
        above[rows] = tree.caller.take(above.take(rows))
        of_depth[rows] = level - 1
    return above


def _new_frames(frames: Columns, functions: Numbers, pairs: NDArray[np.int64]) -> Columns:
    """Return the columns of frames that stand for a leaf below a frame."""
    above, leaf = pairs
    outside = np.append(frames["stack"], _NONE).take(above)
    function, mode = functions.take(leaf // 256), leaf % 256
    places = np.stack((function, np.zeros_like(function)), axis=1).astype("<u8")
    numbers = [
        stack_number(outer.tobytes(), place.tobytes(), each)
        for outer, place, each in zip(outside.astype("<u8"), places, mode.tolist(), strict=True)
    ]
    return {
        "stack": np.frombuffer(b"".join(numbers), "<u8").astype(np.uint64),
        "caller": outside,
        "function": function,
        "address": np.zeros(len(function), np.uint64),
        "mode": mode,
        "depth": np.append(frames["depth"], -1).take(above) + 1,
    }


def _with_callers(rows: NDArray[np.int64], caller: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return rows and those of all that called them, ascending."""
    is_used = np.zeros(len(caller), np.bool_)
    while len(rows):
        is_used[rows] = True
        rows = np.unique(caller.take(rows))
        rows = rows[rows >= 0]
        rows = rows[~is_used.take(rows)]
    return np.flatnonzero(is_used)
