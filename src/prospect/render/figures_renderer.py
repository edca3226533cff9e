"""What the formats of the report's figures share: their options, and the figures behind them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from prospect.figures.report.view import report_view
from prospect.records import Record
from prospect.render.renderer import write_pieces

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

    from prospect.figures.processes import Detail
    from prospect.figures.report.view import ReportView
    from prospect.profile.model import Profile


class FiguresRenderer(Record, ABC):
    """A format that writes the figures of the report.

    Attributes:
        detail: `-V`: "2" the command, "3" its descendants too, "4" every process, "k" the kernel.
        user_threshold_s: `-m`: leave out rows under so much user time.
        kernel_threshold_s: `-k`: the same for kernel time.
    """

    detail: Detail = "3"
    user_threshold_s: float = 0.02
    kernel_threshold_s: float = 0.02

    def render(self, profile: Profile, out: BinaryIO) -> None:
        """Write the figures to `out`, which stays open.

        Raises:
            RenderError: `out` cannot be written.
            UsageError: an option has no meaning.
        """
        view = report_view(profile, self.detail, self.user_threshold_s, self.kernel_threshold_s)
        write_pieces(self.pieces(view), out)

    @abstractmethod
    def pieces(self, view: ReportView) -> Iterable[bytes]:
        """Return the document in pieces."""
