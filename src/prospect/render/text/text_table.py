"""Tables with aligned columns: each is as wide as its widest cell, and nothing is wrapped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.records import NamedTuple
from prospect.render.escape import display_width, padded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_GAP = "  "


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        title: above its cells.
        cells: of the rows, escaped; all columns of a table have equally many.
        right: whether cells end at the right edge, as numbers do.
        when: whether it is shown.
    """

    title: str
    cells: Sequence[str]
    right: bool = True
    when: bool = True

    if not TYPE_CHECKING:  # type: ignore[misc]  # mypy has its own constructor
        # A report makes a few for each table of each process. The constructor of any named tuple,
        # which fills in defaults, would take a fifth of the report's time.
        def __new__(cls, title, cells, right=True, when=True):  # noqa: ANN001, ANN204, D102, FBT002
            return tuple.__new__(cls, (title, cells, right, when))


def table_lines(*columns: Column) -> Iterator[str]:
    """Yield the title line and one line a row; the last column ends with its text."""
    shown = [column for column in columns if column.when]
    forms = []
    aligned: list[Sequence[str]] = []
    for column in shown:
        texts = [column.title, *column.cells]
        is_ascii = "".join(column.cells).isascii()
        measure = len if is_ascii else display_width
        width = max(len(column.title), max(map(measure, column.cells), default=0))
        if column is shown[-1] and not column.right:
            forms.append("%s")
        elif is_ascii:
            forms.append(f"%{'' if column.right else '-'}{width}s")
        else:
            forms.append("%s")
            texts = [padded(text, width, right=column.right) for text in texts]
        aligned.append(texts)
    form = _GAP.join(forms)
    for row in zip(*aligned, strict=True):
        yield (form % row).rstrip()


def columns_of(
    rows: Sequence[Sequence[str]], numbers: Sequence[str], texts: Sequence[str]
) -> list[Column]:
    """Return the columns of rows of cells, by their titles: first numbers, then texts."""
    titles = [*numbers, *texts]
    cells = zip(*rows, strict=True) if rows else [()] * len(titles)
    return [
        Column(title, column, right=place < len(numbers))
        for place, (title, column) in enumerate(zip(titles, cells, strict=True))
    ]
