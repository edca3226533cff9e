"""Instructions with hits and their source, which no selection of samples changes.

Comes in: the slots that samples fall in. Goes out: a JSON document: paths of files, and by routine
its instructions with a hit, in the order of the slots: address, text, name of the target, what ran
before (bytes back to it, 0 where that is not known), whether interrupts were let in there; then,
where they are known, file and line and the text of that line. `null` stands for hits between
instructions. `assets/code.js` reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.columns.sorting import distinct
from prospect.estimate.annotate.annotation_view import ran_before
from prospect.profile.source import innermost
from prospect.render.encoding import encoded

if TYPE_CHECKING:
    from prospect.profile.source import CodeTable
    from prospect.render.html.cells import StackNames
    from prospect.render.html.instructions import InstructionSlots

NO_CODE: dict[str, list[Any]] = {"files": [], "routines": []}


def code_fields(names: StackNames, slots: InstructionSlots) -> dict[str, list[Any]]:
    """Return the routines of slots with their instructions.

    Args:
        names: of the samples.
        slots: of these samples.
    """
    code, profile = slots.code, names.samples.profile
    functions, objects = profile.functions, profile.objects
    frames = names.frames.function_index
    frame_of_function = {row: frame for frame, row in enumerate(frames.tolist())}
    routines = []
    for row in distinct(slots.routine).tolist():
        function = int(code.function_index[row])
        instructions = slots.instruction[slots.routine == row].tolist()
        routines.append(
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
    return {"files": code.lines.files if code.lines else [], "routines": routines}


def source_block(names: StackNames, slots: InstructionSlots | None) -> bytes:
    """Return the same as JSON, empty without code."""
    return encoded(NO_CODE if slots is None else code_fields(names, slots))


def _instructions(
    code: CodeTable, routine: int, instructions: list[int]
) -> list[list[object] | None]:
    first, last = code.start[routine : routine + 2].tolist()
    inside = [row for row in instructions if row < last - first]
    at = first + np.array(inside, np.int64)
    places: list[tuple[int, int]] = [(-1, 0)] * len(inside)
    if code.lines is not None:
        places = list(zip(*(column.tolist() for column in innermost(code.lines, at)), strict=True))
    found: list[list[object] | None] = []
    before = ran_before(code, routine, inside)
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
