"""Objects, from which code is mapped: their identity, and their kind by the name of a mapping.

PERF_RECORD_MMAP2 and lines of /proc/PID/maps have these names. Defined by
``kernel/events/core.c:perf_event_mmap_event`` and ``fs/proc/task_mmu.c:get_vma_name`` (Linux 6.12).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.profile.model import (
    KIND_ANON,
    KIND_ELF,
    KIND_JIT,
    KIND_KERNEL,
    KIND_UNKNOWN,
    KIND_VDSO,
)
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.profile.naming import NameSource

DELETED = b" (deleted)"
VSYSCALL = b"[vsyscall]"
VDSO = b"[vdso]"
COMPAT_VDSO = b"[vdso32]"
# Precedes the path of the jitdump file that describes the code of a mapping (`spaces.code_loads`).
JITDUMP_PREFIX = b"[jitdump] "
# The addresses of runtimes' functions in every process (`symbols.runtime_code`): the upper half of
# the address space is the kernel's, so nothing of user space is there.
RUNTIME_BASE, RUNTIME_END = 0xFFFF800000000000, 0xFFFFC00000000000

_VDSO_NAMES = frozenset({VDSO, COMPAT_VDSO, b"[vdsox32]", VSYSCALL})
# Memory without a file that can have code: filled by a JIT, or an executable heap or stack.
_ANONYMOUS_PREFIXES = (
    b"[anon:",
    b"[anon_shmem:",
    b"[stack",  # threads' stacks were [stack:TID] before Linux 4.5
    b"/memfd:",
    b"anon_inode:",
    b"/anon_hugepage",
    b"/dev/zero",
    b"/dev/ashmem",
    b"/SYSV",
)
_ANONYMOUS_NAMES = frozenset({b"", b"//anon", b"[anon]", b"[heap]", b"[uprobes]"})


class ObjectKey(NamedTuple):
    """The recorded identity of a file or of memory with code; hashable.

    Attributes:
        path: name of the mapping, as recorded; any bytes.
        build_id: empty if the recording has none.
        major, minor, inode: the file, all 0 if the recording has a build id instead.
        kind: one of KIND_*.
        life: number of programs that its process ran after the one that mapped it, 0 for the last
            one; for memory without a file only.
    """

    path: bytes
    build_id: bytes = b""
    major: int = 0
    minor: int = 0
    inode: int = 0
    kind: int = KIND_ELF
    life: int = 0


class HitObject(NamedTuple):
    """An object, processes that had it mapped (some or all), and its number of hits."""

    key: ObjectKey
    pids: Sequence[int]
    hits: int


class Wanted(NamedTuple):
    """A file that a server may have; `needs_image` if this machine lacks the image too."""

    build_id: bytes
    needs_image: bool


class Missing(NamedTuple):
    """Why there are no symbols: a NO_* reason, and a sentence about this object.

    Attributes:
        sysroot: the sysroot if another file has the path below it, else empty.
    """

    reason: NameSource
    note: str
    sysroot: bytes = b""


def classify(path: bytes) -> int:
    """Return the KIND_* of a mapping by its name alone."""
    if path in _VDSO_NAMES:
        return KIND_VDSO
    if path in _ANONYMOUS_NAMES or path.startswith(_ANONYMOUS_PREFIXES):
        return KIND_ANON
    if path.startswith((b"[kernel.", b"[guest.kernel.")):
        return KIND_KERNEL if path.startswith(b"[kernel.") else KIND_UNKNOWN
    if path.startswith(JITDUMP_PREFIX):
        return KIND_JIT
    return KIND_UNKNOWN if path.startswith(b"[") else KIND_ELF
