"""Records of time 0, as perf writes them, for the state from before the events began.

Defined by: `abi.layout`; records of type 64 and above belong to the perf tool
(``tools/lib/perf/include/perf/event.h``, Linux 6.18).
"""

from __future__ import annotations

import struct

from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr
from prospect.abi.record_layout import BUILD_ID, HEADER, layout_of, record_struct
from prospect.capture.events.event_choice import SAMPLE_TYPE
from prospect.records import NamedTuple

_HEADER = struct.Struct("<" + HEADER)
_FORK = record_struct(abi.PERF_RECORD_FORK)
_COMM = record_struct(abi.PERF_RECORD_COMM)
_CGROUP = record_struct(abi.PERF_RECORD_CGROUP)
_MMAP = record_struct(abi.PERF_RECORD_MMAP)
_MMAP2 = record_struct(abi.PERF_RECORD_MMAP2)
_ATTR = EventAttr(sample_type=SAMPLE_TYPE, flags=abi.FLAG_SAMPLE_ID_ALL)
_TAIL = bytes(8 * layout_of(_ATTR).tail_words)

_PERF_RECORD_FINISHED_ROUND = 68
# Says that all records from before the last round's end are in the file: perf sorts by rounds.
FINISHED_ROUND = _HEADER.pack(_PERF_RECORD_FINISHED_ROUND, 0, _HEADER.size)

# A known build id replaces device and inode: its size, then itself.
_BUILD_ID = struct.Struct("<" + BUILD_ID)
_IDENTITY_OFFSET, _IDENTITY_END = 40, 64

# A record's size has 16 bits. PATH_MAX is far below that; a damaged name may not be.
_LONGEST_NAME = 4096 + 16
_TASK_COMM_BYTES = 16


class Map(NamedTuple):
    """A mapping; `prot` in PROT_* bits, `flags` in MAP_* bits."""

    start: int
    length: int
    pgoff: int
    major: int
    minor: int
    inode: int
    prot: int
    flags: int
    name: bytes


def fork_record(pid: int, ppid: int) -> bytes:
    """Return a process's birth without its parent's mappings; records of its own follow."""
    size = _FORK.size + len(_TAIL)
    misc = abi.PERF_RECORD_MISC_FORK_EXEC
    return _FORK.pack(abi.PERF_RECORD_FORK, misc, size, pid, ppid, pid, ppid, 0) + _TAIL


def comm_record(pid: int, tid: int, comm: bytes) -> bytes:
    """Return a thread's name, truncated as the kernel does."""
    name = _padded(comm[: _TASK_COMM_BYTES - 1])
    size = _COMM.size + len(name) + len(_TAIL)
    return _COMM.pack(abi.PERF_RECORD_COMM, 0, size, pid, tid) + name + _TAIL


def control_group_record(id_: int, path: bytes) -> bytes:
    """Return a control group's path, by its id."""
    name = _padded(path)
    size = _CGROUP.size + len(name) + len(_TAIL)
    return _CGROUP.pack(abi.PERF_RECORD_CGROUP, 0, size, id_) + name + _TAIL


def user_map_record(pid: int, mapping: Map) -> bytes:
    """Return an MMAP2 record of a process's mapping."""
    name = _padded(mapping.name)
    size = _MMAP2.size + len(name) + len(_TAIL)
    misc = abi.PERF_RECORD_MISC_USER
    if not mapping.prot & abi.PROT_EXEC:
        misc |= abi.PERF_RECORD_MISC_MMAP_DATA
    *place, prot, flags, _ = mapping
    head = abi.PERF_RECORD_MMAP2, misc, size, pid, pid
    return _MMAP2.pack(*head, *place, 0, prot, flags) + name + _TAIL


def with_build_id(record: bytes, build_id: bytes) -> bytes:
    """Return an MMAP2 record with the image's build id instead of its device and inode."""
    kind, misc, size = _HEADER.unpack_from(record)
    misc |= abi.PERF_RECORD_MISC_MMAP_BUILD_ID
    return (
        _HEADER.pack(kind, misc, size)
        + record[_HEADER.size : _IDENTITY_OFFSET]
        + _BUILD_ID.pack(len(build_id), 0, 0, build_id)
        + record[_IDENTITY_END:]
    )


def kernel_map_record(start: int, length: int, pgoff: int, name: bytes) -> bytes:
    """Return an MMAP record of the kernel's text or of a module."""
    padded = _padded(name)
    size = _MMAP.size + len(padded) + len(_TAIL)
    misc = abi.PERF_RECORD_MISC_KERNEL
    head = _MMAP.pack(abi.PERF_RECORD_MMAP, misc, size, -1, 0, start, length, pgoff)
    return head + padded + _TAIL


def _padded(name: bytes) -> bytes:
    name = name[:_LONGEST_NAME]
    return name + bytes(8 - len(name) % 8)
