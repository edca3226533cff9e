"""Chosen routines of a profile → their instructions, names of jump targets and source lines.

Comes in: a profile and the recorded objects behind it. Goes out: `CodeTable`. Bytes come from the
very image that was recorded, by its build id or inode, and for the kernel from its image or its
memory; where there are none, the table says why.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from prospect.assembly.places import KERNEL_KEY
from prospect.disasm.code_bytes import code_at
from prospect.disasm.instructions import Instructions, Syntax, disassemble
from prospect.disasm.kernel_code import KernelImage, LiveKernel, open_kernel
from prospect.lines.source_text import read_source
from prospect.lines.table import LineTableBuilder
from prospect.profile.model import (
    KIND_ANON,
    KIND_BPF,
    KIND_ELF,
    KIND_JIT,
    KIND_KERNEL,
    KIND_MODULE,
    KIND_UNKNOWN,
    KIND_VDSO,
)
from prospect.profile.naming import NameSource
from prospect.profile.source import NO_TARGET, CodeTable
from prospect.symbols.cache import SymbolCache
from prospect.symbols.objects import Missing
from prospect.symbols.vdso import read_own_vdso

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from prospect.assembly.recorded_objects import RecordedObjects
    from prospect.elf.image import ElfImage
    from prospect.profile.model import Profile
    from prospect.profile.source import LineTable

_Scalar = TypeVar("_Scalar", bound=np.generic)
_KERNEL_KINDS = frozenset({KIND_KERNEL, KIND_MODULE, KIND_BPF})
# The largest routines of interpreters and of generated parsers have some 200 KB.
_LARGEST_ROUTINE_BYTES = 1 << 20
# Around hits that no routine is known for.
_LARGEST_NAMELESS_BYTES = 1 << 16
_BYTES_BEHIND_LAST_HIT = 64

NO_JIT_CODE = "the recording holds no code of JITs and of other anonymous memory"
NO_OBJECT = "no object is known at these addresses"
OTHER_VDSO = "this is the vdso of another kernel than the running one"
NO_BYTES = "the image has no bytes at this address"
TOO_WIDE = "no routine is known around these hits, and they are too far apart to be one"
NO_MACHINE = "code of this machine cannot be disassembled here"


@dataclass(frozen=True)
class CodeChoice:
    """Whose instructions are wanted.

    Attributes:
        choose: gives the function rows of a profile, in the order in which they are wanted.
        syntax: of x86 instructions.
        with_lines: whether source lines are wanted too.
    """

    choose: Callable[[Profile], NDArray[np.int64]]
    syntax: Syntax = "att"
    with_lines: bool = True


class _Code(NamedTuple):
    """The bytes of one routine, with the machine's EM_*."""

    content: bytes | memoryview
    address: int
    machine: int


def describe_code(profile: Profile, recorded: RecordedObjects, choice: CodeChoice) -> CodeTable:
    """Disassemble routines.

    Args:
        profile: whose routines.
        recorded: the objects behind its object rows.
        choice: which routines, and how.
    """
    functions = choice.choose(profile)
    object_rows = profile.functions.object_index.take(functions)
    with closing(_Bytes(profile, recorded)) as bytes_of:
        decoded = [
            _decoded(bytes_of.routine(function), choice.syntax) for function in functions.tolist()
        ]
    parts = [one for one in decoded if not isinstance(one, str)]
    size = np.array([0 if isinstance(one, str) else len(one) for one in decoded], np.int64)
    object_of = np.repeat(object_rows, size)
    target = _joined([part.target for part in parts], np.uint64)
    address = _joined([part.address for part in parts], np.uint64)
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
        source=_source_of(lines) if lines else {},
    )


class _Bytes:
    """Finds the bytes of routines; the kernel's memory is opened for the first that needs it."""

    def __init__(self, profile: Profile, recorded: RecordedObjects) -> None:
        self._profile = profile
        self._recorded = recorded
        self._kernel: KernelImage | LiveKernel | str | None = None

    def routine(self, function: int) -> _Code | str:
        """Return the code of a routine, or why there is none."""
        extent = self._extent(function)
        if isinstance(extent, str):
            return extent
        functions = self._profile.functions
        row = int(functions.object_index[function])
        kind = int(self._profile.objects.kind[row]) if row >= 0 else KIND_UNKNOWN
        if kind in _KERNEL_KINDS:
            return self._of_kernel(*extent)
        if kind == KIND_VDSO:
            # Only where this kernel's vdso named it, it is this kernel's.
            is_ours = functions.source[function] == NameSource.VDSO
            image = (read_own_vdso() if is_ours else None) or OTHER_VDSO
        else:
            image = self._image(row, kind)
        return image if isinstance(image, str) else _of_image(image, *extent)

    def _image(self, row: int, kind: int) -> ElfImage | str:
        """Return the image that an object is, or why there is none."""
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

    def _of_kernel(self, start: int, size: int) -> _Code | str:
        if self._kernel is None:
            options = self._recorded.options
            cache = SymbolCache.of_user() if options.use_cache else None
            self._kernel = open_kernel(options, cache)
        if isinstance(self._kernel, str):
            return self._kernel
        code = self._kernel.code_at(start, size)
        return code if isinstance(code, str) else _Code(code, start, self._kernel.machine)

    def _extent(self, function: int) -> tuple[int, int] | str:
        """Return where a routine starts and its size; without a name, where its hits are."""
        functions = self._profile.functions
        if functions.size_bytes[function]:
            size = min(int(functions.size_bytes[function]), _LARGEST_ROUTINE_BYTES)
            return int(functions.address[function]), size
        locations = self._profile.locations
        hit = locations.address[locations.function_index == function]
        if not len(hit):
            return NO_OBJECT
        first, last = int(hit.min()), int(hit.max())
        if last - first > _LARGEST_NAMELESS_BYTES:
            return TOO_WIDE
        return first, last - first + _BYTES_BEHIND_LAST_HIT


def _of_image(image: ElfImage, start: int, size: int) -> _Code | str:
    content = code_at(image, start, size)
    return _Code(content, start, image.machine) if len(content) else NO_BYTES


def _decoded(code: _Code | str, syntax: Syntax) -> Instructions | str:
    if isinstance(code, str):
        return code
    found = disassemble(code.content, code.address, code.machine, syntax)
    return NO_MACHINE if found is None else found


def _target_names(
    profile: Profile,
    recorded: RecordedObjects,
    object_of: NDArray[np.int32],
    target: NDArray[np.uint64],
) -> list[str]:
    """Name the targets as routine and offset: ``memcpy``, ``memcpy+16``."""
    names = np.full(len(target), "", object)
    leads = target != NO_TARGET
    for row in np.unique(object_of[leads]).tolist():
        at = np.flatnonzero(leads & (object_of == row))
        distinct, index = np.unique(target.take(at), return_inverse=True)
        named = _named(profile, recorded, row, distinct)
        names[at] = np.array(named, object).take(index)
    return names.tolist()


def _named(
    profile: Profile,
    recorded: RecordedObjects,
    row: int,
    address: NDArray[np.uint64],
) -> Sequence[str]:
    if profile.objects.kind[row] in _KERNEL_KINDS:
        found = recorded.symbolizer.resolve(KERNEL_KEY, (), address)
    else:
        image = recorded.image(row) if row in recorded.keys else None
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
    for row in np.unique(object_of).tolist():
        found = recorded.image(row) if row in recorded.keys else None
        if found is None or isinstance(found, Missing):
            continue
        at = np.flatnonzero(object_of == row)
        frames, note = recorded.frames(row, found, address.take(at))
        builder.add(at, frames)
        if note:
            notes[row] = note
    return builder.table(len(address), notes)


def _source_of(lines: LineTable) -> dict[tuple[int, int], str]:
    """Read the source of the innermost line of every instruction."""
    has_frames = np.flatnonzero(np.diff(lines.frame_start))
    last = lines.frame_start.take(has_frames + 1) - 1
    pairs = np.unique(np.stack((lines.file_index.take(last), lines.line.take(last))), axis=1)
    return read_source(lines.files, zip(*pairs.tolist(), strict=True))


def _joined(parts: list[NDArray[_Scalar]], dtype: type[_Scalar]) -> NDArray[_Scalar]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype)
