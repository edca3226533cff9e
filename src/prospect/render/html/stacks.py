"""Stacks of all events as one block of columns: the data of the page's pictures.

`whole_file.ColumnBlock` describes the bytes. The header has names and, by event, the places of its
columns; `assets/model.js` reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.columns.sorting import distinct, run_starts
from prospect.estimate.annotate.annotation_view import is_timer, skid
from prospect.figures.entry_reasons import ENTRY_REASON_KIND_NAMES
from prospect.figures.modes import MODE_NAMES, event_has_time
from prospect.figures.stacks.call_forest import THREADS
from prospect.figures.stacks.frames import frame_annotations, frame_colours
from prospect.records import NamedTuple
from prospect.render.html.cells import sample_cells
from prospect.render.html.instructions import code_cells
from prospect.render.html.whole_file import ColumnBlock

if TYPE_CHECKING:
    from prospect.columns.array_types import I64
    from prospect.profile.model import WallPath
    from prospect.render.html.cells import SampleCells, StackNames
    from prospect.render.html.instructions import CodeCells, InstructionSlots

_MOST_EVENTS = 8
_MARKS = ("", "_[k]", "_[i]", "_[j]")


def stack_block(names: StackNames, slots: InstructionSlots | None) -> bytes:
    """Return the samples, added up, as one block."""
    cells = {event: sample_cells(names, event) for event in events_of(names)}
    if slots is None:
        return block_of_events(names, cells)
    code = {event: code_cells(names, event, slots, found) for event, found in cells.items()}
    return block_of_events(names, cells, code)


def events_of(names: StackNames) -> list[int]:
    """Return the events that a page shows, as rows of `RunInfo.events`."""
    hits = names.samples.profile.hits
    is_there = np.bincount(names.samples.hit_index, minlength=len(hits)) > 0
    events: list[int] = distinct(hits.event[is_there]).tolist()
    return events[:_MOST_EVENTS]


def block_of_events(
    names: StackNames, cells: dict[int, SampleCells], code: dict[int, CodeCells] | None = None
) -> bytes:
    """Return names, and the cells of events, as one block."""
    block = ColumnBlock()
    shown = [_event(names, event, found, block) for event, found in cells.items()]
    for fields, of_code in zip(shown, (code or {}).values(), strict=False):
        fields["code"] = _code(of_code, block)
    # Places of events in the report, -1 for waits; several may have one name.
    events = names.samples.profile.run.events
    present = distinct(names.samples.profile.hits.event).tolist()
    sampled = [row for row in present if not events[row].is_waiting]
    reported = [sampled.index(event) if event in sampled else -1 for event in cells]
    return block.block({**_names(names, block), "reported": reported, "events": shown})


def block_of_part(names: StackNames, event: int, cells: SampleCells) -> bytes:
    """Return cells of one event, whose names the page has already."""
    block = ColumnBlock()
    return block.block({"events": [_event(names, event, cells, block)]})


def _names(names: StackNames, block: ColumnBlock) -> dict[str, Any]:
    profile = names.samples.profile
    marks = frame_colours(profile, names.frames, frame_annotations(profile, names.frames))
    threads, processes = names.threads, profile.processes
    scopes = (processes.pid, processes.is_command, processes.is_descendant)
    return {
        "labels": names.labels,
        "objects": profile.objects.path,
        "frame_object": block.add(names.frames.object_index),
        "frame_kind": block.add(np.array([_MARKS.index(mark) for mark in marks], np.int64)),
        "comms": profile.comms,
        "modes": MODE_NAMES,
        "entry_reasons": [
            [ENTRY_REASON_KIND_NAMES[kind], name]
            for kind, name in zip(
                profile.entry_reasons.kind.tolist(), profile.entry_reasons.name, strict=True
            )
        ],
        "threads": {
            "comm": block.add(threads.comm_index),
            "tid": block.add(threads.tid),
            "process": block.add(threads.process_index),
        },
        "processes": list(
            zip(processes.name, *(column.tolist() for column in scopes), strict=True)
        ),
        "end_ns": names.end_ns,
        "path": wall_path(names, block),
        "has_times": names.samples.time_ns is not None,
        "has_stacks": profile.stacks is not None,
        "first_thread_frame": len(names.frames) + THREADS,
    }


def _event(names: StackNames, event: int, cells: SampleCells, block: ColumnBlock) -> dict[str, Any]:
    info = names.samples.profile.run.events[event]
    return {
        "name": info.name,
        "has_time": event_has_time(info),
        "has_bars": info.is_sampled,
        "time_of": "" if info.is_cpu_time else info.name,
        "samples_title": info.samples_title,
        "begin_ns": cells.begin_ns,
        "end_ns": cells.end_ns,
        "stretches": cells.stretches,
        "is_whole": cells.is_whole,
        **_time(cells.count, cells.time_ns, block),
        "has_skid": bool(skid(info)),
        "is_timer": is_timer(info),
        "frame": block.add(cells.tree.frame_index),
        "depth": block.add(cells.tree.depth),
        "context": {name: block.add(column) for name, column in cells.contexts._asdict().items()},
        "cells": {
            "node_step": block.add(np.diff(cells.node, prepend=0)),
            "context": block.add(cells.context),
            "stretch": block.add(cells.stretch),
            "count": block.add(cells.count),
        },
    }


def _code(cells: CodeCells, block: ColumnBlock) -> dict[str, Any]:
    return {
        **_time(cells.count, cells.time_ns, block),
        "left_out": cells.left_out,
        "slot_step": block.add(np.diff(cells.slot, prepend=0)),
        "context": block.add(cells.context),
        "stretch": block.add(cells.stretch),
        "count": block.add(cells.count),
    }


def _time(count: I64, time_ns: I64, block: ColumnBlock) -> dict[str, Any]:
    """Return the time of each sample if it is the same for all, else the column of times."""
    total, samples = int(time_ns.sum()), int(count.sum())
    each = total / samples if samples else 0.0
    if np.abs(time_ns - count * each).max(initial=0.0) <= 1:
        return {"ns_each": each}
    return {"time_ns": block.add(time_ns)}


# The critical path of a command as columns, which `assets/wall_path.js` draws over the map of time.
#
# Successive pieces of one thread in one state become one. If too many are left, the path is sampled
# at equal distances: a page is a few thousand pixels wide at most.

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

    begin_ns: I64
    thread: I64
    state: I64
    end_ns: int
    is_whole: bool


def wall_path(names: StackNames, block: ColumnBlock) -> dict[str, Any] | None:
    """Return the places of the path's columns; None for a profile without a path."""
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


def _threads(names: StackNames, path: WallPath) -> I64:
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
