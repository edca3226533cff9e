"""The JSON of a comparison: every figure of it, under a versioned schema.

Comes in: a Comparison. Goes out: one JSON document (RFC 8259) in UTF-8, a line for each row;
docs/diff.md describes its fields and docs/diff.schema.json checks them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from prospect.figures.portions import PORTION_NAMES
from prospect.records import Record
from prospect.render.encoding import encoded, significant
from prospect.render.renderer import write_pieces
from prospect.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from prospect.estimate.compare.changes import ChangeTable
    from prospect.estimate.compare.comparison import ComparedRecording, Comparison
    from prospect.estimate.compare.verdict import Verdict

SCHEMA = "prospect-diff/1"


class JsonDiff(Record):
    """What changed, for programs.

    Attributes:
        rows: how many rows a table lists; significant ones always.
    """

    suffix: ClassVar[str] = ".json"

    rows: int = 20

    def render(self, comparison: Comparison, out: BinaryIO) -> None:
        """Write the document to `out`, which stays open.

        Raises:
            RenderError: `out` cannot be written.
        """
        write_pieces(_document(comparison, self.rows), out)


def _document(comparison: Comparison, rows: int) -> Iterator[bytes]:
    options = comparison.options
    head = {
        "schema": SCHEMA,
        "generator": f"prospect {__version__}",
        "options": {
            "scope": options.scope,
            "fdr": options.fdr,
            "run_variation": options.run_variation,
            "rows": rows,
        },
        "per": {"kind": comparison.work.kind, "unit": comparison.work.unit},
        "a": [_recording(recording) for recording in comparison.before],
        "b": [_recording(recording) for recording in comparison.after],
        "notes": list(comparison.notes),
        "warnings": list(comparison.warnings),
        "tested": comparison.tested,
        "variation": _variation(comparison),
        "condition": _verdict(comparison.verdict) if comparison.verdict else None,
    }
    yield b"{"
    for key, value in head.items():
        yield encoded(key) + b": " + encoded(value) + b",\n"
    tables = (
        ("total", comparison.total),
        ("modes", comparison.portions),
        ("processes", comparison.processes),
        ("objects", comparison.objects),
        ("routines", comparison.routines),
        ("inclusive", comparison.inclusive),
    )
    for number, (name, table) in enumerate(tables):
        if table is None:
            continue
        yield b",\n" if number else b""
        yield encoded(name) + b": {"
        yield from _table(table, None if name in ("total", "modes") else rows)
        yield b"}"
    yield b"}\n"


def _recording(recording: ComparedRecording) -> dict[str, Any]:
    run = recording.run
    return {
        "origin": run.origin,
        "command": list(run.command),
        "recorder": run.recorder,
        "hostname": run.hostname,
        "os_release": run.os_release,
        "started_at": run.started_at,
        "wall_seconds": run.wall_seconds,
        "hits": recording.hits,
        "seconds": recording.seconds,
        "work": recording.work,
        "other_load": recording.other_load,
    }


def _variation(comparison: Comparison) -> dict[str, Any]:
    variation = comparison.variation
    return {
        "assumed": variation.assumed,
        "common_a": variation.common[0],
        "common_b": variation.common[1],
        "row": variation.row,
        "load_allowance_a": comparison.load_allowance[0],
        "load_allowance_b": comparison.load_allowance[1],
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    condition = verdict.condition
    return {
        "text": condition.text,
        "outcome": verdict.outcome,
        "about": verdict.about,
        "a": verdict.before,
        "b": verdict.after,
        "relative": verdict.relative,
        "relative_low": verdict.relative_low,
        "relative_high": verdict.relative_high,
        "confidence": condition.confidence,
        "recordings_needed": verdict.recordings_needed or None,
    }


def _table(table: ChangeTable, rows: int | None) -> Iterator[bytes]:
    significant = int(np.count_nonzero(table.significant))
    shown = len(table) if rows is None else table.shown(rows)
    left = table.mean[shown:].sum(axis=0).tolist()
    yield b'"significant": ' + encoded(significant)
    yield b', "skipped": ' + encoded({"rows": len(table) - shown, "a": left[0], "b": left[1]})
    yield b', "rows": ['
    for row in range(shown):
        yield b",\n" if row else b"\n"
        yield encoded(_row(table, row))
    yield b"]"


def _row(table: ChangeTable, row: int) -> dict[str, Any]:
    before, after = table.mean[row].tolist()
    hits = table.hits[row].tolist()
    # Of what is rounded: a difference of two that are nearly equal is all last digits.
    change = significant(float(table.change[row]))
    half_width = significant(float(table.half_width[row]))
    return {
        "name": table.name[row] or None,
        "object": table.object[row] or None,
        "mode": None
        if table.kind in ("total", "inclusive")
        else PORTION_NAMES[int(table.portion[row])],
        "hits_a": hits[0],
        "hits_b": hits[1],
        "a": before,
        "b": after,
        "change": change,
        "low": change - half_width,
        "high": change + half_width,
        "relative": float(table.relative[row]),
        "relative_low": float(table.relative_low[row]),
        "relative_high": float(table.relative_high[row]),
        "p_value": float(table.p_value[row]),
        "q_value": float(table.q_value[row]),
        "significant": bool(table.significant[row]),
    }
