"""Source files with their hits, every figure computed once: by file, by function and by line.

A hit counts at the line of its own instruction: inlined code counts where it is written, not where
it was called. The Profile must have `lines`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import gather
from prospect.estimate.annotate.annotation_view import event_sums
from prospect.figures.modes import event_has_time, event_seconds
from prospect.figures.processes import chosen_hits, shown_detail
from prospect.figures.remarks import limits_of, run_warnings
from prospect.figures.report.counters import run_counters
from prospect.profile.complete import complete
from prospect.profile.optional_tables import innermost, innermost_name
from prospect.profile.run_info import grouped
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prospect.columns.array_types import I32, I64, Bools, Ints
    from prospect.estimate.annotate.annotation_view import EventSums, RowSums
    from prospect.options import Detail
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import Profile
    from prospect.profile.optional_tables import LineTable
    from prospect.profile.run_info import EventInfo


class Places(NamedTuple):
    """The place of each hit: rows of file and function name, -1 for none; line and object."""

    file: I32
    name: I32
    line: I64
    object: I32


def places_of_hits(profile: CompleteProfile, lines: LineTable) -> Places:
    """Find the places of all hits of a completed profile."""
    location = profile.hits.location_index
    file, line = innermost(lines, location)
    function = profile.locations.function_index.take(location)
    return Places(
        file,
        innermost_name(lines, location),
        line.astype(np.int64),
        profile.functions.object_index.take(function),
    )


class Pairs(NamedTuple):
    """Distinct (file, second) with hits, ascending, and their sums."""

    file: I64
    second: I64
    sums: RowSums

    @classmethod
    def of(cls, sums: EventSums, at: I64, file: Ints, second: Ints) -> Pairs:
        """Add up by pairs; a file of -1 is none."""
        key = (file.astype(np.int64) << 32) | np.maximum(second, 0)
        distinct, row = np.unique(key[file >= 0], return_inverse=True)
        rows = np.full(len(file), -1, np.int64)
        rows[file >= 0] = row
        return cls(distinct >> 32, distinct & 0xFFFFFFFF, sums.by(at, rows, len(distinct)))

    def of_file(self, file: int) -> I64:
        """Return the rows of a file."""
        first, last = np.searchsorted(self.file, [file, file + 1]).tolist()
        return np.arange(first, last)


class FileHits(Record):
    """One event's hits in one file.

    Attributes:
        file: of one row: the whole file.
        line: i64[n] lines with hits, ascending; 0 first, if lines are unknown.
        lines: of `line`.
        function: names of functions with hits, as written in this file, heaviest first.
        first_line: i64[f] first line with a hit of each function.
        functions: of `function`.
    """

    file: RowSums
    line: I64
    lines: RowSums
    function: list[str]
    first_line: I64
    functions: RowSums


class SourceEvent(Record):
    """One event's hits in all files.

    Attributes:
        hits, seconds: all that were chosen.
        without_file: (path of the object, why, hits) of objects with unknown files.
        files: by row of the profile's lines.files.
    """

    event: EventInfo
    has_time: bool
    hits: int
    seconds: float
    without_file: list[tuple[str, str, int]]
    files: dict[int, FileHits]


class SourceView(Record):
    """Every figure of annotated sources.

    Attributes:
        detail: the `-V` that is shown.
        notes: what could not be seen or found.
        warnings: of losses and damage.
        events: those with hits.
        paths: files as the compiler recorded them.
        order: rows of `paths`, the heaviest first.
        built: by row of `paths`: the modification time of the oldest image with hits there, in
            nanoseconds since the epoch, and its path.
    """

    profile: CompleteProfile
    detail: Detail
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    events: list[SourceEvent]
    paths: Sequence[str]
    order: list[int]
    built: dict[int, tuple[int, str]]

    def newer_than(self, file: int, modified_ns: int) -> str:
        """Return the image that is older than its source, "" for none."""
        built_ns, path = self.built.get(file, (modified_ns, ""))
        return path if modified_ns > built_ns else ""


def source_view(
    profile: Profile,
    detail: Detail,
    functions: Ints | None = None,
    is_wanted: Callable[[str], bool] = lambda _: True,
) -> SourceView:
    """Compute every figure.

    `functions` are rows of functions whose hits count alone, None for all; `is_wanted` returns for
    the path of a file whether it is shown.
    """
    if profile.lines is None:
        raise ValueError("the profile was made without lines")
    lines = profile.lines
    profile = complete(profile)
    member = chosen_hits(profile, detail)
    if functions is not None:
        of_hit = profile.locations.function_index.take(profile.hits.location_index)
        member &= np.isin(of_hit, functions)
    places = places_of_hits(profile, lines)
    events = [
        _event(
            event_sums(profile, event),
            lines,
            places,
            np.flatnonzero(member & (profile.hits.event == event)),
        )
        for event in np.unique(profile.hits.event[member]).tolist()
    ]
    wanted = {row for row, path in enumerate(lines.files) if is_wanted(path)}
    weight = {
        row: max(float(event.files[row].file.share[0]) for event in events if row in event.files)
        for row in wanted & {row for event in events for row in event.files}
    }
    return SourceView(
        profile=profile,
        detail=shown_detail(profile.processes, detail),
        notes=(
            *limits_of(profile, shown_detail(profile.processes, detail)),
            *_line_notes(profile, lines, events),
        ),
        warnings=run_warnings(profile, run_counters(profile)),
        events=events,
        paths=lines.files,
        order=sorted(weight, key=lambda row: (-weight[row], lines.files[row])),
        built=_built(profile, lines, places, member),
    )


def _line_notes(
    profile: CompleteProfile, lines: LineTable, events: Sequence[SourceEvent]
) -> list[str]:
    """Return why lines are missing, except for objects that are listed without a file."""
    listed = {path for event in events for path, _, _ in event.without_file}
    paths = profile.objects.path
    of_file = ((paths[row], note) for row, note in lines.notes.items())
    return grouped((path, note) for path, note in of_file if path not in listed)


def _built(
    profile: CompleteProfile, lines: LineTable, places: Places, member: Bools
) -> dict[int, tuple[int, str]]:
    at = np.flatnonzero(member & (places.file >= 0))
    pairs = np.unique(np.stack([places.file.take(at), places.object.take(at)], axis=1), axis=0)
    built: dict[int, tuple[int, str]] = {}
    for file, row in pairs.tolist():
        if row in lines.built_ns:
            found = lines.built_ns[row], profile.objects.path[row]
            built[file] = min(built.get(file, found), found)
    return built


def _event(sums: EventSums, lines: LineTable, places: Places, at: I64) -> SourceEvent:
    info, hits = sums.design.event, sums.profile.hits
    file, line, name = places.file.take(at), places.line.take(at), places.name.take(at)
    count = hits.count.take(at)
    return SourceEvent(
        event=info,
        has_time=event_has_time(info),
        hits=int(count.sum()),
        seconds=float(event_seconds(info, count, hits.period.take(at)).sum()),
        without_file=_without_file(
            sums.profile, lines, places.object.take(at)[file < 0], count[file < 0]
        ),
        files=_files(
            sums.by(at, file, len(lines.files)),
            Pairs.of(sums, at, file, line),
            Pairs.of(sums, at, np.where(name >= 0, file, -1), name),
            _first_lines(file, name, line),
            lines.names,
        ),
    )


def _first_lines(file: I32, name: I32, line: I64) -> dict[tuple[int, int], int]:
    order = np.lexsort((line, name, file))
    order = order[line.take(order) > 0]
    pairs = np.stack([file.take(order), name.take(order)], axis=1)
    distinct, first = np.unique(pairs, axis=0, return_index=True)
    found = line.take(order.take(first)).tolist()
    return dict(zip(map(tuple, distinct.tolist()), found, strict=True))


def _files(
    files: RowSums,
    lines: Pairs,
    functions: Pairs,
    first_line: dict[tuple[int, int], int],
    names: list[str],
) -> dict[int, FileHits]:
    found = {}
    for file in np.flatnonzero(files.hits).tolist():
        of_line, of_function = lines.of_file(file), functions.of_file(file)
        heaviest = np.argsort(-functions.sums.share.take(of_function), kind="stable")
        of_function = of_function.take(heaviest)
        rows = functions.second.take(of_function).tolist()
        found[file] = FileHits(
            file=gather(files, np.array([file])),
            line=lines.second.take(of_line),
            lines=gather(lines.sums, of_line),
            function=[names[row] for row in rows],
            first_line=np.array([first_line.get((file, row), 0) for row in rows], np.int64),
            functions=gather(functions.sums, of_function),
        )
    return found


def _without_file(
    profile: CompleteProfile, lines: LineTable, of_object: I32, count: I64
) -> list[tuple[str, str, int]]:
    by_object = np.bincount(of_object, count, len(profile.objects)).astype(np.int64)
    heaviest = np.argsort(-by_object, kind="stable")
    return [
        (profile.objects.path[row], lines.notes.get(row, ""), int(by_object[row]))
        for row in heaviest[by_object.take(heaviest) > 0].tolist()
    ]
