"""Symbols of a shared library as a process has it in its memory: no file is opened for it."""

from __future__ import annotations

from prospect.capture.runtimes.elf_lookup import File

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.capture.runtimes.process_memory import ProcessMemory


class LoadedImage(File):
    """An ELF image whose first page is mapped at `base`; raises as `File` does."""

    def __init__(self, memory: ProcessMemory, base: int) -> None:
        self._memory = memory
        self._base = base
        super().__init__(-1)
        # The dynamic linker of glibc turns some of these into addresses of the process.
        self._tags = {
            tag: value - base if value >= base else value for tag, value in self._tags.items()
        }

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes of the image's beginning, which its headers are in."""
        self.spend(size)
        return self._memory.read(self._base + offset, size)

    def at(self, address: int, size: int) -> bytes:
        """Return bytes by their address in the image."""
        return self.read(address, size)
