"""MMAP records and build ids of the running kernel and its modules, as perf synthesises them.

The sources are /proc/kallsyms (its first lines), /proc/iomem, /proc/modules, /sys/kernel/notes and
/sys/module.

Defined by: ``tools/perf/util/synthetic-events.c`` for the names that perf's reports look for;
proc(5); the ELF gABI (note sections).
"""

from __future__ import annotations

import os

from prospect.abi import constants as abi
from prospect.abi.recorded_facts import BuildId
from prospect.capture.kernel.procfs import read_if_there
from prospect.capture.machine.synthesis import kernel_map_record
from prospect.light import Descriptor
from prospect.records import NamedTuple

KERNEL_NAME = b"[kernel.kallsyms]"
_REFERENCE_SYMBOLS = (b"_text", b"_stext")
# _text comes first, or after the per-CPU symbols of older x86-64 kernels.
_KALLSYMS_HEAD_BYTES = 1 << 16
_NT_GNU_BUILD_ID = 3


class KernelMaps(NamedTuple):
    """Records of the kernel's text and modules, build ids, and sentences about hidden facts."""

    records: bytes
    build_ids: tuple[BuildId, ...]
    limits: tuple[str, ...]


def read_kernel_maps(root: str = "") -> KernelMaps:
    """Read the addresses of kernel code.

    Args:
        root: prefix of /proc, /sys and /lib, for tests.
    """
    records = []
    limits = []
    build_ids = []
    symbol, address = _reference_symbol(root)
    if address:
        length = _text_length(root, address)
        records.append(kernel_map_record(address, length, address, KERNEL_NAME + symbol))
    else:
        limits.append(
            "Kernel addresses are hidden: kernel samples have no names; run as root with sysctl"
            " kernel.kptr_restrict=1 or 0."
        )
    kernel_build_id = gnu_build_id(read_if_there(f"{root}/sys/kernel/notes"))
    if kernel_build_id:
        build_ids.append(BuildId(KERNEL_NAME, kernel_build_id, -1, abi.PERF_RECORD_MISC_KERNEL))
    for start, length, name, path in _modules(root):
        records.append(kernel_map_record(start, length, 0, path))
        notes = f"{root}/sys/module/{os.fsdecode(name)}/notes/.note.gnu.build-id"
        build_id = gnu_build_id(read_if_there(notes))
        if build_id:
            build_ids.append(BuildId(path, build_id, -1, abi.PERF_RECORD_MISC_KERNEL))
    vdso_build_id = _vdso_build_id()
    if vdso_build_id:
        build_ids.append(BuildId(b"[vdso]", vdso_build_id, -1, abi.PERF_RECORD_MISC_USER))
    return KernelMaps(b"".join(records), tuple(build_ids), tuple(limits))


def gnu_build_id(notes: bytes) -> bytes:
    """Return the build id among ELF notes, empty if there is none or the notes are damaged.

    Source: ELF gABI, "Note Section"; the kernel's notes are aligned to 4 bytes.
    """
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = (
            int.from_bytes(notes[at + k : at + k + 4], "little") for k in (0, 4, 8)
        )
        name_at = at + 12
        content_at = name_at + (name_size + 3 & ~3)
        if content_at + size > len(notes):
            break
        if kind == _NT_GNU_BUILD_ID and notes[name_at : name_at + name_size] == b"GNU\0":
            return notes[content_at : content_at + size]
        at = content_at + (size + 3 & ~3)
    return b""


def _reference_symbol(root: str) -> tuple[bytes, int]:
    text = read_if_there(f"{root}/proc/kallsyms", _KALLSYMS_HEAD_BYTES)
    found = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 3 and fields[2] in _REFERENCE_SYMBOLS:
            found[fields[2]] = int(fields[0], 16)
    for symbol in _REFERENCE_SYMBOLS:
        if found.get(symbol):
            return symbol, found[symbol]
    return b"", 0


def _text_length(root: str, start: int) -> int:
    """Return the length of the kernel's text, up to the end of memory if that is hidden.

    /proc/iomem has it in one line; reading all of kallsyms for _etext costs 30 ms.
    """
    for line in read_if_there(f"{root}/proc/iomem").splitlines():
        place, _, title = line.strip().partition(b" : ")
        if title == b"Kernel code":
            begin, _, end = place.partition(b"-")
            length = int(end, 16) + 1 - int(begin, 16)
            if length > 1:
                return length
    return (1 << 64) - 1 - start


def _modules(root: str) -> list[tuple[int, int, bytes, bytes]]:
    """Return address, length, name and file of each module whose address is shown."""
    loaded = []
    for line in read_if_there(f"{root}/proc/modules").splitlines():
        fields = line.split()
        if len(fields) >= 6 and (start := int(fields[5], 16)):
            loaded.append((start, int(fields[1]), fields[0]))
    if not loaded:
        return []
    loaded.sort()
    files = _module_files(root)
    modules = []
    for row, (start, size, name) in enumerate(loaded):
        # The size includes data elsewhere (since Linux 6.4), so it may reach into the next module.
        following = loaded[row + 1][0] if row + 1 < len(loaded) else start + size
        length = min(size, following - start)
        modules.append((start, length, name, files.get(name, b"[" + name + b"]")))
    return modules


def _module_files(root: str) -> dict[bytes, bytes]:
    """Return module name → file, from depmod's index of the running release."""
    directory = f"/lib/modules/{os.uname().release}"
    files = {}
    for line in read_if_there(f"{root}{directory}/modules.dep").splitlines():
        path = line.partition(b":")[0]
        base = path.rpartition(b"/")[2].partition(b".ko")[0]
        if not path.startswith(b"/"):
            path = os.fsencode(directory) + b"/" + path
        files[base.replace(b"-", b"_")] = path
    return files


def _vdso_build_id() -> bytes:
    """Return the build id of the vdso, from this process's copy."""
    for line in read_if_there("/proc/self/maps").splitlines():
        if not line.endswith(b"[vdso]"):
            continue
        begin, end = (int(word, 16) for word in line.partition(b" ")[0].split(b"-"))
        try:
            with Descriptor(os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)) as fd:
                image = os.pread(fd, end - begin, begin)
        except OSError:
            return b""
        # The image is small and its notes come before its code: look for the note's header.
        at = image.find(b"\x03\0\0\0GNU\0")
        return gnu_build_id(image[at - 8 :]) if at >= 8 else b""
    return b""
