"""Tables whose columns line up: each as wide as its widest cell, nothing wrapped.

Comes in: column titles and cells, already escaped, by column. Goes out: lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.records import NamedTuple
from prospect.render.escape import display_width, padded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_GAP = "  "


class Column(NamedTuple):
    """A column's title, and whether its cells stand at its right edge (numbers do)."""

    title: str
    right: bool = True


def table_lines(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the title line and one line a row; the last column ends with its text.

    Args:
        columns: what the columns are called.
        cells: for each column its cells, equally many.
    """
    forms = []
    aligned: list[Sequence[str]] = []
    last = len(columns) - 1
    for position, (column, texts) in enumerate(zip(columns, cells, strict=True)):
        is_ascii = "".join(texts).isascii()
        measure = len if is_ascii else display_width
        width = max(len(column.title), max(map(measure, texts), default=0))
        if position == last and not column.right:
            forms.append("%s")
            aligned.append([column.title, *texts])
        elif is_ascii:
            forms.append(f"%{'' if column.right else '-'}{width}s")
            aligned.append([column.title, *texts])
        else:
            forms.append("%s")
            aligned.append(
                [padded(text, width, right=column.right) for text in (column.title, *texts)]
            )
    form = _GAP.join(forms)
    for row in zip(*aligned, strict=True):
        yield (form % row).rstrip()
