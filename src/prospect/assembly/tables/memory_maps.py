"""What a process had mapped as it ended: those mappings that no hit is in.

Nothing is looked up before a report asks for a process. Executable mappings are those of the
records, all others those of a text of /proc/PID/maps that the recorder read (the key
``memory_maps`` of Prospect's own feature section, docs/recording.md), which anybody may have
written.
Defined by: proc(5); show_map_vma() in ``fs/proc/task_mmu.c`` (Linux 6.18).
"""

from __future__ import annotations

import functools
import os
import re
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.abi import constants as abi
from prospect.assembly.extras import counts_of, mapping_of, unpacked
from prospect.columns import sorting
from prospect.profile.model import KIND_JIT
from prospect.profile.optional_tables import MemoryMap
from prospect.spaces.address_spaces import recorded_prot
from prospect.symbols.objects import classify

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from prospect.spaces.process_history import ProcessHistory

_MOST_BYTES = 1 << 24
# Names of memory without a file in the records of mappings.
_ANONYMOUS = "//anon"
_LINE = (
    rb"^([0-9a-f]{1,16})-([0-9a-f]{1,16}) ([r-])([w-])([x-])[ps] ([0-9a-f]{1,16})"
    rb" [0-9a-f]{1,8}:[0-9a-f]{1,8} [0-9]{1,20} *(.*)$"
)


class UnhitMappings:
    """The mappings without a hit, process by process."""

    def __init__(
        self,
        history: ProcessHistory,
        process_row: NDArray[np.int32],
        mapping_index: NDArray[np.int64],
        extras: dict[str, Any],
    ) -> None:
        """Prepare.

        Args:
            history: all mappings.
            process_row: i32[h] process of each hit.
            mapping_index: i64[h] row of `history.mappings` that each hit is in, -1 for none.
            extras: Prospect's own section, which may have maps that were read whole.
        """
        self._extras = extras
        self._history = history
        self._process_row = process_row
        self._mapping_index = mapping_index
        self._paths: dict[int, str] = {}

    def __call__(self, process: int) -> MemoryMap:
        """Return the mappings of a process without a hit.

        Args:
            process: row of the history's processes; one beyond them has no mappings.
        """
        if not 0 <= process < len(self._last_change):
            return MemoryMap.empty()
        processes = self._history.processes
        life_ns = int(processes.start_ns[process]), int(processes.end_ns[process])
        known = self._executable(process)
        whole = self._whole.of(int(processes.pid[process]), *life_ns) if self._whole else None
        return self._with_data(known, whole, process) if whole else known

    def _with_data(self, known: MemoryMap, whole: MemoryMap, process: int) -> MemoryMap:
        """Add what was read but not recorded, if no recorded mapping is."""
        table, hit = self._history.mappings, self._hit_mappings(process)
        start = np.concatenate((known.start, table.start.take(hit)))
        end = np.concatenate((known.end, table.end.take(hit)))
        is_executable = whole.prot & abi.PROT_EXEC != 0
        rows = np.flatnonzero(
            ~np.isin(whole.start, start)
            & ~(is_executable & _overlaps(whole.start, whole.end, start, end))
        )
        return MemoryMap(
            start=np.concatenate((known.start, whole.start[rows])),
            end=np.concatenate((known.end, whole.end[rows])),
            pgoff=np.concatenate((known.pgoff, whole.pgoff[rows])),
            prot=np.concatenate((known.prot, whole.prot[rows])),
            hits=np.concatenate((known.hits, whole.hits[rows])),
            path=known.path + [whole.path[row] for row in rows.tolist()],
            read_ns=whole.read_ns,
        )

    def _executable(self, process: int) -> MemoryMap:
        """Return the executable mappings without a hit, in the order of their addresses."""
        timeline, table = self._history.timeline, self._history.mappings
        change = self._last_change[process]
        start, end, mapping = self._history.address_spaces.standing(
            int(timeline.space[change]), int(timeline.epoch[change])
        )
        # An MMAP record does not say what may be executed; without a mark for data it is code.
        prot = table.prot.take(mapping)
        is_wanted = (prot == 0) | (prot & abi.PROT_EXEC != 0)
        hit = self._hit_mappings(process)
        self._is_hit[hit] = True
        is_wanted &= ~self._is_hit.take(mapping)
        self._is_hit[hit] = False
        bits = recorded_prot(table, mapping[is_wanted])
        start, end, mapping = start[is_wanted], end[is_wanted], mapping[is_wanted]
        # A piece that was left of a mapping begins further inside the file than all of it.
        pgoff = table.pgoff.take(mapping) + (start - table.start.take(mapping))
        name = table.name.take(mapping)
        if self._is_jit.take(name).any():
            rows, last = self._first_and_last_pieces(name, table.name.take(hit))
            start, end, pgoff, name = start[rows], end[last], pgoff[rows], name[rows]
            bits = bits[rows]
        return MemoryMap(
            start=start,
            end=end,
            pgoff=pgoff,
            prot=bits,
            hits=np.zeros(len(start), np.int64),
            path=[self._path(row) for row in name.tolist()],
        )

    def _path(self, name: int) -> str:
        """Return a name of the history's as text; most processes map the same files."""
        path = self._paths.get(name)
        if path is None:
            path = self._paths[name] = os.fsdecode(self._history.names[name])
        return path

    def _first_and_last_pieces(
        self, name: NDArray[np.int32], hit_name: NDArray[np.int32]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Make the pieces of code that a jitdump file describes one row, as those with hits are.

        Args:
            name: i32[k] of each mapping, in the order of addresses.
            hit_name: of the mappings with hits: what is left of their jitdump files is no row.

        Returns:
            For each row its first and its last mapping, i64[m] each; one for what is no JIT's.
        """
        is_jit = self._is_jit.take(name)
        group = np.where(is_jit, -1 - name.astype(np.int64), np.arange(len(name)))
        distinct, first = np.unique(group, return_index=True)
        _, behind = np.unique(group[::-1], return_index=True)
        is_kept = (distinct >= 0) | ~np.isin(-1 - distinct, hit_name)
        order = np.argsort(first[is_kept])
        return first[is_kept][order], (len(name) - 1 - behind)[is_kept][order]

    @functools.cached_property
    def _whole(self) -> WholeMaps | None:
        return WholeMaps(self._extras) if self._extras.get("memory_maps") else None

    @functools.cached_property
    def _is_jit(self) -> NDArray[np.bool_]:
        """bool[n]: whether a mapping's name, a row of the history's, is a jitdump file's."""
        names, of_mappings = self._history.names, self._history.mappings.name
        is_jit = np.zeros(len(names) + 1, np.bool_)  # one more, for -1
        for row in sorting.distinct(of_mappings[of_mappings >= 0]).tolist():
            is_jit[row] = classify(names[row]) == KIND_JIT
        return is_jit

    @functools.cached_property
    def _is_hit(self) -> NDArray[np.bool_]:
        """bool[m]: room to mark mappings in, all False."""
        return np.zeros(len(self._history.mappings), np.bool_)

    @functools.cached_property
    def _last_change(self) -> NDArray[np.int64]:
        """i64[p]: the last change of the timeline that each process is in; 0 knows nothing."""
        process_row = self._history.timeline.process_row
        last = np.zeros(len(self._history.processes.pid), np.int64)
        known = np.flatnonzero(process_row >= 0)
        np.maximum.at(last, process_row[known], known)
        return last

    @functools.cached_property
    def _hits(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The distinct pairs of a process and a mapping with hits, processes ascending."""
        count = max(len(self._history.mappings), 1)
        rows = np.flatnonzero(self._mapping_index >= 0)
        pairs = sorting.distinct(
            self._process_row[rows].astype(np.int64) * count + self._mapping_index[rows]
        )
        process, mapping = np.divmod(pairs, count)
        return process, mapping

    def _hit_mappings(self, process: int) -> NDArray[np.int64]:
        of_process, mapping = self._hits
        first, end = np.searchsorted(of_process, (process, process + 1))
        return mapping[first:end]


def _overlaps(
    start: NDArray[np.uint64],
    end: NDArray[np.uint64],
    other_start: NDArray[np.uint64],
    other_end: NDArray[np.uint64],
) -> NDArray[np.bool_]:
    """Return which of some ranges share an address with any of the others, bool[n]."""
    order = np.argsort(other_start, kind="stable")
    first, reached = other_start[order], np.maximum.accumulate(other_end[order])
    # Those others that begin before a range ends, and how far they reach.
    before = np.searchsorted(first, end)
    reach = np.concatenate((np.zeros(1, np.uint64), reached))[before]
    overlaps: NDArray[np.bool_] = reach > start
    return overlaps


class WholeMaps:
    """The maps that a recording holds."""

    def __init__(self, extras: dict[str, Any]) -> None:
        """Prepare; a document that is not as ours has no maps."""
        document = mapping_of(extras.get("memory_maps"))
        self._packed = document.get("zlib")
        columns = [counts_of(document.get(key)) for key in ("pid", "read_ns", "size_bytes")]
        pids, times, sizes = columns if len(set(map(len, columns))) == 1 else ((), (), ())
        begins = accumulate(sizes, initial=0)
        self._rows: dict[int, list[tuple[int, int, int]]] = {}
        for pid, read_ns, begin, size in zip(pids, times, begins, sizes, strict=False):
            self._rows.setdefault(pid, []).append((read_ns, begin, size))

    def of(self, pid: int, start_ns: int, end_ns: int) -> MemoryMap | None:
        """Return the map of what a pid was between two times, None if none was read."""
        found = [row for row in self._rows.get(pid, ()) if start_ns <= row[0] <= end_ns]
        if not found:
            return None
        read_ns, begin, size = max(found)
        return _parsed(self._text[begin : begin + size], read_ns)

    @functools.cached_property
    def _text(self) -> bytes:
        return unpacked(self._packed, _MOST_BYTES) if isinstance(self._packed, str) else b""


def _parsed(text: bytes, read_ns: int) -> MemoryMap | None:
    """Return what a text says; None if it says nothing."""
    start, end, pgoff, prot, path = [], [], [], [], []
    for found in re.finditer(_LINE, text, re.MULTILINE):
        first, behind, read, write, execute, offset, name = found.groups()
        if int(first, 16) >= int(behind, 16):
            continue
        start.append(int(first, 16))
        end.append(int(behind, 16))
        pgoff.append(int(offset, 16))
        prot.append(
            abi.PROT_READ * (read == b"r")
            | abi.PROT_WRITE * (write == b"w")
            | abi.PROT_EXEC * (execute == b"x")
        )
        # Only the newline is escaped there (seq_path with "\n").
        path.append(name.replace(b"\\012", b"\n").decode("utf-8", "surrogateescape") or _ANONYMOUS)
    if not path:
        return None
    return MemoryMap(
        start=np.array(start, np.uint64),
        end=np.array(end, np.uint64),
        pgoff=np.array(pgoff, np.uint64),
        prot=np.array(prot, np.int8),
        hits=np.zeros(len(path), np.int64),
        path=path,
        read_ns=read_ns,
    )
