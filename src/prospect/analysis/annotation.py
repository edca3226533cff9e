"""Annotate a recording by instruction or source line, for the command line and Python."""

from __future__ import annotations

import functools
from collections import defaultdict
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np

from prospect.analysis.pipeline import build_profile
from prospect.analysis.profile_request import ProfileRequest
from prospect.announcing import pluralize
from prospect.archived.archive_format import decode as decode_archive
from prospect.assembly.code.code import CodeChoice
from prospect.assembly.code.later_code import code_by_identity
from prospect.errors import UsageError
from prospect.estimate.annotate.annotation_view import annotation_view
from prospect.estimate.annotate.source_view import source_view
from prospect.figures.function_choice import FunctionChoice, choose_functions
from prospect.figures.processes import DETAILS, chosen_locations
from prospect.files.output_tree import OutputTree
from prospect.lines.source_files import SourcePlaces, find_source
from prospect.options import DISASSEMBLERS, SYNTAXES, DisassemblerOptions
from prospect.perfdata.reader import open_recording
from prospect.profile.optional_tables import SourceFile
from prospect.records import Record, field, replace
from prospect.render.json.annotation_documents import annotation_json, source_json
from prospect.render.renderer import write_pieces
from prospect.render.text.annotated_code import (
    MARK,
    annotation_text,
    file_text,
    index_text,
    source_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from prospect.analysis.profile_request import Callbacks
    from prospect.columns.array_types import I64, Bools
    from prospect.estimate.annotate.source_view import SourceView
    from prospect.options import Detail, NamingOptions
    from prospect.profile.model import Profile

FORMATS = ("text", "json")


class AnnotateOptions(Record):
    """The functions to annotate, and how.

    Attributes:
        source: whether to show source lines and inlined functions.
        whole: whether to show instructions far from all hits too.
        format: "text" or "json".
        colour, boxes: see `annotation_text`.
    """

    choice: FunctionChoice = field(default_factory=FunctionChoice)
    disassembler: DisassemblerOptions = field(default_factory=DisassemblerOptions)
    source: bool = True
    whole: bool = False
    format: str = "text"
    colour: bool = False
    boxes: bool = False


def annotate(
    path: str | Profile, options: AnnotateOptions, naming: NamingOptions, sinks: Callbacks
) -> Callable[[BinaryIO], None]:
    """Read a recording, disassemble the chosen functions, and return what writes them to a file.

    `path` is a perf.data file, "-" for a pipe on standard input; or a profile whose objects have
    paths and build ids, such as a part of a store.

    Raises:
        RecordingError: it cannot be read, or is no recording.
        UsageError: an option is invalid, or no function with hits has the name.
    """
    choice = options.choice
    _check(
        ("format", options.format, FORMATS),
        ("syntax", options.disassembler.syntax, SYNTAXES),
        ("disassembler", options.disassembler.disassembler, DISASSEMBLERS),
        ("detail", choice.detail, DETAILS),
    )
    code = CodeChoice(
        lambda profile: choose_functions(profile, choice),
        disassembler=options.disassembler,
        with_lines=options.source,
    )
    if isinstance(path, str):
        with open_recording(path) as recording:
            profile = build_profile(recording, naming, ProfileRequest(code=code, path=False), sinks)
    else:
        profile = replace(path, code=code_by_identity(path, naming).describe(path, code))
    view = annotation_view(profile, choice)
    if options.format == "json":
        return lambda out: write_pieces(annotation_json(view), out)
    look = {"whole": options.whole, "colour": options.colour, "boxes": options.boxes}
    return lambda out: write_pieces(annotation_text(view, **look), out)


def _check(*options: tuple[str, str, tuple[str, ...]]) -> None:
    for name, value, known in options:
        if value not in known:
            raise UsageError(f"annotate: {name} is one of {', '.join(known)}, not {value!r}")


INDEX = "prospect-index.txt"
_KEPT = "lines that the archive keeps; the others are empty here"
_MOST_LINES = 1 << 20


class SourceOptions(Record):
    """The sources to annotate, and how.

    Attributes:
        what: a function or an image by name or pattern, to count only its hits; "" for all.
        detail: `-V`.
        include, exclude: patterns of source paths. Without `include`, all paths are included.
        whole: whether to show lines far from all hits too.
        format: "text" or "json".
        colour: whether the output is a terminal.
    """

    what: str = ""
    detail: Detail = "3"
    places: SourcePlaces = field(default_factory=SourcePlaces)
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    whole: bool = False
    format: str = "text"
    colour: bool = False


class AnnotatedSources(Record):
    """Figures by source line, and their writers.

    `kept` has the text of an archive's lines, by path and number; None for a recording.
    """

    view: SourceView
    options: SourceOptions
    kept: dict[str, dict[int, str]] | None = None

    def render(self, out: BinaryIO) -> None:
        """Write all files into one output, in the chosen format.

        Raises:
            RenderError: `out` cannot be written.
        """
        options = self.options
        if options.format == "json":
            pieces = source_json(self.view, self._read)
        else:
            pieces = source_text(self.view, self._read, whole=options.whole, colour=options.colour)
        write_pieces(pieces, out)

    def write_tree(self, directory: str) -> str:
        """Write a file for each source below a directory, and an index of them.

        Returns:
            A sentence with the numbers of files that were and were not written.

        Raises:
            RenderError: there is no such directory, or its index cannot be written.
            UsageError: the format is not text.
        """
        if self.options.format != "text":
            raise UsageError("--output-dir writes text: leave out --format, or the directory")
        view = self.view
        outcome: dict[int, str] = {}
        with OutputTree(directory, MARK.encode()) as tree:
            for file in view.order:
                source = self._read(view.paths[file])
                if source is not None:
                    write = functools.partial(write_pieces, file_text(view, file, source))
                    path = view.paths[file]
                    outcome[file] = tree.write(path, write, is_public=source.is_public)
            write = functools.partial(write_pieces, index_text(view, outcome))
            refused = tree.write(INDEX, write, is_public=True)
        written = sum(not why for why in outcome.values())
        if refused:
            raise UsageError(f"--output-dir {directory}: {INDEX} cannot be written: {refused}")
        missing = len(view.order) - len(outcome)
        return (
            f"{pluralize(written, 'annotated file')} written to {directory}; "
            f"{pluralize(missing, 'source')} not found, {len(outcome) - written} not written: "
            f"see {INDEX} there"
        )

    def _read(self, path: str) -> SourceFile | None:
        """Read a source file. An archive is untrusted: its paths are not read as recorded."""
        places = replace(self.options.places, as_recorded=self.kept is None)
        lines = self.view.profile.lines
        found = find_source(path, places, lines.named_by.get(path, set()) if lines else set())
        return found if found or not self.kept else self._kept_source(path, self.kept)

    def _kept_source(self, path: str, kept: dict[str, dict[int, str]]) -> SourceFile | None:
        texts = kept.get(path)
        if texts is None:
            return None
        # Up to the last line, but a hostile archive may have a huge line number.
        last = min(max(texts), _MOST_LINES)
        lines = [texts.get(number, "") for number in range(1, last + 1)]
        return SourceFile(_KEPT, lines, 0, 0, 0, is_public=False)


def annotate_sources(
    path: str, options: SourceOptions, naming: NamingOptions, sinks: Callbacks
) -> AnnotatedSources:
    """Read a recording and find the source line of every hit.

    `path` is a perf.data file, "-" for a pipe on standard input.

    Raises:
        RecordingError: it cannot be read, or is no recording.
        UsageError: an option is invalid, or no function with hits has the name.
    """
    _check(("format", options.format, FORMATS), ("detail", options.detail, DETAILS))
    if options.places.base_dirs and not options.places.search_dirs:
        raise UsageError("--base-dirs is a prefix to remove before --search-dirs: give both")
    chosen: list[I64 | None] = []

    def locations(profile: Profile) -> Bools:
        functions = _functions(profile, options)
        chosen.append(functions)
        shown = chosen_locations(profile, options.detail)
        if functions is not None:
            shown &= np.isin(profile.locations.function_index, functions)
        return shown

    with open_recording(path) as recording:
        wanted = ProfileRequest(lines=True, line_choice=locations, path=False)
        profile = build_profile(recording, naming, wanted, sinks)
        kept = _kept_lines(recording.info.archive)

    def is_wanted(path: str) -> bool:
        is_included = not options.include or _fits(path, options.include)
        return is_included and not _fits(path, options.exclude)

    view = source_view(profile, options.detail, chosen[0], is_wanted)
    return AnnotatedSources(view, options, kept)


def _functions(profile: Profile, options: SourceOptions) -> I64 | None:
    """Return the rows of the chosen functions, None for all."""
    if not options.what:
        return None
    most = max(len(profile.functions), 1)
    return choose_functions(profile, FunctionChoice(options.what, options.detail, 0.0, 0.0, most))


def _kept_lines(archive: bytes | memoryview) -> dict[str, dict[int, str]] | None:
    """Return the text of source lines in an archive's section; None if there is no archive."""
    if not archive:
        return None
    kept: dict[str, dict[int, str]] = defaultdict(dict)
    for (path, line), text in decode_archive(archive).source.items():
        kept[path][line] = text
    return kept


def _fits(path: str, patterns: tuple[str, ...]) -> bool:
    name = path.rpartition("/")[2]
    return any(fnmatchcase(path, one) or fnmatchcase(name, one) for one in patterns)
