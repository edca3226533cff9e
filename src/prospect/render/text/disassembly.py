"""The disassembled profile after a table of functions: a block with samples for each function.

Addresses have Prospect's form ``<do_softirq+77>:``. Only instructions near hits are shown;
`prospect annotate` has whole functions with their source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.announcing import pluralize
from prospect.estimate.annotate.annotation_view import skid
from prospect.figures.shown_rows import shown_name
from prospect.render.escape import display_width, escaped, padded
from prospect.render.name_parts import short_name
from prospect.render.text.listing import closing_lines, near_hits
from prospect.render.text.style import percent, percent_column, percent_digits
from prospect.render.text.text_table import Column, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prospect.estimate.annotate.annotation_view import AnnotatedFunction
    from prospect.profile.optional_tables import CodeTable
    from prospect.render.text.style import Page

# The instruction before one with samples is likely meant, and the next is the usual context.
_CONTEXT = 2
_NAME_WIDTH = 24
_TARGET_WIDTH = 48
_GAP = "  "
_ADDRESS = "Address"


def disassembly_note(page: Page) -> Iterator[str]:
    """Yield the note on all disassembled profiles of an event."""
    meaning = skid(page.event.event) if page.event.code else ""
    if meaning:
        yield f"Note on disassembled profiles: {meaning}"
        yield ""


def disassembly_lines(
    page: Page, code: CodeTable, functions: Iterable[AnnotatedFunction]
) -> Iterator[str]:
    """Yield the blocks of functions, and then the functions without instructions by reason."""
    without: dict[str, list[AnnotatedFunction]] = {}
    is_first = True
    for function in functions:
        if function.reason:
            without.setdefault(function.reason, []).append(function)
            continue
        if is_first:
            yield ""
            yield page.style.title("Disassembled profile:")
        is_first = False
        yield ""
        yield from _block(page, code, function)
    if without:
        yield ""
    for reason, members in without.items():
        hits = sum(function.hits for function in members)
        term = page.style.words.term
        which = f"{pluralize(len(members), term('function'))} ({pluralize(hits, term('sample'))})"
        yield page.style.cut(f"- No instructions of {which}: {escaped(reason)}.")


def _block(page: Page, code: CodeTable, function: AnnotatedFunction) -> Iterator[str]:
    functions, objects = page.report.profile.functions, page.report.profile.objects
    name = escaped(shown_name(functions, function.function))
    path = escaped(objects.path[int(functions.object_index[function.function])])
    start = int(functions.address[function.function])
    yield page.style.title(f"{name}  0x{start:08x}  {path}")
    yield _total(page, function)
    title, figures = _figures(page, function)
    shown = np.flatnonzero(near_hits(function.counted, _CONTEXT))
    address = code.address[function.rows]
    labels = _labels(address.take(shown).tolist(), start, name)
    width = max(map(display_width, [_ADDRESS, *labels]))
    yield f"{title}{_GAP}{padded(_ADDRESS, width, right=False)}{_GAP}Instruction"
    following = 0
    for row, label in zip(shown.tolist(), labels, strict=True):
        yield from _skip_line(page, row - following)
        following = row + 1
        at = function.rows.start + row
        target = code.target_name[at]
        led = f"  <{short_name(escaped(target), _TARGET_WIDTH)}>" if target else ""
        cells = f"{figures.get(row, ''):<{len(title)}}{_GAP}{padded(label, width, right=False)}"
        yield f"{cells}{_GAP}{escaped(code.text[at])}{led}"
    yield from _skip_line(page, len(address) - following)
    if function.hits > 1 or function.stray_hits:
        yield from closing_lines(code, function, start, page.style.words)


def _skip_line(page: Page, number: int) -> Iterator[str]:
    if number:
        sample = page.style.words.term("sample")
        yield page.style.cut(f"- Skip {pluralize(number, 'instruction')} without a {sample}")


def _total(page: Page, function: AnnotatedFunction) -> str:
    hits = pluralize(function.hits, page.style.words.term("sample"))
    share = percent(function.share, percent_digits(function.hits))
    if not page.figures.has_time:
        return f"{hits}, {share}"
    half_width_s = float("nan") if function.half_width_s is None else function.half_width_s
    return f"{hits} = {page.figures.with_bar(function.seconds, half_width_s)} seconds, {share}"


def _figures(page: Page, function: AnnotatedFunction) -> tuple[str, dict[int, str]]:
    """Return the titles of the figures, and those of each instruction with a hit."""
    rows = np.flatnonzero(function.counted)
    hits = function.counted.take(rows).tolist()
    shares = function.instruction_share.take(rows).tolist()
    halves = function.instruction_half_width_s
    seconds, bars = page.figures.time_columns(
        function.instruction_seconds.take(rows).tolist(),
        np.full(len(rows), np.nan) if halves is None else halves.take(rows),
    )
    title, *cells = table_lines(
        Column(page.style.words.term("Samples"), [str(one) for one in hits]),
        seconds._replace(when=page.figures.has_time),
        bars,
        Column("Pcnt", percent_column(shares, percent_digits(function.hits))),
    )
    return title, dict(zip(rows.tolist(), cells, strict=True))


def _labels(address: list[int], start: int, name: str) -> list[str]:
    """Return Prospect's form of address; without a name the address itself."""
    if not name:
        return [f"0x{one:x}:" for one in address]
    short = short_name(name, _NAME_WIDTH)
    return [f"<{short}+{one - start}>:" if one > start else f"<{short}>:" for one in address]
