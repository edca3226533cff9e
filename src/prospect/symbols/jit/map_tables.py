"""The map files of a recording's processes, each weighed, and then read once.

Comes in: processes that hits in code without a file belong to. Goes out: what reading their map
files costs, and the tables of those that may be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.files.budget import Cost, CostlyError
from prospect.profile.naming import NameSource
from prospect.symbols.jit.map_files import (
    find_map_file,
    held_bytes_of,
    life_at,
    map_file_costs,
    map_path,
    parse_map_file,
)
from prospect.symbols.live_process import live_process
from prospect.symbols.objects import Missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prospect.symbols.options import SymbolOptions
    from prospect.symbols.table import SymbolTable


# How far the recorder's two clocks may be read apart when a recording begins.
_EPOCH_SLACK_NS = 100_000_000


class MapTables:
    """Reads map files and remembers them.

    Args:
        options: what is known of the recording.
        is_here: whether its processes may run on this machine.
    """

    def __init__(self, options: SymbolOptions, *, is_here: bool) -> None:
        self._options = options
        self._is_here = is_here
        self._tables: dict[tuple[int, int], tuple[bytes, SymbolTable] | Missing] = {}
        self._refused: dict[int, str] = {}

    def costs(self, pids: Iterable[int]) -> dict[int, Cost[int]]:
        """Return by process what its map file costs, estimated from its size."""
        sizes = ((pid, self._size(pid)) for pid in pids)
        return {pid: Cost(*map_file_costs(size), pid) for pid, size in sizes if size}

    def refuse(self, notes: Mapping[int, str]) -> None:
        """Leave the map files of processes out, and say why."""
        self._refused.update(notes)

    def table(self, pid: int, life: int = 0) -> tuple[bytes, SymbolTable] | Missing:
        """Return the map file of a program and its table by AVMA, or why there is none.

        The file has the process's number alone. Each program that the process ran may have
        written it anew, so it is used for the one that wrote to it last.

        Args:
            pid: the process.
            life: which of its programs, as in `ObjectKey`.
        """
        if (pid, life) not in self._tables:
            self._tables[pid, life] = self._read(pid, life)
        return self._tables[pid, life]

    def _size(self, pid: int) -> int:
        """Return how much a process's map files hold, 0 without one."""
        if pid in self._options.jit_maps:
            return sum(len(copy.text) for copy in self._options.jit_maps[pid])
        if not self._is_here:
            return 0
        process = live_process(pid, self._options.recorded_until)
        return held_bytes_of(
            map_path(process.own_pid if process else pid), process, self._options.named_by
        )

    def _read(self, pid: int, life: int) -> tuple[bytes, SymbolTable] | Missing:
        path = map_path(pid)
        if pid in self._refused:
            return _unused(path, self._refused[pid])
        starts = self._options.starts_of(pid)
        if pid in self._options.jit_maps:
            copies = self._options.jit_maps[pid]
            writers = [life_at(copy.modified_ns, starts) for copy in copies]
            own = [copy.text for copy, by in zip(copies, writers, strict=True) if by == life]
            return self._parsed(path, b"".join(own)) if own else _other_writer(path, writers, life)
        if not self._is_here:
            return Missing(NameSource.NO_ANONYMOUS, "")
        process = live_process(pid, self._options.recorded_until)
        file = find_map_file(pid, process, self._options.named_by)
        if isinstance(file, Missing):
            return file
        epoch_ns = self._options.epoch_ns
        writer = life_at(file.modified_ns - epoch_ns if epoch_ns else 0, starts, _EPOCH_SLACK_NS)
        if writer != life:
            return _other_writer(file.path, [writer], life)
        return self._parsed(file.path, file.without_holes())

    def _parsed(self, path: bytes, text: bytes) -> tuple[bytes, SymbolTable] | Missing:
        """Parse a map file that was weighed by its size, if there is enough for its lines too."""
        _, paid_bytes = map_file_costs(len(text))
        peak_bytes, kept_bytes = map_file_costs(len(text), text.count(b"\n"))
        if kept_bytes > paid_bytes:
            more = Cost(peak_bytes - paid_bytes, kept_bytes - paid_bytes, path)
            for note in self._options.budget.admit([more]).values():
                return _unused(path, note)
        try:
            return path, parse_map_file(text)
        except CostlyError as error:
            return _unused(path, str(error))


def _unused(path: bytes, note: str) -> Missing:
    shown = path.decode(errors="surrogateescape")
    return Missing(NameSource.NO_ANONYMOUS, f"{shown} was not used: {note}")


def _other_writer(path: bytes, writers: Iterable[int], life: int) -> Missing:
    """Say that other programs of the process wrote its map file."""
    when = "later" if min(writers) < life else "before"
    return _unused(path, f"a program that the same process ran {when} wrote it")
