"""The report as one HTML file: a flame graph, a heat map over time, and sortable tables.

Comes in: a `ReportView`. Goes out: an HTML document, as `document` makes it. The figures are those
of the JSON report, which is one of its data blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from prospect.figures.stacks.stack_weights import stack_samples
from prospect.render.figures_renderer import FiguresRenderer
from prospect.render.html.cells import stack_names
from prospect.render.html.code import source_block
from prospect.render.html.document import document
from prospect.render.html.instructions import instruction_slots
from prospect.render.html.stacks import stack_block
from prospect.render.json.report import JsonRenderer
from prospect.render.renderer import write_pieces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from prospect.figures.report.view import ReportView
    from prospect.figures.stacks.stack_weights import StackSamples
    from prospect.profile.model import Profile

SCRIPTS = (
    "unpack",
    "names",
    "text",
    "model",
    "routines",
    "view",
    "filter",
    "flame",
    "pointing",
    "look",
    "heat",
    "table",
    "tabs",
    "panels",
    "answer",
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

    suffix: ClassVar[str] = ".html"

    def render(self, profile: Profile, out: BinaryIO) -> None:
        """Write the page to `out`, which stays open.

        Raises:
            RenderError: `out` cannot be written.
            UsageError: an option has no meaning.
        """
        view = self.view(profile)
        # The view's profile is without its waits, which the pictures show.
        write_pieces(self._pieces(view, profile), out)

    def pieces(self, view: ReportView) -> Iterator[bytes]:
        """Yield the page of a view, without waits."""
        return self._pieces(view, view.profile)

    def report_block(self, view: ReportView) -> bytes:
        """Return the figures of a view, as the page's data block has them."""
        calls = ("totals",) if view.profile.stacks is not None else ()
        report = JsonRenderer(
            disassemble=self.disassemble,
            calls=calls,
            recording=self.recording,
            repeated=self.repeated,
        )
        return b"".join(report.pieces(view))

    def _pieces(self, view: ReportView, profile: Profile) -> Iterator[bytes]:
        names = stack_names(page_samples(view, profile))
        code = names.samples.profile.code
        slots = instruction_slots(names, code) if code is not None else None
        yield from document(
            "report",
            ("embedded", *SCRIPTS),
            {
                "report": self.report_block(view),
                "source": source_block(names, slots),
                "stacks": stack_block(names, slots),
            },
        )


def page_samples(view: ReportView, profile: Profile) -> StackSamples:
    """Return what the pictures show of a profile: all processes, with `-V k` in the kernel."""
    return stack_samples(profile, "k" if view.detail == "k" else "4")
