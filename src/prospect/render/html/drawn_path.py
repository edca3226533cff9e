"""The critical path of a command as columns of the page, which draws it over the map of time.

Pieces of one thread in one state become one. If there are too many left, the path is that of
moments at equal distances: a page is a few thousand pixels wide at most. `assets/wall_path.js`
reads the columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.columns.sorting import run_starts
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.profile.model import WallPath
    from prospect.render.html.cells import StackNames
    from prospect.render.html.whole_file import ColumnBlock

MOST_PIECES = 8_000
_TID_BITS = 32


class DrawnPath(NamedTuple):
    """Pieces in chronological order, each until the next one begins.

    Attributes:
        begin_ns: i64[p] since the beginning of the recording.
        thread: i64[p] row of the page's threads, their number for one without samples.
        state: i64[p] PATH_*.
        end_ns: of the last one.
        is_whole: whether these are all pieces.
    """

    begin_ns: NDArray[np.int64]
    thread: NDArray[np.int64]
    state: NDArray[np.int64]
    end_ns: int
    is_whole: bool


def wall_path(names: StackNames, block: ColumnBlock) -> dict[str, Any] | None:
    """Return the places of the path's columns; None for a profile without one."""
    path = names.samples.profile.wall
    if path is None or not len(path):
        return None
    drawn = drawn_path(names, path)
    return {
        "begin_ns": block.add(drawn.begin_ns),
        "thread": block.add(drawn.thread),
        "state": block.add(drawn.state),
        "end_ns": drawn.end_ns,
        "is_whole": drawn.is_whole,
    }


def drawn_path(names: StackNames, path: WallPath) -> DrawnPath:
    """Return the path with as few pieces as a page can draw."""
    run_begin_ns = np.uint64(names.samples.profile.run.begin_ns)
    begin_ns = (np.maximum(path.begin_ns, run_begin_ns) - run_begin_ns).view(np.int64)
    end_ns = int(begin_ns[-1] + path.length_ns[-1])
    thread, state = _threads(names, path), path.state.astype(np.int64)
    rows = run_starts(thread, state)
    is_whole = len(rows) <= MOST_PIECES
    if not is_whole:
        moments = np.linspace(begin_ns[0], end_ns, MOST_PIECES, endpoint=False).astype(np.int64)
        at = np.maximum(np.searchsorted(begin_ns, moments, "right") - 1, 0)
        begin_ns, thread, state = moments, thread.take(at), state.take(at)
        rows = run_starts(thread, state)
    return DrawnPath(begin_ns.take(rows), thread.take(rows), state.take(rows), end_ns, is_whole)


def _threads(names: StackNames, path: WallPath) -> NDArray[np.int64]:
    """Return i64[p] the row of each piece's thread, or the number of rows for one without any."""
    threads = names.threads
    key = threads.process_index << _TID_BITS | threads.tid
    order = np.argsort(key, kind="stable")
    wanted = path.process_index.astype(np.int64) << _TID_BITS | path.tid.astype(np.int64)
    place = np.minimum(np.searchsorted(key, wanted, sorter=order), max(len(key) - 1, 0))
    if not len(key):
        return np.zeros(len(path), np.int64)
    row = order.take(place)
    return np.where(key.take(row) == wanted, row, len(key)).astype(np.int64)
