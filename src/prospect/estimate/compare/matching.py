"""Rows that mean the same in every recording: processes, objects and routines by portion.

Comes in: the compared parts of all recordings. Goes out: three tables of rows, and the row of each
hit of each recording. Process ids never matter; `identity` says what makes names the same.
"""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING, Literal

import numpy as np

from prospect.columns.grouping import distinct_keys
from prospect.estimate.compare.identity import (
    RENAMED,
    match_objects,
    object_name,
    process_name,
    routine_name,
)
from prospect.figures.portions import PORTION_COUNT
from prospect.profile.model import KIND_ELF
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.estimate.compare.compared import ComparedRun
    from prospect.estimate.compare.identity import ObjectName

Kind = Literal["total", "portion", "process", "object", "routine", "inclusive"]


class MatchedRows(Record):
    """The rows of one table over all recordings.

    Attributes:
        kind: what a row is.
        name: the process, object or routine; "" for a routine without a name.
        object: the routine's object; "" for other kinds.
        portion: i64[r] PORTION_*; 0 in the one row of "total".
        row_of_hit: of each recording, i64[h] the row of each hit, -1 for hits not compared.
    """

    kind: Kind
    name: list[str]
    object: list[str]
    portion: NDArray[np.int64]
    row_of_hit: tuple[NDArray[np.int64], ...]

    def __len__(self) -> int:
        return len(self.name)


class Labels(NamedTuple):
    """Labels of a recording's table rows: of processes, objects and functions."""

    process: list[str]
    object: list[str]
    function: list[tuple[str, str]]


def label_runs(before: Sequence[ComparedRun], after: Sequence[ComparedRun]) -> list[Labels]:
    """Label every recording's processes, objects and functions: the same get the same label.

    Returns:
        One `Labels` a recording: those of `before`, then those of `after`.
    """
    sides = (before, after)
    renamed = _renamed([{_command(run) for run in side} for side in sides])
    programs = _renamed([{_program(run) for run in side} for side in sides])
    objects = match_objects(
        {name for run in before for name in _compared_objects(run)},
        {name for run in after for name in _compared_objects(run)},
        programs if all(programs) else renamed,
    )
    labels = []
    for number, side in enumerate(sides):
        command = RENAMED.join(renamed) if all(renamed) else ""
        for run in side:
            names = _processes(run)
            if command:
                names = [command if name == renamed[number] else name for name in names]
            of_object = [objects.get(name, name.path) for name in _objects(run)]
            functions = run.profile.functions
            of_function = [
                (of_object[row], routine_name(name))
                for row, name in zip(functions.object_index.tolist(), functions.name, strict=True)
            ]
            labels.append(Labels(names, of_object, of_function))
    return labels


def matched_rows(kind: Kind, runs: Sequence[ComparedRun], labels: Sequence[Labels]) -> MatchedRows:
    """Give every compared hit of every recording its row of one table."""
    numbers: dict[tuple[str, str], int] = {}
    keys = []
    for run, label in zip(runs, labels, strict=True):
        numbered = np.array(
            [numbers.setdefault(name, len(numbers)) for name in _names(kind, label)], np.int64
        )
        portion = 0 if kind == "total" else run.portion
        key = numbered.take(_index_of_hits(kind, run)) * PORTION_COUNT + portion
        keys.append(np.where(run.counts, key, -1))
    distinct, row = distinct_keys(
        np.concatenate([key[key >= 0] for key in keys]), len(numbers) * PORTION_COUNT
    )
    row_of_hit, end = [], 0
    for key in keys:
        rows, is_row = np.full(len(key), -1, np.int64), key >= 0
        begin, end = end, end + int(np.count_nonzero(is_row))
        rows[is_row] = row[begin:end]
        row_of_hit.append(rows)
    of_name, portion = np.divmod(distinct, PORTION_COUNT)
    names = list(numbers)
    chosen = [names[number] for number in of_name.tolist()]
    return MatchedRows(
        kind=kind,
        name=[name for _, name in chosen],
        object=[of_object for of_object, _ in chosen],
        portion=portion,
        row_of_hit=tuple(row_of_hit),
    )


def named_row(
    kind: str, name: str, runs: Sequence[ComparedRun], labels: Sequence[Labels]
) -> MatchedRows | None:
    """Return a table of one row: all compared hits of what is called `name`; None without a hit.

    Args:
        kind: "process", "object", "routine", or "" for the first of these that has such a name.
        name: as it stands in the tables; of an object its base name will do, and of what was
            renamed either name.
        runs: the compared parts of all recordings.
        labels: of the same recordings.
    """
    kinds: tuple[Kind, ...] = ("process", "object", "routine")
    for candidate in kinds:
        if kind not in ("", candidate):
            continue
        rows = []
        for run, label in zip(runs, labels, strict=True):
            is_meant = [_is_called(text, name) for _, text in _names(candidate, label)]
            counts = np.array(is_meant, np.bool_).take(_index_of_hits(candidate, run)) & run.counts
            rows.append(np.where(counts, 0, -1))
        if any((row >= 0).any() for row in rows):
            return MatchedRows(candidate, [name], [""], np.zeros(1, np.int64), tuple(rows))
    return None


def _is_called(label: str, name: str) -> bool:
    return any(name in (part, part.rsplit("/", 1)[-1]) for part in (label, *label.split(RENAMED)))


def _names(kind: Kind, labels: Labels) -> list[tuple[str, str]]:
    if kind == "routine":
        return labels.function
    if kind in ("total", "portion"):
        return [("", "")]
    return [("", name) for name in (labels.process if kind == "process" else labels.object)]


def _index_of_hits(kind: Kind, run: ComparedRun) -> NDArray[np.int64]:
    """Return i64[h]: each hit's row in the table that labels of this kind are of."""
    hits, profile = run.profile.hits, run.profile
    if kind in ("total", "portion"):
        return np.zeros(len(hits), np.int64)
    if kind == "process":
        return hits.process_index.astype(np.int64)
    function = profile.locations.function_index.take(hits.location_index)
    index = function if kind == "routine" else profile.functions.object_index.take(function)
    return index.astype(np.int64)


def _processes(run: ComparedRun) -> list[str]:
    processes = run.profile.processes
    return [
        process_name(name, is_kernel_thread=is_kernel_thread or pid == 0)
        for name, is_kernel_thread, pid in zip(
            processes.name,
            processes.is_kernel_thread.tolist(),
            processes.pid.tolist(),
            strict=True,
        )
    ]


def _objects(run: ComparedRun) -> list[ObjectName]:
    objects = run.profile.objects
    return [
        object_name(kind, path, build_id)
        for kind, path, build_id in zip(
            objects.kind.tolist(), objects.path, objects.build_id, strict=True
        )
    ]


def _compared_objects(run: ComparedRun) -> list[ObjectName]:
    """Return the objects that have a compared hit: only those are matched.

    What other processes ran meanwhile may hold, on one side only, what the other side compares.
    """
    names = _objects(run)
    rows = np.unique(_index_of_hits("object", run)[run.counts])
    return [names[row] for row in rows.tolist()]


def _command(run: ComparedRun) -> str:
    """Return the name of the last program image that COMMAND ran, "" where none is known."""
    rows = np.flatnonzero(run.profile.processes.is_command)
    return run.profile.processes.name[int(rows[-1])] if len(rows) else ""


def _program(run: ComparedRun) -> str:
    """Return the base name of COMMAND's program where an object is called so, else ""."""
    words = run.profile.run.command
    base = os.path.basename(words[0]) if words else ""  # noqa: PTH119 - a recorded name
    objects = run.profile.objects
    is_elf = (objects.kind == KIND_ELF).tolist()
    paths = {path.rsplit("/", 1)[-1] for path, elf in zip(objects.path, is_elf, strict=True) if elf}
    return base if base in paths else ""


def _renamed(sides: Sequence[set[str]]) -> tuple[str, str]:
    """Return both sides' names where each has one and they differ, else two empty ones."""
    before, after = sides
    if len(before) == len(after) == 1 and all(before | after) and before != after:
        return next(iter(before)), next(iter(after))
    return "", ""
