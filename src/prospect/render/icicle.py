"""A flame graph in HTML without a script: nested lists, each frame as wide as its share.

Comes in: a `FlameGraph`. Goes out: HTML for a page that others wrote. What it needs of style stands
with each frame; without, the lists read as a tree of calls with the share of each.
"""

from __future__ import annotations

import colorsys
import html
from typing import TYPE_CHECKING

from prospect.render.escape import escaped, short_name, shortened

if TYPE_CHECKING:
    from prospect.render.flame_boxes import Box, FlameGraph

_LEAST_SHARE = 0.004
_MOST_BYTES = 100_000
_MOST_LEVELS = 40
_LONGEST_NAME = 200
_LONGEST_SHOWN = 80
# Frames that are narrower have no room for a name; it stays there for those who drop styles.
_NARROW = 0.025

_OUTER = (
    "overflow:hidden;font-family:monospace;font-size:11px;line-height:16px;white-space:nowrap;"
    "color:#000000;margin:4px 0"
)
_LIST = "list-style-type:none;margin:0;padding:0"
_FRAME = "height:16px;overflow:hidden;text-overflow:ellipsis;border-right:1px solid #ffffff"


def icicle(graph: FlameGraph) -> str:
    """Return the flame graph, outermost callers on top; "" where there is no sample."""
    least = _LEAST_SHARE
    boxes = graph.boxes(least)
    if not boxes:
        return ""
    lists = _lists(boxes)
    while len(lists) > _MOST_BYTES:
        least *= 2
        boxes = graph.boxes(least)
        lists = _lists(boxes)
    left_out = f"frames of less than {100 * least:g} %"
    if max(box.level for box in boxes) >= _MOST_LEVELS:
        left_out += f" and below {_MOST_LEVELS} callers"
    events = graph.profile.run.events
    names = escaped(" + ".join(events[row].name for row in graph.events))
    names = html.escape(shortened(names, _LONGEST_SHOWN))
    return (
        f"<details open><summary>Flame graph of {names}, callers above what they call</summary>"
        f'<div style="{_OUTER}">{lists}</div>'
        f"<p>Not shown: {left_out}.</p></details>"
    )


def _lists(boxes: list[Box]) -> str:
    """Return boxes as nested lists, each inside its caller's."""
    parts: list[str] = []
    callers: list[Box] = []
    # Callers begin where their first callee does, and are of a lower level.
    for box in sorted(boxes, key=lambda box: (box.left, box.level)):
        if box.level >= _MOST_LEVELS:
            continue
        if len(callers) > box.level:
            parts.append("</li>" + "</ul></li>" * (len(callers) - box.level - 1))
            del callers[box.level :]
        else:
            parts.append(f'<ul style="{_LIST}">')
        width = 100.0 * box.share / (callers[-1].share if callers else 1.0)
        parts.append(f'<li style="float:left;width:{width:.3f}%;{_LIST}">{_frame(box)}')
        callers.append(box)
    parts.append("</li></ul>" * len(callers))
    return "".join(parts)


def _frame(box: Box) -> str:
    hue, saturation, lightness = box.colour
    red, green, blue = (
        round(255 * part)
        for part in colorsys.hls_to_rgb(hue / 360, lightness / 100, saturation / 100)
    )
    name = escaped(box.label) + box.mark
    hint = html.escape(f"{shortened(name, _LONGEST_NAME)} ({box.figure})")
    shown = html.escape(f"{short_name(name, _LONGEST_SHOWN)} {100 * box.share:.1f}%")
    style = f"{_FRAME};background-color:#{red:02x}{green:02x}{blue:02x}"
    style += ";font-size:0" if box.share < _NARROW else ";padding:0 3px"
    return f'<div title="{hint}" style="{style}">{shown}</div>'
