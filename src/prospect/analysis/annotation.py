"""One annotation of a recording, and the renderer that writes it.

The command line and the Python interface share it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.analysis.pipeline import build_profile
from prospect.analysis.wanted import Wanted
from prospect.assembly.code.code import CodeChoice
from prospect.assembly.code.later_code import code_by_identity
from prospect.errors import UsageError
from prospect.estimate.annotate.annotation_view import annotation_view
from prospect.figures.processes import DETAILS
from prospect.figures.routine_choice import RoutineChoice, choose_routines
from prospect.options import DISASSEMBLERS, SYNTAXES, DisassemblerOptions
from prospect.perfdata.reader import open_recording
from prospect.records import Record, field, replace
from prospect.render.json.annotation_documents import JsonAnnotation
from prospect.render.text.annotation import TextAnnotation

if TYPE_CHECKING:
    from prospect.analysis.wanted import Sinks
    from prospect.estimate.annotate.annotation_view import AnnotationView
    from prospect.options import NamingOptions
    from prospect.profile.model import Profile

FORMATS = ("text", "json")


class AnnotateOptions(Record):
    """The routines to annotate, and how.

    Attributes:
        choice: which routines.
        disassembler: how instructions are written.
        source: whether source lines and inlined functions are shown.
        whole: whether instructions far from all hits are shown too.
        format: "text" or "json".
        colour, boxes: see `TextAnnotation`.
    """

    choice: RoutineChoice = field(default_factory=RoutineChoice)
    disassembler: DisassemblerOptions = field(default_factory=DisassemblerOptions)
    source: bool = True
    whole: bool = False
    format: str = "text"
    colour: bool = False
    boxes: bool = False


def annotate(
    path: str | Profile, options: AnnotateOptions, naming: NamingOptions, sinks: Sinks
) -> tuple[AnnotationView, TextAnnotation | JsonAnnotation]:
    """Read a recording, disassemble the chosen routines, and pair them with their renderer.

    Args:
        path: a perf.data file, "-" for a pipe on standard input; or a profile whose objects are
            known by path and build id, as a part of a store.
        options: what was asked for.
        naming: how addresses are named.
        sinks: what receives progress and remarks meanwhile.

    Raises:
        RecordingError: it cannot be read, or is no recording.
        UsageError: an option has no meaning, or nothing with hits is called what was asked for.
    """
    _check(options)
    choice = options.choice
    code = CodeChoice(
        lambda profile: choose_routines(profile, choice),
        disassembler=options.disassembler,
        with_lines=options.source,
    )
    if isinstance(path, str):
        with open_recording(path) as recording:
            profile = build_profile(recording, naming, Wanted(code=code), sinks)
    else:
        profile = replace(path, code=code_by_identity(path, naming).describe(path, code))
    view = annotation_view(profile, choice)
    if options.format == "json":
        return view, JsonAnnotation()
    return view, TextAnnotation(options.whole, options.colour, options.boxes)


def _check(options: AnnotateOptions) -> None:
    for name, value, known in (
        ("format", options.format, FORMATS),
        ("syntax", options.disassembler.syntax, SYNTAXES),
        ("disassembler", options.disassembler.disassembler, DISASSEMBLERS),
        ("detail", options.choice.detail, DETAILS),
    ):
        if value not in known:
            raise UsageError(f"annotate: {name} is one of {', '.join(known)}, not {value!r}")
