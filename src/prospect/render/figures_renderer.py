"""The base of the formats that write a report's figures."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from prospect.estimate.finished_report import Report
from prospect.figures.processes import chosen_seconds
from prospect.render.renderer import Renderer, write_pieces

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

    from prospect.profile.model import Profile


class FiguresRenderer(Renderer):
    """A format that writes the figures of the report."""

    shows_code: ClassVar[bool] = False
    shows_lines: ClassVar[bool] = False

    def render(self, profile: Profile, out: BinaryIO) -> None:
        """Write the figures to `out`, which stays open.

        Raises:
            RenderError: `out` cannot be written.
            UsageError: an option has no meaning.
        """
        with self.report(profile) as report:
            write_pieces(self.pieces(report), out)

    def report(self, profile: Profile) -> Report:
        """Return the report of a profile.

        Raises:
            UsageError: an option has no meaning.
        """
        thresholds_s = self.user_threshold_s, self.kernel_threshold_s
        if self.threshold:
            thresholds_s = (self.threshold / 100.0 * chosen_seconds(profile, self.detail),) * 2
        return Report(
            profile,
            self.detail,
            *thresholds_s,
            disassemble=self.disassemble if self.shows_code else 0,
            lines=self.lines and self.shows_lines,
        )

    @abstractmethod
    def pieces(self, report: Report) -> Iterable[bytes]:
        """Return the document in pieces."""
