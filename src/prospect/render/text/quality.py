"""Symbol quality: where names came from, which hits have none, why, and what would mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.announcing import counted
from prospect.profile.naming import LABELS, REMEDIES
from prospect.render.escape import escaped
from prospect.render.text.columns import Column, table_lines
from prospect.render.text.numbers import Figures, percent, percent_column, percent_digits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.figures.report.quality import ObjectHits, SourceHits, SymbolQuality
    from prospect.figures.report.view import ReportView
    from prospect.render.text.style import Style


def quality_lines(
    view: ReportView, quality: SymbolQuality, figures: Figures, style: Style
) -> Iterator[str]:
    """Yield the section; it is empty but for its first line where there are no hits."""
    yield from style.section("Symbol quality")
    digits = percent_digits(quality.hits)
    nameless = quality.hits - quality.named_hits
    share = f" ({_part(quality.named_hits, quality.hits)})" if quality.hits else ""
    named = f"{quality.named_hits}{share} with a name"
    yield f"Of {counted(quality.hits, 'hit')}, {named}, {nameless} without."
    if not quality.sources:
        return
    yield ""
    sources = quality.sources
    yield from table_lines(
        [
            Column("Pcnt", percent_column([entry.share for entry in sources], digits)),
            Column("Hits", [str(entry.hits) for entry in sources]),
            Column("Secs", figures.seconds_column([entry.seconds for entry in sources])),
            Column("Name from", [_label(entry) for entry in sources], right=False),
        ]
    )
    for entry in sources:
        if entry.objects:
            yield ""
            yield from _mending_lines(view, entry)


def _part(part: int, whole: int) -> str:
    """Return a share as a percentage, which is 100 only where nothing is missing."""
    digits = percent_digits(whole)
    text = percent(part / whole, digits)
    if part < whole and text == percent(1.0, digits):
        return f"over {percent(1.0 - 10.0 ** -(digits + 2), digits)}"
    return text


def _label(entry: SourceHits) -> str:
    label = LABELS[entry.source]
    return label if entry.source.named else f"none: {label}"


def _mending_lines(view: ReportView, entry: SourceHits) -> Iterator[str]:
    objects = view.profile.objects
    yield f"{_label(entry)}; remedy: {REMEDIES[entry.source]}"
    counts = [counted(found.hits, "hit") for found in entry.objects]
    width = max(map(len, counts))
    for found, count in zip(entry.objects, counts, strict=True):
        note = objects.note[found.object_index]
        path = escaped(objects.path[found.object_index])
        whose = _whose(view, found)
        yield f"  {count:>{width}} in {path}{whose}" + (f" ({escaped(note)})" if note else "")
    if entry.objects_left_out:
        yield f"  and in {counted(entry.objects_left_out, 'more object')}"


def _whose(view: ReportView, found: ObjectHits) -> str:
    """Say whose anonymous memory it is; nothing where the object's name says enough."""
    if found.process_index < 0:
        return ""
    processes = view.profile.processes
    row = found.process_index
    return f" of {escaped(processes.name[row])} ({processes.pid[row]})"
