"""The JSON of an annotation: every instruction of the annotated routines, with hits and source.

Comes in: an `AnnotationView`. Goes out: one JSON document (RFC 8259) in UTF-8, a line for each
instruction; docs/annotate.md describes its fields. Bytes of a name that are no UTF-8 stand as in
the report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prospect.profile.naming import NameSource
from prospect.profile.source import FLOW_NAMES, NO_TARGET
from prospect.records import Record
from prospect.render.encoding import encoded, listed, rounded
from prospect.render.json.fields import event_fields
from prospect.render.renderer import write_pieces
from prospect.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from prospect.estimate.annotate.annotation_view import (
        AnnotatedRoutine,
        AnnotationView,
        EventAnnotation,
    )
    from prospect.profile.source import LineTable

SCHEMA = "prospect-annotate/1"


class JsonAnnotation(Record):
    """Annotated instructions, for programs: always all of a routine's."""

    def render(self, view: AnnotationView, out: BinaryIO) -> None:
        """Write the document to `out`, which stays open.

        Raises:
            RenderError: `out` cannot be written.
        """
        write_pieces(_document(view), out)


def _document(view: AnnotationView) -> Iterator[bytes]:
    head = {
        "schema": SCHEMA,
        "generator": f"prospect {__version__}",
        "options": {
            "what": view.choice.what,
            "detail": view.detail,
            "user_threshold_s": view.choice.user_threshold_s,
            "kernel_threshold_s": view.choice.kernel_threshold_s,
        },
        "notes": [*view.notes, *([view.nothing] if view.nothing else [])],
        "warnings": list(view.warnings),
    }
    yield b"{"
    for key, value in head.items():
        yield encoded(key) + b": " + encoded(value) + b",\n"
    yield b'"events": ['
    for number, event in enumerate(view.events):
        yield b",\n{" if number else b"\n{"
        yield from _event(view, event)
        yield b"}"
    yield b"\n]}\n"


def _event(view: AnnotationView, event: EventAnnotation) -> Iterator[bytes]:
    head = {
        **event_fields(event.event),
        "has_time": event.has_time,
        "hits": event.hits,
        "seconds": round(event.seconds, 9),
        "skid": event.skid,
    }
    for key, value in head.items():
        yield encoded(key) + b": " + encoded(value) + b",\n"
    yield b'"routines": ['
    for number, routine in enumerate(event.routines):
        yield b",\n{" if number else b"\n{"
        for key, value in _routine_fields(view, routine).items():
            yield encoded(key) + b": " + encoded(value) + b",\n"
        yield b'"instructions": ['
        yield from listed(_instructions(view, routine))
        yield b"]}"
    yield b"]"


def _routine_fields(view: AnnotationView, routine: AnnotatedRoutine) -> dict[str, Any]:
    functions, objects = view.profile.functions, view.profile.objects
    row = routine.function
    object_index = int(functions.object_index[row])
    blocks, half_s = routine.blocks, routine.half_width_s
    return {
        "routine": functions.name[row],
        "address": f"0x{int(functions.address[row]):x}",
        "size_bytes": int(functions.size_bytes[row]),
        "source": NameSource(int(functions.source[row])).name,
        "object": objects.path[object_index],
        "build_id": objects.build_id[object_index],
        "hits": routine.hits,
        "seconds": round(routine.seconds, 9),
        "plus_minus_s": None if half_s is None else rounded(half_s),
        "percent": round(routine.share * 100.0, 6),
        "no_instructions_because": routine.reason,
        "hits_between_instructions": routine.stray_hits,
        "hottest": _address(view, routine, routine.hottest),
        "likely_meant": _address(view, routine, routine.likely),
        "blocks": [
            {"start": _address(view, routine, start), "hits": hits}
            for start, hits in zip(
                blocks.start.tolist(), blocks.sums(routine.counted).tolist(), strict=True
            )
        ],
    }


def _address(view: AnnotationView, routine: AnnotatedRoutine, row: int) -> str | None:
    return f"0x{int(view.code.address[routine.rows.start + row]):x}" if row >= 0 else None


def _instructions(view: AnnotationView, routine: AnnotatedRoutine) -> Iterator[dict[str, Any]]:
    code, errors = view.code, routine.instruction_half_width_s
    for row in range(len(routine.counted)):
        at = routine.rows.start + row
        target = int(code.target[at])
        yield {
            "address": f"0x{int(code.address[at]):x}",
            "size_bytes": int(code.size_bytes[at]),
            "text": code.text[at],
            "flow": FLOW_NAMES[int(code.flow[at])],
            "target": None if target == NO_TARGET else f"0x{target:x}",
            "target_name": code.target_name[at],
            "hits": int(routine.counted[row]),
            "seconds": round(float(routine.instruction_seconds[row]), 9),
            "plus_minus_s": None if errors is None else rounded(errors[row]),
            "percent": round(float(routine.instruction_share[row]) * 100.0, 6),
            "frames": list(_frames(code.lines, at)) if code.lines else [],
        }


def _frames(lines: LineTable, row: int) -> Iterator[dict[str, Any]]:
    """Give the frames of an instruction, the outermost function first."""
    for frame in range(int(lines.frame_start[row]), int(lines.frame_start[row + 1])):
        name, file = int(lines.name_index[frame]), int(lines.file_index[frame])
        yield {
            "function": lines.names[name] if name >= 0 else "",
            "file": lines.files[file] if file >= 0 else "",
            "line": int(lines.line[frame]),
        }
