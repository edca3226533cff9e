"""Chosen functions of a profile → their instructions, names of jump targets and source lines.

The bytes of a function come from the recorded image, by its build id or inode, and for the kernel
from its image or its memory; if there are none, the table has the reason. The libraries that decode
them lack some machines and new instructions: if a hit is at bytes that they do not know, GDB
decodes the function if it is installed.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from prospect.announcing import pluralize
from prospect.archived.kept_answers import Code as ArchivedCode
from prospect.archived.symbolizers import NOT_ARCHIVED
from prospect.assembly.assembly_limits import (
    LARGEST_DOUBTED_BYTES,
    LARGEST_FUNCTION_BYTES,
    LARGEST_NAMELESS_BYTES,
)
from prospect.assembly.placing.placement import KERNEL_KEY
from prospect.columns.sorting import distinct
from prospect.disasm.code_image import Piece, code_at, target_of, target_of_machine
from prospect.disasm.decoders import Instructions, disassemble, from_rows, with_flow_of
from prospect.disasm.gdb import NO_GDB, disassemble_by_gdb, gdb_path
from prospect.disasm.kernel_code import KernelImage, LiveKernel, open_kernel
from prospect.errors import UsageError
from prospect.figures.report.disassembly_choice import disassembled_functions
from prospect.lines.symcache import line_table_of
from prospect.options import DISASSEMBLERS, SYNTAXES, DisassemblerOptions
from prospect.profile.model import (
    KIND_ANON,
    KIND_BPF,
    KIND_ELF,
    KIND_JIT,
    KIND_UNKNOWN,
    KIND_VDSO,
    SOURCE_KINDS,
)
from prospect.profile.naming import NameSource
from prospect.profile.optional_tables import FLOW_UNKNOWN, NO_TARGET, CodeTable
from prospect.records import NamedTuple, Record, field
from prospect.symbols.images.image_files import read_own_vdso
from prospect.symbols.objects import VDSO, Missing
from prospect.symbols.symbolizer import KERNEL_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from prospect.assembly.code.recorded_objects import RecordedObjects
    from prospect.columns.array_types import I32, I64, U64
    from prospect.elf.image import ElfImage
    from prospect.figures.report.disassembly_choice import DisassemblyChoice
    from prospect.options import Disassembler
    from prospect.profile.model import Profile
    from prospect.profile.optional_tables import LineTable

_Scalar = TypeVar("_Scalar", bound=np.generic)

_BYTES_BEHIND_LAST_HIT = 64

NO_JIT_CODE = "the recording holds no code of JITs and of other anonymous memory"
NO_BYTECODE = "bytecode is not disassembled: annotate --source shows its lines"
NO_OBJECT = "no object is known at these addresses"
OTHER_VDSO = "this is the vdso of another kernel than the running one"
NO_BYTES = "the image has no bytes at this address"
TOO_WIDE = "no function is known around these samples, and they are too far apart to be one"
NO_BPF_CODE = "code of BPF programs is in the kernel's memory only, which cannot be read: {}"
NO_MACHINE = "the libraries cannot disassemble code of this machine, and {}: install gdb-multiarch"
GDB_IS_MISSING = "--disassembler gdb: gdb is not installed; install it, or use the library"


class CodeChoice(Record):
    """The functions to disassemble.

    Attributes:
        choose: returns the function rows of a profile, in the order of the result.
        disassembler: the program and the syntax.
        with_lines: whether to find source lines too.
    """

    choose: Callable[[Profile], I64]
    disassembler: DisassemblerOptions = field(default_factory=DisassemblerOptions)
    with_lines: bool = True


def code_of_report(
    options: DisassemblerOptions, report: DisassemblyChoice | None = None
) -> CodeChoice:
    """Choose the functions that a report disassembles; all with a hit without its choice.

    Raises:
        UsageError: an option has an invalid value.
    """
    for name, known in (("syntax", SYNTAXES), ("disassembler", DISASSEMBLERS)):
        value = getattr(options, name)
        if value not in known:
            raise UsageError(f"{name} is one of {', '.join(known)}, not {value!r}")
    if options.gdb_processes < 1:
        raise UsageError(f"gdb_processes is at least 1, not {options.gdb_processes!r}")

    def choose(profile: Profile) -> I64:
        if report is not None:
            return disassembled_functions(profile, report)
        hit = profile.hits.location_index[profile.hits.location_index >= 0]
        functions = np.unique(profile.locations.function_index.take(hit)).astype(np.int64)
        return functions[functions >= 0]

    return CodeChoice(choose, options, with_lines=False)


def describe_code(profile: Profile, recorded: RecordedObjects, choice: CodeChoice) -> CodeTable:
    """Disassemble functions of a profile.

    Raises:
        UsageError: GDB is asked for, and is not installed.
    """
    functions = choice.choose(profile)
    recorded.announce(f"disassembling {pluralize(len(functions), 'function')}")
    object_rows = profile.functions.object_index.take(functions)
    with closing(CodeBytes(profile, recorded)) as bytes_of:
        code = [bytes_of.function(function) for function in functions.tolist()]
    hits = _hits(profile, functions)
    decoded = decode_functions(
        [Function(*one) for one in zip(code, object_rows.tolist(), hits, strict=True)],
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


def _hits(profile: Profile, functions: I64) -> list[U64]:
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
    profile: Profile, recorded: RecordedObjects, object_of: I32, target: U64
) -> list[str]:
    """Name the targets as function and offset: ``memcpy``, ``memcpy+16``."""
    names = np.full(len(target), "", object)
    leads = target != NO_TARGET
    for row in distinct(object_of[leads]).tolist():
        at = np.flatnonzero(leads & (object_of == row))
        met, index = np.unique(target.take(at), return_inverse=True)
        named = _named(profile, recorded, row, met)
        names[at] = np.array(named, object).take(index)
    return names.tolist()


def _named(profile: Profile, recorded: RecordedObjects, row: int, address: U64) -> Sequence[str]:
    if profile.objects.kind[row] in KERNEL_KINDS:
        found = recorded.symbolizer.resolve(KERNEL_KEY, (), address)
    elif recorded.jit_code(row):
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


def _lines(recorded: RecordedObjects, object_of: I32, address: U64) -> LineTable:
    pieces = []
    notes: dict[int, str] = {}
    for row in distinct(object_of).tolist():
        at = np.flatnonzero(object_of == row)
        if recorded.jit_code(row):
            pieces.append((at, recorded.jit_frames(row, address.take(at))))
            continue
        found = recorded.image(row) if row in recorded.keys else None
        if found is None or isinstance(found, Missing):
            continue
        frames, note = recorded.frames(row, found, address.take(at))
        pieces.append((at, frames))
        if note:
            notes[row] = note
    return line_table_of(len(address), pieces, notes)


def _source_of(recorded: RecordedObjects, lines: LineTable) -> dict[tuple[int, int], str]:
    """Read the source of the innermost line of every instruction."""
    has_frames = np.flatnonzero(np.diff(lines.frame_start))
    last = lines.frame_start.take(has_frames + 1) - 1
    pairs = np.unique(np.stack((lines.file_index.take(last), lines.line.take(last))), axis=1)
    return recorded.source(lines.files, zip(*pairs.tolist(), strict=True))


def _joined(parts: list[NDArray[_Scalar]], dtype: type[_Scalar]) -> NDArray[_Scalar]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype)


class CodeBytes:
    """Finds the bytes of functions; opens the kernel's memory for the first kernel function."""

    def __init__(self, profile: Profile, recorded: RecordedObjects) -> None:
        self._profile = profile
        self._recorded = recorded
        self._kernel: KernelImage | LiveKernel | str | None = None

    def function(self, function: int) -> Piece | str:
        """Return the code of a function, or why there is none."""
        extent = self._extent(function)
        if isinstance(extent, str):
            return extent
        row = int(self._profile.functions.object_index[function])
        owner = self._recorded.owner(self._profile, row)
        answers, collector = self._recorded.answers, self._recorded.collector
        is_given = owner.key.kind in KERNEL_KINDS and self._recorded.options.kernel_image
        if answers is not None and not is_given:
            kept = answers.code.get((owner, extent[0]))
            if kept is None:
                return NOT_ARCHIVED
            return kept.reason or Piece(
                kept.content[: extent[1]], extent[0], target_of_machine(kept.machine)
            )
        code = self._found(function, row, extent)
        if collector is not None:
            collector.code[owner, extent[0]] = (
                ArchivedCode(b"", 0, code)
                if isinstance(code, str)
                else ArchivedCode(code.content, code.target.machine)
            )
        return code

    def _found(self, function: int, row: int, extent: tuple[int, int]) -> Piece | str:
        functions = self._profile.functions
        kind = int(self._profile.objects.kind[row]) if row >= 0 else KIND_UNKNOWN
        if kind in KERNEL_KINDS:
            found = self._of_kernel(*extent)
            if isinstance(found, str) and kind == KIND_BPF:
                return NO_BPF_CODE.format(found.partition(":")[0])
            return found
        if kind == KIND_VDSO:
            # The vdso is this kernel's if its symbols named the function; not that of 32 bits.
            is_ours = functions.source[function] == NameSource.VDSO
            is_ours = is_ours and self._profile.objects.path[row] == VDSO.decode()
            image = (read_own_vdso() if is_ours else None) or OTHER_VDSO
        elif kind == KIND_JIT and (code := self._recorded.jit_code(row)):
            target = target_of_machine(code.dump.machine)
            return Piece(bytes(code.code_at(*extent)), extent[0], target)
        else:
            image = self._image(row, kind)
        return image if isinstance(image, str) else _of_image(image, *extent)

    def _image(self, row: int, kind: int) -> ElfImage | str:
        """Return the image of an object, or why there is none."""
        if kind in SOURCE_KINDS:
            return NO_BYTECODE
        if kind in {KIND_JIT, KIND_ANON}:
            return NO_JIT_CODE
        if kind != KIND_ELF or row not in self._recorded.keys:
            return NO_OBJECT
        found = self._recorded.image(row)
        return found.note if isinstance(found, Missing) else found.image

    def close(self) -> None:
        """Close the kernel's memory."""
        if isinstance(self._kernel, LiveKernel):
            self._kernel.close()

    def _of_kernel(self, start: int, size: int) -> Piece | str:
        if self._kernel is None:
            recorded = self._recorded
            self._kernel = open_kernel(recorded.options, recorded.symbolizer.cache)
        if isinstance(self._kernel, str):
            return self._kernel
        code = self._kernel.code_at(start, size)
        return code if isinstance(code, str) else Piece(code, start, target_of(self._kernel.image))

    def _extent(self, function: int) -> tuple[int, int] | str:
        """Return the start and size of a function; without a name, of the range of its hits."""
        functions = self._profile.functions
        if functions.size_bytes[function]:
            size = min(int(functions.size_bytes[function]), LARGEST_FUNCTION_BYTES)
            return int(functions.address[function]), size
        locations = self._profile.locations
        hit = locations.address[locations.function_index == function]
        if not len(hit):
            return NO_OBJECT
        first, last = int(hit.min()), int(hit.max())
        if last - first > LARGEST_NAMELESS_BYTES:
            return TOO_WIDE
        return first, last - first + _BYTES_BEHIND_LAST_HIT


def _of_image(image: ElfImage, start: int, size: int) -> Piece | str:
    content = bytes(code_at(image, start, size))
    return Piece(content, start, target_of(image)) if content else NO_BYTES


class Function(NamedTuple):
    """A function to decode: its code or why there is none, its object, u64[k] its hits."""

    code: Piece | str
    object_row: int
    hits: U64


def decode_functions(
    functions: Sequence[Function], options: DisassemblerOptions
) -> list[Instructions | str]:
    """Return the instructions of each function, or why there are none.

    Raises:
        UsageError: GDB is asked for, and is not installed.
    """
    syntax, disassembler = options.syntax, options.disassembler
    if disassembler == "gdb" and gdb_path() is None:
        raise UsageError(GDB_IS_MISSING)
    decoded: list[Instructions | str] = []
    for_gdb: dict[int, list[int]] = {}
    for row, (code, object_row, hits) in enumerate(functions):
        if isinstance(code, str):
            decoded.append(code)
            continue
        found = disassemble(code.content, code.address, code.target.machine, syntax)
        is_small = len(code.content) <= LARGEST_DOUBTED_BYTES
        if disassembler == "gdb" or found is None or (is_small and _unknown(found, hits)):
            for_gdb.setdefault(object_row, []).append(row)
        decoded.append(NO_MACHINE.format(NO_GDB) if found is None else found)
    groups = [
        [code for row in rows if isinstance(code := functions[row].code, Piece)]
        for rows in for_gdb.values()
    ]
    answers = disassemble_by_gdb(groups, syntax, options.gdb_processes) if groups else []
    for rows, of_group in zip(for_gdb.values(), answers, strict=True):
        for row, answer in zip(rows, of_group, strict=True):
            decoded[row] = _chosen(decoded[row], answer, functions[row].hits, disassembler)
    return decoded


def _chosen(
    ours: Instructions | str,
    answer: list[tuple[int, int, str, int, int]] | str,
    hits: U64,
    disassembler: Disassembler,
) -> Instructions | str:
    """Choose between the instructions of a library and those of GDB."""
    if isinstance(answer, str):
        if disassembler == "gdb":
            return answer
        return NO_MACHINE.format(answer) if isinstance(ours, str) else ours
    theirs = from_rows(answer)
    if isinstance(ours, str):
        return theirs
    if disassembler == "library" and _unknown(theirs, hits) >= _unknown(ours, hits):
        return ours
    return with_flow_of(theirs, ours)


def _unknown(found: Instructions, hits: U64) -> int:
    """Return the number of hit addresses that are no instruction."""
    if not len(found):
        return len(hits)
    row = np.minimum(np.searchsorted(found.address, hits), len(found) - 1)
    known = (found.address.take(row) == hits) & (found.flow.take(row) != FLOW_UNKNOWN)
    return int(np.count_nonzero(~known))
