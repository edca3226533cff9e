"""One table in place of the report: time by the keys of ``--sort``, most first."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from prospect.announcing import counted
from prospect.dimensions import BY_NAME
from prospect.estimate.errors.rows_by_keys import rows_by_keys
from prospect.figures.processes import asked_for
from prospect.figures.remarks import nothing_chosen
from prospect.render.escape import escaped, short_names
from prospect.render.figures_renderer import FiguresRenderer
from prospect.render.renderer import encoded
from prospect.render.text.columns import Column, table_lines
from prospect.render.text.header import note_lines, warning_lines
from prospect.render.text.numbers import Figures, percent, percent_column, percent_digits
from prospect.render.text.style import Style

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prospect.estimate.errors.rows_by_keys import RowsByKeys
    from prospect.estimate.report import Report

# Of all names but the last, which ends its line.
_NAME_WIDTH = 24


class SortedTextRenderer(FiguresRenderer):
    """Time by some keys of a sample, for people."""

    suffix: ClassVar[str] = ".txt"

    def pieces(self, report: Report) -> Iterator[bytes]:
        """Yield the lines: a table for each event."""
        return encoded(self._lines(report))

    def _lines(self, report: Report) -> Iterator[str]:
        style = Style(self.colour)
        for event in report.events:
            rows = rows_by_keys(report, event, self.sort, report.grid)
            what = "Time" if rows.has_time else "Hits"
            of_event = f", {escaped(event.event.name)}" if len(report.events) > 1 else ""
            whose = asked_for(report.profile.run, report.detail)
            yield from style.section(f"{what} by {', '.join(self.sort)} of {whose}{of_event}")
            if rows.total_hits:
                yield from _table(rows, self.sort, style)
                yield from _closing(rows, report.user_threshold_s, style)
            else:
                yield escaped(nothing_chosen(report.profile, report.detail))
        yield from note_lines(report)
        yield from warning_lines(report, style)


def _table(rows: RowsByKeys, keys: tuple[str, ...], style: Style) -> Iterator[str]:
    figures = Figures(rows.total_hits, rows.total_s, has_time=rows.has_time)
    times, bars = figures.timed_columns(rows.seconds.tolist(), rows.half_s.tolist())
    ranks = [f"{at}{'=' * is_like}" for at, is_like in enumerate(rows.is_like_above.tolist(), 1)]
    shares = percent_column(rows.share.tolist(), percent_digits(rows.total_hits))
    columns = [
        Column("Rank", ranks),
        Column(escaped(rows.event.time_title), times),
        Column("±", bars),
        Column(escaped(rows.event.hits_title), [str(hits) for hits in rows.hits.tolist()]),
        Column("Share", shares),
        *key_columns(keys, rows.names),
    ]
    return style.hot_rows(table_lines(columns), rows.share.tolist())


def key_columns(keys: tuple[str, ...], names: Sequence[Sequence[str]]) -> list[Column]:
    """Return the columns that say what each row is of."""
    columns = []
    for key, texts in zip(keys, names, strict=True):
        one = BY_NAME[key]
        cells = [escaped(_brief(name) if one.is_path else name) or "-" for name in texts]
        if key != keys[-1]:
            cells = short_names(cells, _NAME_WIDTH)
        columns.append(Column(one.heading, cells, right=one.is_number))
    return columns


def _closing(rows: RowsByKeys, threshold_s: float, style: Style) -> Iterator[str]:
    """Yield what is not shown, the total, and what the marks mean."""
    figures = Figures(rows.total_hits, rows.total_s, has_time=rows.has_time)
    if rows.left_out:
        time = f"{figures.seconds(rows.left_out_s)} s, {counted(rows.left_out_hits, 'hit')}"
        share = percent(rows.left_out_hits / rows.total_hits, 1)
        yield style.cut(
            f"- Left out by '-m {threshold_s:g}': {counted(rows.left_out, 'row')} with {time} "
            f"({share})"
        )
    time = figures.with_bar(rows.total_s, rows.total_half_s)
    total = f"{time} {escaped(rows.event.time_title)}, " if rows.has_time else ""
    marks = "; = ties with the row above" if rows.is_like_above.any() else ""
    yield f"Total: {total}{counted(rows.total_hits, escaped(rows.event.hits_word))}{marks}"


def _brief(path: str) -> str:
    """Return a file without its directory."""
    return path.rpartition("/")[2] or path
