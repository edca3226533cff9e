"""Merge consecutive segments into coarser ones, when they are due.

The minutes of an hour that is over become one segment, and are removed. The hours of a day that is
over get a summary, and are kept until they are too old.

An hour has everything that its minutes have, except the inner frames of rare stacks: most of the
different stacks of a busy host have one sample in an hour, and use nearly all of the space. If
fewer samples than a bound share a stack, it loses frames from its inner end until that many samples
of one function share the rest. This does not change sums by function or outer frames. An address of
0 shows that frames are missing.

A day is a summary by function and hour: it has no addresses, threads, CPUs and process ids. It has
its hits twice, with stacks and added up over stacks. A segment has the same number of hits as its
parts.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from prospect.profile.run_info import counted_notes
from prospect.records import NamedTuple, replace
from prospect.store.file_schema import (
    COLUMNS,
    ORDER,
    SAMPLE_KEYS,
    SAMPLE_SUMS,
    TICK_COUNTS,
    WHOLE_WINDOW,
    SegmentAccounting,
    kind_of,
)
from prospect.store.names import row_finder
from prospect.store.retention import remove
from prospect.store.segment_reading import checked, files, lost_names, name_files
from prospect.store.segments import (
    COVERAGE,
    DAY,
    FUNCTIONS,
    HOUR,
    HOUR_US,
    MINUTE,
    NAMED,
    SAMPLES,
    STACKS,
    SUMS,
    TOTALS,
    Segment,
)
from prospect.store.windows import stack_number
from prospect.store.writing import Content, copy_to_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from numpy.typing import NDArray

    from prospect.columns.array_types import I64, U64
    from prospect.store.directory import StoreDirectory
    from prospect.store.engine import Engine
    from prospect.store.file_schema import Head

    Columns = dict[str, NDArray[Any]]


_LENGTH_S = {HOUR: 3600, DAY: 86400}
_FINER = {HOUR: MINUTE, DAY: HOUR}
_NONE = np.uint64(0)
# The share of a segment's samples that have to share a stack, and their least number.
_LEAST_SHARE = {HOUR: 2e-5, DAY: 2e-5}
_LEAST = 2
_LEVEL = 9
# Rows that fit into the memory of a daemon's process.
_GROUP = 250_000
_READ = "read_parquet(?, hive_partitioning=false)"
_CUT = f"{_READ} AS s LEFT JOIN cut ON s.stack = cut.old"
_STACK = "coalesce(cut.new, s.stack)"
# Keys that a summary drops; process zero keeps its number.
_SUMMARY = {
    "address": "min(s.address)",
    "pid": "CASE WHEN s.pid = 0 THEN 0 ELSE -1 END",
    "start": "-1",
    "tid": "-1",
    "cpu": "-1",
}
# Rows of a day, added up over its hours, with their number in the order of a file.
_OF_HOURS = ("address", "t", *SAMPLE_SUMS)
_SAME = ", ".join(name for name in SAMPLE_KEYS if name not in _OF_HOURS)
_EACH = ", ".join(f"s.{name}::{COLUMNS[TOTALS][name]} AS {name}" for name in _OF_HOURS)
_ORDER = f"{ORDER[SAMPLES].removesuffix(', t')}, kind, pid"
_OF_DAY = (
    f"SELECT row_number() OVER (ORDER BY {_ORDER}) AS number, * FROM (SELECT {_SAME},"
    " min(address) AS address, min(t) AS t, sum(n)::BIGINT AS n, sum(q)::BIGINT AS q,"
    f" sum(w)::BIGINT AS w FROM {_READ} GROUP BY {_SAME})"
)
_OF_NAMES = (
    "WITH names AS (SELECT function, min(function) OVER (PARTITION BY path, name) AS least"
    f" FROM {_READ}) SELECT service, '' AS process, '' AS comm, 0 AS kind, event, 0 AS mode,"
    " 0 AS cause_kind, '' AS cause, coalesce(names.least, d.function) AS function, 0 AS address,"
    " 0 AS stack, pid, -1 AS start, -1 AS tid, -1 AS cpu, min(t) AS t, sum(n) AS n, sum(q) AS q,"
    " sum(w) AS w FROM of_day AS d LEFT JOIN names USING (function)"
    " GROUP BY service, event, pid, coalesce(names.least, d.function)"
)
_IS_WHOLE = f"FILTER (WHERE cpu = {WHOLE_WINDOW})"
_ACCOUNTING = (
    f'SELECT min(t) {_IS_WHOLE}, max("until") {_IS_WHOLE}, sum("until" - t) {_IS_WHOLE}::BIGINT,'
    f" count(*) {_IS_WHOLE}, "
    + ", ".join(f"sum({name})::BIGINT" for name in TICK_COUNTS)
    + f" FROM {_READ}"
)
_SORTED = (
    f"SELECT {_SAME}, h.address, h.t, h.n, h.q, h.w FROM (SELECT number, {_EACH} FROM {_READ} AS s"
    f" JOIN of_day USING ({_SAME}) ORDER BY number, s.t) AS h JOIN of_day AS d USING (number)"
)


class Made(NamedTuple):
    """The number of segments that were made, of each tier."""

    hours: int
    days: int


def due(segments: Iterable[Segment], tier: str, now_s: float) -> list[list[Segment]]:
    """Return the groups of segments that are to become one segment of a tier each, oldest first.

    An hour or day is due once it is over at `now_s`, seconds since 1970.
    """
    every = sorted(segments, key=lambda one: one.first)
    inner = set(_segments_within(every, tier))
    length_s = _LENGTH_S[tier]
    runs: list[tuple[tuple[object, ...], Segment]] = []
    breaks = 0
    for one in every:
        if one.tier == _FINER[tier] and one not in inner:
            runs.append(((breaks, one.begin_s // length_s, one.session), one))
        elif one.tier in {tier, MINUTE}:
            breaks += 1  # a new segment must not span windows that it does not have
    found = []
    for _, group in groupby(runs, lambda run: run[0]):
        parts = [one for _, one in group]
        if (parts[0].begin_s // length_s + 1) * length_s <= now_s:
            found.append(parts)
    return found


def _segments_within(ordered: list[Segment], tier: str) -> list[Segment]:
    """Return the finer segments whose windows a segment of a tier also has."""
    coarse = [one for one in ordered if one.tier == tier]
    place, found = 0, []
    for one in ordered:
        if one.tier != _FINER[tier]:
            continue
        while place < len(coarse) and coarse[place].last < one.first:
            place += 1
        if place < len(coarse) and coarse[place].first <= one.first:
            found.append(one)
    return found


def compact(
    store: StoreDirectory, engine: Engine, now_s: float | None = None, most: int = 1 << 30
) -> Made:
    """Make at most `most` of the segments that are due; the caller holds the store's lock.

    `now_s` is as in `due`, None for this moment.

    Raises:
        EngineError: a segment cannot be made.
        OSError: a segment cannot be made, or its parts cannot be removed.
    """
    now_s = time.time() if now_s is None else now_s
    # Damage must show before a segment is merged and removed.
    store.reads_all = engine.reads_all = True
    # A killed writer leaves files that it was about to remove.
    for one in _segments_within(sorted(store.segments(), key=lambda one: one.first), HOUR):
        remove(store, one)
    made = {HOUR: 0, DAY: 0}
    for tier in made:
        for parts in due(store.segments(), tier, now_s):
            if sum(made.values()) >= most:
                break
            for merged in merge_alike(store, engine, parts, tier):
                made[tier] += 1
                if tier == HOUR:
                    # Their names stay while other segments of the hour refer to them.
                    for one in merged:
                        remove(store, one)
    return Made(made[HOUR], made[DAY])


def merge_alike(
    store: StoreDirectory, engine: Engine, parts: list[Segment], tier: str
) -> Iterator[list[Segment]]:
    """Make one segment of each run of segments with equal heads.

    Damaged segments stay as they are: somebody may be able to mend them.

    Args:
        store: the caller holds its lock.
        parts: segments of one session, in the order of their windows.

    Yields:
        The parts of each segment, once it is whole.

    Raises:
        EngineError: one cannot be made.
        OSError: the same.
    """
    heads, _ = checked(store, engine, parts)
    for kind, group in groupby(parts, lambda one: kind_of(heads.get(one))):
        alike = list(group)
        # The minutes of damaged segments may have the only names that are left.
        if not kind or lost_names(store, engine, alike):
            continue
        begin_s, end_s = min(one.begin_s for one in alike), max(one.end_s for one in alike)
        first, last = alike[0], alike[-1]
        into = Segment(tier, begin_s, end_s, first.session, first.first, last.last)
        limits = counted_notes(each for one in alike for each in heads[one].run["limits"])
        head = heads[last]
        separate = () if tier == DAY else head.separate
        head = replace(head, run={**head.run, "limits": limits}, separate=separate)
        _Merge(store, engine, alike, into).write(head)
        yield alike


class _Merge:
    """Write one segment of several."""

    def __init__(
        self, store: StoreDirectory, engine: Engine, parts: list[Segment], into: Segment
    ) -> None:
        self._store, self._engine = store, engine
        self._parts, self._into = parts, into
        self._samples = files(store, parts, SAMPLES)
        ((hits,),) = engine.rows(f"SELECT sum(n)::BIGINT FROM {_READ}", [self._samples])
        self._hits = int(hits or 0)

    def write(self, head: Head) -> None:
        """Write the files of the segment; the last one makes it whole."""
        self._copy(COVERAGE, f"SELECT * FROM {_READ}", [files(self._store, self._parts, COVERAGE)])
        frames, old, new = self._stacks()
        functions = self._engine.columns(f"SELECT DISTINCT function FROM {_READ}", [self._samples])[
            "function"
        ]
        wanted = np.unique(np.concatenate((functions, frames["function"])))
        if paths := name_files(self._store, self._engine, self._parts, FUNCTIONS):
            self._engine.register("wanted", {"wanted": wanted})
            query = (
                f"SELECT DISTINCT ON (function) * FROM {_READ} AS f"
                " SEMI JOIN wanted ON f.function = wanted.wanted"
            )
            self._copy(FUNCTIONS, query, [paths])
            self._engine.unregister("wanted")
        if len(frames["stack"]):
            self._engine.register("frames", frames)
            self._copy(STACKS, "SELECT * FROM frames")
            self._engine.unregister("frames")
        self._engine.register("cut", {"old": old, "new": new})
        if self._into.tier == DAY:
            head = replace(head, accounting=self._accounting())
            self._summarize(TOTALS, _summary(f"{_READ} AS s", "0"))
            self._summarize(SAMPLES, _summary(_CUT, _STACK), head)
        else:
            self._copy(SAMPLES, _ALL, [self._samples], head)
        self._engine.unregister("cut")

    def _accounting(self) -> SegmentAccounting | None:
        """Return the sums of the segment's coverage, None if a window has no row of its own."""
        paths = files(self._store, self._parts, COVERAGE)
        (sums,) = self._engine.rows(_ACCOUNTING, [paths])
        return None if None in sums else SegmentAccounting(*sums)

    def _summarize(self, kind: str, query: str, head: Head | None = None) -> None:
        """Write sums by hour, one hour after the other: all at once need much memory.

        Two segments of one hour give two rows, which add up like any rows. Rows are sorted by the
        number of their common columns: sorting by text needs ten times the memory.
        """
        with ExitStack() as opened:
            parts = []
            for path in self._samples:
                part = opened.enter_context(self._store.scratch(self._into.path(kind)))
                parts.append(self._store.root + part)
                self._engine.run(f"COPY ({query}) TO '{parts[-1]}' (FORMAT parquet)", [[path]])
            self._engine.keep("of_day", _OF_DAY, [parts])
            if kind == TOTALS:
                self._copy(SUMS, "SELECT * FROM of_day")
                if names := files(self._store, [self._into], FUNCTIONS):
                    self._copy(NAMED, _OF_NAMES, [names])
            self._copy(kind, _SORTED, [parts], head, is_sorted=True)
            self._engine.drop("of_day")

    def _copy(
        self,
        kind: str,
        query: str,
        parameters: list[Any] | None = None,
        head: Head | None = None,
        *,
        is_sorted: bool = False,
    ) -> None:
        chosen = ", ".join(
            f'"{name}"::{type_} AS "{name}"' for name, type_ in COLUMNS[kind].items()
        )
        content = Content(
            f"SELECT {chosen} FROM ({query})" + ("" if is_sorted else f" ORDER BY {ORDER[kind]}"),
            parameters or [],
            self._hits if kind in (SAMPLES, TOTALS, SUMS, NAMED) else None,
            _LEVEL,
            _GROUP,
        )
        copy_to_file(self._store, self._engine, content, self._into.path(kind), head)

    def _stacks(self) -> tuple[Columns, U64, U64]:
        """Return the frames of the segment's stacks, and the changed stacks, as `without_rare`."""
        engine = self._engine
        none = np.empty(0, np.uint64)
        paths = name_files(self._store, engine, self._parts, STACKS)
        if not paths:
            return dict.fromkeys(COLUMNS[STACKS], none), none, none
        frames = engine.columns(
            f"SELECT * FROM (SELECT DISTINCT ON (stack) * FROM {_READ}) ORDER BY depth, stack",
            [paths],
        )
        used = engine.columns(
            f"SELECT stack, sum(n)::BIGINT AS n FROM {_READ} WHERE stack <> 0 GROUP BY stack",
            [self._samples],
        )
        least = max(int(self._hits * _LEAST_SHARE[self._into.tier]), _LEAST)
        return without_rare(frames, used["stack"], used["n"], least)


def _columns(special: dict[str, str]) -> str:
    """Return the columns that are keys of hits, some of which are expressions."""
    return ", ".join(f"{special.get(name, f's.{name}')} AS {name}" for name in SAMPLE_KEYS)


# Rows that differ only by a stack that was cut become one. Each is of one window.
_ALL = (
    "SELECT * EXCLUDE (n, w), sum(n) AS n, sum(n) * sum(n) AS q, sum(w) AS w"
    f" FROM (SELECT {_columns({'stack': _STACK})}, s.n, s.w FROM {_CUT}) GROUP BY ALL"
)


def _summary(source: str, stack: str) -> str:
    """Return a query for sums by function and hour, and for sums of the squares of windows."""
    of_windows = _columns(_SUMMARY | {"stack": stack})
    of_hours = _columns({"address": "min(s.address)", "t": f"s.t // {HOUR_US} * {HOUR_US}"})
    return (
        f"SELECT {of_hours}, sum(s.n) AS n, sum(s.n * s.n) AS q, sum(s.w) AS w FROM"
        f" (SELECT {of_windows}, sum(s.n) AS n, sum(s.w) AS w FROM {source} GROUP BY ALL) AS s"
        " GROUP BY ALL"
    )


def without_rare(frames: Columns, stack: U64, count: I64, least: int) -> tuple[Columns, U64, U64]:
    """Remove the inner frames that fewer samples than a bound share.

    Args:
        frames: columns of `COLUMNS[STACKS]`, each frame once, callers first.
        stack: u64[s], the stacks of samples, each once.
        count: i64[s], the number of samples of each stack.

    Returns:
        The remaining frames, with all their callers. Then u64[m] the old and the new numbers of the
        stacks that changed, ascending by the old ones.
    """
    row_of = row_finder(frames["stack"])
    caller, depth = row_of(frames["caller"]), frames["depth"].astype(np.int64)
    caller[caller >= np.arange(len(caller))] = -1  # damage
    node = row_of(stack)
    is_known = node >= 0
    stack, count, node = stack[is_known], count[is_known], node[is_known]
    functions, function = np.unique(frames["function"], return_inverse=True)
    leaf = function.take(node) * 256 + frames["mode"].astype(np.int64).take(node)
    above = _shared(node, leaf, count, (caller, depth), least)
    is_cut = above != node
    pairs, pair = np.unique(np.stack((above[is_cut], leaf[is_cut])), axis=1, return_inverse=True)
    new = _new_frames(frames, functions, pairs)
    number = new["stack"].take(pair)
    kept = _with_callers(np.unique(above[above >= 0]), caller)
    # The remainder of one stack may equal another stack.
    added = ~np.isin(new["stack"], frames["stack"].take(kept))
    joined = {
        name: np.concatenate((column.take(kept), new[name].astype(column.dtype)[added]))
        for name, column in frames.items()
    }
    old = stack[is_cut]
    order = np.argsort(old)
    return joined, old.take(order), number.take(order)


def _shared(node: I64, leaf: I64, count: I64, tree: tuple[I64, I64], least: int) -> I64:
    """Return i64[s]: the innermost frame that enough samples of one leaf share, -1 for none.

    `tree` has the row of each frame's caller, -1 for none, and the number of its callers.
    """
    caller, depth = tree
    above = node.copy()
    of_depth = depth.take(node)
    for level in range(int(depth.max(initial=-1)), -1, -1):
        rows = np.flatnonzero((of_depth == level) & (above >= 0))
        if not len(rows):
            continue
        key = above.take(rows) * (int(leaf.max()) + 1) + leaf.take(rows)
        # A frame's own samples are separate from those that lost their frames below it.
        key = 2 * key + (above.take(rows) == node.take(rows))
        _, group = np.unique(key, return_inverse=True)
        is_rare = np.bincount(group, count.take(rows)).take(group) < least
        rows = rows[is_rare]
        above[rows] = caller.take(above.take(rows))
        of_depth[rows] = level - 1
    return above


def _new_frames(frames: Columns, functions: U64, pairs: I64) -> Columns:
    """Return the columns of frames that represent a leaf below a frame."""
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


def _with_callers(rows: I64, caller: I64) -> I64:
    """Return rows and the rows of all their callers, ascending."""
    is_used = np.zeros(len(caller), np.bool_)
    while len(rows):
        is_used[rows] = True
        rows = np.unique(caller.take(rows))
        rows = rows[rows >= 0]
        rows = rows[~is_used.take(rows)]
    return np.flatnonzero(is_used)
