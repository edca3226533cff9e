"""Read files of other tools as profiles: folded stacks, perf script's text, pprof, gmon.out.

The first bytes of a file show its kind. Such files are profiles already, so the pipeline does not
read them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prospect.elf.image import ElfImage
from prospect.errors import ElfError, RecordingError
from prospect.files.untrusted_open import OpenFile, open_file
from prospect.foreign.detection import (
    foreign_kind,
    is_gzipped,
    is_recording,
    unpacked,
    unpacked_head,
    unread_format,
)
from prospect.foreign.folded_profile import folded_profile
from prospect.foreign.gmon_profile import gmon_profile, program_functions, read_gmon
from prospect.foreign.perf_script_profile import perf_script_profile
from prospect.foreign.pprof_profile import pprof_profile
from prospect.symbols.demangling.demangle import demangle

if TYPE_CHECKING:
    from prospect.profile.model import Profile

_DEFAULT_PROGRAM = "a.out"


def profile_of_other_tool(path: str, head: bytes, program: str) -> Profile | None:
    """Read a profile of another tool; return None for a file that may be a recording.

    `head` is the file's first bytes; `program` wrote a gmon.out, "" for ``a.out`` next to it.

    Raises:
        RecordingError: the file is damaged, or of a known kind without a reader.
    """
    is_packed = is_gzipped(head)
    kind = foreign_kind(head)
    if is_packed and not kind:
        raise RecordingError(f"{path} is {_packed_words(head)}")
    if not kind and (other := unread_format(head)):
        raise RecordingError(f"{path} is {other}")
    file = open_file(os.fsencode(path)) if kind else None
    if not isinstance(file, OpenFile):
        return None
    try:
        if kind == "pprof":
            return pprof_profile(path, file.data)
        data = memoryview(unpacked(file.data)) if is_packed else file.data
        if kind == "folded":
            return folded_profile(path, data)
        if kind == "perf script":
            return perf_script_profile(path, data)
        return _gmon(path, data, program)
    except RecordingError as error:
        raise RecordingError(f"{path}: {error}") from error


def _packed_words(head: bytes) -> str:
    """Return a description of a gzipped file without a reader."""
    inside = unpacked_head(head)
    if is_recording(inside):
        return "a recording that gzip compressed: unpack it with gunzip first"
    if other := unread_format(inside):
        return f"compressed by gzip; inside is {other}"
    return "compressed by gzip, and no profile is inside: unpack it with gunzip to see what it is"


def _gmon(path: str, data: memoryview, program: str) -> Profile:
    name = program or os.path.join(os.path.dirname(path), _DEFAULT_PROGRAM)  # noqa: PTH118, PTH120 - as typed
    file = open_file(os.fsencode(name))
    if not isinstance(file, OpenFile):
        raise RecordingError(f"no program {name}; name the one that wrote it with --program FILE")
    try:
        functions = program_functions(ElfImage.parse(file.data))
    except ElfError as error:
        raise RecordingError(f"{name}: {error}") from error
    return gmon_profile(path, name, read_gmon(data), functions, demangle(functions.name))
