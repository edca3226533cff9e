"""Distinct hits + address spaces → the object of each hit, and the address in it.

An object's identity is the build id of the mapping if the recording has it, else device and inode.
The records of the kernel's mappings have the addresses of modules on the recorded machine.
Source: ``perf_event__synthesize_modules_maps_cb()`` in ``tools/perf/util/synthetic-events.c``,
``__kmod_path__parse()`` in ``tools/perf/util/dso.c``, Linux 6.18: the record of a module has the
path of the module's file, or its name in brackets.
"""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING, Protocol

import numpy as np

from prospect.abi import constants as abi
from prospect.assembly.assembly_limits import MOST_PIDS
from prospect.assembly.extras import counts_of, mapping_of, texts_of
from prospect.assembly.stacks.chain_frames import CPUMODE_CUT
from prospect.columns.grouping import RowsByGroup, alike, rows_by_group
from prospect.columns.sorting import distinct, run_starts
from prospect.profile.model import (
    CUT_OBJECT,
    KIND_ANON,
    KIND_ELF,
    KIND_JIT,
    KIND_KERNEL,
    KIND_MODULE,
    KIND_UNKNOWN,
    KIND_VDSO,
)
from prospect.records import NamedTuple, Record
from prospect.symbols.objects import COMPAT_VDSO, RUNTIME_BASE, VDSO, VSYSCALL, ObjectKey, classify
from prospect.symbols.table import latest_pieces

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.columns.array_types import I32, I64, U8, U64, Bools, Ints
    from prospect.spaces.address_spaces import Mappings
    from prospect.spaces.attribution import Attribution
    from prospect.spaces.process_history import ProcessHistory
    from prospect.symbols.runtime_code import RuntimeCode

    File = tuple[int, int, int]


KERNEL_KEY = ObjectKey(b"[kernel.kallsyms]", kind=KIND_KERNEL)
NOWHERE_KEY = ObjectKey(b"[unknown]", kind=KIND_UNKNOWN)
GUEST_KEY = ObjectKey(b"[guest]", kind=KIND_UNKNOWN)
HYPERVISOR_KEY = ObjectKey(b"[hypervisor]", kind=KIND_UNKNOWN)
VSYSCALL_KEY = ObjectKey(VSYSCALL, kind=KIND_VDSO)
CUT_KEY = ObjectKey(CUT_OBJECT.encode(), kind=KIND_UNKNOWN)
_FIXED_KEYS = (NOWHERE_KEY, KERNEL_KEY, GUEST_KEY, HYPERVISOR_KEY, VSYSCALL_KEY, CUT_KEY)
# Row of `_FIXED_KEYS` by PERF_RECORD_MISC_CPUMODE, of which there are eight.
_ROW_OF_MODE = np.zeros(8, np.int32)
_ROW_OF_MODE[abi.PERF_RECORD_MISC_KERNEL] = _FIXED_KEYS.index(KERNEL_KEY)
_ROW_OF_MODE[abi.PERF_RECORD_MISC_HYPERVISOR] = _FIXED_KEYS.index(HYPERVISOR_KEY)
_ROW_OF_MODE[abi.PERF_RECORD_MISC_GUEST_KERNEL] = _FIXED_KEYS.index(GUEST_KEY)
_ROW_OF_MODE[abi.PERF_RECORD_MISC_GUEST_USER] = _FIXED_KEYS.index(GUEST_KEY)
_ROW_OF_MODE[CPUMODE_CUT] = _FIXED_KEYS.index(CUT_KEY)
_LOW_48_BITS = np.uint64((1 << 48) - 1)
# arch/x86/include/uapi/asm/vsyscall.h: one page, at the same address in every process.
_VSYSCALL_PAGE = np.uint64(0xFFFFFFFFFF600000 >> 12)


_COMPAT_END = np.uint64(1 << 32)
# A mapping has two records: the recorder's, and that of the event by which it reads build ids.
_SAME_MAPPING_NS = 100_000
_LATEST_NS = np.uint64(1 << 62)  # later times are damage
_NO_FILE = (0, 0, 0)
_NO_MODULES = (b"[kernel.", b"[guest.")


class Placement(Record):
    """The object and address of each distinct hit.

    Attributes:
        keys: the objects that were hit.
        pids: some of the processes that had each object mapped, newest first.
        object_index: i32[h] row of `keys`.
        address: u64[h] file offset for images (KIND_ELF, KIND_VDSO), as in
            `symbols.jit.jit_code` for KIND_JIT, AVMA for the others.
        mapping_index: i64[h] row of the history's mappings, -1 if none.
    """

    keys: list[ObjectKey]
    pids: list[list[int]]
    object_index: I32
    address: U64
    mapping_index: I64

    @property
    def is_nowhere(self) -> Bools:
        """bool[h]: whether an address is in no object."""
        nowhere: Bools = self.object_index == _FIXED_KEYS.index(NOWHERE_KEY)
        return nowhere

    def first(self, rows: int) -> Placement:
        """Return the placement of the first `rows` addresses only, of the same objects."""
        return Placement(
            self.keys,
            self.pids,
            self.object_index[:rows],
            self.address[:rows],
            self.mapping_index[:rows],
        )

    def sorted_places(self) -> tuple[I64, I64]:
        """Return the hits' order by object and address, and the first place of each object."""
        order = _order_by_place(self.object_index, self.address)
        return order, run_starts(self.object_index.take(order))


def _order_by_place(object_index: I32, address: U64) -> I64:
    """Return the order by object, then address; by one packed key if both fit in it."""
    low = address & _LOW_48_BITS
    if (
        len(object_index)
        and object_index.max() >> 16 == 0
        and (_sign_extended(low) == address).all()
    ):
        return np.argsort(object_index.astype(np.uint64) << np.uint64(48) | low)
    return np.lexsort((address, object_index))


def _sign_extended(low: U64) -> U64:
    """Return the canonical addresses of 48 bits, as with 4-level paging."""
    shift = np.int64(16)
    return (low.view(np.int64) << shift >> shift).view(np.uint64)


class Addresses(Record):
    """Addresses in processes; the columns are those of `Attribution`."""

    process_row: I32
    space: I32
    epoch: I32
    mode: U8
    address: U64

    def __len__(self) -> int:
        return len(self.address)


def with_addresses(hits: Attribution, others: Sequence[Addresses]) -> Attribution | Addresses:
    """Return the addresses of the hits, followed by those of other tables."""
    if not others:
        return hits
    return Addresses(
        *(
            np.concatenate([getattr(table, name) for table in (hits, *others)])
            for name in ("process_row", "space", "epoch", "mode", "address")
        )
    )


def place(
    hits: Attribution | Addresses,
    history: ProcessHistory,
    info: RecordingInfo,
    is_other: IsOther = lambda key, *, is_only: False,  # noqa: ARG005 - of no file
    runtimes: RuntimeCode | None = None,
) -> Placement:
    """Find the object and the address in it for every distinct hit.

    Args:
        is_other: see `RecordedImages.is_other`.
        runtimes: the functions of runtimes, None if there are none.
    """
    is_user = hits.mode == abi.PERF_RECORD_MISC_USER
    fixed, object_index = _places_by_mode(hits, history)
    is_vsyscall = is_user & (hits.address >> np.uint64(12) == _VSYSCALL_PAGE)
    object_index[is_vsyscall] = _FIXED_KEYS.index(VSYSCALL_KEY)
    runs = history.address_spaces.locate_runs(
        np.where(is_user, hits.space, np.int32(-1)), hits.epoch, hits.address
    )
    is_mapped = runs.mapping >= 0
    located = runs.mapping[is_mapped]
    last = (runs.start + runs.length - 1)[is_mapped]
    objects = objects_of_mappings(located, hits.process_row.take(last), history, info, is_other)
    # Runs in no mapping keep their object and address.
    in_object = np.full(len(runs.mapping), -1, np.int32)
    in_object[is_mapped] = objects.object_of_mapping.take(located) + np.int32(len(fixed))
    in_object = in_object.repeat(runs.length)
    np.copyto(object_index, in_object, where=in_object >= 0)
    shift = np.zeros(len(runs.mapping), np.uint64)
    shift[is_mapped] = objects.shift_of_mapping.take(located)
    # Modulo 2**64, like the kernel's arithmetic on page offsets.
    address = shift.repeat(runs.length)
    address += hits.address
    mapping = runs.mapping.repeat(runs.length)
    keys = [*fixed, *objects.keys]
    pids: list[list[int]] = [[]] * len(fixed) + objects.pids
    if runtimes is not None:
        row = _place_runtimes(runtimes, is_user, address, object_index, len(keys))
        keys += row
        pids += [[]] * len(row)
    return Placement(
        keys=keys, pids=pids, object_index=object_index, address=address, mapping_index=mapping
    )


def _place_runtimes(
    code: RuntimeCode, is_user: Bools, address: U64, object_index: I32, first_object: int
) -> list[ObjectKey]:
    """Place the hits in functions of runtimes, in both columns; return the objects of these."""
    is_theirs = is_user & code.covers(address)
    inside = address[is_theirs] - RUNTIME_BASE
    address[is_theirs] = inside
    object_index[is_theirs] = code.object_of.take(code.row_of(inside)) + first_object
    return [ObjectKey(path, kind=kind) for path, kind in code.objects]


def _places_by_mode(
    hits: Attribution | Addresses, history: ProcessHistory
) -> tuple[list[ObjectKey], I32]:
    """Return the objects that no process maps, and i32[h] the row of each hit's by its mode."""
    object_index = _ROW_OF_MODE.take(hits.mode)
    modules = find_kernel_modules(history)
    of_kernel = np.flatnonzero(hits.mode == abi.PERF_RECORD_MISC_KERNEL)
    module = modules.find(hits.address.take(of_kernel))
    is_module = module >= 0
    object_index[of_kernel[is_module]] = len(_FIXED_KEYS) + module[is_module]
    return [*_FIXED_KEYS, *modules.keys], object_index


class IsOther(Protocol):
    """Whether an inode and a build id are of different files; see `RecordedImages.is_other`."""

    def __call__(self, key: ObjectKey, *, is_only: bool) -> bool:
        """Return it."""
        ...


class MappedObjects(Record):
    """The objects of the mappings that were hit.

    `object_of_mapping` i32[m] and `shift_of_mapping` u64[m], which turns an AVMA into an address of
    the object, count for hit mappings only.
    """

    keys: list[ObjectKey]
    pids: list[list[int]]
    object_of_mapping: I32
    shift_of_mapping: U64


def objects_of_mappings(
    mapping: I64, process_row: I32, history: ProcessHistory, info: RecordingInfo, is_other: IsOther
) -> MappedObjects:
    """Identify the object of each mapping with hits.

    Mappings of one file are one object. Anonymous code belongs to the program that mapped it, as
    two JITs use the same addresses for different functions. A copy of an executable's code belongs
    to the executable.

    Args:
        mapping: i64[k] rows of the history's mappings, one for each located hit.
        process_row: i32[k] the process of each of these hits.
        is_other: see `RecordedImages.is_other`.
    """
    table = history.mappings
    hit_by = np.full(len(table), -1, np.int32)
    hit_by[mapping] = process_row
    hit_mappings = np.flatnonzero(hit_by >= 0)
    copied = _remapped_text(hit_mappings, history)
    stands_for = np.arange(len(table))
    stands_for[list(copied)] = list(copied.values())
    keys, key = _keys_of_mappings(stands_for.take(hit_mappings), history, info, is_other)
    kind = np.array([one.kind for one in keys], np.int64)
    pid = history.processes.pid
    owner_row, user_row = table.process_row[hit_mappings], hit_by[hit_mappings]
    is_own = np.isin(kind, (KIND_ANON, KIND_JIT)).take(key)
    life = np.zeros(len(key), np.int64)
    if is_own.any():
        lives = _lives(pid)
        life = np.where(is_own, lives.take(owner_row), 0)
        # The files of a process that ran another program since may be of that one.
        user_row = np.where(is_own & (lives.take(user_row) > 0), owner_row, user_row)
    owner, user = pid[owner_row], pid[user_row]
    objects = alike((key, np.where(is_own, owner, 0), life))
    # In the order of their first mappings.
    met = np.argsort(objects.row)
    number = np.empty(len(met), np.int32)
    number[met] = np.arange(len(met), dtype=np.int32)
    index = number.take(objects.place)
    object_of_mapping = np.full(len(table), -1, np.int32)
    object_of_mapping[hit_mappings] = index
    is_image = np.zeros(len(table), np.bool_)
    is_image[hit_mappings] = np.isin(kind, (KIND_ELF, KIND_VDSO, KIND_JIT)).take(key)
    shift = table.pgoff - table.start
    return MappedObjects(
        keys=[
            keys[one]._replace(life=of_life) if of_life else keys[one]
            for one, of_life in zip(
                key.take(objects.row.take(met)).tolist(),
                life.take(objects.row.take(met)).tolist(),
                strict=True,
            )
        ],
        pids=_last_pids(rows_by_group(index, len(met)), owner, user),
        object_of_mapping=object_of_mapping,
        shift_of_mapping=np.where(is_image, shift.take(stands_for), np.uint64(0)),
    )


def _lives(pid: I32) -> I64:
    """Return i64[p] the number of later rows of processes with the same pid."""
    order = np.argsort(pid, kind="stable")
    ends = np.searchsorted(pid.take(order), pid, side="right")
    lives = np.empty(len(pid), np.int64)
    lives[order] = ends.take(order) - 1 - np.arange(len(pid))
    return lives


def _last_pids(mappings: RowsByGroup, owner: Ints, user: Ints) -> list[list[int]]:
    """Return the last processes that used each object, the last one first."""
    found = []
    for number in range(len(mappings.start) - 1):
        last: dict[int, None] = {}
        for row in mappings.rows(number)[::-1]:
            last |= {int(user[row]): None, int(owner[row]): None}
            if len(last) >= MOST_PIDS:
                break
        found.append(list(last)[:MOST_PIDS])
    return found


def _keys_of_mappings(
    hit_mappings: I64, history: ProcessHistory, info: RecordingInfo, is_other: IsOther
) -> tuple[list[ObjectKey], I64]:
    """Return the objects of hit mappings, each once, and i64[r] the row of each mapping's object.

    A build id is that of the mapping's record; else that which the recorder read from the file when
    it was mapped; else, if the recording has one build id for the path, that one, unless it is
    known to be of another file. Memory with a build id is a program that was executed from a memfd,
    not JIT code. The vdso of a 32-bit program is another image of the same name.
    """
    table = history.mappings
    is_low = table.start[hit_mappings] < _COMPAT_END
    name, build_id = table.name[hit_mappings], table.build_id[hit_mappings]
    time_ns = np.minimum(table.time_ns[hit_mappings], _LATEST_NS).astype(np.int64)
    # Each file is examined once: a machine maps the same few files thousands of times.
    by_file = alike([column[hit_mappings] for column in (table.major, table.minor, table.inode)])
    read = _ReadFiles(info)
    interval = read.interval(_files(history, hit_mappings[by_file.row]), by_file.place, time_ns)
    groups = alike((name, is_low, build_id, by_file.place, interval))
    row = groups.row
    paths = [
        COMPAT_VDSO if low and history.names[row] == VDSO else history.names[row]
        for row, low in zip(name[row].tolist(), is_low[row].tolist(), strict=True)
    ]
    files = _files(history, hit_mappings[row])
    own = [
        history.build_ids[known] if known >= 0 else read.build_id(file, at_ns)
        for known, file, at_ns in zip(
            build_id[row].tolist(), files, time_ns[row].tolist(), strict=True
        )
    ]
    known = _ByPath(paths, own, history, info, is_other)
    keys: dict[ObjectKey, int] = {}
    place = []
    for path, its_own, one in zip(paths, own, files, strict=True):
        kind = classify(path)
        found = its_own or known.build_id(ObjectKey(path, b"", *one, kind))
        if found:
            key = ObjectKey(path, found, kind=KIND_ELF if kind == KIND_ANON else kind)
        else:
            key = ObjectKey(path, b"", *one, kind)
        place.append(keys.setdefault(key, len(keys)))
    return list(keys), np.array(place, np.int64)[groups.place]


def _files(history: ProcessHistory, rows: I64) -> list[File]:
    """Return (major, minor, inode) of mappings."""
    table = history.mappings
    columns = (table.major, table.minor, table.inode)
    return list(zip(*(column[rows].tolist() for column in columns), strict=True))


class _ByPath:
    """Build ids that the recording has by path, not by mapping."""

    def __init__(
        self,
        paths: list[bytes],
        own: list[bytes],
        history: ProcessHistory,
        info: RecordingInfo,
        is_other: IsOther,
    ) -> None:
        self._known: dict[bytes, set[bytes]] = {}
        self._history = history
        self._is_other = is_other
        self._answers: dict[ObjectKey, bytes] = {}
        self._files: Mapping[bytes, set[File]] | None = None
        for entry in info.build_ids:
            if entry.build_id.strip(b"\0"):
                self._known.setdefault(entry.name, set()).add(entry.build_id)
        for path, build_id in zip(paths, own, strict=True):
            if build_id:
                self._known.setdefault(path, set()).add(build_id)

    def build_id(self, by_file: ObjectKey) -> bytes:
        """Return the build id of a mapping without one, empty if it is not known."""
        known = self._known.get(by_file.path, set())
        if len(known) != 1:
            return b""
        if by_file not in self._answers:
            (likely,) = known
            key = by_file._replace(build_id=likely)
            is_other = self._is_other(key, is_only=len(self._files_of(by_file.path)) <= 1)
            self._answers[by_file] = b"" if is_other else likely
        return self._answers[by_file]

    def _files_of(self, path: bytes) -> set[File]:
        """Return the files of all mappings of a path."""
        if self._files is None:
            table = self._history.mappings
            names = {row for row, name in enumerate(self._history.names) if name in self._known}
            rows = np.flatnonzero(np.isin(table.name, list(names)))
            of_path: dict[bytes, set[File]] = {}
            for name, file in zip(
                table.name[rows].tolist(), _files(self._history, rows), strict=True
            ):
                if file != _NO_FILE:
                    of_path.setdefault(self._history.names[name], set()).add(file)
            self._files = of_path
        return self._files.get(path, set())


class _ReadFiles:
    """Mapped files that the recorder read: the key ``mapped_files``, see docs/recording.md."""

    def __init__(self, info: RecordingInfo) -> None:
        self._versions: dict[File, list[tuple[int, int, bytes]]] = {}
        self._begin_ns = next(iter(counts_of(info.extras.get("interval_ns"))), 0)
        document = mapping_of(info.extras.get("mapped_files"))
        numbers = (counts_of(document.get(name)) for name in ("major", "minor", "inode"))
        times = (counts_of(document.get(name)) for name in ("since_ns", "until_ns"))
        build_ids = texts_of(document.get("build_id"))
        for *file, since_ns, until_ns, text in zip(*numbers, *times, build_ids, strict=False):
            build_id = _from_hex(text)
            if build_id:
                major, minor, inode = file
                versions = self._versions.setdefault((major, minor, inode), [])
                versions.append((since_ns, until_ns, build_id))

    def interval(self, files: list[File], file: I32, time_ns: I64) -> I64:
        """Number the intervals in which files had one build id each, i64[r].

        Args:
            file: i32[r] row in `files` of each mapping's file.
            time_ns: i64[r] time of the mapping.
        """
        edges = [
            (number, min(edge_ns, int(_LATEST_NS)))
            for number, one in enumerate(files)
            for since_ns, until_ns, _ in self._versions.get(one, ())
            for edge_ns in (since_ns - _SAME_MAPPING_NS, until_ns + _SAME_MAPPING_NS + 1)
        ]
        if not edges:
            return np.zeros(len(file), np.int64)
        of_edge, edge_ns = np.array(edges, np.int64).T
        at_ns = np.where(time_ns == 0, self._begin_ns, time_ns)
        is_edge = np.append(np.ones(len(edges), np.int64), np.zeros(len(file), np.int64))
        # An edge precedes mappings of the same time.
        order = np.lexsort(
            (1 - is_edge, np.append(edge_ns, at_ns), np.append(of_edge, file.astype(np.int64)))
        )
        passed = np.empty(len(order), np.int64)
        passed[order] = np.cumsum(is_edge[order])
        return passed[len(edges) :]

    def build_id(self, file: File, time_ns: int) -> bytes:
        """Return the build id of a file when it was mapped, empty if the recorder read none."""
        at_ns = time_ns or self._begin_ns
        for since_ns, until_ns, build_id in self._versions.get(file, ()):
            if since_ns - _SAME_MAPPING_NS <= at_ns <= until_ns + _SAME_MAPPING_NS:
                return build_id
        return b""


def _from_hex(text: str) -> bytes:
    try:
        return binascii.unhexlify(text)
    except (binascii.Error, ValueError):
        return b""


def _remapped_text(hit_mappings: I64, history: ProcessHistory) -> dict[int, int]:
    """Find the hit mappings that are copies of their executable's code.

    Programs with much code copy it to huge pages when they start: Node (--use-largepages), MySQL
    and Chromium map anonymous memory over the text of the executable, libhugetlbfs moves it there.
    From then on mappings have the name ``//anon``. Only the executable counts: a library may have
    been unloaded, and JIT code put in its place.

    Args:
        hit_mappings: i64[k] rows of the history's mappings.

    Returns:
        For each such row, the row of a mapping of the executable that has the same difference of
        memory address and file offset.
    """
    table = history.mappings
    of_executable: dict[int, I64] = {}
    found = {}
    names = table.name[hit_mappings]
    anonymous = [
        name for name in distinct(names).tolist() if classify(history.names[name]) == KIND_ANON
    ]
    for row in hit_mappings[np.isin(names, anonymous)].tolist():
        process = int(table.process_row[row])
        if process not in of_executable:
            of_executable[process] = _mappings_of_executable(process, history)
        around = _replaced(table, of_executable[process], row)
        # If the code was moved twice, the origin of the present code is unknown.
        shift = table.pgoff.take(around) - table.start.take(around)
        if len(around) and (shift == shift[0]).all():
            found[row] = int(around[-1])
    return found


def _mappings_of_executable(process: int, history: ProcessHistory) -> I64:
    """Return the rows of the executable's mappings: exec() maps it before its loader.

    A snapshot lists mappings by address, and the executable has the lowest.
    """
    table = history.mappings
    own = np.flatnonzero(table.process_row == process)
    for row in own.tolist():
        name = table.name[row]
        if classify(history.names[name]) == KIND_ELF:
            executable: I64 = own[table.name.take(own) == name]
            return executable
    return own[:0]


def _replaced(table: Mappings, rows: I64, anonymous: int) -> I64:
    """Return those rows that the anonymous mapping partly replaced.

    They precede it, or, in a later snapshot, remain on both sides of it.
    """
    start, end = table.start.take(rows), table.end.take(rows)
    low, high = table.start[anonymous], table.end[anonymous]
    before: I64 = rows[(rows < anonymous) & (start < high) & (end > low)]
    if len(before):
        return before
    left, right = rows[end == low], rows[start == high]
    return np.concatenate((left, right)) if len(left) and len(right) else rows[:0]


class KernelModules(NamedTuple):
    """The addresses of modules.

    Attributes:
        start, end: u64[p] disjoint ranges, ascending.
        module: i64[p] row of `keys`.
    """

    keys: list[ObjectKey]
    start: U64
    end: U64
    module: I64

    def find(self, address: U64) -> I64:
        """Return the row of the module of each address u64[n], -1 for none."""
        piece = np.searchsorted(self.start, address, side="right") - 1
        ends = np.append(self.end, np.uint64(0))
        modules = np.append(self.module, -1)
        return np.where(address < ends.take(piece), modules.take(piece), -1)


def find_kernel_modules(history: ProcessHistory) -> KernelModules:
    """Return the modules of a recording; if they overlap, the later one counts."""
    table = history.kernel_mappings
    names = [_module_name(history.names[row]) for row in table.name.tolist()]
    is_host = table.mode != abi.PERF_RECORD_MISC_GUEST_KERNEL
    rows = np.flatnonzero(is_host & np.array([bool(name) for name in names], np.bool_))
    number: dict[bytes, int] = {}
    module = [number.setdefault(names[row], len(number)) for row in rows.tolist()]
    start, end, piece = latest_pieces(table.start.take(rows), table.end.take(rows))
    keys = [ObjectKey(b"[" + name + b"]", kind=KIND_MODULE) for name in number]
    return KernelModules(keys, start, end, np.array(module, np.int64).take(piece))


def _module_name(path: bytes) -> bytes:
    """Return a module's name as in kallsyms, b"" if it is no module."""
    if path.startswith(b"["):
        name = b"" if path.startswith(_NO_MODULES) else path[1:].partition(b"]")[0]
    else:
        name, dot, _ = path.rpartition(b"/")[2].partition(b".ko")
        name = name if dot else b""
    return name.replace(b"-", b"_")
