"""A table of functions: `Pcnt Accum% Hits Secs Address Function Filename`.

The rank precedes it, the error bar follows the seconds, and in the kernel there is the share of
late samples. A name wider than its column is cut, and is whole at the end of its line.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from prospect.announcing import pluralize
from prospect.figures.shown_rows import shown_names
from prospect.profile.naming import gather
from prospect.records import NamedTuple
from prospect.render.escape import escaped, shortened
from prospect.render.name_parts import short_name, short_names
from prospect.render.text.style import NO_TIME, Figures, percent_column, percent_digits, rank_column
from prospect.render.text.text_table import Column, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prospect.columns.array_types import F64
    from prospect.estimate.errors.event_estimates import RowEstimates
    from prospect.estimate.with_callees import CalleesRow
    from prospect.figures.report.function_profiles import FunctionProfile
    from prospect.profile.complete import CompleteProfile
    from prospect.render.text.style import Style


_NAME_WIDTH = 48
_ALIASES_SHOWN = 4


class _Cells(NamedTuple):
    """The cells of a row that are the same wherever its function appears."""

    address: str
    name: str
    type: str
    bind: str
    filename: str


class Rows(NamedTuple):
    """A table of functions with what is estimated of its rows.

    Attributes:
        estimates: their error bars and marks, row by row.
        late: f64[r] share of late samples, NaN if unknown; None outside the kernel.
        half_width_s: half width of the table's total, NaN if unknown.
    """

    table: FunctionProfile
    estimates: RowEstimates
    late: F64 | None = None
    half_width_s: float = float("nan")


class FunctionFormatter:
    """Formats the function tables of a report; each function's own cells are made once."""

    def __init__(self, profile: CompleteProfile, figures: Figures, style: Style) -> None:
        self._profile = profile
        self._figures = figures
        self._style = style
        self._paths = [escaped(path) for path in profile.objects.path]
        self._cells_of: dict[int, _Cells] = {}

    def lines(self, rows: Rows, option: str, threshold_s: float) -> Iterator[str]:
        """Yield a table and its cut line."""
        table = rows.table
        yield self.total_line(table, rows.half_width_s)
        if not len(table):
            return
        yield ""
        shown = table.shown
        if shown:
            lines = table_lines(*self._columns(rows))
            yield from self._style.hot_rows(lines, table.share[:shown].tolist())
        if shown < len(table):
            words, first_s = self._style.words, float(table.seconds[shown])
            rest = pluralize(len(table) - shown, words.term("function"))
            what = f"{rest}, {pluralize(table.skipped_hits, words.term('sample'))}"
            cut = words.skipped(first_s, option, threshold_s, what)
            yield self._style.cut(cut)

    def _columns(self, rows: Rows) -> list[Column]:
        """Return the columns of the rows that are shown."""
        table, shown, words = rows.table, rows.table.shown, self._style.words
        estimates = rows.estimates.rows(slice(0, shown))
        digits = percent_digits(table.total_hits)
        own = self._cells(table.function[:shown].tolist())
        address, name, symbol_type, bind, filename = zip(*own, strict=True)
        late = [] if rows.late is None else rows.late[:shown].tolist()
        return [
            Column("Rank", rank_column(estimates), when=self._figures.has_time),
            Column("Pcnt", percent_column(table.share[:shown].tolist(), digits)),
            Column("Accum%", percent_column(table.accumulated[:shown].tolist(), digits)),
            Column(words.term("Samples"), [str(hits) for hits in table.hits[:shown].tolist()]),
            *self._figures.time_columns(table.seconds[:shown].tolist(), estimates.half_width_s),
            Column(
                "Late%",
                [NO_TIME if math.isnan(share) else f"{share:.0%}" for share in late],
                when=rows.late is not None,
            ),
            Column("Address", address),
            Column(words.profiled_title, name, right=False),
            Column("Type", symbol_type, right=False),
            Column("Bind", bind, right=False),
            Column("Filename", filename, right=False),
        ]

    def total_line(self, table: FunctionProfile, half_width_s: float = float("nan")) -> str:
        """Return the line that says what a table's rows add up to."""
        samples = pluralize(table.total_hits, self._style.words.term("sample"))
        if not self._figures.has_time:
            return f"{samples}."
        seconds = self._figures.with_bar(table.total_seconds, half_width_s)
        return f"Extrapolated time from {samples} = {seconds} seconds."

    def _cells(self, rows: list[int]) -> list[_Cells]:
        known, functions = self._cells_of, self._profile.functions
        new = [function for function in rows if function not in known]
        named = zip(new, shown_names(functions, new), gather(functions.aliases, new), strict=True)
        for function, name, aliases in named:
            known[function] = self._made_cells(function, escaped(name), aliases)
        return [known[function] for function in rows]

    def _made_cells(self, function: int, name: str, aliases: tuple[str, ...]) -> _Cells:
        functions = self._profile.functions
        address = f"0x{int(functions.address[function]):08x}"
        object_index = int(functions.object_index[function])
        path = self._paths[object_index]
        if not functions.name[function]:
            return _Cells(address, name, "-", "-", path)
        bind = "GLOBAL" if functions.is_global[function] else "LOCAL"
        short = short_name(name, _NAME_WIDTH, self._profile.objects.path[object_index])
        whole = "" if short == name else f"  = {name}"
        others = ", ".join(escaped(alias) for alias in aliases[:_ALIASES_SHOWN])
        if len(aliases) > _ALIASES_SHOWN:
            others += f" and {len(aliases) - _ALIASES_SHOWN} more"
        also = f"  also {others}" if aliases else ""
        return _Cells(address, short, "FUNC", bind, path + whole + also)


# Of names and of ends, without and with programs, for 79 columns.
_NAME_WIDTHS = ((29, 24), (24, 18))
_PROGRAM_WIDTH = 9


def callees_columns(
    rows: Sequence[CalleesRow], figures: Figures, samples_title: str
) -> list[Column]:
    """Return the columns of these rows."""
    times, bars = figures.timed_columns(
        [row.seconds for row in rows], [row.half_width_s for row in rows]
    )
    has_programs = any(row.other_programs or row.program != rows[0].program for row in rows)
    width, end_width = _NAME_WIDTHS[has_programs]
    names = short_names(
        [escaped(row.name) for row in rows], width, [row.object_path for row in rows]
    )
    ends = short_names(
        [escaped(row.end) or NO_TIME for row in rows], end_width, [row.end_object for row in rows]
    )
    return [
        Column("With all it calls", names, right=False),
        Column("Total s", times, when=figures.has_time),
        Column(samples_title, [str(row.hits) for row in rows], when=not figures.has_time),
        Column("±", bars, when=any(bar != NO_TIME for bar in bars)),
        Column("Share", [f"{100.0 * row.share:.0f} %" for row in rows]),
        Column("Program", [_program_of(row) for row in rows], right=False, when=has_programs),
        Column("Down to", ends, right=False, when=any(row.end for row in rows)),
    ]


def _program_of(row: CalleesRow) -> str:
    more = f" +{row.other_programs}" if row.other_programs else ""
    return shortened(escaped(row.program), _PROGRAM_WIDTH) + more
