"""A flame graph as one SVG picture, for any browser.

It is SVG 1.1 without scripts, links or external resources. Outermost callers are at the bottom.
Widths are shares of the first event's time, or of its samples if it has no time; of all time on and
off the CPU if waits were recorded. Full names and figures show under the pointer. Frames of less
than 0.1 % are left out, more of them if the file would pass 2 MB; the picture has a note on that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape as xml_escaped

from prospect.render.escape import escaped, shortened
from prospect.render.flame_boxes import flame_graph
from prospect.render.name_parts import short_name
from prospect.render.renderer import StackRenderer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.figures.stacks.stack_weights import StackSamples
    from prospect.profile.complete import CompleteProfile
    from prospect.render.flame_boxes import Box

_LEAST_SHARE = 0.001
_MOST_BYTES = 2_000_000
_WIDTH, _MARGIN, _ROW, _HEAD, _FOOT = 1200, 10, 17, 46, 30
_CHAR = 7.0  # width of a character at this size, about
_LONGEST_NAME = 240


class SvgRenderer(StackRenderer):
    """A flame graph as a picture."""

    def pieces(self, samples: StackSamples) -> Iterator[bytes]:
        """Yield the picture."""
        graph = flame_graph(samples, inlined=self.inline)
        title = _title(samples.profile, graph.events or (0,))
        least = _LEAST_SHARE
        picture = _picture(title, graph.boxes(least), least)
        while len(picture) > _MOST_BYTES:
            least *= 2
            picture = _picture(title, graph.boxes(least), least)
        yield picture


def _title(profile: CompleteProfile, events: tuple[int, ...]) -> str:
    run = profile.run
    what = " ".join(run.command) or run.origin
    return f"{what}: {' + '.join(run.events[event].name for event in events)}"


def _picture(title: str, boxes: list[Box], least: float) -> bytes:
    levels = max((box.level for box in boxes), default=0) + 1
    height = _HEAD + levels * _ROW + _FOOT
    size = f'width="{_WIDTH}" height="{height}"'
    view = f'viewBox="0 0 {_WIDTH} {height}" font-family="monospace" font-size="11"'
    heading = f'x="{_WIDTH / 2:g}" y="26" font-size="16" text-anchor="middle"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<svg xmlns="http://www.w3.org/2000/svg" version="1.1" {size} {view}>',
        f'<rect {size} fill="#fffdf5"/>',
        f"<text {heading}>{_text(shortened(escaped(title), 110))}</text>",
    ]
    lines += [_drawn(box, _HEAD + (levels - 1 - box.level) * _ROW) for box in boxes]
    note = f"Frames of less than {100 * least:g} % are not shown." if boxes else "No samples."
    lines.append(f'<text x="{_MARGIN}" y="{height - 10}" fill="#555">{note}</text>')
    lines.append("</svg>")
    return ("\n".join(lines) + "\n").encode()


def _drawn(box: Box, top: int) -> str:
    room = _WIDTH - 2 * _MARGIN
    left, width = _MARGIN + box.left * room, box.share * room
    name = escaped(box.label) + box.mark
    hue, saturation, lightness = box.colour
    hint = _text(f"{shortened(name, _LONGEST_NAME)} ({box.figure})")
    rect = (
        f'<g><title>{hint}</title><rect x="{left:.2f}" y="{top}" width="{width:.2f}" '
        f'height="{_ROW - 1}" fill="hsl({hue},{saturation}%,{lightness}%)" rx="1"/>'
    )
    columns = int((width - 4) / _CHAR)
    if columns < 4:
        return f"{rect}</g>"
    shown = short_name(name, columns)
    return f'{rect}<text x="{left + 3:.2f}" y="{top + 12}">{_text(shown)}</text></g>'


def _text(text: str) -> str:
    return xml_escaped(text, {'"': "&quot;"})
