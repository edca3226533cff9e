"""One annotation, from a recording and what was asked for to the renderer that writes it.

Comes in: the path of a recording and `AnnotateOptions`. Goes out: the figures of an annotation, and
the renderer of the chosen format. The command line and the Python interface share it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.analysis.pipeline import PipelineOptions, build_profile
from prospect.assembly.code.code import CodeChoice
from prospect.disasm.gdb import MOST_PROCESSES
from prospect.disasm.syntax import DISASSEMBLERS, SYNTAXES, Disassembler, Syntax
from prospect.errors import UsageError
from prospect.estimate.errors.half_widths import half_widths
from prospect.figures.annotate.annotation import annotation_view
from prospect.figures.annotate.routine_choice import RoutineChoice, choose_routines
from prospect.figures.processes import DETAILS
from prospect.perfdata.reader import open_recording
from prospect.records import Record, field, replace
from prospect.render.json.annotation import JsonAnnotation
from prospect.render.text.annotation import TextAnnotation

if TYPE_CHECKING:
    from prospect.figures.annotate.annotation import AnnotationView

FORMATS = ("text", "json")


class AnnotateOptions(Record):
    """What was asked for.

    Attributes:
        choice: which routines.
        syntax: of x86 instructions, "att" or "intel".
        disassembler, gdb_processes: see `CodeChoice`.
        source: whether source lines and inlined functions are shown.
        whole: whether instructions far from all hits are shown too.
        format: "text" or "json".
        colour, boxes: see `TextAnnotation`.
        naming: how addresses are named.
    """

    choice: RoutineChoice = field(default_factory=RoutineChoice)
    syntax: Syntax = "att"
    disassembler: Disassembler = "library"
    gdb_processes: int = MOST_PROCESSES
    source: bool = True
    whole: bool = False
    format: str = "text"
    colour: bool = False
    boxes: bool = False
    naming: PipelineOptions = field(default_factory=PipelineOptions)


def annotate(
    path: str, options: AnnotateOptions
) -> tuple[AnnotationView, TextAnnotation | JsonAnnotation]:
    """Read a recording, disassemble the chosen routines, and pair them with their renderer.

    Args:
        path: a perf.data file, "-" for a pipe on standard input.
        options: what was asked for.

    Raises:
        RecordingError: it cannot be read, or is no recording.
        UsageError: an option has no meaning, or nothing with hits is called what was asked for.
    """
    _check(options)
    choice = options.choice
    code = CodeChoice(
        lambda profile: choose_routines(profile, choice),
        syntax=options.syntax,
        disassembler=options.disassembler,
        gdb_processes=options.gdb_processes,
        with_lines=options.source,
    )
    with open_recording(path) as recording:
        profile = build_profile(recording, replace(options.naming, code=code))
    view = annotation_view(profile, choice, half_widths)
    if options.format == "json":
        return view, JsonAnnotation()
    return view, TextAnnotation(options.whole, options.colour, options.boxes)


def _check(options: AnnotateOptions) -> None:
    for name, value, known in (
        ("format", options.format, FORMATS),
        ("syntax", options.syntax, SYNTAXES),
        ("disassembler", options.disassembler, DISASSEMBLERS),
        ("detail", options.choice.detail, DETAILS),
    ):
        if value not in known:
            raise UsageError(f"annotate: {name} is one of {', '.join(known)}, not {value!r}")
