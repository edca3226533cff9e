"""Where a process's jitdump file is: the copy in the recording, else the file on this machine.

Comes in: the path of a mapping that a JIT made so that its dump is found, and its process. Goes
out: the parsed file, or why it was not used. Whoever could write the file could name code of
another user's process as he likes, so its owner must be the process's, root or us.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prospect.files.budget import Cost
from prospect.files.rights import EVERYBODY, ROOT_USER
from prospect.profile.naming import NameSource
from prospect.symbols.jit.map_files import held_bytes_of, objection, open_jit_file

if TYPE_CHECKING:
    from prospect.symbols.jit.jit_code import JitCode
    from prospect.symbols.live_process import LiveProcess

LARGEST_BYTES = 1 << 30

_MARK = b"jit-"
_NAME = rb"(?s:.*/)?jit-([0-9]{1,10})\.dump(?: \(deleted\))?"
_DELETED = b" (deleted)"


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
        copy: what the recording holds of the file, None where it holds nothing.
        named_by: whose word the path is: the owner of the recording.

    Returns:
        Its code, or a sentence that says why the file was not used; empty where there is none.
    """
    shown = path.decode(errors="replace")
    data, speaks_for = memoryview(copy) if copy is not None else None, EVERYBODY
    if data is None:
        file = open_jit_file(path.removesuffix(_DELETED), process, LARGEST_BYTES, named_by)
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
