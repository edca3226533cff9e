"""The JSON of annotations: instructions of functions, or lines of source files, with their hits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.records import NamedTuple, asdict, replace
from prospect.render.json.common_fields import (
    DETAIL,
    EVENT,
    FLOW,
    NOTES,
    NOTES_AND_WARNINGS,
    SOURCE,
    WARNINGS,
    CodeFunction,
    of_code,
    of_function,
    of_instruction,
    of_object,
)
from prospect.render.json.document_fields import (
    AMOUNT,
    COUNT,
    FLAG,
    GENERATOR,
    INTEGER,
    ROUNDED,
    SECONDS,
    TEXT,
    TEXTS,
    Kind,
    Object,
    Part,
    Rows,
    document,
    each,
    each_row,
    itself,
    schema,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prospect.estimate.annotate.annotation_view import AnnotationView, EventAnnotation, RowSums
    from prospect.estimate.annotate.source_view import SourceEvent, SourceView
    from prospect.profile.optional_tables import SourceFile

_ADDRESS = Kind({"type": "string"}, hex)
_PERCENT = Kind({"type": "number"}, lambda share: round(float(share) * 100.0, 6)).within(0)


# Instructions


class _Event(NamedTuple):
    view: AnnotationView
    event: EventAnnotation

    @property
    def functions(self) -> Iterator[CodeFunction]:
        """The annotated functions, with all instructions."""
        view = self.view
        for function in self.event.functions:
            every = np.arange(len(function.counted))
            yield CodeFunction(view.profile, view.code, function, every)


def _blocks(one: CodeFunction) -> list[tuple[int | None, int]]:
    blocks = one.function.blocks
    starts, hits = blocks.start.tolist(), blocks.sums(one.function.counted).tolist()
    return [(one.address(start), count) for start, count in zip(starts, hits, strict=True)]


def _frames(one: CodeFunction) -> list[list[tuple[str, str, int]]]:
    """Return the frames of each instruction, the outermost function first."""
    lines = one.code.lines
    found: list[list[tuple[str, str, int]]] = []
    for row in (one.function.rows.start + one.instructions).tolist():
        if lines is None:
            found.append([])
            continue
        part = slice(int(lines.frame_start[row]), int(lines.frame_start[row + 1]))
        columns = (lines.name_index[part], lines.file_index[part], lines.line[part])
        found.append(
            [
                (lines.names[name] if name >= 0 else "", lines.files[file] if file >= 0 else "", at)
                for name, file, at in zip(*(one.tolist() for one in columns), strict=True)
            ]
        )
    return found


_INSTRUCTION = Object(
    "",
    address=_ADDRESS(get=of_code("address")),
    size_bytes=COUNT(get=of_code("size_bytes")),
    text=TEXT(get=of_code("text")),
    flow=FLOW("what happens after it", of_code("flow")),
    target=_ADDRESS.or_null("of a direct call or jump, or `null`", "targets"),
    target_name=TEXT(get=of_code("target_name")),
    samples=COUNT("its samples and time", of_instruction("counted")),
    seconds=SECONDS(get=of_instruction("instruction_seconds")),
    half_width_s=ROUNDED.or_null(get=of_instruction("instruction_half_width_s")),
    percent=_PERCENT("of the function's", of_instruction("instruction_share")),
    frames=each(function=TEXT(get=0), file=TEXT(get=1), line=COUNT(get=2))(
        "the outermost function first; `line` is 0 and a name empty if unknown", _frames
    ),
)


_FUNCTION = Object(
    "annotated_function",
    b"\n",
    function=TEXT("its name and place", of_function("name")),
    address=_ADDRESS(get=of_function("address")),
    size_bytes=COUNT(get=of_function("size_bytes")),
    source=SOURCE("of the name", of_function("source")),
    object=TEXT("path and build id of what it is mapped from", of_object("path")),
    build_id=TEXT(get=of_object("build_id")),
    samples=COUNT("samples, and their time", "function.hits"),
    seconds=SECONDS(get="function.seconds"),
    half_width_s=ROUNDED.or_null(get="function.half_width_s"),
    percent=_PERCENT("of the event's", "function.share"),
    no_instructions_because=TEXT("why it has none, or empty", "function.reason"),
    samples_between_instructions=COUNT(
        "its samples at addresses within instructions", "function.stray_hits"
    ),
    hottest=_ADDRESS.or_null(
        "address of the instruction with the most samples, and of the one that is likely meant",
        lambda one: one.address(one.function.hottest),
    ),
    likely_meant=_ADDRESS.or_null(get=lambda one: one.address(one.function.likely)),
    blocks=each(start=_ADDRESS.or_null("address", 0), samples=COUNT(get=1))(
        "its basic blocks", _blocks
    ),
    instructions=Rows(_INSTRUCTION, by_column=True, in_pieces=True)("all its instructions", itself),
)
ANNOTATION = Object(
    "annotation",
    b"\n",
    schema=schema("prospect-annotate/2"),
    generator=GENERATOR,
    options=Object(
        "",
        what=TEXT(get="choice.what"),
        detail=DETAIL("the `-V` that is shown"),
        user_threshold_s=AMOUNT("`-m`", "choice.user_threshold_s"),
        kernel_threshold_s=AMOUNT("`-k`", "choice.kernel_threshold_s"),
    )("options of the annotation", itself),
    notes=TEXTS(NOTES.about, lambda view: [*view.notes, *([view.nothing] if view.nothing else [])]),
    warnings=WARNINGS,
    events=Rows(
        Object(
            "annotated_event",
            b"\n",
            event=Part(EVENT, "event.event"),
            has_time=FLAG("whether its samples are worth time", "event.has_time"),
            samples=COUNT("samples and their time", "event.hits"),
            seconds=SECONDS(get="event.seconds"),
            skid=TEXT(
                "the note on which instruction is meant, empty for precise events", "event.skid"
            ),
            functions=Rows(_FUNCTION, in_pieces=True)("the annotated functions"),
        ),
        in_pieces=True,
        after=b"\n",
    )("the events", lambda view: (_Event(view, event) for event in view.events)),
)


def annotation_json(view: AnnotationView) -> Iterator[bytes]:
    """Return annotated functions with all their instructions, for programs."""
    return document(ANNOTATION, view)


# Lines of source


class _File(NamedTuple):
    view: SourceView
    file: int
    source: SourceFile | None

    @property
    def path(self) -> str:
        return self.view.paths[self.file]

    @property
    def newer_than(self) -> str:
        if self.source is None:
            return ""
        return self.view.newer_than(self.file, self.source.modified_ns)

    @property
    def events(self) -> list[_FileEvent]:
        return [_FileEvent(event, self) for event in self.view.events if self.file in event.files]


class _FileEvent(NamedTuple):
    event: SourceEvent
    of: _File

    @property
    def found(self) -> Any:
        return self.event.files[self.of.file]

    @property
    def whole(self) -> RowSums:
        columns = asdict(self.found.file).items()
        first: dict[str, Any] = {name: None if c is None else c[0] for name, c in columns}
        whole: RowSums = replace(self.found.file, **first)
        return whole

    @property
    def texts(self) -> list[str | None]:
        source = self.of.source
        texts = source.lines if source else ()
        return [
            texts[line - 1] if 0 < line <= len(texts) else None for line in self.found.line.tolist()
        ]


_AMOUNTS = Object(
    "",
    samples=COUNT(get="hits"),
    seconds=SECONDS(),
    half_width_s=ROUNDED.or_null(
        get=lambda amounts: (
            [None] * len(amounts.hits)
            if amounts.half_width_s is None and isinstance(amounts.hits, np.ndarray)
            else amounts.half_width_s
        )
    ),
    percent=_PERCENT(get="share"),
)
_FILE = Object(
    "source_file",
    b"\n",
    file=TEXT("as the compiler had it", "path"),
    found=TEXT.or_null(
        "where it is here, `null` if it was not found",
        lambda file: file.source.path if file.source else None,
    ),
    newer_than=TEXT("an image that was built before it was changed, or empty"),
    events=Rows(
        Object(
            "",
            b"\n",
            name=TEXT(get="event.event.name"),
            amounts=Part(_AMOUNTS, "whole"),
            functions=each_row(
                function=TEXT(), first_line=INTEGER(), amounts=Part(_AMOUNTS, "functions")
            )(get="found"),
            lines=Rows(
                Object(
                    "",
                    line=INTEGER("0 is unknown", "found.line"),
                    amounts=Part(_AMOUNTS, "found.lines"),
                    text=TEXT.or_null(get="texts"),
                ),
                by_column=True,
                in_pieces=True,
            )(get=itself),
        ),
        in_pieces=True,
    )("its samples by event"),
)


class _Source(NamedTuple):
    view: SourceView
    read: Callable[[str], SourceFile | None]

    @property
    def files(self) -> Iterator[_File]:
        for file in self.view.order:
            yield _File(self.view, file, self.read(self.view.paths[file]))


SOURCE_FILES = Object(
    "source",
    b"\n",
    schema=schema("prospect-source/2"),
    generator=GENERATOR,
    options=Object("", detail=DETAIL("the `-V` that is shown"))(
        "options of the annotation", "view"
    ),
    notes_and_warnings=Part(NOTES_AND_WARNINGS, "view"),
    events=each(
        event=Part(EVENT),
        has_time=FLAG(),
        samples=COUNT(get="hits"),
        seconds=SECONDS(),
        without_line=each(object=TEXT(get=0), because=TEXT(get=1), samples=COUNT(get=2))(
            get="without_file"
        ),
    )("the events", "view.events"),
    files=Rows(_FILE, in_pieces=True, after=b"\n")("the files"),
)


def source_json(view: SourceView, read: Callable[[str], SourceFile | None]) -> Iterator[bytes]:
    """Return annotated sources, for programs."""
    return document(SOURCE_FILES, _Source(view, read))
