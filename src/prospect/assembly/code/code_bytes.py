"""Where the bytes of a routine come from: its image, the kernel, or nowhere, and why.

Comes in: a profile and the recorded objects behind it. Goes out: the code of one function after the
other. Bytes come from the very image that was recorded, by its build id or inode, and for the
kernel from its image or its memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.archived.answers import Code as ArchivedCode
from prospect.archived.symbolizers import NOT_ARCHIVED
from prospect.assembly.code.recorded_objects import jit_code_of
from prospect.disasm.code_image import code_at
from prospect.disasm.code_image import Piece, target_of, target_of_machine
from prospect.disasm.kernel_code import KernelImage, LiveKernel, open_kernel
from prospect.profile.model import (
    KIND_ANON,
    KIND_BPF,
    KIND_ELF,
    KIND_JIT,
    KIND_KERNEL,
    KIND_MODULE,
    KIND_PYTHON,
    KIND_UNKNOWN,
    KIND_VDSO,
)
from prospect.profile.naming import NameSource
from prospect.symbols.cache import SymbolCache
from prospect.symbols.images.vdso import read_own_vdso
from prospect.symbols.objects import VDSO, Missing

if TYPE_CHECKING:
    from prospect.assembly.code.recorded_objects import RecordedObjects
    from prospect.elf.image import ElfImage
    from prospect.profile.model import Profile

KERNEL_KINDS = frozenset({KIND_KERNEL, KIND_MODULE, KIND_BPF})
# The largest routines of interpreters and of generated parsers have some 200 KB.
_LARGEST_ROUTINE_BYTES = 1 << 20
# Around hits that no routine is known for.
_LARGEST_NAMELESS_BYTES = 1 << 16
_BYTES_BEHIND_LAST_HIT = 64

NO_JIT_CODE = "the recording holds no code of JITs and of other anonymous memory"
NO_BYTECODE = "bytecode of Python is not disassembled: annotate --source shows its lines"
NO_OBJECT = "no object is known at these addresses"
OTHER_VDSO = "this is the vdso of another kernel than the running one"
NO_BYTES = "the image has no bytes at this address"
TOO_WIDE = "no routine is known around these hits, and they are too far apart to be one"
NO_BPF_CODE = "code of BPF programs is in the kernel's memory only, which cannot be read: {}"


class CodeBytes:
    """Finds the bytes of routines; the kernel's memory is opened for the first that needs it."""

    def __init__(self, profile: Profile, recorded: RecordedObjects) -> None:
        self._profile = profile
        self._recorded = recorded
        self._kernel: KernelImage | LiveKernel | str | None = None

    def routine(self, function: int) -> Piece | str:
        """Return the code of a routine, or why there is none."""
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
            # Only where this kernel's vdso named it, it is this kernel's; not that of 32 bits.
            is_ours = functions.source[function] == NameSource.VDSO
            is_ours = is_ours and self._profile.objects.path[row] == VDSO.decode()
            image = (read_own_vdso() if is_ours else None) or OTHER_VDSO
        elif kind == KIND_JIT and (code := jit_code_of(self._recorded, row)):
            target = target_of_machine(code.dump.machine)
            return Piece(bytes(code.code_at(*extent)), extent[0], target)
        else:
            image = self._image(row, kind)
        return image if isinstance(image, str) else _of_image(image, *extent)

    def _image(self, row: int, kind: int) -> ElfImage | str:
        """Return the image that an object is, or why there is none."""
        if kind == KIND_PYTHON:
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
            options = self._recorded.options
            cache = SymbolCache.of_user() if options.use_cache else None
            self._kernel = open_kernel(options, cache)
        if isinstance(self._kernel, str):
            return self._kernel
        code = self._kernel.code_at(start, size)
        return code if isinstance(code, str) else Piece(code, start, target_of(self._kernel.image))

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


def _of_image(image: ElfImage, start: int, size: int) -> Piece | str:
    content = bytes(code_at(image, start, size))
    return Piece(content, start, target_of(image)) if content else NO_BYTES
