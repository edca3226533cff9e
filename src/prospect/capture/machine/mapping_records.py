"""Rings with MMAP2 records → the mappings of files, as they are made.

Two children read these, to find build ids and to find Python, so it imports nothing slow.

Defined by: ``include/uapi/linux/perf_event.h`` (Linux 6.18).
"""

from __future__ import annotations

import struct

from prospect.abi import constants as abi
from prospect.abi.record_layout import HEADER, record_struct
from prospect.capture.kernel.procfs import living_thread
from prospect.files.mounts import link_target
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from typing import Protocol

    from prospect.capture.kernel.rings import Ring

    class CountsLosses(Protocol):
        """Counts the losses that rings report."""

        def count(self, *, lost: int = 0, leaked: int = 0) -> None:
            """Add to the counts."""

    File = tuple[int, int, int]

# The kernel appends this to the path of a removed file.
DELETED = b" (deleted)"
_HEADER = struct.Struct("=" + HEADER)
_MMAP2 = record_struct(abi.PERF_RECORD_MMAP2, "=")
_TIME_BYTES = 8
_LOST_OFFSET = 16
# header, id, lost, time
_LOST_HEAD = _HEADER.pack(abi.PERF_RECORD_LOST, 0, 32)


class MappingRecord(NamedTuple):
    """A mapping of a file from `offset` on, made at `time_ns`; 0 for one that was there before."""

    file: File
    pid: int
    start: int
    end: int
    path: bytes
    time_ns: int
    offset: int = 0


def mapped_links(mapping: MappingRecord) -> Iterator[bytes]:
    """Yield links that lead to a mapped file, whatever is at its path; see proc(5)."""
    yield b"/proc/%d/map_files/%x-%x" % (mapping.pid, mapping.start, mapping.end)
    executable = b"/proc/%d/exe" % mapping.pid
    # Another file may be on FUSE. After chroot(2), the recorder sees a longer path.
    target = link_target(executable).removesuffix(DELETED)
    if target.endswith(mapping.path.removesuffix(DELETED)):
        yield executable
    if (thread := living_thread(mapping.pid)) != mapping.pid:
        yield b"/proc/%d/map_files/%x-%x" % (thread, mapping.start, mapping.end)


def drained(
    rings: Collection[Ring], found: CountsLosses | None = None, of_names_with: Sequence[bytes] = ()
) -> Iterator[MappingRecord]:
    """Yield the mappings of files in the rings, and count the records that they lost.

    Args:
        found: counts these.
        of_names_with: skip rings that lost nothing and contain none of these texts; () to skip
            none.
    """
    for ring in rings:
        slices: list[memoryview | bytes] = []
        head = ring.pending(slices)
        data = b"".join(slices)
        slices.clear()
        ring.release(head)
        may_have = not of_names_with or any(text in data for text in of_names_with)
        if not may_have and not (found and _LOST_HEAD in data):
            continue
        at = 0
        while at + _HEADER.size <= len(data):
            kind, misc, size = _HEADER.unpack_from(data, at)
            if size < _HEADER.size or at + size > len(data):
                break
            if kind == abi.PERF_RECORD_MMAP2 and size > _MMAP2.size + _TIME_BYTES:
                if misc & abi.PERF_RECORD_MISC_MMAP_BUILD_ID and found:
                    found.count(leaked=1)
                fields = _MMAP2.unpack_from(data, at)
                _, _, _, pid, _, start, length, offset, major, minor, inode, *_ = fields
                if inode:
                    time_at = at + size - _TIME_BYTES
                    path = data[at + _MMAP2.size : time_at].split(b"\0", 1)[0]
                    (time_ns,) = struct.unpack_from("=Q", data, time_at)
                    file = major, minor, inode
                    yield MappingRecord(file, pid, start, start + length, path, time_ns, offset)
            elif kind == abi.PERF_RECORD_LOST and found:
                (lost,) = struct.unpack_from("=Q", data, at + _LOST_OFFSET)
                found.count(lost=lost)
            at += size
