"""What the formats of call stacks share: their options, and the samples behind them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from prospect.figures.selection import only_exported
from prospect.figures.stacks.stack_weights import stack_samples
from prospect.records import Record
from prospect.render.renderer import write_pieces

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

    from prospect.figures.processes import Detail
    from prospect.figures.stacks.stack_weights import StackSamples
    from prospect.profile.model import Profile


class StackRenderer(Record, ABC):
    """A format that writes call stacks, for other tools.

    Attributes:
        detail: `-V`: "2" the command, "3" its descendants too, "4" every process, "k" all samples
            that were taken in the kernel.
        inline: `--inline`: show inlined functions as frames, where the profile has source lines.
    """

    detail: Detail = "3"
    inline: bool = False

    def render(self, profile: Profile, out: BinaryIO) -> None:
        """Write the stacks to `out`, which stays open.

        Raises:
            RenderError: `out` cannot be written.
            UsageError: an option has no meaning.
        """
        write_pieces(self.pieces(only_exported(stack_samples(profile, self.detail))), out)

    @abstractmethod
    def pieces(self, samples: StackSamples) -> Iterable[bytes]:
        """Return the document in pieces."""
