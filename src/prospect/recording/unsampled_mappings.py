"""Drop mappings of other processes without samples from a recording of a command.

Clocks sample every process, so the recording has mappings of every process, which would be most of
a short recording. Only at the end is it known which processes have samples. For processes other
than COMMAND, those of ``-p`` and their descendants, mappings of code with a sampled address remain.
If samples have callers, or are in code of no file, which may be a copy of an executable's, all
mappings remain. All other records remain, so reports name and count the same processes.

A mapping without a sampled address names no sample. It could only end a mapping that it covers,
which has no sampled address in the covered part either.
"""

from __future__ import annotations

import bisect
import mmap
import os
import struct

from prospect.abi import constants as abi
from prospect.abi.record_layout import HEADER, layout_of, record_struct
from prospect.light import Descriptor
from prospect.recording.recording_limits import LARGEST_COMPACTED_BYTES, MOST_COMPACTED_RECORDS
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prospect.abi.attr import EventAttr, EventDescription

_HEADER_BYTES = struct.calcsize("<" + HEADER)
# Header and first word: an event's number in a sample; process and parent, or process and thread.
_BEGIN = struct.Struct(f"<{HEADER}II")
_FILE = struct.Struct("<IIQ")
_MAPPING = record_struct(abi.PERF_RECORD_MMAP2)
# Type and mode of such a record, without the trailing zero, which would slow the search.
_MAPPING_MARK = _BEGIN.pack(abi.PERF_RECORD_MMAP2, abi.PERF_RECORD_MISC_USER, 0, 0, 0)[:5]
# If mappings are a smaller part of a recording, they stay: reading all records would cost more.
_LEAST_PART = 1 / 16
# In a mapping's record: address and length, device and inode.
_RANGE_AT, _FILE_AT = 16, 40
_RANGE = struct.Struct("<QQ")
_SAMPLES = (abi.PERF_RECORD_SAMPLE, abi.PERF_RECORD_HIDDEN_SAMPLE)
_CPUMODE = abi.PERF_RECORD_MISC_CPUMODE_MASK
_CALLERS = abi.PERF_SAMPLE_REGS_USER | abi.PERF_SAMPLE_STACK_USER | abi.PERF_SAMPLE_BRANCH_STACK
# Mappings that tell a report where names of JIT code are.
_MARKERS = (b"/jit-", b"/libjvm.so")
# Names of memory to which programs copy or move code.
_NO_FILE = (b"//anon", b"/anon_hugepage", b"/memfd:", b"/dev/zero")

File = tuple[int, int, int]


class _Place(NamedTuple):
    """The layout of an event's samples: address and process, and whether it has addresses."""

    fields: struct.Struct
    has_address: bool
    has_callers: bool


class _Mapping(NamedTuple):
    """A mapping's record: its process, `misc`, start and end."""

    pid: int
    misc: int
    at: int
    end: int


class _Users:
    """Facts about processes, from samples and births.

    Attributes:
        addresses: process → sampled addresses in user space, for samples without callers.
        with_callers: processes whose samples have callers in user space.
        children: process → those that it started.
        inherits: process → parents whose mappings it got; several if its pid was reused.
    """

    def __init__(self) -> None:
        self.addresses: dict[int, list[int]] = {}
        self.with_callers: set[int] = set()
        self.children: dict[int, set[int]] = {}
        self.inherits: dict[int, set[int]] = {}

    def add_birth(self, pid: int, parent: int, misc: int) -> None:
        """Add the record of a fork; a child that has executed a program inherits no mappings."""
        self.children.setdefault(parent, set()).add(pid)
        if not misc & abi.PERF_RECORD_MISC_FORK_EXEC:
            self.inherits.setdefault(pid, set()).add(parent)

    def needed(self, own: Iterable[int]) -> tuple[set[int], dict[int, list[int]]]:
        """Return processes that keep all mappings, and sampled addresses of others.

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
        fd: a regular file with all records.
        begin: the place of its first record.
        own: COMMAND or the attached processes.

    Returns:
        (major, minor, inode) of mapped files that are left; None if nothing was changed, because
        there are too many records, or they are damaged or of unknown events.
    """
    try:
        size = os.fstat(fd).st_size - begin
        has_processes = all("tid" in layout_of(event.attr).sample for event in events)
        if not (has_processes and 0 < size <= LARGEST_COMPACTED_BYTES):
            return None
        with Descriptor(os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)) as again:
            if not _has_many_mappings(again, begin, begin + size):
                return None
            data = os.pread(again, size, begin)
        found = _read(data, events)
        if found is None:
            return None
        users, mappings = found
        whole, addresses = users.needed(own)
        whole |= _reached(_with_moved_code(data, mappings, addresses), users.inherits)
        kept, files = _kept(data, mappings, whole, addresses)
        first = kept[0][1] if kept and not kept[0][0] else 0
        rest = b"".join(data[start:end] for start, end in kept if end > first)
        written = 0
        while written < len(rest):
            written += os.pwrite(fd, rest[written:], begin + first + written)
        os.ftruncate(fd, begin + first + len(rest))
    except OSError:
        return None
    return files


def _has_many_mappings(fd: int, begin: int, end: int) -> bool:
    """Return whether mappings are so large a part of a recording that dropping them pays."""
    wanted, at = int(_LEAST_PART * (end - begin) / _MAPPING.size), begin
    with mmap.mmap(fd, end, prot=mmap.PROT_READ) as data:
        # CPython's search may read one byte too many.
        while wanted > 0 and (at := data.find(_MAPPING_MARK, at, end - 1) + 1) > 0:
            wanted -= 1
    return wanted <= 0


def _reached(begin: Iterable[int], leads: dict[int, set[int]]) -> set[int]:
    """Return these processes, and all that they lead to."""
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
    # The kernel writes a sample's address before its process.
    address, process = 8 * sample.get("ip", 1), 8 * sample["tid"]
    fields = struct.Struct(f"<{address}xQ{process - address - 8}xI")
    return _Place(fields, "ip" in sample, bool(has_chain or kind & _CALLERS))


def _read(data: bytes, events: Sequence[EventDescription]) -> tuple[_Users, list[_Mapping]] | None:
    """Read samples and mappings; None if a record is cut or of an unknown event, or too many."""
    places = {number: _place(event.attr) for event in events for number in event.ids}
    found = _Users()
    mappings: list[_Mapping] = []
    addresses, unpack = found.addresses, _BEGIN.unpack_from
    at = number = 0
    length = len(data)
    data += bytes(_BEGIN.size)
    while at < length:
        type_, misc, size, pid, parent = unpack(data, at)
        end = at + size
        if number >= MOST_COMPACTED_RECORDS or size < _HEADER_BYTES or end > length:
            return None
        if type_ in _SAMPLES:
            place = places.get(parent << 32 | pid)
            if place is None or place.fields.size > size:
                return None
            address, pid = place.fields.unpack_from(data, at)
            if place.has_callers:
                found.with_callers.add(pid)
            elif place.has_address and misc & _CPUMODE == abi.PERF_RECORD_MISC_USER:
                addresses.setdefault(pid, []).append(address)
        elif type_ == abi.PERF_RECORD_MMAP2 and size >= _MAPPING.size:
            mappings.append(_Mapping(pid, misc, at, end))
        elif type_ == abi.PERF_RECORD_FORK and size >= _BEGIN.size:
            found.add_birth(pid, parent, misc)
        at, number = end, number + 1
    return found, mappings


def _kept(
    data: bytes, mappings: list[_Mapping], whole: set[int], addresses: dict[int, list[int]]
) -> tuple[list[tuple[int, int]], set[File]]:
    """Return (start, end) of the kept parts, in order, and the files of kept mappings."""
    kept: list[tuple[int, int]] = []
    files: set[File] = set()
    begin = 0
    for one in mappings:
        if one.pid in whole or _is_met(data, one, addresses.get(one.pid, ())):
            files.add(_FILE.unpack_from(data, one.at + _FILE_AT))
            continue
        if one.at > begin:
            kept.append((begin, one.at))
        begin = one.end
    if len(data) > begin:
        kept.append((begin, len(data)))
    return kept, files


def _with_moved_code(
    data: bytes, mappings: list[_Mapping], addresses: dict[int, list[int]]
) -> set[int]:
    """Return processes with samples in code of no file."""
    return {
        one.pid
        for one in mappings
        if one.pid in addresses
        if data.startswith(_NO_FILE, one.at + _MAPPING.size)
        if _is_met(data, one, addresses[one.pid])
    }


def _is_met(data: bytes, mapping: _Mapping, addresses: Sequence[int]) -> bool:
    """Return whether a mapping has a sampled address, or is one of `_MARKERS`."""
    if mapping.misc & abi.PERF_RECORD_MISC_MMAP_DATA or not addresses:
        return False
    start, length = _RANGE.unpack_from(data, mapping.at + _RANGE_AT)
    at = bisect.bisect_left(addresses, start)
    if at < len(addresses) and addresses[at] < start + length:
        return True
    name = data[mapping.at + _MAPPING.size : mapping.end]
    return any(marker in name for marker in _MARKERS)
