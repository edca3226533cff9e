"""The place of a process's jitdump file, and how far the clock of its writer is ahead.

The copy in the recording counts, else the file on this machine. A user who could write the file
could name code of another user's process as he likes, so its owner must be the process's, root or
us.

Both clocks are CLOCK_MONOTONIC, which a time namespace shifts: records of the kernel have the time
of the initial namespace. Defined by time_namespaces(7).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prospect.files.budget import Cost
from prospect.files.rights import EVERYBODY, ROOT_USER
from prospect.profile.naming import NameSource
from prospect.symbols.jit.map_files import held_bytes_of, objection, open_jit_file
from prospect.symbols.symbols_limits import LARGEST_DUMP_BYTES

if TYPE_CHECKING:
    from prospect.symbols.jit.jit_code import JitCode
    from prospect.symbols.jit.jitdump import JitDump
    from prospect.symbols.live_process import LiveProcess


_MARK = b"jit-"
_NAME = rb"(?s:.*/)?jit-([0-9]{1,10})\.dump(?: \(deleted\))?"
_DELETED = b" (deleted)"
_S = 1_000_000_000
# A JIT maps the file as it writes the header. A smaller difference is no namespace's.
_SAME_NS = _S
# V8 (Node 22) has another clock in the header: such a time is nowhere near the first record's.
_LONGEST_NS = 3600 * _S
# Shifts are mostly whole seconds; a JIT takes this long from the header to its first record.
_FIRST_RECORD_NS = 100_000_000
_BEFORE_NS = 20_000_000


def dump_pid(path: bytes) -> int:
    """Return the process id in the name of a jitdump file, 0 for other names.

    Source: ``tools/perf/util/jitdump.c`` jit_detect().
    """
    found = re.fullmatch(_NAME, path) if _MARK in path else None
    return int(found[1]) if found else 0


def dump_cost(number: int, held_bytes: int) -> Cost[int]:
    """Estimate what a jitdump file costs that holds so many bytes, as measured of short code."""
    return Cost(10 * held_bytes, 4 * held_bytes, number)


def dump_bytes(path: bytes, process: LiveProcess | None, named_by: int) -> int:
    """Return how many bytes `find_dump` would have to read from a file, 0 for none."""
    return held_bytes_of(path.removesuffix(_DELETED), process, named_by)


def find_dump(
    path: bytes, process: LiveProcess | None, copy: bytes | None, named_by: int = ROOT_USER
) -> JitCode | str:
    """Read the jitdump file behind a mapping.

    Args:
        path: the mapping's name.
        process: the process, if it still runs.
        copy: what the recording holds of the file, None if it holds nothing.
        named_by: whose word the path is: the owner of the recording.

    Returns:
        Its code, or a sentence that says why the file was not used; empty if there is none.
    """
    shown = path.decode(errors="replace")
    data, speaks_for = memoryview(copy) if copy is not None else None, EVERYBODY
    if data is None:
        file = open_jit_file(path.removesuffix(_DELETED), process, LARGEST_DUMP_BYTES, named_by)
        if file == NameSource.NO_FILE:
            return f"{shown} is gone; the names of its JIT code are not known"
        refused = objection(file, process)
        if isinstance(file, NameSource) or refused:
            return f"{shown} was not used: {refused}"
        data, speaks_for = file.data, file.speaks_here
    # Only here is there JIT code to parse.
    from prospect.symbols.jit.jit_code import number_generations  # noqa: PLC0415 - few recordings have JIT code
    from prospect.symbols.jit.jitdump import parse_jitdump  # noqa: PLC0415 - few recordings have JIT code

    dump = parse_jitdump(data)
    if dump is None:
        return f"{shown} was not used: it is not a jitdump file"
    if dump.pid != dump_pid(path):
        return f"{shown} was not used: process {dump.pid} wrote it"
    return number_generations(path, dump, speaks_for)


def clock_shift_ns(dump: JitDump, mapped_ns: int, end_ns: int) -> int | None:
    """Return by how much times of a dump are too late; None if that is not known.

    Args:
        dump: with times of CLOCK_MONOTONIC.
        mapped_ns: when its writer mapped it, on the recording's clock; 0 for before the recording.
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
    # A JIT without work writes its first record late, but none for samples of this recording.
    is_late = ahead_ns > 0 and not has_header and opened_ns <= end_ns
    if abs(ahead_ns) < _SAME_NS or is_late:
        return 0
    over_ns = (ahead_ns + _BEFORE_NS) % _S
    is_whole = over_ns < _FIRST_RECORD_NS
    return ahead_ns + _BEFORE_NS - over_ns if is_whole else ahead_ns
