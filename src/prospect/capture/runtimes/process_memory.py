"""The memory of a running process, read by process_vm_readv().

The process runs meanwhile. The bytes of one read are practically of one moment; those of several
reads may be inconsistent.

Defined by: process_vm_readv(2); ptrace(2), "Ptrace access mode checking";
``Documentation/admin-guide/LSM/Yama.rst``.
"""

from __future__ import annotations

import ctypes
import os
import struct

from prospect.capture.capture_limits import MOST_MEMORY_PIECES
from prospect.capture.kernel.procfs import read_setting
from prospect.light import monotonic_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_SYSCALLS = {"x86_64": 310, "aarch64": 270}
# The most bytes of all pieces of one call.
_BUFFER_BYTES = 1 << 16
_PIECE = struct.Struct("=QQ")
PAGE = 4096
_YAMA = "/proc/sys/kernel/yama/ptrace_scope"
_DESCENDANTS, _ADMINS, _NOBODY = 1, 2, 3
_ADDRESS_END = 1 << 48


class UnreadableError(OSError):
    """Memory that is not mapped, or that this user may not read."""


class ProcessMemory:
    """The memory of one process."""

    # One buffer for all processes: results are copied from it.
    _buffer = ctypes.create_string_buffer(_BUFFER_BYTES)
    _local = _PIECE.pack(ctypes.addressof(_buffer), _BUFFER_BYTES)

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._call.argtypes = (
            *(ctypes.c_long, ctypes.c_long),
            *(ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_ulong),
        )
        self._call.restype = ctypes.c_long
        self._number = _SYSCALLS.get(os.uname().machine, -1)

    def read(self, address: int, size: int) -> bytes:
        """Return `size` bytes at an address.

        Raises:
            UnreadableError: not all of them can be read.
        """
        return self.read_packed(_PIECE.pack(address & (1 << 64) - 1, size), 1, size)

    def read_pieces(self, pieces: list[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of all pieces, (address, size) each, in one call.

        Raises:
            UnreadableError: one of them cannot be read.
        """
        if len(pieces) > MOST_MEMORY_PIECES:
            raise UnreadableError
        total = sum(size for _, size in pieces)
        packed = b"".join(_PIECE.pack(address & (1 << 64) - 1, size) for address, size in pieces)
        data = self.read_packed(packed, len(pieces), total)
        found, at = [], 0
        for _, size in pieces:
            found.append(data[at : at + size])
            at += size
        return found

    def number(self, address: int) -> int:
        """Return the 64 bits at an address.

        Raises:
            UnreadableError: they cannot be read.
        """
        return int.from_bytes(self.read(address, 8), "little")

    def read_packed(self, remote: bytes, count: int, size: int) -> bytes:
        """Return the bytes of `count` pieces, of `size` bytes in all.

        `remote` has their addresses and sizes, 64 bits each.

        Raises:
            UnreadableError: not all of them can be read.
        """
        if not 0 < size <= _BUFFER_BYTES or count > MOST_MEMORY_PIECES:
            raise UnreadableError
        done = self._call(self._number, self.pid, self._local, 1, remote, count, 0)
        if done != size:
            raise UnreadableError(ctypes.get_errno() if done < 0 else 0, "")
        return ctypes.string_at(self._buffer, size)


class Snapshot:
    """Pages of a process, each read once, at its first use.

    Attributes:
        used: the addresses of the used pages, in order.
        read_ns: when the last of these was read.
    """

    def __init__(self, memory: ProcessMemory, most_pages: int) -> None:
        self._memory = memory
        self._left = most_pages
        self._pages: dict[int, bytes] = {}
        self.used: dict[int, None] = {}
        self.read_ns = 0

    def hold(self, pages: Mapping[int, bytes]) -> None:
        """Add pages, by address, that were just read."""
        self._pages |= pages
        self.read_ns = monotonic_ns()

    def at(self, address: int, size: int) -> tuple[bytes, int]:
        """Return bytes, and the offset in them of `size` bytes at an address.

        Raises:
            UnreadableError: they cannot be read, or are on more pages than may be read.
        """
        offset = address & PAGE - 1
        page = self._page(address - offset)
        if offset + size <= PAGE:
            return page, offset
        return page[offset:] + self._page(address - offset + PAGE), 0

    def _page(self, address: int) -> bytes:
        page = self._pages.get(address)
        self.used[address] = None
        if page is None:
            if not self._left or not 0 < address < _ADDRESS_END:
                raise UnreadableError
            self._left -= 1
            page = self._pages[address] = self._memory.read(address, PAGE)
            self.read_ns = monotonic_ns()
        return page


def obstacle() -> str:
    """Return why this user may read no process's memory, and the remedy; "" if they may."""
    own = ctypes.create_string_buffer(8)
    try:
        ProcessMemory(os.getpid()).read(ctypes.addressof(own), 8)
    except OSError:
        return "a seccomp profile, as containers have, forbids process_vm_readv()"
    scope = read_setting(_YAMA) or 0
    if scope >= _NOBODY:
        return f"kernel.yama.ptrace_scope is {scope}: no process may read another one's memory"
    if scope == _ADMINS and os.geteuid():
        return "kernel.yama.ptrace_scope is 2: only root, or CAP_SYS_PTRACE, may read memory"
    return ""


def reads_descendants_only() -> bool:
    """Whether this user may only read processes that Prospect has started."""
    return read_setting(_YAMA) == _DESCENDANTS and os.geteuid() != 0


def refusal(pid: int) -> str:
    """Return why the memory of a process was not read, and the remedy."""
    if reason := obstacle():
        return reason
    if not _is_own(pid):
        return "it is another user's, or has more rights: that takes root"
    if reads_descendants_only():
        return (
            "kernel.yama.ptrace_scope is 1: start the program by `prospect COMMAND`, or run:"
            " sysctl kernel.yama.ptrace_scope=0"
        )
    return "the kernel does not let this user read its memory"


def _is_own(pid: int) -> bool:
    try:
        return os.stat(f"/proc/{pid}").st_uid == os.geteuid()
    except OSError:
        return True
