"""The JSON of `prospect calls` where calls were counted and stacks are not known.

Comes in: `CallShares`. Goes out: one JSON document (RFC 8259) in UTF-8; docs/formats.md describes
its fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prospect.records import Record
from prospect.render.encoding import encoded
from prospect.render.json.fields import event_fields
from prospect.render.renderer import write_pieces
from prospect.version import __version__

if TYPE_CHECKING:
    from typing import BinaryIO

    from prospect.figures.calls.call_shares import CallShares

SCHEMA = "prospect-call-shares/1"


class JsonCallShares(Record):
    """Who called whom how often, for programs."""

    def render(self, shares: CallShares, out: BinaryIO) -> None:
        """Write the document to `out`, which stays open.

        Raises:
            RenderError: `out` cannot be written.
        """
        document = {
            "schema": SCHEMA,
            "generator": f"prospect {__version__}",
            "notes": list(shares.profile.run.limits),
            **event_fields(shares.profile.run.events[0]),
            "hits": shares.ticks,
            "seconds": shares.total_s,
            "nodes": [_node(shares, node) for node in shares.order.tolist()],
            "arcs": [_arc(shares, arc) for arc in range(len(shares.arc_calls))],
        }
        write_pieces([encoded(document), b"\n"], out)


def _node(shares: CallShares, node: int) -> dict[str, Any]:
    return {
        "name": shares.labels[node],
        "is_cycle": node >= shares.routines,
        "cycle": int(shares.cycle[node]) or None,
        "self_s": float(shares.self_s[node]),
        "children_s": float(shares.child_s[node]),
        "calls": int(shares.calls[node]),
        "self_calls": int(shares.self_calls[node]),
    }


def _arc(shares: CallShares, arc: int) -> dict[str, Any]:
    return {
        "caller": shares.labels[int(shares.caller[arc])],
        "callee": shares.labels[int(shares.callee[arc])],
        "calls": int(shares.arc_calls[arc]),
        "self_s": float(shares.arc_self_s[arc]),
        "children_s": float(shares.arc_child_s[arc]),
    }
