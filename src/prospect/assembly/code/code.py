"""Chosen routines of a profile → their instructions, names of jump targets and source lines.

Comes in: a profile and the recorded objects behind it. Goes out: `CodeTable`. Bytes come from the
very image that was recorded, by its build id or inode, and for the kernel from its image or its
memory; where there are none, the table says why.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from prospect.announcing import counted
from prospect.assembly.code.code_bytes import KERNEL_KINDS, CodeBytes
from prospect.assembly.code.decoding import Routine, decode_routines
from prospect.assembly.code.jit_source import jit_code_of, jit_frames
from prospect.assembly.placing.places import KERNEL_KEY
from prospect.columns.sorting import distinct
from prospect.errors import UsageError
from prospect.figures.report.disassembly_choice import disassembled_functions
from prospect.lines.table import LineTableBuilder
from prospect.options import DISASSEMBLERS, SYNTAXES, DisassemblerOptions
from prospect.profile.model import (
    KIND_ELF,
)
from prospect.profile.source import NO_TARGET, CodeTable
from prospect.records import Record, field
from prospect.symbols.objects import Missing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from prospect.assembly.code.recorded_objects import RecordedObjects
    from prospect.figures.report.disassembly_choice import DisassemblyChoice
    from prospect.profile.model import Profile
    from prospect.profile.source import LineTable

_Scalar = TypeVar("_Scalar", bound=np.generic)


class CodeChoice(Record):
    """Whose instructions are wanted.

    Attributes:
        choose: gives the function rows of a profile, in the order in which they are wanted.
        disassembler: how they are written, and by what.
        with_lines: whether source lines are wanted too.
    """

    choose: Callable[[Profile], NDArray[np.int64]]
    disassembler: DisassemblerOptions = field(default_factory=DisassemblerOptions)
    with_lines: bool = True


def code_of_report(
    options: DisassemblerOptions, report: DisassemblyChoice | None = None
) -> CodeChoice:
    """Choose the routines that a report disassembles; without its choice all with a hit.

    Raises:
        UsageError: a name or a number has no meaning.
    """
    for name, known in (("syntax", SYNTAXES), ("disassembler", DISASSEMBLERS)):
        value = getattr(options, name)
        if value not in known:
            raise UsageError(f"{name} is one of {', '.join(known)}, not {value!r}")
    if options.gdb_processes < 1:
        raise UsageError(f"gdb_processes is at least 1, not {options.gdb_processes!r}")

    def choose(profile: Profile) -> NDArray[np.int64]:
        if report is not None:
            return disassembled_functions(profile, report)
        hit = profile.hits.location_index[profile.hits.location_index >= 0]
        functions = np.unique(profile.locations.function_index.take(hit)).astype(np.int64)
        return functions[functions >= 0]

    return CodeChoice(choose, options, with_lines=False)


def describe_code(profile: Profile, recorded: RecordedObjects, choice: CodeChoice) -> CodeTable:
    """Disassemble routines.

    Args:
        profile: whose routines.
        recorded: the objects behind its object rows.
        choice: which routines, and how.

    Raises:
        UsageError: GDB is asked for, and is not installed.
    """
    functions = choice.choose(profile)
    recorded.announce(f"disassembling {counted(len(functions), 'routine')}")
    object_rows = profile.functions.object_index.take(functions)
    with closing(CodeBytes(profile, recorded)) as bytes_of:
        code = [bytes_of.routine(function) for function in functions.tolist()]
    hits = _hits(profile, functions)
    decoded = decode_routines(
        [Routine(*one) for one in zip(code, object_rows.tolist(), hits, strict=True)],
        choice.disassembler,
    )
    parts = [one for one in decoded if not isinstance(one, str)]
    size = np.array([0 if isinstance(one, str) else len(one) for one in decoded], np.int64)
    object_of = np.repeat(object_rows, size)
    target = _joined([part.target for part in parts], np.uint64)
    address = _joined([part.address for part in parts], np.uint64)
    recorded.announce("source lines of instructions")
    lines = _lines(recorded, object_of, address) if choice.with_lines else None
    return CodeTable(
        function_index=functions.astype(np.int32),
        start=np.append(0, np.cumsum(size)).astype(np.int64),
        reason=[one if isinstance(one, str) else "" for one in decoded],
        address=address,
        size_bytes=_joined([part.size_bytes for part in parts], np.uint8),
        text=[text for part in parts for text in part.text],
        flow=_joined([part.flow for part in parts], np.uint8),
        target=target,
        target_name=_target_names(profile, recorded, object_of, target),
        lines=lines,
        source=_source_of(recorded, lines) if lines else {},
    )


def _hits(profile: Profile, functions: NDArray[np.int64]) -> list[NDArray[np.uint64]]:
    """Return the addresses of each function's hits."""
    locations = profile.locations
    order = np.argsort(locations.function_index, kind="stable")
    sorted_index = locations.function_index.take(order)
    first, last = (
        np.searchsorted(sorted_index, functions, side).tolist() for side in ("left", "right")
    )
    return [
        locations.address.take(order[begin:end]) for begin, end in zip(first, last, strict=True)
    ]


def _target_names(
    profile: Profile,
    recorded: RecordedObjects,
    object_of: NDArray[np.int32],
    target: NDArray[np.uint64],
) -> list[str]:
    """Name the targets as routine and offset: ``memcpy``, ``memcpy+16``."""
    names = np.full(len(target), "", object)
    leads = target != NO_TARGET
    for row in distinct(object_of[leads]).tolist():
        at = np.flatnonzero(leads & (object_of == row))
        met, index = np.unique(target.take(at), return_inverse=True)
        named = _named(profile, recorded, row, met)
        names[at] = np.array(named, object).take(index)
    return names.tolist()


def _named(
    profile: Profile,
    recorded: RecordedObjects,
    row: int,
    address: NDArray[np.uint64],
) -> Sequence[str]:
    if profile.objects.kind[row] in KERNEL_KINDS:
        found = recorded.symbolizer.resolve(KERNEL_KEY, (), address)
    elif jit_code_of(recorded, row):
        found = recorded.symbolizer.resolve(recorded.keys[row], recorded.pids[row], address)
    else:
        is_image = row in recorded.keys and profile.objects.kind[row] == KIND_ELF
        image = recorded.image(row) if is_image else None
        if image is None or isinstance(image, Missing):
            return [""] * len(address)
        offset = image.image.offset_of_svma(address)
        found = recorded.symbolizer.resolve(recorded.keys[row], recorded.pids[row], offset)
    named = found.named
    texts = []
    for function, one in zip(named.function.tolist(), address.tolist(), strict=True):
        if function < 0:
            texts.append("")
            continue
        distance = one - int(named.function_address[function])
        texts.append(named.name[function] + (f"+{distance}" if distance else ""))
    return texts


def _lines(
    recorded: RecordedObjects, object_of: NDArray[np.int32], address: NDArray[np.uint64]
) -> LineTable:
    builder = LineTableBuilder()
    notes: dict[int, str] = {}
    for row in distinct(object_of).tolist():
        at = np.flatnonzero(object_of == row)
        if jit_code_of(recorded, row):
            builder.add(at, jit_frames(recorded, row, address.take(at)))
            continue
        found = recorded.image(row) if row in recorded.keys else None
        if found is None or isinstance(found, Missing):
            continue
        frames, note = recorded.frames(row, found, address.take(at))
        builder.add(at, frames)
        if note:
            notes[row] = note
    return builder.table(len(address), notes)


def _source_of(recorded: RecordedObjects, lines: LineTable) -> dict[tuple[int, int], str]:
    """Read the source of the innermost line of every instruction."""
    has_frames = np.flatnonzero(np.diff(lines.frame_start))
    last = lines.frame_start.take(has_frames + 1) - 1
    pairs = np.unique(np.stack((lines.file_index.take(last), lines.line.take(last))), axis=1)
    return recorded.source(lines.files, zip(*pairs.tolist(), strict=True))


def _joined(parts: list[NDArray[_Scalar]], dtype: type[_Scalar]) -> NDArray[_Scalar]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype)
