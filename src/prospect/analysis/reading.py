"""A file that a person names → its Profile, whoever wrote it.

Comes in: a path, and how addresses are named. A recording by Prospect or perf goes through
`pipeline`; folded stacks, what perf script prints, pprof's profiles and gmon.out, which are known
by their contents and never by their names, are profiles already.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from prospect.analysis.pipeline import build_profile
from prospect.elf.image import ElfImage
from prospect.errors import ElfError, RecordingError
from prospect.files.door import OpenFile
from prospect.files.opening import open_file
from prospect.foreign.detection import HEAD_BYTES, foreign_kind
from prospect.foreign.folded import folded_profile
from prospect.foreign.gmon import read_gmon
from prospect.foreign.gmon_profile import gmon_profile
from prospect.foreign.perf_script import perf_script_profile
from prospect.foreign.pprof import pprof_profile
from prospect.foreign.program_functions import program_functions
from prospect.foreign.unread import unread_format
from prospect.perfdata.reader import STDIN, open_recording
from prospect.symbols.demangling.demangle import demangle

if TYPE_CHECKING:
    from prospect.analysis.pipeline import PipelineOptions
    from prospect.profile.model import Profile

DEFAULT_PROGRAM = "a.out"


def read_profile(path: str, options: PipelineOptions) -> Profile:
    """Read a recording or a profile of another tool.

    Args:
        path: the file, "-" for a recording on standard input.
        options: how addresses are named.

    Raises:
        RecordingError: the file cannot be read, or is of no kind that is known.
    """
    head = b"" if path == STDIN else _head(path)
    kind = foreign_kind(head)
    if not kind and (other := unread_format(head)):
        raise RecordingError(f"{path} is {other}")
    file = open_file(os.fsencode(path)) if kind else None
    if not isinstance(file, OpenFile):
        with open_recording(path) as recording:
            return build_profile(recording, options)
    try:
        if kind == "folded":
            return folded_profile(path, file.data)
        if kind == "perf script":
            return perf_script_profile(path, file.data)
        if kind == "pprof":
            return pprof_profile(path, file.data)
        return _gmon(path, file.data, options.program)
    except RecordingError as error:
        raise RecordingError(f"{path}: {error}") from error


def _head(path: str) -> bytes:
    """Return the first bytes of a regular file, none of anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    try:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return os.pread(descriptor, HEAD_BYTES, 0) if is_file else b""
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _gmon(path: str, data: memoryview, program: str) -> Profile:
    name = program or os.path.join(os.path.dirname(path), DEFAULT_PROGRAM)  # noqa: PTH118, PTH120 - as typed
    file = open_file(os.fsencode(name))
    if not isinstance(file, OpenFile):
        raise RecordingError(f"no program {name}; name the one that wrote it with --program FILE")
    try:
        functions = program_functions(ElfImage.parse(file.data))
    except ElfError as error:
        raise RecordingError(f"{name}: {error}") from error
    return gmon_profile(path, name, read_gmon(data), functions, demangle(functions.name))
