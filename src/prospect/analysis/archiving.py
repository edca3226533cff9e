"""Make an archive: a recording with everything that a report of it needs on another machine.

`prospect report` and `prospect annotate` show the archive there as they show the recording here. To
make it, run a report and the annotation of all functions, and keep the answers that they get.
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

    from prospect.analysis.profile_request import Callbacks
    from prospect.columns.array_types import I64
    from prospect.options import NamingOptions
    from prospect.profile.model import Profile

SUFFIX = ".archive"
# With lines, this compresses to well under 1 MB, and has nearly all hits of most recordings.
_CODE_BYTES = 1 << 20
_ALL_CODE_BYTES = 1 << 62
# The cost of a function besides its code, and that of a function of unknown size.
_LEAST_FUNCTION_BYTES = 64


class Archive(Record, eq=False):
    """An archive that is ready to be written; `pieces` can be iterated once."""

    pieces: Iterator[bytes | memoryview]
    recording_bytes: int
    added_bytes: int


def write_archive(
    path: str, output: str, naming: NamingOptions, sinks: Callbacks, *, whole_images: bool = False
) -> Archive:
    """Archive a recording; the file gets its name when it is whole.

    `whole_images` keeps all bytes of images with hits.

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
    """Collect from this machine everything that reports on a recording need.

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
        # Copies of stacks and registers need the images' call-frame information.
        call_frames = any(
            event.attr.sample_type & abi.PERF_SAMPLE_REGS_USER for event in info.events
        )
        collector = Collector(whole_images=whole_images, call_frames=call_frames)
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


def _hottest_functions(most_bytes: int, profile: Profile) -> I64:
    """Choose functions with hits, the hottest first, as long as their code fits."""
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
