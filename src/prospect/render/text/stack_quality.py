"""Stack quality: how many call stacks are whole, and what the others lack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.announcing import counted
from prospect.profile.model import MOST_COPY_BYTES
from prospect.profile.run_info import MAX_STACK
from prospect.render.escape import escaped
from prospect.render.text.numbers import percent, percent_digits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.figures.stacks.stack_quality import StackQuality
    from prospect.render.text.style import Style


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
        f"Of {counted(quality.stacks, 'call stack')}, {quality.cut_stacks} ({share}) were cut:"
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
            f" half of these have {counted(half, 'frame')} or less, the deepest {most}."
        )
    if quality.size_for_99:
        yield _remedy(quality)
    others = copies - quality.whole - quality.cut
    if others:
        yield f"{others} end early for other reasons (below)."
    if quality.continued:
        yield f"{quality.continued} of those that end early go on by frame pointers."
    if quality.without_copy:
        yield f"The kernel could not copy the stack of {counted(quality.without_copy, 'sample')}."
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
    least = "at least " if quality.is_size_least else ""
    size = quality.size_to_ask_for
    return f"It takes {least}--call-graph dwarf,{size} to hold 99% of them whole."
