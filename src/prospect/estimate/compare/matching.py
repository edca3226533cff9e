"""Rows that mean the same in every recording: processes, objects and functions by mode.

Process ids never matter. Names are matched without the parts that differ from run to run or from
build to build: process and CPU numbers, a compiler's clones, versions of libraries.
"""

from __future__ import annotations

import os.path
import re
from typing import TYPE_CHECKING, Literal

import numpy as np

from prospect.columns.grouping import distinct_keys
from prospect.figures.modes import MODE_COUNT
from prospect.profile.model import (
    KIND_ANON,
    KIND_ELF,
    KIND_JIT,
    KIND_KERNEL,
    KIND_MODULE,
    KIND_VDSO,
)
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    _Key = Callable[["ObjectName", int], object]
    from collections.abc import Sequence

    from prospect.columns.array_types import I64
    from prospect.estimate.compare.compared_run import ComparedRun

# kworker/u8:3-events_unbound is one of a pool; ksoftirqd/1 is one a CPU.
_KTHREAD_NUMBER = re.compile(r"(?<=^kworker)/.*|/\d+$", re.DOTALL)
# foo.isra.0 is foo as this compilation built it, foo.cold its rarely executed part. Some demanglers
# write foo() [clone .isra.0]. Assembly of Go is foo.abi0 in the symbol table, and foo in Go's own,
# which names it if the program is stripped.
_CLONES = frozenset(
    {"constprop", "isra", "part", "cold", "lto_priv", "llvm", "localalias", "specialized", "abi0"}
)
_DEMANGLED_CLONE = " [clone "
_DELETED = " (deleted)"
_MODULE_SUFFIX = re.compile(r"\.ko(?:\.\w+)?$")
# One row each: their paths hold process ids or addresses, or name no file at all.
_WHOLE_KINDS = {
    KIND_KERNEL: "[kernel]",
    KIND_VDSO: "[vdso]",
    KIND_JIT: "[compiled at run time]",
    KIND_ANON: "[anonymous memory]",
}
RENAMED = " => "

Kind = Literal["total", "mode", "process", "object", "function", "inclusive"]


class ObjectName(NamedTuple):
    """An object of a recording; `build_id` is empty if unknown."""

    kind: int
    path: str
    build_id: str


def process_name(name: str, *, is_kernel_thread: bool) -> str:
    """Return the name for matching a process."""
    return _KTHREAD_NUMBER.sub("", name) if is_kernel_thread else name


def function_name(name: str) -> str:
    """Return the name for matching a function; "" for hits without a name."""
    end = len(name)
    while (begin := _clone_begin(name, end)) < end:
        end = begin
    return name[:end] or name


def _clone_begin(name: str, end: int) -> int:
    """Return where a clone's suffix that ends at `end` begins; else `end`.

    It reads from the end, because a file may make a name long, and a pattern would try each place
    in it.
    """
    if name.endswith("]", 0, end):
        begin = name.find(_DEMANGLED_CLONE, name.rfind("]", 0, end - 1) + 1, end)
        return begin if begin >= 0 else end
    at = end
    while (dot := name.rfind(".", 0, at)) >= 0:
        word = name[dot + 1 : at]
        if word in _CLONES:
            return dot
        if not word.isdecimal():
            break
        at = dot
    return end


def object_name(kind: int, path: str, build_id: str) -> ObjectName:
    """Return the name for matching an object."""
    if kind in _WHOLE_KINDS:
        return ObjectName(kind, _WHOLE_KINDS[kind], "")
    path = path.removesuffix(_DELETED)
    if kind == KIND_MODULE:
        # A path if the module's file was found, else the name in brackets.
        stem = _MODULE_SUFFIX.sub("", _base(path).strip("[]")).replace("-", "_")
        return ObjectName(kind, f"[{stem}]", "")
    return ObjectName(kind, path, build_id)


def match_objects(
    before: Iterable[ObjectName], after: Iterable[ObjectName], renamed: tuple[str, str] = ("", "")
) -> dict[ObjectName, str]:
    """Return each object's label; objects of one label are the same.

    The same build id or the same path is the same object. An object that is then on one side only
    is matched by base name, by `renamed`, and at last by the name of the library in front of
    ``.so``.

    `before` and `after` are the objects of all recordings of a side, `renamed` the base names of
    the command's program on both sides if they differ.
    """
    groups = _Groups()
    sides = (set(before), set(after))
    for side in sides:
        for name in side:
            groups.join(name, ("path", name.kind, name.path))
            if name.build_id:
                groups.join(name, ("build id", name.build_id))
    for key in (_base_key, _renamed_key(renamed), _library_key):
        _join_one_sided(groups, sides, key)
    return _labels(groups, sides)


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1] or path


def _base_key(name: ObjectName, _side: int) -> object:
    return ("base name", name.kind, _base(name.path))


def _renamed_key(renamed: tuple[str, str]) -> _Key:
    def key(name: ObjectName, side: int) -> object:
        return ("command",) if renamed[side] and _base(name.path) == renamed[side] else name

    return key


def _library_key(name: ObjectName, _side: int) -> object:
    stem, suffix, _ = _base(name.path).partition(".so")
    return ("library", name.kind, stem) if suffix else name


class _Groups:
    """Disjoint sets of hashable things (union-find with path halving)."""

    def __init__(self) -> None:
        self._above: dict[object, object] = {}

    def find(self, thing: object) -> object:
        above = self._above
        while above.setdefault(thing, thing) != thing:
            above[thing] = above[above[thing]]
            thing = above[thing]
        return thing

    def join(self, one: object, other: object) -> None:
        self._above[self.find(one)] = self.find(other)


def _join_one_sided(groups: _Groups, sides: tuple[set[ObjectName], ...], key: _Key) -> None:
    """Join objects of equal key that are each on one side only, if there are some on either."""
    present = [{groups.find(name) for name in side} for side in sides]
    found: dict[object, list[tuple[int, ObjectName]]] = {}
    for number, side in enumerate(sides):
        for name in side:
            if groups.find(name) not in present[1 - number]:
                found.setdefault(key(name, number), []).append((number, name))
    for names in found.values():
        if len({number for number, _ in names}) > 1:
            for _, name in names[1:]:
                groups.join(name, names[0][1])


def _labels(groups: _Groups, sides: tuple[set[ObjectName], ...]) -> dict[ObjectName, str]:
    members: dict[object, tuple[set[str], set[str]]] = {}
    for number, side in enumerate(sides):
        for name in side:
            members.setdefault(groups.find(name), (set(), set()))[number].add(name.path)
    labels: dict[object, str] = {}
    taken: set[str] = set()
    by_paths = sorted(members.items(), key=lambda item: sorted(item[1][0] | item[1][1]))
    for group, (before, after) in by_paths:
        label = _label(before, after)
        if label in taken:
            label = min(before | after)
        taken.add(label)
        labels[group] = label
    return {name: labels[groups.find(name)] for side in sides for name in side}


def _label(before: set[str], after: set[str]) -> str:
    if len(before | after) == 1:
        return next(iter(before | after))
    bases = [sorted({_base(path) for path in side}) for side in (before, after)]
    first, second = (names[0] if names else "" for names in bases)
    if not (first and second) or first == second:
        return first or second
    return f"{first}{RENAMED}{second}"


class MatchedRows(Record):
    """The rows of one table over all recordings.

    Attributes:
        name: "" for a function without a name.
        object: the function's object; "" for other kinds.
        mode: i64[r] MODE_*; 0 in the one row of "total".
        row_of_hit: of each recording, i64[h] the row of each hit, -1 for hits not compared.
    """

    kind: Kind
    name: list[str]
    object: list[str]
    mode: I64
    row_of_hit: tuple[I64, ...]

    def __len__(self) -> int:
        return len(self.name)


class Labels(NamedTuple):
    """Labels of a recording's table rows: of processes, objects and functions."""

    process: list[str]
    object: list[str]
    function: list[tuple[str, str]]


def label_runs(before: Sequence[ComparedRun], after: Sequence[ComparedRun]) -> list[Labels]:
    """Label every recording's processes, objects and functions: equal ones get the same label.

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
                (of_object[row], function_name(name))
                for row, name in zip(functions.object_index.tolist(), functions.name, strict=True)
            ]
            labels.append(Labels(names, of_object, of_function))
    return labels


def matched_rows(kind: Kind, runs: Sequence[ComparedRun], labels: Sequence[Labels]) -> MatchedRows:
    """Return the row in one table of every compared hit of every recording."""
    numbers: dict[tuple[str, str], int] = {}
    keys = []
    for run, label in zip(runs, labels, strict=True):
        numbered = np.array(
            [numbers.setdefault(name, len(numbers)) for name in _names(kind, label)], np.int64
        )
        mode = 0 if kind == "total" else run.mode
        key = numbered.take(_index_of_hits(kind, run)) * MODE_COUNT + mode
        keys.append(np.where(run.counts, key, -1))
    distinct, row = distinct_keys(
        np.concatenate([key[key >= 0] for key in keys]), len(numbers) * MODE_COUNT
    )
    row_of_hit, end = [], 0
    for key in keys:
        rows, is_row = np.full(len(key), -1, np.int64), key >= 0
        begin, end = end, end + int(np.count_nonzero(is_row))
        rows[is_row] = row[begin:end]
        row_of_hit.append(rows)
    of_name, mode = np.divmod(distinct, MODE_COUNT)
    names = list(numbers)
    chosen = [names[number] for number in of_name.tolist()]
    return MatchedRows(
        kind=kind,
        name=[name for _, name in chosen],
        object=[of_object for of_object, _ in chosen],
        mode=mode,
        row_of_hit=tuple(row_of_hit),
    )


def named_row(
    kind: str, name: str, runs: Sequence[ComparedRun], labels: Sequence[Labels]
) -> MatchedRows | None:
    """Return a table of one row: all compared hits of a name; None without a hit.

    Args:
        kind: "process", "object", "function", or "" for the first of these that has such a name.
        name: as it is in the tables; for an object also its base name, and for a renamed one either
            name.
    """
    kinds: tuple[Kind, ...] = ("process", "object", "function")
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
    if kind == "function":
        return labels.function
    if kind in ("total", "mode"):
        return [("", "")]
    return [("", name) for name in (labels.process if kind == "process" else labels.object)]


def _index_of_hits(kind: Kind, run: ComparedRun) -> I64:
    """Return i64[h]: each hit's row in the table with labels of this kind."""
    hits, profile = run.profile.hits, run.profile
    if kind in ("total", "mode"):
        return np.zeros(len(hits), np.int64)
    if kind == "process":
        return hits.process_index.astype(np.int64)
    function = profile.locations.function_index.take(hits.location_index)
    index = function if kind == "function" else profile.functions.object_index.take(function)
    return index.astype(np.int64)


def _processes(run: ComparedRun) -> list[str]:
    processes = run.profile.processes
    return [
        process_name(name, is_kernel_thread=is_kernel_thread or pid == 0)
        for name, is_kernel_thread, pid in zip(
            processes.name, processes.is_kernel_thread.tolist(), processes.pid.tolist(), strict=True
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

    On one side only, other processes may have run an object that the other side compares.
    """
    names = _objects(run)
    rows = np.unique(_index_of_hits("object", run)[run.counts])
    return [names[row] for row in rows.tolist()]


def _command(run: ComparedRun) -> str:
    """Return the name of the last program image that COMMAND ran, "" if unknown."""
    rows = np.flatnonzero(run.profile.processes.is_command)
    return run.profile.processes.name[int(rows[-1])] if len(rows) else ""


def _program(run: ComparedRun) -> str:
    """Return the base name of COMMAND's program if an object has that name, else ""."""
    words = run.profile.run.command
    base = os.path.basename(words[0]) if words else ""  # noqa: PTH119 - a recorded name
    objects = run.profile.objects
    is_elf = (objects.kind == KIND_ELF).tolist()
    paths = {path.rsplit("/", 1)[-1] for path, elf in zip(objects.path, is_elf, strict=True) if elf}
    return base if base in paths else ""


def _renamed(sides: Sequence[set[str]]) -> tuple[str, str]:
    """Return both sides' names if each has one and they differ, else two empty ones."""
    before, after = sides
    if len(before) == len(after) == 1 and all(before | after) and before != after:
        return next(iter(before)), next(iter(after))
    return "", ""
