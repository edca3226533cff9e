"""Code of the recorded kernel: from the vmlinux that -L gives, else from the running kernel.

vmlinux has the kernel's code as it was linked, before the kernel patched itself for its CPU, and no
modules. /proc/kcore has the memory of the kernel, its modules and BPF programs. It is an ELF core
file (``fs/proc/kcore.c``, Linux 6.12). It needs privilege, and some kernels are built without it or
lock it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prospect.disasm.code_image import code_at, segment_of
from prospect.elf import elf_layout
from prospect.elf.image import ElfImage
from prospect.errors import ElfError
from prospect.records import Record
from prospect.symbols.images.image_files import open_image
from prospect.symbols.kernel.kernel_listings import (
    RUNNING_MACHINE,
    address_of,
    is_running_kernel,
    read_running_kernel,
)
from prospect.symbols.kernel.kernel_names import load_kernel
from prospect.symbols.objects import Missing

if TYPE_CHECKING:
    from typing import Self

    from prospect.symbols.images.image_files import FoundImage
    from prospect.symbols.kernel.kernel_listings import KernelPlaces
    from prospect.symbols.naming_options import SymbolOptions
    from prospect.symbols.table_cache import SymbolCache

NOT_RUNNING = "the recorded kernel is not the running one: give its vmlinux with -L"
MOVED = "the machine has restarted since, and its kernel is elsewhere: give vmlinux with -L"
NOT_THERE = "no kernel code is at this address now: a module or BPF program was unloaded"
NOT_IN_IMAGE = "this code is not in the vmlinux that -L gives: modules and BPF programs are not"
KCORE = "/proc/kcore"
# The headers of /proc/kcore: one PT_LOAD for each range of memory, then notes.
_HEADER_BYTES = 1 << 20


class KernelImage(Record):
    """A vmlinux that is the recorded kernel's.

    Attributes:
        found: the file.
        shift: recorded address minus address in the image, modulo 2**64.
    """

    found: FoundImage
    shift: int

    @property
    def image(self) -> ElfImage:
        """The headers of the file."""
        return self.found.image

    def code_at(self, address: int, size: int) -> bytes | str:
        """Return the bytes from an AVMA on, or why there are none."""
        code = bytes(code_at(self.image, (address - self.shift) % 2**64, size))
        return code or NOT_IN_IMAGE


def open_kernel(
    options: SymbolOptions,
    cache: SymbolCache | None = None,
    places: KernelPlaces = RUNNING_MACHINE,
    core_path: str = KCORE,
) -> KernelImage | LiveKernel | str:
    """Find the recorded kernel's code, or say why there is none.

    Args:
        options: facts of the recording and choices.
        cache: of symbol tables.
        places: files in which the running kernel describes itself.
        core_path: the file of its memory.
    """
    if options.kernel_image:
        return _given_image(options, places, cache)
    if not is_running_kernel(options, places):
        return NOT_RUNNING
    running = read_running_kernel(options, places, cache)
    if options.kernel_text and running.table is not None:
        text = address_of(running.table, options.kernel_text_symbol.encode())
        if text not in (None, options.kernel_text):
            return MOVED
    return LiveKernel.open(core_path)


def _given_image(
    options: SymbolOptions, places: KernelPlaces, cache: SymbolCache | None
) -> KernelImage | str:
    names = load_kernel(options, places, cache)
    if isinstance(names, Missing):
        return names.note
    found = open_image(os.fsencode(options.kernel_image or ""))
    return "the file that -L gives is gone" if found is None else KernelImage(found, names.shift)


class LiveKernel:
    """The running kernel's memory, an open core file; use `LiveKernel.open`.

    Attributes:
        image: the headers of the core file.
    """

    def __init__(self, descriptor: int, image: ElfImage) -> None:
        self._descriptor = descriptor
        self.image = image

    @classmethod
    def open(cls, path: str = KCORE) -> Self | str:
        """Open the core file, or say why it cannot be read."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except PermissionError:
            return f"{path} cannot be read by this user: annotate as root"
        except OSError:
            return f"there is no {path}: give the kernel's vmlinux with -L"
        try:
            image = ElfImage.parse(os.pread(descriptor, _HEADER_BYTES, 0))
        except (OSError, ElfError):
            os.close(descriptor)
            return f"{path} is not a core file that can be read: give the kernel's vmlinux with -L"
        if image.type != elf_layout.ET_CORE:
            os.close(descriptor)
            return f"{path} is not a core file: give the kernel's vmlinux with -L"
        return cls(descriptor, image)

    def code_at(self, address: int, size: int) -> bytes | str:
        """Return the bytes from an AVMA on, perhaps fewer, or why there are none."""
        found = segment_of(self.image, address)
        if found is None:
            return NOT_THERE
        offset, held = found
        try:
            return os.pread(self._descriptor, min(size, held), offset) or NOT_THERE
        except OSError:
            return NOT_THERE

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)
