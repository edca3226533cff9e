"""Segments that follow each other → one that is coarser.

An hour has all that its minutes have, but stacks that hardly any sample has are cut. A day is a
summary by function and hour: it has no addresses, threads, CPUs and numbers of processes, and its
hits twice, with stacks and added up over them. What is written has the hits that its parts have, or
is no segment.
"""

from __future__ import annotations

from contextlib import ExitStack
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from prospect.profile.run_notes import counted_notes
from prospect.records import contents, replace
from prospect.store.lost_names import lost_names
from prospect.store.rare_stacks import without_rare
from prospect.store.reading import checked, files, name_files
from prospect.store.schema import COLUMNS, ORDER, SAMPLE_KEYS, SAMPLE_SUMS
from prospect.store.segments import (
    COVERAGE,
    DAY,
    FUNCTIONS,
    HOUR,
    HOUR_US,
    SAMPLES,
    STACKS,
    SUMS,
    TOTALS,
    Segment,
)
from prospect.store.writing import Content, copy_to_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from numpy.typing import NDArray

    from prospect.store.directory import StoreDirectory
    from prospect.store.engine import Engine
    from prospect.store.schema import Head

# Which share of a segment's samples have to have a stack in common, and how many at least.
_LEAST_SHARE = {HOUR: 2e-5, DAY: 2e-5}
_LEAST = 2
_LEVEL = 9
# What a process of a daemon has memory for.
_GROUP = 250_000
_READ = "read_parquet(?, hive_partitioning=false)"
_CUT = f"{_READ} AS s LEFT JOIN cut ON s.stack = cut.old"
_STACK = "coalesce(cut.new, s.stack)"
# What a summary does not tell apart; process zero keeps its number.
_SUMMARY = {
    "address": "min(s.address)",
    "pid": "CASE WHEN s.pid = 0 THEN 0 ELSE -1 END",
    "start": "-1",
    "tid": "-1",
    "cpu": "-1",
}
# These may differ between windows that are one segment.
_LOOSE = ("limits", "recorder_command_line", "cpu_mhz")
# Rows of a day that hours are not told apart in, by number in the order of files.
_OF_HOURS = ("address", "t", *SAMPLE_SUMS)
_SAME = ", ".join(name for name in SAMPLE_KEYS if name not in _OF_HOURS)
_EACH = ", ".join(f"s.{name}::{COLUMNS[TOTALS][name]} AS {name}" for name in _OF_HOURS)
_ORDER = f"{ORDER[SAMPLES].removesuffix(', t')}, kind, pid"
_OF_DAY = (
    f"SELECT row_number() OVER (ORDER BY {_ORDER}) AS number, * FROM (SELECT {_SAME},"
    " min(address) AS address, min(t) AS t, sum(n)::BIGINT AS n, sum(q)::BIGINT AS q,"
    f" sum(w)::BIGINT AS w FROM {_READ} GROUP BY {_SAME})"
)
_SORTED = (
    f"SELECT {_SAME}, h.address, h.t, h.n, h.q, h.w FROM (SELECT number, {_EACH} FROM {_READ} AS s"
    f" JOIN of_day USING ({_SAME}) ORDER BY number, s.t) AS h JOIN of_day AS d USING (number)"
)


def merge_alike(
    store: StoreDirectory, engine: Engine, parts: list[Segment], tier: str
) -> Iterator[list[Segment]]:
    """Make segments of those that follow each other: one of each run that is alike.

    Those that are damaged stay as they are, for whoever can mend them.

    Args:
        store: whose lock the caller holds.
        engine: of this store.
        parts: by their windows' numbers, of one session.
        tier: of what is made.

    Yields:
        As each segment is whole, what it was made of.

    Raises:
        EngineError: one cannot be made.
        OSError: likewise.
    """
    heads, _ = checked(store, engine, parts)
    for kind, group in groupby(parts, lambda one: _kind(heads.get(one))):
        alike = list(group)
        # Damaged segments stay: their minutes may have the only names that are left.
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


def _kind(head: Head | None) -> object:
    """Return what segments have in common that can be one."""
    if head is None:
        return None
    run = [(name, value) for name, value in head.run.items() if name not in _LOOSE]
    return contents(head) | {"run": run}


class _Merge:
    """Writes a segment."""

    def __init__(
        self, store: StoreDirectory, engine: Engine, parts: list[Segment], into: Segment
    ) -> None:
        self._store, self._engine = store, engine
        self._parts, self._into = parts, into
        self._samples = files(store, parts, SAMPLES)
        ((hits,),) = engine.rows(f"SELECT sum(n)::BIGINT FROM {_READ}", [self._samples])
        self._hits = int(hits or 0)

    def write(self, head: Head) -> None:
        """Write its files, that which makes it whole last."""
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
            self._summarize(TOTALS, _summary(f"{_READ} AS s", "0"))
            self._summarize(SAMPLES, _summary(_CUT, _STACK), head)
        else:
            self._copy(SAMPLES, _ALL, [self._samples], head)
        self._engine.unregister("cut")

    def _summarize(self, kind: str, query: str, head: Head | None = None) -> None:
        """Write sums by hour; those of one hour after the other, for all at once take much memory.

        Two segments of one hour remain two rows of it, which add up as any do. Rows are sorted by
        the number of what they have in common: to sort by texts takes ten times the memory.
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
            self._copy(kind, _SORTED, [parts], head, is_sorted=True)
            self._engine.run("DROP TABLE of_day")

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
            self._hits if kind in (SAMPLES, TOTALS, SUMS) else None,
            _LEVEL,
            _GROUP,
        )
        copy_to_file(self._store, self._engine, content, self._into.path(kind), head)

    def _stacks(self) -> tuple[dict[str, NDArray[Any]], NDArray[np.uint64], NDArray[np.uint64]]:
        """Return the frames of its stacks, and which of its parts' stacks are others now."""
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
    """Return the columns that tell hits apart, some of which are expressions."""
    return ", ".join(f"{special.get(name, f's.{name}')} AS {name}" for name in SAMPLE_KEYS)


# Rows that differ by nothing but a stack that was cut are one; each is of one window.
_ALL = (
    "SELECT * EXCLUDE (n, w), sum(n) AS n, sum(n) * sum(n) AS q, sum(w) AS w"
    f" FROM (SELECT {_columns({'stack': _STACK})}, s.n, s.w FROM {_CUT}) GROUP BY ALL"
)


def _summary(source: str, stack: str) -> str:
    """Return a query for sums by function and hour, with those of the squares of each window's."""
    of_windows = _columns(_SUMMARY | {"stack": stack})
    of_hours = _columns({"address": "min(s.address)", "t": f"s.t // {HOUR_US} * {HOUR_US}"})
    return (
        f"SELECT {of_hours}, sum(s.n) AS n, sum(s.n * s.n) AS q, sum(s.w) AS w FROM"
        f" (SELECT {of_windows}, sum(s.n) AS n, sum(s.w) AS w FROM {source} GROUP BY ALL) AS s"
        " GROUP BY ALL"
    )
