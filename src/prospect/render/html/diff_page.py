"""A comparison as one HTML file: a differential flame graph, and tables of what changed.

The figures of its tables are those of the JSON of the comparison, which is one of its data blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.figures.stacks.call_forest import THREADS
from prospect.figures.stacks.frames import object_label
from prospect.render.comparison_words import compared_line, per, unit_of, verdict_line
from prospect.render.encoding import encoded
from prospect.render.html.whole_file import ColumnBlock, document
from prospect.render.json.diff_document import diff_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from prospect.estimate.compare.compared_stacks import ComparedCalls, ComparedStacks
    from prospect.estimate.compare.comparison import Comparison

SCRIPTS = (
    "embedded",
    "unpack",
    "names",
    "text",
    "model",
    "view",
    "flame",
    "pointing",
    "table",
    "tabs",
    "keys",
    "page",
    "diff_sides",
    "diff_tables",
    "diff",
)


def diff_page(comparison: Comparison, rows: int) -> Iterator[bytes]:
    """Return a comparison as a page for a browser; see `diff_registry.diff_writer`."""
    blocks = {
        "diff": b"".join(diff_json(comparison, rows)),
        "words": encoded(_words(comparison)),
        "stacks": _stack_block(comparison.stacks),
    }
    return document("diff", SCRIPTS, blocks)


def _words(comparison: Comparison) -> dict[str, str | float | None]:
    """Return the page's sentences and unit, which are those of the text."""
    unit = unit_of(comparison)
    return {
        "unit": unit.name,
        "per_second": unit.per_second,
        "per": per(comparison),
        "compared": compared_line(comparison),
        "verdict": verdict_line(comparison.verdict) if comparison.verdict else None,
    }


def _stack_block(stacks: ComparedStacks | None) -> bytes:
    """Return the tree with its figures, without an event if stacks were not compared."""
    block = ColumnBlock()
    if stacks is None:
        return block.block({"events": []})
    objects = {name: number for number, name in enumerate(dict.fromkeys(stacks.object))}
    frame_object = np.array([objects[name] for name in stacks.object], np.int64)
    return block.block(
        {
            "labels": [
                name or f"[{object_label(path)}]"
                for name, path in zip(stacks.name, stacks.object, strict=True)
            ],
            "objects": list(objects),
            "frame_object": block.add(frame_object),
            "comms": stacks.processes,
            "first_thread_frame": len(stacks.name) + THREADS,
            "has_stacks": stacks.has_callers,
            "tested": int(np.count_nonzero(~np.isnan(stacks.q_value))),
            "calls": _calls(stacks.calls, block),
            "events": [_tree(stacks, block)],
        }
    )


def _calls(calls: ComparedCalls, block: ColumnBlock) -> dict[str, object]:
    """Return the figures of the tested calls; their times are those of the tree."""
    columns: dict[str, NDArray[Any]] = {
        "caller": calls.caller,
        "callee": calls.callee,
        "half_width": calls.half_width.astype(np.float32),
        "q_value": calls.q_value.astype(np.float32),
        "is_significant": calls.significant,
    }
    return {name: block.add(column) for name, column in columns.items()}


def _tree(stacks: ComparedStacks, block: ColumnBlock) -> dict[str, object]:
    columns = {
        "frame": stacks.tree.frame_index,
        "depth": stacks.tree.depth,
        "is_tested": ~np.isnan(stacks.q_value),
        "is_significant": stacks.significant,
        "half_width": stacks.half_width.astype(np.float32),
    }
    for side, letter in enumerate("ab"):
        columns[f"own_{letter}"] = stacks.own[:, side].astype(np.float32)
        columns[f"samples_{letter}"] = stacks.own_hits[:, side]
    return {name: block.add(column) for name, column in columns.items()}
