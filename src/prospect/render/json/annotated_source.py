"""The JSON of annotated sources: every line with hits, and its text where the source is here.

Comes in: a `SourceView`, and who reads source files. Goes out: one JSON document (RFC 8259) in
UTF-8, a line for each line of source; docs/annotate.md describes its fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prospect.records import Record
from prospect.render.encoding import encoded, rounded
from prospect.render.json.fields import event_fields
from prospect.render.renderer import write_pieces
from prospect.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from prospect.estimate.annotate.source_view import Amounts, SourceEvent, SourceView
    from prospect.profile.source import SourceFile

SCHEMA = "prospect-source/1"


class JsonSource(Record):
    """Annotated sources, for programs."""

    def render(
        self, view: SourceView, read: Callable[[str], SourceFile | None], out: BinaryIO
    ) -> None:
        """Write the document to `out`, which stays open.

        Raises:
            RenderError: `out` cannot be written.
        """
        write_pieces(_document(view, read), out)


def _document(view: SourceView, read: Callable[[str], SourceFile | None]) -> Iterator[bytes]:
    head = {
        "schema": SCHEMA,
        "generator": f"prospect {__version__}",
        "options": {"detail": view.detail},
        "notes": list(view.notes),
        "warnings": list(view.warnings),
        "events": [_event(event) for event in view.events],
    }
    yield b"{"
    for key, value in head.items():
        yield encoded(key) + b": " + encoded(value) + b",\n"
    yield b'"files": ['
    for number, file in enumerate(view.order):
        yield b",\n{" if number else b"\n{"
        yield from _file(view, file, read(view.paths[file]))
        yield b"}"
    yield b"\n]}\n"


def _event(event: SourceEvent) -> dict[str, Any]:
    return {
        **event_fields(event.event),
        "has_time": event.has_time,
        "hits": event.hits,
        "seconds": round(event.seconds, 9),
        "without_line": [
            {"object": path, "because": why, "hits": hits} for path, why, hits in event.without_file
        ],
    }


def _file(view: SourceView, file: int, source: SourceFile | None) -> Iterator[bytes]:
    head = {
        "file": view.paths[file],
        "found": source.path if source else None,
        "newer_than": view.newer_than(file, source.modified_ns) if source else "",
    }
    for key, value in head.items():
        yield encoded(key) + b": " + encoded(value) + b",\n"
    yield b'"events": ['
    present = [event for event in view.events if file in event.files]
    for number, event in enumerate(present):
        found = event.files[file]
        fields = {
            "name": event.event.name,
            **_amount(found.file, 0),
            "functions": [
                {"function": name, "first_line": line, **_amount(found.functions, row)}
                for row, (name, line) in enumerate(
                    zip(found.function, found.first_line.tolist(), strict=True)
                )
            ],
        }
        yield b",\n{" if number else b"\n{"
        for key, value in fields.items():
            yield encoded(key) + b": " + encoded(value) + b",\n"
        yield b'"lines": ['
        for row, line in enumerate(found.line.tolist()):
            text = source.lines[line - 1] if source and 0 < line <= len(source.lines) else None
            one = {"line": line, **_amount(found.lines, row), "text": text}
            yield (b",\n" if row else b"\n") + encoded(one)
        yield b"]}"
    yield b"]"


def _amount(amounts: Amounts, row: int) -> dict[str, Any]:
    half = amounts.half_width_s
    return {
        "hits": int(amounts.hits[row]),
        "seconds": round(float(amounts.seconds[row]), 9),
        "plus_minus_s": None if half is None else rounded(float(half[row])),
        "percent": round(float(amounts.share[row]) * 100.0, 6),
    }
