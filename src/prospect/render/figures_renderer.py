"""What the formats of the report's figures share: the figures."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from prospect.figures.processes import chosen_seconds
from prospect.figures.report.view import report_view
from prospect.render.renderer import Renderer, write_pieces

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

    from prospect.figures.report.view import ReportView
    from prospect.profile.model import Profile


class FiguresRenderer(Renderer):
    """A format that writes the figures of the report."""

    def render(self, profile: Profile, out: BinaryIO) -> None:
        """Write the figures to `out`, which stays open.

        Raises:
            RenderError: `out` cannot be written.
            UsageError: an option has no meaning.
        """
        write_pieces(self.pieces(self.view(profile)), out)

    def view(self, profile: Profile) -> ReportView:
        """Return the figures of a profile.

        Raises:
            UsageError: an option has no meaning.
        """
        thresholds_s = self.user_threshold_s, self.kernel_threshold_s
        if self.threshold:
            thresholds_s = (self.threshold / 100.0 * chosen_seconds(profile, self.detail),) * 2
        return report_view(profile, self.detail, *thresholds_s)

    @abstractmethod
    def pieces(self, view: ReportView) -> Iterable[bytes]:
        """Return the document in pieces."""
