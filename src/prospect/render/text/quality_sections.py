"""Symbol quality and stack quality: hits without a name, call stacks that are cut, remedies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.announcing import pluralize
from prospect.profile.model import MOST_COPY_BYTES
from prospect.profile.naming import LABELS, REMEDIES
from prospect.profile.run_info import MAX_STACK
from prospect.render.escape import escaped
from prospect.render.text.numbers import Figures, percent, percent_column, percent_digits
from prospect.render.text.text_table import Column, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.figures.report.report_view import ReportView
    from prospect.figures.report.symbol_quality import ObjectHits, SourceHits, SymbolQuality
    from prospect.figures.stacks.stack_quality import StackQuality
    from prospect.render.text.style import Style


def quality_lines(
    view: ReportView, quality: SymbolQuality, figures: Figures, style: Style
) -> Iterator[str]:
    """Yield the section; it is empty but for its first line if there are no hits."""
    yield from style.section("Symbol quality")
    digits = percent_digits(quality.hits)
    nameless = quality.hits - quality.named_hits
    share = f" ({_part(quality.named_hits, quality.hits)})" if quality.hits else ""
    named = f"{quality.named_hits}{share} with a name"
    yield f"Of {pluralize(quality.hits, style.words.term('sample'))}, {named}, {nameless} without."
    if not quality.sources:
        return
    yield ""
    sources = quality.sources
    yield from table_lines(
        [
            Column("Pcnt", percent_column([entry.share for entry in sources], digits)),
            Column(style.words.term("Samples"), [str(entry.hits) for entry in sources]),
            Column("Secs", figures.seconds_column([entry.seconds for entry in sources])),
            Column("Name from", [_label(entry) for entry in sources], right=False),
        ]
    )
    for entry in sources:
        if entry.objects:
            yield ""
            yield from _mending_lines(view, entry, style)


def _part(part: int, whole: int) -> str:
    """Return a share as a percentage, which is 100 only if nothing is missing."""
    digits = percent_digits(whole)
    text = percent(part / whole, digits)
    if part < whole and text == percent(1.0, digits):
        return f"over {percent(1.0 - 10.0 ** -(digits + 2), digits)}"
    return text


def _label(entry: SourceHits) -> str:
    label = LABELS[entry.source]
    return label if entry.source.named else f"none: {label}"


def _mending_lines(view: ReportView, entry: SourceHits, style: Style) -> Iterator[str]:
    objects = view.profile.objects
    yield f"{_label(entry)}; remedy: {REMEDIES[entry.source]}"
    counts = [pluralize(found.hits, style.words.term("sample")) for found in entry.objects]
    width = max(map(len, counts))
    for found, count in zip(entry.objects, counts, strict=True):
        note = objects.note[found.object_index]
        path = escaped(objects.path[found.object_index])
        whose = _whose(view, found)
        yield f"  {count:>{width}} in {path}{whose}" + (f" ({escaped(note)})" if note else "")
    if entry.objects_left_out:
        yield f"  and in {pluralize(entry.objects_left_out, 'more object')}"


def _whose(view: ReportView, found: ObjectHits) -> str:
    """Return the process of anonymous memory; "" if the object's name says enough."""
    if found.process_index < 0:
        return ""
    processes = view.profile.processes
    row = found.process_index
    return f" of {escaped(processes.name[row])} ({processes.pid[row]})"


def stack_quality_lines(quality: StackQuality | None, style: Style) -> Iterator[str]:
    """Yield the section; nothing if no stack was copied or cut."""
    if quality is None:
        return
    yield from style.section("Stack quality")
    if quality.cut_stacks:
        yield from _cut_lines(quality)
    if quality.copy_bytes:
        yield from _copies_lines(quality)
    yield ""


def _cut_lines(quality: StackQuality) -> Iterator[str]:
    digits = percent_digits(quality.stacks)
    share = percent(quality.cut_share, digits)
    yield (
        f"Of {pluralize(quality.stacks, 'call stack')}, {quality.cut_stacks} ({share}) were cut:"
        " the outer callers were not recorded, [cut] is in their place."
    )
    if quality.most_frames:
        yield (
            f"The kernel recorded at most {quality.most_frames} frames of a stack; record again"
            f" with a larger {MAX_STACK} (sysctl, as root, while nothing samples)."
        )


def _copies_lines(quality: StackQuality) -> Iterator[str]:
    copies = quality.samples - quality.without_copy
    digits = percent_digits(copies)
    share = f" ({percent(quality.whole / copies, digits)})" if copies else ""
    named = "copy of a user stack" if copies == 1 else "copies of user stacks"
    yield f"Of {copies} {named}, {quality.whole}{share} were unwound whole."
    if quality.cut:
        half, most = quality.cut_frames
        yield (
            f"{quality.cut} were cut, longer than the {quality.copy_bytes} bytes that were copied:"
            f" half of these have {pluralize(half, 'frame')} or less, the deepest {most}."
        )
    if quality.size_for_99:
        yield _remedy(quality)
    others = copies - quality.whole - quality.cut
    if others:
        yield f"{others} end early for other reasons (below)."
    if quality.continued:
        yield f"{quality.continued} of those that end early go on by frame pointers."
    if quality.without_copy:
        yield f"The kernel could not copy the stack of {pluralize(quality.without_copy, 'sample')}."
    if quality.places:
        yield ""
        width = len(str(quality.places[0].samples))
        for place in quality.places:
            path = escaped(place.object_path)
            yield f"  {place.samples:>{width}} end in {path} ({place.reason})"


def _remedy(quality: StackQuality) -> str:
    if not quality.size_to_ask_for:
        return (
            "No copy is large enough for 99% of them: the kernel copies at most"
            f" {MOST_COPY_BYTES} bytes; of frame pointers (--call-graph fp) it records"
            f" {MAX_STACK} frames."
        )
    size = f"--call-graph dwarf,{quality.size_to_ask_for}"
    if quality.is_size_least:
        return (
            f"It takes more than {quality.size_for_99} bytes to hold 99% of them whole: try {size}."
        )
    return f"It takes {size} to hold 99% of them whole."
