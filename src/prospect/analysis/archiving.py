"""Make an archive: a recording with all that a report of it needs elsewhere.

`prospect report` and `prospect annotate` show the copy on another machine as they show the
recording here. It is made by making a report and the annotation of all functions, and keeping what
they asked.
"""

from __future__ import annotations

import functools
import mmap
import os
import stat
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.analysis.pipeline import build_profile
from prospect.analysis.profile_request import ProfileRequest
from prospect.archived.archive_format import encode
from prospect.archived.kept_answers import Answers
from prospect.archived.symbolizers import Collector
from prospect.assembly.code.code import CodeChoice
from prospect.errors import RecordingError, UsageError
from prospect.files.outputs import PRIVATE, ReportFile, are_same_file
from prospect.light import Descriptor
from prospect.perfdata.archive_section import check_archivable, with_archive
from prospect.perfdata.reader import open_recording
from prospect.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.analysis.profile_request import Callbacks
    from prospect.options import NamingOptions
    from prospect.profile.model import Profile

SUFFIX = ".archive"
# Such files compress, with lines, to well under 1 MB and have nearly all hits of most recordings.
_CODE_BYTES = 1 << 20
_ALL_CODE_BYTES = 1 << 62
# The cost of a function besides its code, and one of unknown size.
_LEAST_FUNCTION_BYTES = 64


class Archive(Record, eq=False):
    """An archive that is ready to be written.

    Attributes:
        pieces: its bytes, once.
    """

    pieces: Iterator[bytes | memoryview]
    recording_bytes: int
    added_bytes: int


def write_archive(
    path: str, output: str, naming: NamingOptions, sinks: Callbacks, *, whole_images: bool = False
) -> Archive:
    """Archive a recording; the file appears under its name when it is whole.

    Images with hits are kept with all their bytes if `whole_images`.

    Raises:
        RecordingError: it cannot be read, is no whole recording, or is an archive already.
        RenderError: the archive cannot be written.
        UsageError: the archive would replace its recording.
    """
    if path == "-":
        raise UsageError("archive -: a pipe cannot be archived; give the file of a recording")
    if are_same_file(output, path):
        raise UsageError(f"-o {output}: the archive would replace its recording")
    with ReportFile(output, "the archive", PRIVATE) as target:
        made = make_archive(path, naming, sinks, whole_images=whole_images)
        target.put(lambda out: out.writelines(made.pieces))
    return made


def make_archive(
    path: str, naming: NamingOptions, sinks: Callbacks, *, whole_images: bool = False
) -> Archive:
    """Ask this machine all that reports on a recording need.

    Raises:
        RecordingError: it cannot be read, is no whole recording, or is an archive already.
    """
    file = _mapped(path)
    try:
        header = check_archivable(file)
    except RecordingError as error:
        raise RecordingError(f"{path}: {error}") from error
    with open_recording(path) as recording:
        info = recording.info
        most_bytes = _ALL_CODE_BYTES if whole_images else _CODE_BYTES
        collector = Collector(whole_images=whole_images, call_frames=_samples_registers(info))
        code = CodeChoice(functools.partial(_hottest_functions, most_bytes))
        wanted = ProfileRequest(lines=True, stacks=True, code=code)
        build_profile(recording, naming, wanted, replace(sinks, collector=collector))
    section = encode(_answers(path, info.recorded_at, collector))
    try:
        pieces = with_archive(file, header, section)
    except RecordingError as error:
        raise RecordingError(f"{path}: {error}") from error
    return Archive(pieces, len(file), len(section))


def _mapped(path: str) -> memoryview:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a file name"
        raise RecordingError(f"{path}: {reason}") from error
    with Descriptor(descriptor):
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not status.st_size:
            raise RecordingError(f"{path}: only a recording in a file can be archived")
        return memoryview(mmap.mmap(descriptor, status.st_size, prot=mmap.PROT_READ))


def _samples_registers(info: RecordingInfo) -> bool:
    """Whether callers are found by the images' call-frame information: in copies, or registers."""
    return any(event.attr.sample_type & abi.PERF_SAMPLE_REGS_USER for event in info.events)


def _hottest_functions(most_bytes: int, profile: Profile) -> NDArray[np.int64]:
    """Choose functions with hits, the hottest first, as far as their code has room."""
    functions = profile.functions
    function_of = profile.locations.function_index.take(profile.hits.location_index)
    hits = np.bincount(function_of, profile.hits.count, len(functions))
    order = np.argsort(-hits, kind="stable")
    order = order[hits.take(order) > 0]
    left = most_bytes
    chosen = []
    # If one does not fit, a smaller one with as many hits may.
    for function, size in zip(
        order.tolist(), functions.size_bytes.take(order).tolist(), strict=True
    ):
        if size <= left:
            chosen.append(function)
            left -= max(size, _LEAST_FUNCTION_BYTES)
    return np.array(chosen, np.int64)


def _answers(path: str, recorded_at: float, collector: Collector) -> Answers:
    lines, tree = collector.lines()
    return Answers(
        origin=path,
        recorded_at=recorded_at,
        limits=collector.limits,
        process_notes=collector.process_notes,
        names=collector.names,
        images=collector.images,
        lines=lines,
        tree=tree,
        code=collector.code,
        source=collector.source,
        jit_dumps=collector.jit_dumps,
    )
