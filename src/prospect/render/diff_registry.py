"""The formats of comparisons by name.

To add a format: write its module next to the others, and list its function here.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from prospect.errors import UsageError
from prospect.render.html.diff_page import diff_page
from prospect.render.json.diff_document import diff_json
from prospect.render.renderer import write_pieces
from prospect.render.text.text_diff import diff_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from prospect.estimate.compare.comparison import Comparison

DIFF_FORMATS: dict[str, Callable[..., Iterator[bytes]]] = {
    "text": diff_text,
    "json": diff_json,
    "html": diff_page,
}


def diff_writer(
    name: str, rows: int = 20, *, colour: bool = False
) -> Callable[[Comparison, BinaryIO], None]:
    """Return a function that writes comparisons to files, which stay open.

    It raises a RenderError if a file cannot be written.

    Args:
        name: of the format.
        rows: how many rows a table lists; significant ones always.
        colour: mark titles, warnings and cut lines of text for a terminal.

    Raises:
        UsageError: there is no such format.
    """
    if name not in DIFF_FORMATS:
        raise UsageError(f"there is no format '{name}'; there are {', '.join(DIFF_FORMATS)}")
    pieces = partial(diff_text, colour=colour) if name == "text" else DIFF_FORMATS[name]
    return lambda comparison, out: write_pieces(pieces(comparison, rows), out)
