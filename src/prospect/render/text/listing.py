"""The instructions of one function as lines: hits, jumps, blocks and source between them.

Jumps are arrows in a margin, drawn in characters: the shortest run closest to the text, and the
longest are left out if more cross a row than fit.
"""

from __future__ import annotations

from bisect import bisect
from typing import TYPE_CHECKING

import numpy as np

from prospect.announcing import pluralize
from prospect.records import NamedTuple
from prospect.render.escape import escaped, shortened
from prospect.render.name_parts import short_name
from prospect.render.text.style import percent, percent_digits
from prospect.render.text.text_table import Column, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prospect.columns.array_types import I64, Bools
    from prospect.estimate.annotate.annotation_view import AnnotatedFunction
    from prospect.profile.optional_tables import CodeTable, LineTable
    from prospect.render.text.style import Figures, Style, Words

# Instructions without samples are shown so far around those with samples. Gaps shorter than the
# least are shown, too: a line on them would be no shorter.
_CONTEXT = 4
_LEAST_SKIPPED = 4
_HOT_SHARE = 0.1
# Instructions of a listing that need no excerpt: a terminal of 24 lines shows them.
_SEEN_AT_ONCE = 20
_SOURCE_WIDTH = 100
_NAME_WIDTH = 48
_GAP = "  "
_MOST_LANES = 6


class Form(NamedTuple):
    """How a listing is written: whole or near samples only, with which arrows and digits."""

    whole: bool
    glyphs: Glyphs
    figures: Figures
    style: Style


class ListingLine(NamedTuple):
    """A line of a listing.

    Attributes:
        text: printable, with the styles of the form.
        instruction: the instruction that it shows or precedes, from 0; their number for closing
            lines.
        part: 0 for the instruction itself, 1 and up for the lines above it, the nearest last.
        is_hot: it shows an instruction with a large share of the function's samples.
    """

    text: str
    instruction: int
    part: int
    is_hot: bool


class Listing:
    """The instructions of one function as lines."""

    def __init__(
        self, code: CodeTable, function: AnnotatedFunction, start: int, form: Form
    ) -> None:
        self._code = code
        self._function = function
        self._start = start
        self._form = form
        self._digits = percent_digits(function.hits)
        self._title, self._figures = _figure_columns(function, form.figures, self._digits)
        self._margin = " " * len(self._title + _GAP)
        blocks = function.blocks
        jumps = list(zip(blocks.jump_from.tolist(), blocks.jump_to.tolist(), strict=True))
        self._arrows = draw_arrows(len(function.counted), jumps, form.glyphs)
        rows = blocks.start.tolist()
        hits, share = blocks.sums(function.counted), blocks.sums(function.instruction_share)
        self._blocks = dict(zip(rows, zip(hits.tolist(), share.tolist(), strict=True), strict=True))
        address = code.address[function.rows].tolist()
        self._labels = [f"0x{one:x} <+{one - start}>:" for one in address]
        self._label_width = max(map(len, self._labels), default=0)

    @property
    def title(self) -> str:
        """The titles of the columns."""
        return f"{self._title}{_GAP}Address and instruction"

    def opening(self) -> Iterator[str]:
        """Yield the block with most samples, if the listing is longer than a screen."""
        counted_hits, blocks = self._function.counted, self._function.blocks
        rows = len(counted_hits) if self._form.whole else int(near_hits(counted_hits).sum())
        if rows <= _SEEN_AT_ONCE or not len(blocks.start):
            return
        hottest = int(blocks.sums(counted_hits).argmax())
        ends = np.append(blocks.start[1:], len(counted_hits))
        begin, end = int(blocks.start[hottest]), int(ends[hottest])
        if end - begin > _SEEN_AT_ONCE:
            middle = begin + int(counted_hits[begin:end].argmax())
            begin = max(begin, middle - _SEEN_AT_ONCE // 2)
            end = min(end, begin + _SEEN_AT_ONCE)
        hits, share = self._blocks[int(blocks.start[hottest])]
        yield f"The hottest block, {pluralize(hits, 'sample')}, {percent(share, self._digits)}:"
        yield self._form.style.cut("...")
        yield from self._source_lines(begin) if self._frames(begin) else ()
        for row in range(begin, end):
            line = self._instruction_line(row)
            is_hot = self._function.instruction_share[row] >= _HOT_SHARE
            yield self._form.style.title(line) if is_hot else line
        yield self._form.style.cut("...")
        yield "The function in order of its addresses:"

    def lines(self) -> Iterator[ListingLine]:
        """Yield instructions, with blocks and source lines above them."""
        hot = (self._function.instruction_share >= _HOT_SHARE).tolist()
        for row, parts in self._parts():
            for part, text in enumerate(parts):
                is_last = row < len(hot) and part == len(parts) - 1
                yield ListingLine(
                    self._form.style.title(text) if is_last and hot[row] else text,
                    row,
                    0 if is_last else part + 1,
                    is_last and hot[row],
                )

    def _parts(self) -> Iterator[tuple[int, list[str]]]:
        """Yield each instruction that is shown, and its lines, its own line last."""
        function = self._function
        everything = np.ones(len(function.counted), np.bool_)
        shown = everything if self._form.whole else near_hits(function.counted)
        before: object = None
        skipped = 0
        for row, is_shown in enumerate(shown.tolist()):
            if not is_shown:
                skipped += 1
                continue
            parts = [self._skip_line(skipped)] if skipped else []
            skipped = 0
            hits, share = self._blocks.get(row, (0, 0.0))
            if hits:
                part = f"{pluralize(hits, 'sample')}, {percent(share, self._digits)}"
                parts.append(self._form.style.cut(f"{self._margin}- block of {part}"))
            place = self._frames(row)
            if place and place != before:
                parts.extend(self._source_lines(row))
            before = place or before
            yield row, [*parts, self._instruction_line(row)]
        parts = [self._skip_line(skipped)] if skipped else []
        yield (
            len(shown),
            [*parts, *closing_lines(self._code, function, self._start, self._form.style.words)],
        )

    def _instruction_line(self, row: int) -> str:
        code, at = self._code, self._function.rows.start + row
        target = code.target_name[at]
        led = f"  <{short_name(escaped(target), _NAME_WIDTH)}>" if target else ""
        return (
            f"{self._figures[row]:<{len(self._title)}}{_GAP}{self._arrows[row]}"
            f"{self._labels[row]:<{self._label_width}}{_GAP}{escaped(code.text[at])}{led}"
        )

    def _skip_line(self, number: int) -> str:
        return self._form.style.cut(f"- Skip {pluralize(number, 'instruction')} without a sample")

    def _frames(self, row: int) -> tuple[tuple[int, int, int], ...]:
        lines = self._code.lines
        if lines is None:
            return ()
        at = self._function.rows.start + row
        frames = slice(int(lines.frame_start[at]), int(lines.frame_start[at + 1]))
        columns = (lines.name_index, lines.file_index, lines.line)
        return tuple(zip(*(column[frames].tolist() for column in columns), strict=True))

    def _source_lines(self, row: int) -> Iterator[str]:
        lines, frames = self._code.lines, self._frames(row)
        if lines is None:
            return
        *outer, inner = frames
        where = _where(lines, inner)
        chain = "".join(f" < {_name(lines, one)} {_where(lines, one)}" for one in reversed(outer))
        inlined = f"  inlined {_name(lines, inner)}{chain}" if outer else ""
        yield self._form.style.cut(f"{self._margin}{where}{inlined}")
        text = self._code.source.get((inner[1], inner[2]), "").strip()
        if text:
            shown = shortened(escaped(text), _SOURCE_WIDTH)
            yield self._form.style.cut(f"{self._margin}    {shown}")


def closing_lines(
    code: CodeTable, function: AnnotatedFunction, start: int, words: Words
) -> Iterator[str]:
    """Yield remarks on a function's samples: strays, and which instruction is meant."""
    samples, strays = words.term("samples"), pluralize(function.stray_hits, words.term("sample"))
    if function.stray_hits:
        yield (
            f"- {strays} at addresses inside instructions: "
            "the code was changed while it ran, or holds data."
        )

    def place(row: int) -> tuple[int, str]:
        at = function.rows.start + row
        return int(code.address[at]) - start, escaped(" ".join(code.text[at].split()))

    if function.likely >= 0 and function.likely != function.hottest:
        offset, text = place(function.likely)
        yield (
            f"- The most {samples} are at <+{place(function.hottest)[0]}>; they probably belong to "
            f"the instruction before it, <+{offset}>: {text}"
        )
    if function.unmasking >= 0:
        offset, text = place(function.unmasking)
        yield (
            f"- The most {samples} are at <+{place(function.hottest)[0]}>, after <+{offset}>:"
            f" {text} turned interrupts on again: they count the time with interrupts off before"
            " it."
        )


def _figure_columns(
    function: AnnotatedFunction, figures: Figures, digits: int
) -> tuple[str, list[str]]:
    """Return the titles of the figures, and those of each instruction; "" without a hit."""
    hits = function.counted.tolist()
    error = function.instruction_half_width_s
    seconds = figures.seconds_column(function.instruction_seconds.tolist())
    halves = [] if error is None else figures.seconds_column(error.tolist())
    shares = [percent(one, digits) for one in function.instruction_share.tolist()]
    columns = [
        Column("Samples", [str(one) for one in hits]),
        Column("Secs", seconds, when=figures.has_time),
        Column("±", halves, when=figures.has_time and error is not None),
        Column("Pcnt", shares),
    ]
    shown = [
        column._replace(
            cells=[text if hit else "" for text, hit in zip(column.cells, hits, strict=True)]
        )
        for column in columns
        if column.when
    ]
    title, *rows = table_lines(*shown)
    return title, rows


def near_hits(hits: I64, context: int = _CONTEXT) -> Bools:
    """Return bool[n]: which instructions are at most `context` away from one with a hit."""
    has_hits = np.flatnonzero(hits)
    shown = np.zeros(len(hits), np.bool_)
    for distance in range(-context, context + 1):
        near = has_hits + distance
        shown[near[(near >= 0) & (near < len(hits))]] = True
    edges = np.flatnonzero(np.diff(shown.astype(np.int8), prepend=1, append=1))
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if last - first < _LEAST_SKIPPED:
            shown[first:last] = True
    return shown


def _where(lines: LineTable, frame: tuple[int, int, int]) -> str:
    _, file, line = frame
    name = escaped(lines.files[file].rpartition("/")[2]) if file >= 0 else "?"
    return f"{name}:{line}" if line else name


def _name(lines: LineTable, frame: tuple[int, int, int]) -> str:
    name = lines.names[frame[0]] if frame[0] >= 0 else "?"
    return short_name(escaped(name), _NAME_WIDTH)


class Glyphs(NamedTuple):
    """The characters of an arrow; each takes one column."""

    down: str
    across: str
    top: str
    bottom: str
    meeting: str
    head: str


ASCII = Glyphs("|", "-", ".", "'", "+", ">")

BOXES = Glyphs("│", "─", "┌", "└", "├", "▶")


def draw_arrows(rows: int, jumps: Sequence[tuple[int, int]], glyphs: Glyphs) -> list[str]:
    """Draw jumps; return one string a row, all equally long; "" each if nothing is drawn.

    Args:
        rows: how many rows there are.
        jumps: (from, to) rows; a jump to itself is drawn as one to its own row.
    """
    lanes = _lanes(sorted(set(jumps), key=lambda jump: (abs(jump[1] - jump[0]), jump)))
    if not lanes:
        return [""] * rows
    width = len(lanes) + 2
    canvas = [[" "] * width for _ in range(rows)]
    for lane, members in enumerate(lanes):
        for source, target in members:
            _draw(canvas, len(lanes) - 1 - lane, source, target, glyphs)
    return ["".join(line) for line in canvas]


def _lanes(jumps: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Give each jump the first lane in which it shares no row; the first lane is the innermost."""
    lanes: list[list[tuple[int, int]]] = []
    spans: list[list[tuple[int, int]]] = []  # first and last row of each, ascending
    for jump in jumps:
        span = min(jump), max(jump)
        for lane, taken in zip(lanes, spans, strict=True):
            place = bisect(taken, span)
            after_previous = not place or taken[place - 1][1] < span[0]
            if after_previous and (place == len(taken) or span[1] < taken[place][0]):
                lane.append(jump)
                taken.insert(place, span)
                break
        else:
            if len(lanes) < _MOST_LANES:
                lanes.append([jump])
                spans.append([span])
    return lanes


def _draw(canvas: list[list[str]], column: int, source: int, target: int, glyphs: Glyphs) -> None:
    low, high = min(source, target), max(source, target)
    for row in range(low + 1, high):
        canvas[row][column] = glyphs.down
    for row in {low, high}:
        line = canvas[row]
        corner = glyphs.top if row == low else glyphs.bottom
        line[column] = glyphs.meeting if low == high else corner
        for place in range(column + 1, len(line) - 1):
            if line[place] == " ":
                line[place] = glyphs.across
        if row == target:
            line[-2] = glyphs.head
        elif line[-2] == " ":
            line[-2] = glyphs.across
