"""The pages of code that the kernel maps into every process: the vdso and the vsyscall page.

They have no file. The vdso is an ELF image, read from this very process, which has the same as all
others of its class under one kernel; that of 32-bit programs from one of them. The vsyscall page is
code of the kernel's at a fixed address that has one name
(``arch/x86/entry/vsyscall/vsyscall_emu_64.S``, Linux 6.12).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from prospect.elf.image import ElfImage
from prospect.errors import ElfError
from prospect.files.named_files import read_system_file
from prospect.profile.naming import NameSource
from prospect.symbols.symbols_limits import LARGEST_VDSO_BYTES
from prospect.symbols.table import SymbolTable, build_symbol_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prospect.symbols.live_process import LiveProcess

_VSYSCALL_START = 0xFFFFFFFFFF600000
_PAGE_BYTES = 4096


def read_own_vdso() -> ElfImage | None:
    """Read the vdso of this process; None if it has none."""
    return _read_vdso("self")


def read_compat_vdso(processes: Iterable[LiveProcess]) -> ElfImage | None:
    """Read the vdso that 32-bit programs have, from one that still runs; None if none does."""
    for process in processes:
        image = _read_vdso(str(process.pid))
        if image is not None and not image.is_64:
            return image
    return None


def _read_vdso(who: str) -> ElfImage | None:
    for line in read_system_file(f"/proc/{who}/maps").splitlines():
        if not line.endswith(b" [vdso]"):
            continue
        start, end = (int(bound, 16) for bound in line.split(None, 1)[0].split(b"-"))
        if end - start > LARGEST_VDSO_BYTES:
            return None
        try:
            descriptor = os.open(f"/proc/{who}/mem", os.O_RDONLY | os.O_CLOEXEC)
            try:
                return ElfImage.parse(os.pread(descriptor, end - start, start))
            finally:
                os.close(descriptor)
        except (OSError, ElfError):
            return None
    return None


def vsyscall_table() -> SymbolTable:
    """Return the one symbol of the vsyscall page, by its address and by its offset in the page."""
    start = np.array([0, _VSYSCALL_START], np.uint64)
    end = start + np.uint64(_PAGE_BYTES)
    return build_symbol_table(
        strings=b"__vsyscall_page\0",
        start=start,
        end=end,
        limit=end,
        name_start=np.zeros(2, np.int64),
        is_global=np.ones(2, np.bool_),
        source=np.full(2, NameSource.VDSO, np.uint8),
    )
