"""The text of `prospect annotate`: blocks of functions, or annotated source files.

docs/annotate.md describes both. Source files are read one at a time, when they are written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.announcing import pluralize
from prospect.figures.processes import asked_for
from prospect.figures.shown_rows import shown_name
from prospect.render.escape import escaped
from prospect.render.name_parts import short_name
from prospect.render.renderer import encoded
from prospect.render.text.listing import ASCII, BOXES, Form, Listing
from prospect.render.text.style import RULE, Figures, Style, note_lines, percent, percent_digits
from prospect.render.text.text_table import Column, table_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prospect.estimate.annotate.annotation_view import (
        AnnotatedFunction,
        AnnotationView,
        EventAnnotation,
        RowSums,
    )
    from prospect.estimate.annotate.source_view import SourceEvent, SourceView
    from prospect.profile.optional_tables import SourceFile
    from prospect.render.text.listing import Glyphs

    Reader = Callable[[str], SourceFile | None]

MARK = "Annotated by prospect: "  # the text of each file begins so
_GAP = "  "
_CONTEXT = 4
_LEAST_SKIPPED = 2
_NAME_WIDTH = 100
_LINE_WIDTH = 400
_TAB = 8
_HOT_SHARE = 0.1


def annotation_text(
    view: AnnotationView, *, whole: bool = False, colour: bool = False, boxes: bool = False
) -> Iterator[bytes]:
    """Return annotated instructions, for people.

    Args:
        whole: show every instruction, also far from all samples.
        colour: mark titles and the hottest instructions for a terminal.
        boxes: draw jumps with box characters, else with ASCII.
    """
    return encoded(_annotation_lines(view, Style(colour), BOXES if boxes else ASCII, whole=whole))


def _annotation_lines(
    view: AnnotationView, style: Style, glyphs: Glyphs, *, whole: bool
) -> Iterator[str]:
    yield from style.warnings(view.warnings)
    for event in view.events:
        scope = asked_for(view.profile.run, view.detail)
        yield f"Event: {escaped(event.event.name)}, {_whole(event)} of {scope}"
        if event.skid:
            yield f"Note: {event.skid}"
        yield ""
        form = Form(whole, glyphs, _figures_of(event), style)
        for function in event.functions:
            yield from _function_lines(view, event, function, form)
    if not view.events:
        yield f"- {escaped(view.nothing)}"
    yield from note_lines(view.notes)


def _figures_of(event: EventAnnotation | SourceEvent) -> Figures:
    return Figures(event.hits, event.seconds, has_time=event.has_time)


def _whole(event: EventAnnotation | SourceEvent) -> str:
    """Return the samples and the time of an event."""
    seconds = f" = {_figures_of(event).seconds(event.seconds)} seconds" if event.has_time else ""
    return pluralize(event.hits, "sample") + seconds


def _part(
    event: EventAnnotation | SourceEvent,
    hits: int,
    seconds: float,
    half_width_s: float | None,
    share: float,
) -> str:
    """Return samples and time as a part of an event."""
    figures = _figures_of(event)
    bar = "" if half_width_s is None else f" ± {figures.seconds(half_width_s)}"
    time = f" = {figures.seconds(seconds)}{bar} seconds" if event.has_time else ""
    return f"{pluralize(hits, 'sample')}{time}, {percent(share, percent_digits(event.hits))} of all"


def _function_lines(
    view: AnnotationView, event: EventAnnotation, function: AnnotatedFunction, form: Form
) -> Iterator[str]:
    functions, objects = view.profile.functions, view.profile.objects
    name = escaped(shown_name(functions, function.function))
    path = escaped(objects.path[int(functions.object_index[function.function])])
    yield RULE
    yield form.style.title(f"{name}  {path}")
    yield _part(event, function.hits, function.seconds, function.half_width_s, function.share)
    yield RULE
    if function.reason:
        yield f"- No instructions: {escaped(function.reason)}."
    else:
        start = int(functions.address[function.function])
        listing = Listing(view.code, function, start, form)
        yield listing.title
        yield from listing.opening()
        yield from (line.text for line in listing.lines())
    yield ""


def source_text(
    view: SourceView, read: Reader, *, whole: bool = False, colour: bool = False
) -> Iterator[bytes]:
    """Return annotated sources, for people, and then those that are missing.

    Args:
        whole: show every line, also far from all samples.
        colour: mark titles and the hottest lines for a terminal.
    """
    return encoded(_source_lines(view, read, Style(colour), whole=whole))


def file_text(view: SourceView, file: int, source: SourceFile) -> Iterator[bytes]:
    """Return one annotated file with all its lines."""
    return encoded(_file_lines(view, file, source, Style(colour=False), whole=True))


def _source_lines(view: SourceView, read: Reader, style: Style, *, whole: bool) -> Iterator[str]:
    yield from _head(style, view)
    missing = []
    for file in view.order:
        source = read(view.paths[file])
        if source is None:
            missing.append(file)
            continue
        yield from _file_lines(view, file, source, style, whole=whole)
        yield ""
    yield from _missing_lines(style, view, missing)
    yield from note_lines(view.notes)


def _head(style: Style, view: SourceView) -> Iterator[str]:
    yield from style.warnings(view.warnings)
    for event in view.events:
        yield f"Event: {escaped(event.event.name)}, {_whole(event)}"
    if not view.order:
        yield "- No sample has a line of a source file."
    yield ""


def _row(event: SourceEvent, amounts: RowSums, row: int) -> str:
    half_width_s = None if amounts.half_width_s is None else float(amounts.half_width_s[row])
    seconds, share = float(amounts.seconds[row]), float(amounts.share[row])
    return _part(event, int(amounts.hits[row]), seconds, half_width_s, share)


def _file_lines(
    view: SourceView, file: int, source: SourceFile, style: Style, *, whole: bool
) -> Iterator[str]:
    yield style.title(f"{MARK}{escaped(view.paths[file])}")
    if source.path != view.paths[file]:
        yield f"- The source was found as {escaped(source.path)}."
    image = view.newer_than(file, source.modified_ns)
    if image:
        yield style.warning(
            f"- The source is newer than {escaped(image)}: its lines may differ from those that "
            "were compiled."
        )
    events = [event for event in view.events if file in event.files]
    for event in events:
        yield f"- {escaped(event.event.name)}: {_row(event, event.files[file].file, 0)}"
        unplaced = [int(line) for line in event.files[file].line if line > len(source.lines)]
        if unplaced:
            yield (
                f"- Samples at {pluralize(len(unplaced), 'line')} after its end: the source is not "
                "the one that was compiled."
            )
    yield RULE
    margins = [_Margin(event, file) for event in events]
    width = len(str(len(source.lines)))
    title = _GAP.join(margin.title for margin in margins)
    yield f"{title}{_GAP}{'Line':>{width}}{_GAP}Source"
    yield from _body(margins, source, style, max(width, len("Line")), whole=whole)


def _body(
    margins: list[_Margin], source: SourceFile, style: Style, width: int, *, whole: bool
) -> Iterator[str]:
    indent = " " * len(_GAP.join(margin.title for margin in margins))
    before = 0
    for number in _shown(margins, len(source.lines), whole=whole):
        if skipped := number - before - 1:
            yield style.cut(f"- Skip {pluralize(skipped, 'line')} without a sample")
        before = number
        for margin in margins:
            for sentence in margin.functions.get(number, ()):
                yield style.cut(f"{indent}{_GAP}- {sentence}")
        text = escaped(source.lines[number - 1].expandtabs(_TAB)[:_LINE_WIDTH])
        cells = _GAP.join(margin.cell(number) for margin in margins)
        line = f"{cells}{_GAP}{number:>{width}}{_GAP}{text}".rstrip()
        is_hot = any(margin.share.get(number, 0.0) >= _HOT_SHARE for margin in margins)
        yield style.title(line) if is_hot else line
    if skipped := len(source.lines) - before:
        yield style.cut(f"- Skip {pluralize(skipped, 'line')} without a sample")


def _shown(margins: list[_Margin], lines: int, *, whole: bool) -> Iterable[int]:
    """Return the numbers of the lines to show: all, or those close to a hit."""
    if whole:
        return range(1, lines + 1)
    near: set[int] = set()
    for margin in margins:
        for number in margin.share:
            near.update(range(max(number - _CONTEXT, 1), min(number + _CONTEXT, lines) + 1))
    filled = sorted(near)
    for before, after in zip([0, *filled], [*filled, lines + 1], strict=True):
        if 0 < after - before - 1 < _LEAST_SKIPPED:
            near.update(range(before + 1, after))
    return sorted(near)


class _Margin:
    """One event's figures of the lines of one file."""

    def __init__(self, event: SourceEvent, file: int) -> None:
        found = event.files[file]
        figures = _figures_of(event)
        digits = percent_digits(event.hits)
        half = found.lines.half_width_s
        timed = figures.has_time
        halves = [] if half is None else figures.seconds_column(half.tolist())
        seconds = figures.seconds_column(found.lines.seconds.tolist())
        title, *cells = table_lines(
            Column("Samples", [str(one) for one in found.lines.hits.tolist()]),
            Column("Secs", seconds, when=timed),
            Column("±", halves, when=timed and half is not None),
            Column("Pcnt", [percent(one, digits) for one in found.lines.share.tolist()]),
        )
        numbers = found.line.tolist()
        functions: dict[int, list[str]] = {}
        named = zip(found.function, found.first_line.tolist(), strict=True)
        for row, (name, first) in enumerate(named):
            shown = short_name(escaped(name), _NAME_WIDTH)
            sentence = f"{shown}: {_row(event, found.functions, row)}"
            functions.setdefault(first, []).append(sentence)
        self.title = title
        self.share: dict[int, float] = dict(zip(numbers, found.lines.share.tolist(), strict=True))
        self.functions = functions
        self._cells: dict[int, str] = dict(zip(numbers, cells, strict=True))

    def cell(self, number: int) -> str:
        """Return the figures of a line, blanks without a hit."""
        return self._cells.get(number, " " * len(self.title))


def _missing_lines(style: Style, view: SourceView, missing: list[int]) -> Iterator[str]:
    """Yield the sources that were not found, and the samples without a source line."""
    if missing:
        yield from style.section("Sources that were not found")
        for file in missing:
            yield f"{escaped(view.paths[file])}: {_amounts(view, file)}"
        yield "- Name their directories with --search-dirs, those of the build with --base-dirs."
        if any(view.paths[file].startswith("/") for file in missing):
            # A program can claim any file as its source.
            yield (
                "- Files that programs name are read only if everybody may read them. To read them"
                " with your rights: --search-dirs /"
            )
        yield ""
    for event in view.events:
        if not event.without_file:
            continue
        yield from style.section(f"Samples without a source line, {escaped(event.event.name)}")
        for path, why, hits in event.without_file:
            reason = f": {escaped(why)}" if why else ""
            yield f"{pluralize(hits, 'sample')} in {escaped(path)}{reason}"
        yield ""


def _amounts(view: SourceView, file: int) -> str:
    return "; ".join(
        _row(event, event.files[file].file, 0) for event in view.events if file in event.files
    )


def index_text(view: SourceView, outcome: dict[int, str]) -> Iterator[bytes]:
    """Return a list of all files: `outcome` says what became of each, by its row."""
    return encoded(_index_lines(view, outcome, Style(colour=False)))


def _index_lines(view: SourceView, outcome: dict[int, str], style: Style) -> Iterator[str]:
    yield f"{MARK}all files with samples"
    yield from _head(style, view)
    missing = []
    for file in view.order:
        why = outcome.get(file)
        if why is None:
            missing.append(file)
            continue
        said = f"  (not written: {escaped(why)})" if why else ""
        yield f"{escaped(view.paths[file])}: {_amounts(view, file)}{said}"
    yield ""
    yield from _missing_lines(style, view, missing)
    yield from note_lines(view.notes)
