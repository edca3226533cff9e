"""The text of an annotation: a block a routine, and what is to be known of all of them.

Comes in: an `AnnotationView`. Goes out: UTF-8 lines as docs/annotate.md describes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.announcing import counted
from prospect.figures.processes import asked_for
from prospect.figures.routine_names import shown_name
from prospect.records import Record
from prospect.render.escape import escaped
from prospect.render.renderer import encoded, write_pieces
from prospect.render.text.listing import ASCII, BOXES, Form, Listing
from prospect.render.text.numbers import Figures, percent, percent_digits
from prospect.render.text.style import RULE, Style

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from prospect.estimate.annotate.annotation_view import (
        AnnotatedRoutine,
        AnnotationView,
        EventAnnotation,
    )


class TextAnnotation(Record):
    """Annotated instructions, for people.

    Attributes:
        whole: show every instruction, also far from all hits.
        colour: mark titles and the hottest instructions for a terminal.
        boxes: draw jumps with box characters, else with ASCII.
    """

    whole: bool = False
    colour: bool = False
    boxes: bool = False

    def render(self, view: AnnotationView, out: BinaryIO) -> None:
        """Write the annotation to `out`, which stays open.

        Raises:
            RenderError: `out` cannot be written.
        """
        write_pieces(encoded(self._lines(view)), out)

    def _lines(self, view: AnnotationView) -> Iterator[str]:
        style = Style(self.colour)
        for warning in view.warnings:
            yield style.warning(f"Warning: {escaped(warning)}")
        for event in view.events:
            scope = asked_for(view.profile.run, view.detail)
            yield f"Event: {escaped(event.event.name)}, {_amount(event)} of {scope}"
            if event.skid:
                yield f"Note: {event.skid}"
            yield ""
            for routine in event.routines:
                yield from _routine_lines(self, view, event, routine)
        if not view.events:
            yield f"- {escaped(view.nothing)}"
        for note in view.notes:
            yield f"Note: {escaped(note)}"


def _amount(event: EventAnnotation) -> str:
    figures = Figures(event.hits, event.seconds, has_time=event.has_time)
    seconds = f" = {figures.seconds(event.seconds)} seconds" if event.has_time else ""
    return counted(event.hits, "hit") + seconds


def _routine_lines(
    options: TextAnnotation, view: AnnotationView, event: EventAnnotation, routine: AnnotatedRoutine
) -> Iterator[str]:
    style = Style(options.colour)
    functions, objects = view.profile.functions, view.profile.objects
    name = escaped(shown_name(functions, routine.function))
    path = escaped(objects.path[int(functions.object_index[routine.function])])
    figures = Figures(event.hits, event.seconds, has_time=event.has_time)
    start = int(functions.address[routine.function])
    error = "" if routine.half_width_s is None else f" ± {figures.seconds(routine.half_width_s)}"
    seconds = f" = {figures.seconds(routine.seconds)}{error} seconds" if event.has_time else ""
    share = percent(routine.share, percent_digits(event.hits))
    yield RULE
    yield style.title(f"{name}  {path}")
    yield f"{counted(routine.hits, 'hit')}{seconds}, {share} of all"
    yield RULE
    if routine.reason:
        yield f"- No instructions: {escaped(routine.reason)}."
    else:
        form = Form(options.whole, BOXES if options.boxes else ASCII, figures, style)
        listing = Listing(view.code, routine, start, form)
        yield listing.title
        yield from listing.opening()
        yield from (line.text for line in listing.lines())
    yield ""
