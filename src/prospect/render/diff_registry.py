"""The renderers of comparisons by name, and the protocol that they follow.

To add a format: write its module next to the others, and list its class here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from prospect.errors import UsageError
from prospect.records import field_names
from prospect.render.html.diff_page import HtmlDiff
from prospect.render.json.diff_document import JsonDiff
from prospect.render.text.text_diff import TextDiff

if TYPE_CHECKING:
    from typing import BinaryIO

    from prospect.estimate.compare.comparison import Comparison


class ComparisonRenderer(Protocol):
    """A format that a comparison can be written in; its attributes are those of `Renderer`."""

    suffix: ClassVar[str]

    def render(self, comparison: Comparison, out: BinaryIO) -> None:
        """Write `comparison` to `out`, which stays open.

        Raises:
            RenderError: `out` cannot be written.
        """


DIFF_RENDERERS: dict[str, type[TextDiff | JsonDiff | HtmlDiff]] = {
    "text": TextDiff,
    "json": JsonDiff,
    "html": HtmlDiff,
}


def make_diff_renderer(name: str, **options: Any) -> ComparisonRenderer:
    """Return the renderer called `name`; options that its format does not have are left out.

    Raises:
        UsageError: there is no such format.
    """
    if name not in DIFF_RENDERERS:
        raise UsageError(f"there is no format '{name}'; there are {', '.join(DIFF_RENDERERS)}")
    chosen = DIFF_RENDERERS[name]
    known = field_names(chosen)
    return chosen(**{key: value for key, value in options.items() if key in known})
