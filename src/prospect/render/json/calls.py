"""The JSON of `prospect calls`: every figure of the text, with more digits than its error leaves.

Comes in: a `CallsView` and its `CallEstimates`. Goes out: one JSON document (RFC 8259) in UTF-8;
docs/calls.md describes its fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prospect.estimate.call_figures import CallNumbers, call_numbers
from prospect.figures.stacks.stack_quality import stack_quality
from prospect.records import Record, nested_contents
from prospect.render.encoding import encoded
from prospect.render.json.fields import event_fields, stack_quality_fields
from prospect.render.renderer import write_pieces
from prospect.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from numpy.typing import NDArray

    from prospect.estimate.errors.call_estimates import CallEstimates
    from prospect.figures.calls.call_tree import CallTree
    from prospect.figures.calls.calls_view import CallsView, EventCalls

SCHEMA = "prospect-calls/1"


class JsonCalls(Record):
    """Who called whom, for programs."""

    def render(self, view: CallsView, estimates: tuple[CallEstimates, ...], out: BinaryIO) -> None:
        """Write the document to `out`, which stays open.

        Raises:
            RenderError: `out` cannot be written.
        """
        write_pieces(_document(view, estimates), out)


def _document(view: CallsView, estimates: tuple[CallEstimates, ...]) -> Iterator[bytes]:
    choice = nested_contents(view.choice)
    choice["samples"]["detail"] = view.detail
    yield encoded(
        {
            "schema": SCHEMA,
            "generator": f"prospect {__version__}",
            "options": choice,
            "warnings": [*view.warnings, *([view.nothing] if view.nothing else [])],
            **stack_quality_fields(stack_quality(view.profile, view.detail)),
            "events": calls_fields(view, estimates),
        }
    )
    yield b"\n"


def calls_fields(view: CallsView, estimates: tuple[CallEstimates, ...]) -> list[dict[str, Any]]:
    """Return the calls of each event."""
    numbers = call_numbers(view) or CallNumbers({}, {})
    return [
        _event(event, known, numbers) for event, known in zip(view.events, estimates, strict=True)
    ]


def _event(event: EventCalls, known: CallEstimates, numbers: CallNumbers) -> dict[str, Any]:
    function = event.graph.frames.function_index
    graph, totals, rows = event.graph, event.totals, event.hottest
    return {
        **event_fields(event.event),
        "has_time": event.has_time,
        "hits": graph.hits,
        "seconds": graph.seconds,
        "without_callers": event.without_callers,
        "routines": [
            {
                "name": graph.labels[frame],
                "object": graph.object_path(frame),
                "total_hits": int(totals.total_hits[frame]),
                "total_s": float(totals.total_s[frame]),
                "total_half_width_s": float(total),
                "self_hits": int(totals.self_hits[frame]),
                "self_s": float(totals.self_s[frame]),
                "self_half_width_s": float(own),
                "calls": numbers.of_routine.get(int(function[frame])),
            }
            for frame, total, own in zip(rows.tolist(), known.total_s, known.self_s, strict=True)
        ],
        "callees": _tree(event.callees, known.callees_s),
        "callers": _tree(event.callers, known.callers_s),
        "arcs": _arcs(event, numbers),
    }


def _tree(tree: CallTree | None, half_widths: NDArray[Any]) -> list[dict[str, Any]] | None:
    if tree is None:
        return None
    return [
        {
            "parent": int(tree.parent[row]),
            "name": tree.labels[int(tree.frame[row])],
            "hits": int(tree.hits[row]),
            "seconds": float(tree.total_s[row]),
            "half_width_s": float(half_widths[row]),
            "ended_s": float(tree.ended_s[row]),
        }
        for row in range(len(tree))
    ]


def _arcs(event: EventCalls, numbers: CallNumbers) -> list[dict[str, Any]] | None:
    arcs, labels = event.arcs, event.graph.labels
    function = event.graph.frames.function_index
    if arcs is None:
        return None
    return [
        {
            "caller": labels[int(arcs.caller[row])],
            "callee": labels[int(arcs.callee[row])],
            "hits": int(arcs.hits[row]),
            "self_s": float(arcs.self_s[row]),
            "total_s": float(arcs.total_s[row]),
            "calls": numbers.of_arc.get(
                (int(function[arcs.caller[row]]), int(function[arcs.callee[row]]))
            ),
        }
        for row in range(len(arcs))
    ]
