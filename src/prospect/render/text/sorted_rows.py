"""One table instead of the report: rows by the keys of ``--sort``, with ``--columns`` by class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.announcing import pluralize
from prospect.dimensions import BY_NAME
from prospect.estimate.breakdown import class_columns, rows_by_keys
from prospect.figures.processes import asked_for
from prospect.figures.remarks import nothing_chosen
from prospect.render.escape import display_width, escaped, shortened
from prospect.render.name_parts import short_names
from prospect.render.renderer import FiguresRenderer, encoded
from prospect.render.text.style import (
    Figures,
    Style,
    note_lines,
    percent,
    percent_column,
    percent_digits,
)
from prospect.render.text.text_table import Column, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prospect.estimate.breakdown import Breakdown, ClassColumns
    from prospect.estimate.finished_report import Report
    from prospect.profile.run_info import EventInfo

# The last name, which ends its line, may be longer.
_NAME_WIDTH = 24
MOST_COLUMNS = 6
_SPACE = "  "
_PARALLEL = 0.95  # below this share of the CPU time, wall time has a column
_TITLE_WIDTH = 24


class SortedTextRenderer(FiguresRenderer):
    """Time by some keys of a sample, for people."""

    def pieces(self, report: Report) -> Iterator[bytes]:
        """Yield the lines: a table for each event."""
        return encoded(self._lines(report))

    def _lines(self, report: Report) -> Iterator[str]:
        style = Style(self.colour)
        for event in report.events:
            rows = rows_by_keys(event, self.sort)
            info = event.event if len(report.events) > 1 else None
            yield from style.section(_title(self, report, info, has_time=rows.has_time))
            if rows.total_hits:
                yield from _sorted_table(rows, self.sort, style)
                yield from _sorted_closing(rows, report.user_threshold_s, style)
            else:
                yield escaped(nothing_chosen(report.profile, report.detail))
        yield from note_lines(report.notes)
        yield from style.warnings(report.warnings)


def _title(
    renderer: FiguresRenderer, report: Report, event: EventInfo | None, *, has_time: bool
) -> str:
    """Return a table's title; it names the event if there are several."""
    what, keys = "Time" if has_time else "Samples", ", ".join(renderer.sort)
    of_event = f", {escaped(event.name)}" if event else ""
    return f"{what} by {keys} of {asked_for(report.profile.run, report.detail)}{of_event}"


def _sorted_table(rows: Breakdown, keys: tuple[str, ...], style: Style) -> Iterator[str]:
    figures = Figures(rows.total_hits, rows.total_s, has_time=rows.has_time)
    times, bars = figures.timed_columns(rows.seconds.tolist(), rows.half_width_s.tolist())
    ranks = [f"{at}{'=' * is_like}" for at, is_like in enumerate(rows.is_like_above.tolist(), 1)]
    shares = percent_column(rows.share.tolist(), percent_digits(rows.total_hits))
    wall_s = rows.wall_s if rows.event.is_cpu_time else None
    wall = [] if wall_s is None else [figures.seconds(one) for one in wall_s.tolist()]
    columns = [
        Column("Rank", ranks),
        Column(escaped(rows.event.time_title), times),
        Column("±", bars),
        Column(
            "Wall s",
            wall,
            when=wall_s is not None and wall_s.sum() < _PARALLEL * rows.seconds.sum(),
        ),
        Column(escaped(rows.event.samples_title), [str(hits) for hits in rows.hits.tolist()]),
        Column("Share", shares),
        *key_columns(keys, rows.names),
    ]
    return style.hot_rows(table_lines(*columns), rows.share.tolist())


def key_columns(keys: tuple[str, ...], names: Sequence[Sequence[str]]) -> list[Column]:
    """Return the columns of the keys."""
    columns = []
    for key, texts in zip(keys, names, strict=True):
        one = BY_NAME[key]
        cells = [escaped(_brief(name) if one.is_path else name) or "-" for name in texts]
        if key != keys[-1]:
            cells = short_names(cells, _NAME_WIDTH)
        columns.append(Column(one.heading, cells, right=one.is_number))
    return columns


def _sorted_closing(rows: Breakdown, threshold_s: float, style: Style) -> Iterator[str]:
    """Yield the rows that are left out, the total, and the meaning of the marks."""
    figures = Figures(rows.total_hits, rows.total_s, has_time=rows.has_time)
    if rows.left_out:
        time = f"{figures.seconds(rows.left_out_s)} s, {pluralize(rows.left_out_hits, 'sample')}"
        share = percent(rows.left_out_hits / rows.total_hits, 1)
        yield style.cut(
            f"- Left out by '-m {threshold_s:g}': {pluralize(rows.left_out, 'row')} with {time} "
            f"({share})"
        )
    time = figures.with_bar(rows.total_s, rows.total_half_width_s)
    total = f"{time} {escaped(rows.event.time_title)}, " if rows.has_time else ""
    marks = "; = ties with the row above" if rows.is_like_above.any() else ""
    yield f"Total: {total}{pluralize(rows.total_hits, escaped(rows.event.samples_word))}{marks}"


def _brief(path: str) -> str:
    """Return a file without its directory."""
    return path.rpartition("/")[2] or path


class ClassTextRenderer(FiguresRenderer):
    """Hits by some keys, for each class of hits side by side, for people."""

    def pieces(self, report: Report) -> Iterator[bytes]:
        """Yield the lines: a table for each event, one of all if these are the columns."""
        return encoded(self._lines(report))

    def _lines(self, report: Report) -> Iterator[str]:
        style = Style(self.colour)
        tables = class_columns(report, self.columns, self.sort, MOST_COLUMNS)
        for table in tables:
            info = table.events[0] if len(tables) > 1 else None
            title = _title(self, report, info, has_time=table.has_time(0))
            yield from style.section(f"{title}, by {self.columns}")
            if table.total_hits.any():
                yield from self._table(table, style)
                yield from self._closing(table, report.user_threshold_s, style)
            else:
                yield escaped(nothing_chosen(report.profile, report.detail))
        yield from note_lines(report.notes)
        yield from style.warnings(report.warnings)

    def _table(self, table: ClassColumns, style: Style) -> Iterator[str]:
        """Yield the table; its last row is the total."""
        columns: list[Column] = []
        head = ""
        for at, name in enumerate(table.classes):
            first, *others = _class_columns_of(table, at)
            shown = escaped(self._title(name, table))
            widths = [
                max(len(column.title), *map(display_width, column.cells))
                for column in (first, *others)
            ]
            room = sum(widths) + len(_SPACE) * (len(widths) - 1)
            if (lacking := min(display_width(shown), _TITLE_WIDTH) - room) > 0:
                first = first._replace(title=first.title.rjust(widths[0] + lacking))
                room += lacking
            shown = shortened(shown, room)
            fill = max(room - display_width(shown) - 1, 0) * "-"
            head += f"{shown} {fill}".ljust(room) + 2 * _SPACE
            columns += [first, *others, Column("", [""] * len(first.cells))]
        keys = [
            column._replace(cells=[*column.cells, "Total" if not place else ""])
            for place, column in enumerate(key_columns(self.sort, table.names))
        ]
        lines = table_lines(*columns, *keys)
        yield head.rstrip()
        yield from style.hot_rows(lines, [*table.share.max(axis=1, initial=0.0).tolist(), 0.0])

    def _title(self, name: str, table: ClassColumns) -> str:
        if table.others and name is table.classes[-1]:
            return f"{table.others} others"
        return f"{BY_NAME[self.columns].title}{name}" or "(none)"

    def _closing(self, table: ClassColumns, threshold_s: float, style: Style) -> Iterator[str]:
        """Yield the rows and classes that are left out."""
        if table.left_out:
            hits = pluralize(int(table.left_out_hits.sum()), "sample")
            rows = pluralize(table.left_out, "row")
            yield style.cut(f"- Left out by '-m {threshold_s:g}': {rows} with {hits}")
        if table.others:
            yield style.cut(
                f"- One column is of {table.others} others, with fewer samples each: a"
                " specification chooses some of them, --format csv has all"
            )


def _class_columns_of(table: ClassColumns, at: int) -> list[Column]:
    """Return the columns of one class, with a row for all at the end."""
    total_hits, total_s = int(table.total_hits[at]), float(table.total_s[at])
    hits = [*table.hits[:, at].tolist(), total_hits]
    shares = percent_column([*table.share[:, at].tolist(), 1.0], percent_digits(total_hits))
    event = table.events[at]
    figures = Figures(total_hits, total_s, has_time=table.has_time(at))
    times, bars = figures.time_columns(
        [*table.seconds[:, at].tolist(), total_s],
        [*table.half_width_s[:, at].tolist(), float(table.total_half_width_s[at])],
        escaped(event.time_title),
    )

    def if_hit(column: Column) -> Column:
        # Cells of a class without samples in a row are empty.
        cells = zip(column.cells, hits, strict=True)
        return column._replace(cells=[text if hit else "" for text, hit in cells])

    return [
        *(if_hit(times), if_hit(bars)) * figures.has_time,
        Column(escaped(event.samples_title), list(map(str, hits))),
        if_hit(Column("Share", shares)),
    ]
