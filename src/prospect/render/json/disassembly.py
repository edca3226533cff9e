"""The disassembled profile of a table of routines as plain values, as docs/schema.md has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.profile.source import FLOW_NAMES, NO_TARGET
from prospect.render.encoding import rounded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prospect.estimate.annotate.annotation_view import AnnotatedRoutine
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.source import CodeTable


def disassembly_fields(
    profile: CompleteProfile, code: CodeTable, routines: Iterable[AnnotatedRoutine]
) -> list[dict[str, Any]]:
    """Return routines with those of their instructions that have hits."""
    return [_routine(profile, code, routine) for routine in routines]


def _routine(
    profile: CompleteProfile, code: CodeTable, routine: AnnotatedRoutine
) -> dict[str, Any]:
    functions, objects = profile.functions, profile.objects
    row = routine.function
    half_s = routine.half_width_s

    def address(instruction: int) -> int | None:
        return int(code.address[routine.rows.start + instruction]) if instruction >= 0 else None

    return {
        "address": int(functions.address[row]),
        "name": functions.name[row] or None,
        "object": objects.path[int(functions.object_index[row])],
        "hits": routine.hits,
        "seconds": round(routine.seconds, 9),
        "error_s": None if half_s is None else rounded(half_s),
        "share": routine.share,
        "no_instructions_because": routine.reason or None,
        "hits_between_instructions": routine.stray_hits,
        "hottest": address(routine.hottest),
        "likely_meant": address(routine.likely),
        "interrupts_on_at": address(routine.unmasking),
        "instructions": list(_instructions(code, routine)),
    }


def _instructions(code: CodeTable, routine: AnnotatedRoutine) -> Iterator[dict[str, Any]]:
    errors = routine.instruction_half_width_s
    for row in np.flatnonzero(routine.counted).tolist():
        at = routine.rows.start + row
        target = int(code.target[at])
        yield {
            "address": int(code.address[at]),
            "size_bytes": int(code.size_bytes[at]),
            "text": code.text[at],
            "flow": FLOW_NAMES[int(code.flow[at])],
            "target": None if target == NO_TARGET else target,
            "target_name": code.target_name[at] or None,
            "hits": int(routine.counted[row]),
            "seconds": round(float(routine.instruction_seconds[row]), 9),
            "error_s": None if errors is None else rounded(float(errors[row])),
            "share": float(routine.instruction_share[row]),
        }
