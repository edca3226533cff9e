"""The base of the formats that write call stacks."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from prospect.figures.critical_path import on_critical_path
from prospect.figures.selection import only_exported
from prospect.figures.stacks.stack_weights import stack_samples, with_waits
from prospect.render.renderer import Renderer, write_pieces

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

    from prospect.figures.stacks.stack_weights import StackSamples
    from prospect.profile.model import Profile


class StackRenderer(Renderer):
    """A format that writes call stacks, for other tools.

    Its kernel detail, "k", is all samples that were taken in the kernel.
    """

    def render(self, profile: Profile, out: BinaryIO) -> None:
        """Write the stacks to `out`, which stays open.

        Raises:
            RenderError: `out` cannot be written.
            UsageError: an option has no meaning.
        """
        if self.critical_path:
            profile = on_critical_path(profile)
        write_pieces(
            self.pieces(only_exported(stack_samples(with_waits(profile), self.detail))), out
        )

    @abstractmethod
    def pieces(self, samples: StackSamples) -> Iterable[bytes]:
        """Return the document in pieces."""
