"""The code of a page: instructions with samples, as cells like those of the samples, and as JSON.

Slots are the instructions with a sample. `CodeCells` have the same contexts and stretches of time
as `SampleCells`, so that a selection counts the same samples in both. Functions with most samples
get room first; those without room are left out whole.

The JSON document, which `assets/code.js` reads, has paths of files, and of each function the
instructions with a sample, in the order of the slots: address, text, name of the target, distance
back to the instruction that ran before (in bytes, 0 if unknown), whether interrupts were enabled
there; then, if known, file and line and the text of that line. `null` is for samples between
instructions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.columns.grouping import group_sums
from prospect.columns.sorting import distinct
from prospect.estimate.annotate.annotation_view import instruction_of_hits, ran_before
from prospect.figures.stacks.stack_weights import nanoseconds
from prospect.profile.optional_tables import innermost
from prospect.records import Record
from prospect.render.encoding import encoded
from prospect.render.html.cells import STRETCHES, Contexts, sample_stretches

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.columns.array_types import I64
    from prospect.profile.optional_tables import CodeTable
    from prospect.render.html.cells import SampleCells, StackNames

_MOST_CELLS = 300_000
NO_CODE: dict[str, list[Any]] = {"files": [], "functions": []}


class InstructionSlots(Record):
    """The places of samples in the functions of a code table.

    Attributes:
        function: i64[s] row of `code` of each slot, ascending.
        instruction: i64[s] counted from the function's first; after its last for hits between
            instructions, and for all of a function that has none.
        of_sample: i64[n] slot of each sample, -1 for those in other functions.
    """

    code: CodeTable
    code_row: I64
    instruction: I64
    of_sample: I64

    def __len__(self) -> int:
        return len(self.code_row)


class CodeCells(Record):
    """Sums over the samples of one event in functions with code.

    Attributes:
        slot: i64[c] ascending.
        context, stretch: i64[c] as in `SampleCells`.
        count: i64[c] samples.
        time_ns: i64[c] their time; 0 if the event has none.
        left_out: rows of the code table without room.
    """

    slot: I64
    context: I64
    stretch: I64
    count: I64
    time_ns: I64
    left_out: list[int]


def instruction_slots(names: StackNames, code: CodeTable) -> InstructionSlots:
    """Find the instruction of each sample."""
    samples = names.samples
    profile = samples.profile
    row_of_function = np.full(len(profile.functions), -1, np.int64)
    row_of_function[code.function_index] = np.arange(len(code))
    function = profile.locations.function_index.take(profile.hits.location_index)
    code_row = row_of_function.take(function)
    row = instruction_of_hits(profile, code)
    # Each function has one more place, after its instructions.
    after = code.start.take(code_row + 1)
    place_of_hit = np.where(code_row < 0, -1, np.where(row >= 0, row, after) + code_row)
    place = place_of_hit.take(samples.hit_index)
    used = distinct(place[place >= 0])
    of_sample = np.where(place < 0, -1, np.searchsorted(used, place))
    first = code.start + np.arange(len(code.start))
    found = np.searchsorted(first, used, side="right") - 1
    return InstructionSlots(code, found, used - first.take(found), of_sample)


def code_cells(
    names: StackNames, event: int, slots: InstructionSlots, cells: SampleCells
) -> CodeCells:
    """Add up the samples of one event, a row of `RunInfo.events`, by instruction."""
    samples = names.samples
    is_in = (samples.of_hit(samples.profile.hits.event) == event) & (slots.of_sample >= 0)
    rows = np.flatnonzero(is_in)
    context = _rows_of(_contexts(names, rows, cells), cells.contexts)
    shortest = sample_stretches(names, rows)
    keys, (count, period) = group_sums(
        (slots.of_sample.take(rows), context, shortest // (STRETCHES // cells.stretches)),
        (samples.count.take(rows), samples.period.take(rows)),
    )
    left_out = _left_out(slots.code_row.take(keys[0]), count, len(slots.code))
    kept = np.flatnonzero(~np.isin(slots.code_row.take(keys[0]), left_out))
    slot, context, stretch, count, period = (one.take(kept) for one in (*keys, count, period))
    time_ns = nanoseconds(samples.profile, np.full(len(kept), event), count, period)
    return CodeCells(slot, context, stretch, count, time_ns, left_out)


def _contexts(names: StackNames, rows: NDArray[np.intp], cells: SampleCells) -> Contexts:
    """Return the contexts of samples, with threads merged as in the cells."""
    samples = names.samples
    hit = samples.hit_index.take(rows)
    thread = names.threads.thread_index.take(rows).astype(np.int64)
    return Contexts(
        np.where(np.isin(thread, cells.contexts.thread), thread, len(names.threads)),
        samples.cpu.take(rows).astype(np.int64),
        samples.profile.hits.entry_reason_index.take(hit).astype(np.int64),
        names.mode.take(hit).astype(np.int64),
    )


def _rows_of(contexts: Contexts, distinct: Contexts) -> I64:
    """Return i64[n] the row of each context among the distinct ones, which ascend."""
    sizes = [int(column.max(initial=0)) + 1 for column in distinct]

    def packed(rows: Contexts) -> I64:
        key = rows[0]
        for column, size in zip(rows[1:], sizes[1:], strict=True):
            key = key * size + column
        return key

    return np.searchsorted(packed(distinct), packed(contexts))


def _left_out(code_row: I64, count: I64, described: int) -> list[int]:
    """Choose the functions to leave out; those with most samples get room first."""
    sizes = np.bincount(code_row, minlength=described).tolist()
    hits = np.bincount(code_row, count, described)
    room, without = _MOST_CELLS, []
    for row in np.argsort(-hits, kind="stable").tolist():
        if sizes[row] > room:
            without.append(row)
        else:
            room -= sizes[row]
    return sorted(without)


def code_fields(names: StackNames, slots: InstructionSlots) -> dict[str, list[Any]]:
    """Return the functions of slots with their instructions."""
    code, profile = slots.code, names.samples.profile
    functions, objects = profile.functions, profile.objects
    frames = names.frames.function_index
    frame_of_function = {row: frame for frame, row in enumerate(frames.tolist())}
    described = []
    for row in distinct(slots.code_row).tolist():
        function = int(code.function_index[row])
        instructions = slots.instruction[slots.code_row == row].tolist()
        described.append(
            {
                "frame": frame_of_function.get(function, -1),
                "address": int(functions.address[function]),
                "name": functions.name[function] or None,
                "object": objects.path[int(functions.object_index[function])],
                "no_instructions_because": code.reason[row] or None,
                "row": row,
                "instructions": _instructions(code, row, instructions),
            }
        )
    return {"files": code.lines.files if code.lines else [], "functions": described}


def source_block(names: StackNames, slots: InstructionSlots | None) -> bytes:
    """Return the functions of slots as JSON, empty without code."""
    return encoded(NO_CODE if slots is None else code_fields(names, slots))


def _instructions(
    code: CodeTable, code_row: int, instructions: list[int]
) -> list[list[object] | None]:
    first, last = code.start[code_row : code_row + 2].tolist()
    inside = [row for row in instructions if row < last - first]
    at = first + np.array(inside, np.int64)
    places: list[tuple[int, int]] = [(-1, 0)] * len(inside)
    if code.lines is not None:
        places = list(zip(*(column.tolist() for column in innermost(code.lines, at)), strict=True))
    found: list[list[object] | None] = []
    before = ran_before(code, code_row, inside)
    for row, place, (earlier, is_unmasked) in zip(at.tolist(), places, before, strict=True):
        address = int(code.address[row])
        back = address - int(code.address[first + earlier]) if earlier >= 0 else 0
        fields: list[object] = [
            str(address),
            code.text[row],
            code.target_name[row],
            back,
            int(is_unmasked),
        ]
        if place[0] >= 0 and place[1] > 0:
            fields += [*place, code.source.get(place)]
        found.append(fields)
    return found + [None] * (len(instructions) - len(inside))
