"""Files in which JITs name their code: ``/tmp/perf-PID.map`` → `SymbolTable`, and jitdump files.

A line of a map has ``START SIZE NAME``, both numbers hexadecimal. Defined by
``tools/perf/Documentation/jit-interface.txt``. Anyone may write to /tmp, so a file counts only if
it belongs to the process's user, to root or to us; its names may be anything, and outputs escape
them. `MapTables` weighs the files of a recording's processes and reads each once.

`find_dump` reads a process's jitdump file: the copy in the recording, else the file on this
machine. `clock_shift_ns` returns how far its writer's clock is ahead: both clocks are
CLOCK_MONOTONIC, which a time namespace shifts, and the kernel's records have the time of the
initial namespace. Defined by time_namespaces(7).
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct
from prospect.columns.text_columns import PADDING, hexadecimal, line_bounds, next_spaces, padded
from prospect.files import untrusted_open
from prospect.files.budget import VARIABLE, Cost, CostlyError
from prospect.files.rights import EVERYBODY, ROOT_USER, is_trusted
from prospect.files.untrusted_open import OWN_ROOT, OpenFile, open_named
from prospect.profile.naming import NameSource
from prospect.symbols.live_process import live_process, started_at
from prospect.symbols.objects import DELETED, Missing
from prospect.symbols.symbols_limits import (
    LARGEST_DUMP_BYTES,
    LARGEST_MAP_BYTES,
    LEAST_MAP_S,
    LONGEST_NAME_BYTES,
    MAP_S_A_MB,
    MOST_MAP_LINES,
)
from prospect.symbols.table import SymbolTable, latest_pieces, touches_several

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from prospect.columns.array_types import I64, U32, U64
    from prospect.symbols.jit.jit_code import JitCode
    from prospect.symbols.jit.jitdump import JitDump
    from prospect.symbols.live_process import LiveProcess
    from prospect.symbols.naming_options import SymbolOptions

    _Rows = tuple[U64, U64, U32, U32]

_USUAL_LINE_BYTES, _LEAST_COST_BYTES = 40, 1 << 10
_BLOCK_BYTES, _BLOCK_ROWS = 1 << 18, 1 << 16
# Files have the time of the kernel's last tick, processes the exact time. Ticks are at most 10 ms
# apart; one may be late. Source: ``fs/inode.c`` (Linux 6.18), current_time().
_TICK_NS = 2 * 10_000_000

_REFUSALS = {
    NameSource.NO_PERMISSION: "it cannot be read by this user",
    NameSource.NO_ANSWER: "its file system did not answer in time",
    NameSource.NO_BUDGET: f"files of other users take all they may; {VARIABLE}=4G allows more",
}
# The recorder may read its two clocks so far apart when a recording begins.
_EPOCH_SLACK_NS = 100_000_000


def life_at(modified_ns: int, starts: Sequence[int], slack_ns: int = 0) -> int:
    """Return which of a process's programs wrote a file last: 0 for the last one it ran.

    Args:
        modified_ns: the file's time of change; 0 for unknown, which means the last program.
        starts: when the programs began, the last one first; on the same clock.
        slack_ns: error of the file's time, in addition to a tick.
    """
    latest_ns = modified_ns + _TICK_NS + slack_ns
    lives = (life for life, start_ns in enumerate(starts) if start_ns <= latest_ns)
    return next(lives, 0) if modified_ns else 0


def map_path(pid: int) -> bytes:
    """Return the path of a process's map file, by its pid in its own namespace."""
    return b"/tmp/perf-%d.map" % pid


def find_map_file(
    pid: int, process: LiveProcess | None, named_by: int = ROOT_USER
) -> OpenFile | Missing:
    """Open the map file that a process wrote.

    Args:
        pid: its id as recorded.
        process: the process, if it still runs; it wrote the file to its own /tmp, under its pid in
            its own namespace.
        named_by: the owner of the recording, who says that this process exists.

    Returns:
        The file, or NO_ANONYMOUS; the note is empty if there is no file.
    """
    path = map_path(process.own_pid if process else pid)
    file = open_jit_file(path, process, LARGEST_MAP_BYTES, named_by)
    if file == NameSource.NO_FILE or (isinstance(file, OpenFile) and not file.held_bytes):
        return Missing(NameSource.NO_ANONYMOUS, "")
    note = objection(file, process)
    if not note and not isinstance(file, NameSource) and not process:
        note = _later_writer(pid, file.modified_ns)
    if isinstance(file, NameSource) or note:
        return Missing(NameSource.NO_ANONYMOUS, f"{path.decode()} was not used: {note}")
    return file


def map_file_costs(size: int, lines: int | None = None) -> tuple[int, int]:
    """Return the memory for a map file, in bytes: while it is read, and after that.

    Args:
        size: of its data, in bytes.
        lines: number of its lines, for their greatest cost: that of a comb, one line under many
            short ones with gaps, so that each line is two pieces. None for lines as runtimes write
            them, of at least 40 bytes.
    """
    lines = size // _USUAL_LINE_BYTES if lines is None else lines
    return 3 * size + 280 * lines + _LEAST_COST_BYTES, 2 * size + 100 * lines


def held_bytes_of(path: bytes, process: LiveProcess | None, named_by: int) -> int:
    """Return how many bytes `open_jit_file` would read, 0 if there is no file."""
    root, named_by = _root_and_user(process, named_by)
    return untrusted_open.held_bytes_of(path, named_by, root=root, follow_last=False)


def open_jit_file(
    path: bytes, process: LiveProcess | None, largest_bytes: int, named_by: int
) -> OpenFile | NameSource:
    """Open a file of a process with the rights of the process and of the recording's owner.

    Args:
        path: in the process's root.
        process: the process, if it still runs; else `objection` accepts files of root or ours only.
        largest_bytes: refuse a bigger file.
        named_by: the owner of the recording, who says that the file is the process's.
    """
    root, named_by = _root_and_user(process, named_by)
    return open_named(path, named_by, root=root, follow_last=False, largest_bytes=largest_bytes)


def _root_and_user(process: LiveProcess | None, named_by: int) -> tuple[bytes, int]:
    root = process.root if process and process.has_other_root else OWN_ROOT
    return root, process.owner if is_trusted(named_by) and process else named_by


def parse_map_file(text: bytes | memoryview) -> SymbolTable:
    """Parse a map file of any origin; skip invalid lines, and let later lines replace earlier ones.

    Returns:
        The table by AVMA. Code that was partly overwritten keeps its name in the rest. The file has
        no times: if lines of several names overlap, the last one names all hits, with the source
        MAP_REUSED.

    Raises:
        CostlyError: it has too many lines, or takes more time than a file of its size may.
    """
    text = padded(bytes(text[:LARGEST_MAP_BYTES]))
    start, end, name_start, name_length = _rows_of(text)
    piece_start, piece_end, row = latest_pieces(start, end)
    names = _name_numbers(text, name_start, name_length, start)
    reused = touches_several(start, end, names, piece_start, piece_end)
    del start, end, names
    none = np.zeros(0, np.int64)
    # The pieces are in order, each with its own start: `build_symbol_table` would copy them.
    return SymbolTable(
        start=piece_start,
        end=piece_end,
        name_start=name_start.take(row).astype(np.int64),
        name_length=name_length.take(row).astype(np.int64),
        is_global=np.zeros(len(row), np.bool_),
        source=np.where(reused, NameSource.MAP_REUSED, NameSource.MAP_FILE).astype(np.uint8),
        alias_row=none,
        alias_name_start=none,
        alias_name_length=none,
        strings=text,
    )


def _rows_of(text: bytes) -> _Rows:
    """Read the lines of a padded text, block by block, so that only the rows take memory."""
    if text.count(b"\n") > MOST_MAP_LINES:
        raise CostlyError(f"it has more than {MOST_MAP_LINES} lines")
    end_s = time.thread_time() + LEAST_MAP_S + len(text) / 1e6 * MAP_S_A_MB
    parts: list[_Rows] = [_rows_of_block(padded(b""), 0)]
    for begin, end in _blocks(text):
        parts.append(_rows_of_block(padded(text[begin:end]), begin - len(PADDING)))
        if time.thread_time() > end_s:
            raise CostlyError("reading it takes more time than a file of its size may")
    start, end_address, name_start, name_length = map(np.concatenate, zip(*parts, strict=True))
    return start, end_address, name_start, name_length


def _blocks(text: bytes) -> Iterator[tuple[int, int]]:
    """Yield the bounds of blocks of whole lines in a padded text.

    A line longer than a block is cut: the rest belongs to its name, which is cut earlier anyway.
    """
    begin, last = len(PADDING), len(text) - len(PADDING)
    while begin < last:
        limit = begin + _BLOCK_BYTES
        end = last if limit >= last else text.rfind(b"\n", begin, limit) + 1
        yield begin, end or limit
        begin = end or text.find(b"\n", limit, last) + 1 or last


def _rows_of_block(text: bytes, offset: int) -> _Rows:
    """Read the lines of a padded block, which begins `offset` bytes into the whole text."""
    line_start, line_end = line_bounds(text)
    first, second = next_spaces(text, line_start, 2)
    rows = np.flatnonzero(second + 1 < line_end)
    line_start, line_end = line_start.take(rows), line_end.take(rows)
    first, second = first.take(rows), second.take(rows)
    start, start_is_number = hexadecimal(text, line_start, first)
    size, size_is_number = hexadecimal(text, first + 1, second)
    top = np.uint64(2**64 - 1)
    end = np.where(size > top - start, top, start + size)
    rows = np.flatnonzero(start_is_number & size_is_number)
    name_start = second.take(rows) + 1
    name_length = np.minimum(line_end.take(rows) - name_start, LONGEST_NAME_BYTES)
    # A file has less than 4 GiB.
    return (
        start.take(rows),
        end.take(rows),
        (name_start + offset).astype(np.uint32),
        name_length.astype(np.uint32),
    )


def objection(file: OpenFile | NameSource, process: LiveProcess | None) -> str:
    """Return why a JIT's file must not be used, "" if it may.

    Args:
        file: the result of opening it, not NO_FILE.
        process: the process that should have written it, if it still runs.
    """
    if isinstance(file, NameSource):
        unfit = f"it is not a regular file of at most {LARGEST_MAP_BYTES >> 20} MiB"
        return _REFUSALS.get(file, unfit)
    if file.owner not in {0, os.geteuid(), process.owner if process else 0}:
        if process:
            return "it belongs to another user than the process"
        return "it belongs to another user, and its process is gone"
    if process and file.modified_ns + _TICK_NS < process.started_at * 1e9:
        return "it is older than the process"
    return ""


def _later_writer(pid: int, modified_ns: int) -> str:
    """Return the objection that a later process with the pid of an ended one wrote the file."""
    later = started_at(pid)
    if later and modified_ns >= later * 1e9:
        return "a later process of the same number wrote it"
    return ""


def _name_numbers(text: bytes, name_start: U32, name_length: U32, start: U64) -> I64:
    """Return numbers that are equal for equal names, for rows whose start occurs twice; else 0."""
    numbers = np.zeros(len(start), np.int64)
    ordered = np.sort(start)
    twice = distinct(ordered[1:][ordered[1:] == ordered[:-1]])
    del ordered
    if not len(twice):
        return numbers
    for begin in range(0, len(start), _BLOCK_ROWS):
        block = start[begin : begin + _BLOCK_ROWS]
        place = np.searchsorted(twice, block)
        rows = begin + np.flatnonzero(twice.take(place, mode="clip") == block)
        firsts, lengths = name_start.take(rows).tolist(), name_length.take(rows).tolist()
        # The interpreter's hashes have 64 bits, and a secret that the file's writer cannot know.
        numbers[rows] = [
            hash(text[first : first + length])
            for first, length in zip(firsts, lengths, strict=True)
        ]
    return numbers


class MapTables:
    """Reads map files and remembers them."""

    def __init__(self, options: SymbolOptions) -> None:
        self._options = options
        self._is_here = options.is_of_this_machine
        self._tables: dict[tuple[int, int], tuple[bytes, SymbolTable] | Missing] = {}
        self._refused: dict[int, str] = {}

    def costs(self, pids: Iterable[int]) -> dict[int, Cost[int]]:
        """Return the cost of each process's map file, estimated from its size."""
        sizes = ((pid, self._size(pid)) for pid in pids)
        return {pid: Cost(*map_file_costs(size), pid) for pid, size in sizes if size}

    def refuse(self, notes: Mapping[int, str]) -> None:
        """Leave out the map files of processes, for the reasons in the notes."""
        self._refused.update(notes)

    def table(self, pid: int, life: int = 0) -> tuple[bytes, SymbolTable] | Missing:
        """Return the path of a program's map file and its table by AVMA, or why there is none.

        The file's name has the pid only, and each program that the process ran may have written
        it. So only the program that wrote it last gets its names. `life` is that of `ObjectKey`.
        """
        if (pid, life) not in self._tables:
            self._tables[pid, life] = self._read(pid, life)
        return self._tables[pid, life]

    def _size(self, pid: int) -> int:
        """Return the bytes of a process's map files, 0 if it has none."""
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
        """Parse a map file that was weighed by its size, if the budget allows its lines too."""
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
    """Return the refusal of a map file that other programs of the process wrote."""
    when = "later" if min(writers) < life else "before"
    return _unused(path, f"a program that the same process ran {when} wrote it")


_DUMP_MARK = b"jit-"
_DUMP_NAME = rb"(?s:.*/)?jit-([0-9]{1,10})\.dump(?: \(deleted\))?"
_SECOND_NS = 1_000_000_000
# A JIT maps the file when it writes the header. No namespace makes a smaller difference.
_SAME_NS = _SECOND_NS
# V8 (Node 22) has another clock in the header, whose time is far from that of the first record.
_LONGEST_NS = 3600 * _SECOND_NS
# Most shifts are whole seconds; a JIT takes this long from the header to its first record.
_FIRST_RECORD_NS = 100_000_000
_BEFORE_NS = 20_000_000


def dump_pid(path: bytes) -> int:
    """Return the process id in the name of a jitdump file, 0 for other names.

    Source: ``tools/perf/util/jitdump.c`` jit_detect().
    """
    found = re.fullmatch(_DUMP_NAME, path) if _DUMP_MARK in path else None
    return int(found[1]) if found else 0


def find_dump(
    path: bytes, process: LiveProcess | None, copy: bytes | None, named_by: int = ROOT_USER
) -> JitCode | str:
    """Read the jitdump file of a mapping.

    Args:
        path: the mapping's name.
        process: the process, if it still runs.
        copy: the recording's copy of the file, None if it has none.
        named_by: the owner of the recording.

    Returns:
        Its code, or a sentence that says why the file was not used.
    """
    shown = path.decode(errors="replace")
    data, speaks_for = memoryview(copy) if copy is not None else None, EVERYBODY
    if data is None:
        file = open_jit_file(path.removesuffix(DELETED), process, LARGEST_DUMP_BYTES, named_by)
        if file == NameSource.NO_FILE:
            return f"{shown} is gone; the names of its JIT code are not known"
        refused = objection(file, process)
        if isinstance(file, NameSource) or refused:
            return f"{shown} was not used: {refused}"
        data, speaks_for = file.data, file.speaks_here
    from prospect.symbols.jit.jit_code import number_generations  # noqa: PLC0415 - few recordings have JIT code
    from prospect.symbols.jit.jitdump import parse_jitdump  # noqa: PLC0415 - few recordings have JIT code

    dump = parse_jitdump(data)
    if dump is None:
        return f"{shown} was not used: it is not a jitdump file"
    if dump.pid != dump_pid(path):
        return f"{shown} was not used: process {dump.pid} wrote it"
    return number_generations(path, dump, speaks_for)


def clock_shift_ns(dump: JitDump, mapped_ns: int, end_ns: int) -> int | None:
    """Return how far the times of a dump are ahead, None if that is not known.

    Args:
        dump: with times of CLOCK_MONOTONIC.
        mapped_ns: when its writer mapped it, on the recording's clock; 0 if before the recording.
        end_ns: when the recording ended.
    """
    if not len(dump):
        return 0
    first_ns = int(dump.time_ns.min())
    has_header = 0 <= first_ns - dump.opened_ns < _LONGEST_NS
    opened_ns = dump.opened_ns if has_header else first_ns
    if not mapped_ns:
        return None if opened_ns > end_ns else 0
    ahead_ns = opened_ns - mapped_ns
    # An idle JIT writes its first record late, and then none for samples of this recording.
    is_late = ahead_ns > 0 and not has_header and opened_ns <= end_ns
    if abs(ahead_ns) < _SAME_NS or is_late:
        return 0
    over_ns = (ahead_ns + _BEFORE_NS) % _SECOND_NS
    is_whole = over_ns < _FIRST_RECORD_NS
    return ahead_ns + _BEFORE_NS - over_ns if is_whole else ahead_ns
