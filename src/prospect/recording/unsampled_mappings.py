"""Drop mappings of other processes that no sample needs from a recording of a command.

Clocks sample every process, and which ones is known at the end only. So the kernel's records of
mappings, and those of what ran before, are of all. They would be most of a short recording. Of
processes other than COMMAND, those of ``-p`` and their descendants, mappings of code with a sampled
address remain, or all mappings if samples have callers or are in code of no file, which may come
from an executable. All other records remain, so reports name and count the same processes.

A mapping without a sampled address names no sample. It could only end another one that it covers,
and that has no sampled address either where they overlap.
"""

from __future__ import annotations

import bisect
import os
import struct

from prospect.abi import constants as abi
from prospect.abi.record_layout import HEADER, layout_of, record_struct
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prospect.abi.attr import EventAttr, EventDescription

LARGEST_COMPACTED_BYTES = 16 << 20
# They are read one by one: 10 ms. Of more, what others leave is a small share.
MOST_COMPACTED_RECORDS = 20_000
_HEADER = struct.Struct("<" + HEADER)
_WORD = struct.Struct("<Q")
_PID = struct.Struct("<I")
_PIDS = struct.Struct("<II")
_FILE = struct.Struct("<IIQ")
_MAPPING = record_struct(abi.PERF_RECORD_MMAP2)
# In a mapping's record: address and length, device and inode.
_RANGE_AT, _FILE_AT = 16, 40
_RANGE = struct.Struct("<QQ")
_SAMPLES = (abi.PERF_RECORD_SAMPLE, abi.PERF_RECORD_HIDDEN_SAMPLE)
_CALLERS = abi.PERF_SAMPLE_REGS_USER | abi.PERF_SAMPLE_STACK_USER | abi.PERF_SAMPLE_BRANCH_STACK
# Mappings that tell a report who names code elsewhere.
_MARKERS = (b"/jit-", b"/libjvm.so")
# Names of memory that code is copied or moved to.
_NO_FILE = (b"//anon", b"/anon_hugepage", b"/memfd:", b"/dev/zero")

File = tuple[int, int, int]


class _Place(NamedTuple):
    """Where a sample of an event has its address, 0 for nowhere, and its process, in bytes."""

    ip: int
    pid: int
    has_callers: bool


class _Users:
    """What samples and births say of each process.

    Attributes:
        addresses: process → sampled addresses in user space, for samples without callers.
        with_callers: processes whose samples have callers in user space.
        children: process → those that it started.
        inherits: process → parents whose mappings it got; several if its number was used again.
    """

    def __init__(self) -> None:
        self.addresses: dict[int, list[int]] = {}
        self.with_callers: set[int] = set()
        self.children: dict[int, set[int]] = {}
        self.inherits: dict[int, set[int]] = {}

    def add_sample(self, data: bytes, at: int, place: _Place, *, is_user: bool) -> None:
        """Take a sample of an event; `is_user` if its address is in user space."""
        pid = _PID.unpack_from(data, at + place.pid)[0]
        if place.has_callers:
            self.with_callers.add(pid)
        elif place.ip and is_user:
            address = _WORD.unpack_from(data, at + place.ip)[0]
            self.addresses.setdefault(pid, []).append(address)

    def needed(self, own: Iterable[int]) -> tuple[set[int], dict[int, list[int]]]:
        """Return processes all of whose mappings are kept, and sampled addresses of others.

        Args:
            own: COMMAND or the attached processes.
        """
        whole = _reached(own, self.children) | _reached(self.with_callers, self.inherits)
        inherited: dict[int, set[int]] = {}
        for pid, addresses in self.addresses.items():
            for owner in _reached([pid], self.inherits):
                inherited.setdefault(owner, set()).update(addresses)
        return whole, {pid: sorted(found) for pid, found in inherited.items()}


def drop_unsampled_mappings(
    fd: int, begin: int, events: Sequence[EventDescription], own: Iterable[int]
) -> set[File] | None:
    """Drop such mappings from a file that ends with its records.

    Args:
        fd: a regular file, to which all records have been written.
        begin: where its first record is.
        events: of the recording.
        own: COMMAND or the attached processes.

    Returns:
        (major, minor, inode) of mapped files that are left; None if nothing was changed, because
        there are many records, or they are not a chain of records of these events.
    """
    try:
        size = os.fstat(fd).st_size - begin
        if not 0 < size <= LARGEST_COMPACTED_BYTES:
            return None
        again = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.pread(again, size, begin)
        finally:
            os.close(again)
        users = _users(data, events)
        if users is None:
            return None
        whole, addresses = users.needed(own)
        whole |= _reached(_with_moved_code(data, addresses), users.inherits)
        kept, files = _kept(data, whole, addresses)
        first = kept[0][1] if kept and not kept[0][0] else 0
        rest = b"".join(data[start:end] for start, end in kept if end > first)
        written = 0
        while written < len(rest):
            written += os.pwrite(fd, rest[written:], begin + first + written)
        os.ftruncate(fd, begin + first + len(rest))
    except OSError:
        return None
    return files


def _reached(begin: Iterable[int], leads: dict[int, set[int]]) -> set[int]:
    """Return all processes that these lead to, with themselves."""
    found: set[int] = set()
    waiting = list(begin)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += leads.get(pid, ())
    return found


def _place(attr: EventAttr) -> _Place:
    sample = layout_of(attr).sample
    kind = attr.sample_type
    has_chain = kind & abi.PERF_SAMPLE_CALLCHAIN and not (
        attr.flags & abi.FLAG_EXCLUDE_CALLCHAIN_USER
    )
    return _Place(8 * sample.get("ip", 0), 8 * sample["tid"], bool(has_chain or kind & _CALLERS))


def _records(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Give type, `misc`, begin and end of each record up to a broken one; the last may be cut."""
    at, end, unpack = 0, len(data), _HEADER.unpack_from
    while at + _HEADER.size <= end:
        type_, misc, size = unpack(data, at)
        if size < _HEADER.size:
            return
        yield type_, misc, at, at + size
        at += size


def _users(data: bytes, events: Sequence[EventDescription]) -> _Users | None:
    """Read who is sampled; None if a record is cut or of no known event, or there are many."""
    if not all("tid" in layout_of(event.attr).sample for event in events):
        return None
    places = {number: _place(event.attr) for event in events for number in event.ids}
    found, end = _Users(), 0
    for number, (type_, misc, at, end) in enumerate(_records(data)):
        if number == MOST_COMPACTED_RECORDS:
            return None
        if type_ in _SAMPLES:
            place = places.get(_WORD.unpack_from(data, at + 8)[0]) if at + 16 <= len(data) else None
            if place is None or at + place.pid + _PIDS.size > min(end, len(data)):
                return None
            is_user = misc & abi.PERF_RECORD_MISC_CPUMODE_MASK == abi.PERF_RECORD_MISC_USER
            found.add_sample(data, at, place, is_user=is_user)
        elif type_ == abi.PERF_RECORD_FORK and at + _HEADER.size + _PIDS.size <= len(data):
            pid, parent = _PIDS.unpack_from(data, at + _HEADER.size)
            found.children.setdefault(parent, set()).add(pid)
            if not misc & abi.PERF_RECORD_MISC_FORK_EXEC:
                found.inherits.setdefault(pid, set()).add(parent)
    return found if end == len(data) else None


def _kept(
    data: bytes, whole: set[int], addresses: dict[int, list[int]]
) -> tuple[list[tuple[int, int]], set[File]]:
    """Return begin and end of what is kept, in order, and the files of kept mappings."""
    kept: list[tuple[int, int]] = []
    files: set[File] = set()
    begin = at = end = 0
    for type_, misc, at, end in _records(data):
        if type_ != abi.PERF_RECORD_MMAP2 or end - at < _MAPPING.size:
            continue
        pid = _PID.unpack_from(data, at + _HEADER.size)[0]
        if pid in whole or _is_met(data[at:end], misc, addresses.get(pid, ())):
            files.add(_FILE.unpack_from(data, at + _FILE_AT))
            continue
        if at > begin:
            kept.append((begin, at))
        begin = end
    if end > begin:
        kept.append((begin, end))
    return kept, files


def _with_moved_code(data: bytes, addresses: dict[int, list[int]]) -> set[int]:
    """Return processes that were sampled in code that is in no file."""
    return {
        pid
        for type_, misc, at, end in _records(data)
        if type_ == abi.PERF_RECORD_MMAP2 and end - at >= _MAPPING.size
        if data.startswith(_NO_FILE, at + _MAPPING.size)
        if (pid := _PID.unpack_from(data, at + _HEADER.size)[0]) in addresses
        if _is_met(data[at:end], misc, addresses[pid])
    }


def _is_met(record: bytes, misc: int, addresses: Sequence[int]) -> bool:
    """Return whether another process's mapping has a sampled address, or says who names code."""
    if misc & abi.PERF_RECORD_MISC_MMAP_DATA or not addresses:
        return False
    start, length = _RANGE.unpack_from(record, _RANGE_AT)
    at = bisect.bisect_left(addresses, start)
    if at < len(addresses) and addresses[at] < start + length:
        return True
    name = record[_MAPPING.size :]
    return any(marker in name for marker in _MARKERS)
