"""The running kernel's memory as /proc/kcore shows it: code of the kernel, its modules and BPF.

Comes in: an AVMA and a size. Goes out: the bytes there. /proc/kcore is an ELF core file whose
segments are the kernel's memory (``fs/proc/kcore.c``, Linux 6.12); it needs privilege, and kernels
built or locked down without it have none.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prospect.disasm.code_bytes import segment_of
from prospect.elf import layout
from prospect.elf.image import ElfImage
from prospect.errors import ElfError

if TYPE_CHECKING:
    from typing import Self

PATH = "/proc/kcore"

# Its headers: one PT_LOAD for each range of memory, then notes.
_HEADER_BYTES = 1 << 20


class KernelCore:
    """An open core file; use `KernelCore.open`."""

    def __init__(self, descriptor: int, image: ElfImage) -> None:
        self._descriptor = descriptor
        self._image = image

    @classmethod
    def open(cls, path: str = PATH) -> Self | str:
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
        if image.type != layout.ET_CORE:
            os.close(descriptor)
            return f"{path} is not a core file: give the kernel's vmlinux with -L"
        return cls(descriptor, image)

    @property
    def image(self) -> ElfImage:
        """Its headers."""
        return self._image

    def code_at(self, address: int, size: int) -> bytes:
        """Return the bytes from an AVMA on, fewer or none where the kernel has no memory there."""
        found = segment_of(self._image, address)
        if found is None:
            return b""
        offset, held = found
        try:
            return os.pread(self._descriptor, min(size, held), offset)
        except OSError:
            return b""

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)
