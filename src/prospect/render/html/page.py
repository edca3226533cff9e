"""The report as one HTML file: a flame graph, a heat map over time, and sortable tables.

The figures are those of the JSON report, which is one of its data blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from prospect.figures.stacks.stack_weights import stack_samples, with_waits
from prospect.render.html.cells import stack_names
from prospect.render.html.instructions import instruction_slots, source_block
from prospect.render.html.stacks import stack_block
from prospect.render.html.whole_file import document
from prospect.render.json.report_document import JsonRenderer
from prospect.render.renderer import FiguresRenderer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.estimate.finished_report import Report
    from prospect.figures.stacks.stack_weights import StackSamples

SCRIPTS = (
    "unpack",
    "names",
    "text",
    "model",
    "functions",
    "view",
    "filter",
    "flame",
    "pointing",
    "look",
    "heat",
    "wall_path",
    "table",
    "tabs",
    "panels",
    "answer",
    "turns",
    "waiting",
    "details",
    "code",
    "keys",
    "page",
    "parts",
    "main",
)


class HtmlRenderer(FiguresRenderer):
    """The report as a page for a browser."""

    shows_code: ClassVar[bool] = True

    def pieces(self, report: Report) -> Iterator[bytes]:
        """Yield the page."""
        names = stack_names(page_samples(report))
        code = names.samples.profile.code
        slots = instruction_slots(names, code) if code is not None else None
        yield from document(
            "report",
            ("embedded", *SCRIPTS),
            {
                "report": self.report_block(report),
                "source": source_block(names, slots),
                "stacks": stack_block(names, slots),
            },
        )

    def report_block(self, report: Report) -> bytes:
        """Return the figures of a report, as the page's data block has them."""
        calls = ("totals",) if report.profile.stacks is not None else ()
        options = JsonRenderer(calls=calls, recording=self.recording, repeated=self.repeated)
        return b"".join(options.pieces(report))


def page_samples(report: Report) -> StackSamples:
    """Return the samples of the pictures: all processes, with `-V k` in the kernel, and waits."""
    return stack_samples(with_waits(report.profile), "k" if report.detail == "k" else "4")
