"""Mappings → the objects that they map, and how addresses in memory become addresses in these.

An object is known by the build id of what was mapped if the recording knows it, else by device and
inode. The records of the kernel's mappings say where modules were on the recorded machine, of which
this one may have no listing.
Source: ``perf_event__synthesize_modules_maps_cb()`` in ``tools/perf/util/synthetic-events.c``,
``__kmod_path__parse()`` in ``tools/perf/util/dso.c``, Linux 6.18: the record of a module has the
path of the module's file, or its name in brackets.
"""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING, Protocol

import numpy as np

from prospect.abi import constants as abi
from prospect.assembly.extras import counts_of, mapping_of, texts_of
from prospect.columns.grouping import RowsByGroup, alike, rows_by_group
from prospect.columns.sorting import distinct
from prospect.profile.model import KIND_ANON, KIND_ELF, KIND_JIT, KIND_MODULE, KIND_VDSO
from prospect.records import NamedTuple, Record
from prospect.symbols.objects import COMPAT_VDSO, VDSO, ObjectKey, classify
from prospect.symbols.overlap import latest_pieces

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.spaces.mappings import Mappings
    from prospect.spaces.process_history import ProcessHistory

    File = tuple[int, int, int]


_COMPAT_END = np.uint64(1 << 32)
# One mapping has a record from each event: the recorder's, and that by which it reads build ids.
_SAME_MAPPING_NS = 100_000
_LATEST_NS = np.uint64(1 << 62)  # what a damaged recording may go beyond
_NO_FILE = (0, 0, 0)
# Enough to find one that still runs.
_MOST_PIDS = 8
_NO_MODULES = (b"[kernel.", b"[guest.")


class IsOther(Protocol):
    """Whether an inode and a build id are two files; see `RecordedImages.is_other`."""

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
    object_of_mapping: NDArray[np.int32]
    shift_of_mapping: NDArray[np.uint64]


def objects_of_mappings(
    mapping: NDArray[np.int64],
    process_row: NDArray[np.int32],
    history: ProcessHistory,
    info: RecordingInfo,
    is_other: IsOther,
) -> MappedObjects:
    """Identify the object of each mapping with hits.

    Mappings of one file are one object. Anonymous code belongs to the program that mapped it: two
    JITs use the same addresses for different functions. A copy of an executable's code is the
    executable.

    Args:
        mapping: i64[k] rows of the history's mappings, one for each located hit.
        process_row: i32[k] the process of each of these hits.
        history: of the recording.
        info: what the recording says of itself.
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
    # In the order in which they were met.
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


def _lives(pid: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return for each row of the processes how many later rows have the same pid, i64[p]."""
    order = np.argsort(pid, kind="stable")
    ends = np.searchsorted(pid.take(order), pid, side="right")
    lives = np.empty(len(pid), np.int64)
    lives[order] = ends.take(order) - 1 - np.arange(len(pid))
    return lives


def _last_pids(
    mappings: RowsByGroup, owner: NDArray[np.integer], user: NDArray[np.integer]
) -> list[list[int]]:
    """Return the processes that used each object last, the last one first."""
    found = []
    for number in range(len(mappings.start) - 1):
        last: dict[int, None] = {}
        for row in mappings.rows(number)[::-1]:
            last |= {int(user[row]): None, int(owner[row]): None}
            if len(last) >= _MOST_PIDS:
                break
        found.append(list(last)[:_MOST_PIDS])
    return found


def _keys_of_mappings(
    hit_mappings: NDArray[np.int64], history: ProcessHistory, info: RecordingInfo, is_other: IsOther
) -> tuple[list[ObjectKey], NDArray[np.int64]]:
    """Return what hit mappings map, each object once, and i64[r] which of these each one maps.

    A build id is taken from the mapping's own record. Else it is taken from what the recorder read
    of the file when it was mapped. Else, if the recording knows one build id for the path, that
    one, unless it is known to be of another file. Memory with a build id is a program that was
    executed from a memfd, not what a JIT filled. The vdso of a 32-bit program is another image of
    the same name.
    """
    table = history.mappings
    is_low = table.start[hit_mappings] < _COMPAT_END
    name, build_id = table.name[hit_mappings], table.build_id[hit_mappings]
    time_ns = np.minimum(table.time_ns[hit_mappings], _LATEST_NS).astype(np.int64)
    # A machine maps the same few files thousands of times: each is looked at once.
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


def _files(history: ProcessHistory, rows: NDArray[np.int64]) -> list[File]:
    """Return (major, minor, inode) of mappings."""
    table = history.mappings
    columns = (table.major, table.minor, table.inode)
    return list(zip(*(column[rows].tolist() for column in columns), strict=True))


class _ByPath:
    """Build ids that the recording knows of paths, and not of single mappings."""

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
        """Return which files all mappings of a path mean."""
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
    """Mapped files as the recorder read them: the key ``mapped_files``, see docs/recording.md."""

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

    def interval(
        self, files: list[File], file: NDArray[np.int32], time_ns: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Number the times between which files had one build id each, i64[r].

        Args:
            files: the files.
            file: i32[r] which of them each mapping maps.
            time_ns: i64[r] when it was made.
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
        # An edge is before what is mapped at the same moment.
        order = np.lexsort(
            (1 - is_edge, np.append(edge_ns, at_ns), np.append(of_edge, file.astype(np.int64)))
        )
        passed = np.empty(len(order), np.int64)
        passed[order] = np.cumsum(is_edge[order])
        return passed[len(edges) :]

    def build_id(self, file: File, time_ns: int) -> bytes:
        """Return the build id that a file had when it was mapped, empty if it was not read."""
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


def _remapped_text(hit_mappings: NDArray[np.int64], history: ProcessHistory) -> dict[int, int]:
    """Find which of the mappings that were hit hold a copy of their executable's code.

    Programs with much code copy it onto huge pages as they start: Node (--use-largepages), MySQL
    and Chromium map anonymous memory over the text of the executable, libhugetlbfs moves it there.
    From then on mappings say ``//anon``, which perf names by a JIT's map file or not at all. Only
    the executable counts: a library may have been closed, and a JIT's code put in its place.

    Args:
        hit_mappings: i64[k] rows of the history's mappings.
        history: of the recording.

    Returns:
        For each such row the row of a mapping of the executable: the address in memory differs
        from the offset in the file by as much.
    """
    table = history.mappings
    of_executable: dict[int, NDArray[np.int64]] = {}
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
        # The code there may have been moved twice; then nothing says what is there now.
        shift = table.pgoff.take(around) - table.start.take(around)
        if len(around) and (shift == shift[0]).all():
            found[row] = int(around[-1])
    return found


def _mappings_of_executable(process: int, history: ProcessHistory) -> NDArray[np.int64]:
    """Return the rows of what exec() mapped first: the executable is before its loader.

    A snapshot lists mappings by address, where the executable is the lowest.
    """
    table = history.mappings
    own = np.flatnonzero(table.process_row == process)
    for row in own.tolist():
        name = table.name[row]
        if classify(history.names[name]) == KIND_ELF:
            executable: NDArray[np.int64] = own[table.name.take(own) == name]
            return executable
    return own[:0]


def _replaced(table: Mappings, rows: NDArray[np.int64], anonymous: int) -> NDArray[np.int64]:
    """Return which of the rows lost some of their place to the anonymous mapping.

    They were seen before it, or, where a snapshot came later, are left on both sides of it.
    """
    start, end = table.start.take(rows), table.end.take(rows)
    low, high = table.start[anonymous], table.end[anonymous]
    before: NDArray[np.int64] = rows[(rows < anonymous) & (start < high) & (end > low)]
    if len(before):
        return before
    left, right = rows[end == low], rows[start == high]
    return np.concatenate((left, right)) if len(left) and len(right) else rows[:0]


class KernelModules(NamedTuple):
    """Where modules were.

    Attributes:
        keys: of the modules.
        start, end: u64[p] disjoint pieces of the address space, ascending.
        module: i64[p] row of `keys`.
    """

    keys: list[ObjectKey]
    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    module: NDArray[np.int64]

    def find(self, address: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the row of the module of each address u64[n], -1 for none."""
        piece = np.searchsorted(self.start, address, side="right") - 1
        ends = np.append(self.end, np.uint64(0))
        modules = np.append(self.module, -1)
        return np.where(address < ends.take(piece), modules.take(piece), -1)


def find_kernel_modules(history: ProcessHistory) -> KernelModules:
    """Return the modules of a recording; where one replaced another, the later one counts."""
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
    """Return a module's name as kallsyms has it, b"" for what is none."""
    if path.startswith(b"["):
        name = b"" if path.startswith(_NO_MODULES) else path[1:].partition(b"]")[0]
    else:
        name, dot, _ = path.rpartition(b"/")[2].partition(b".ko")
        name = name if dot else b""
    return name.replace(b"-", b"_")
