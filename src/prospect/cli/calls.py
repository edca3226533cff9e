"""``prospect calls``: read a recording with call stacks, write who called whom.

Nothing here is on the way to a command's exec: numpy and all stages may be imported.
"""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

from prospect.cli.option_table import DEFAULT_RECORDING
from prospect.cli.progress import progress
from prospect.cli.terminal import takes_escapes
from prospect.errors import RecordingError, UsageError
from prospect.outputs import ReportFile, are_same_file

if TYPE_CHECKING:
    from prospect.call_report import CallsOptions
    from prospect.cli.option_table import Settings


def run(settings: Settings, words: list[str], _command_line: tuple[str, ...]) -> int:
    """Show the calls of the recording that is named, a file or "-" for a pipe on stdin.

    Raises:
        ProspectError: the recording cannot be read, has no call chains, or nothing in it is called
            what was asked for; or the answer cannot be written.
    """
    recording = words[0] if words else DEFAULT_RECORDING
    if recording == "-" and os.isatty(0):
        raise UsageError("calls -: standard input is a terminal; pipe a recording into it")
    if recording == DEFAULT_RECORDING and not os.path.lexists(recording):
        raise RecordingError(
            f"no {recording} here; make one with: prospect record --call-graph auto COMMAND"
        )
    if are_same_file(settings.output, recording):
        raise UsageError(f"-f {settings.output}: the answer would replace its recording")
    target = ReportFile(settings.output)
    try:
        _write(recording, settings, target)
    finally:
        target.close()
    return 0


def _write(recording: str, settings: Settings, target: ReportFile) -> None:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as in report
    gc.disable()
    from prospect.heap import keep_freed_memory

    keep_freed_memory()
    from dataclasses import replace

    from prospect.call_report import examine_calls
    from prospect.pipeline import PipelineOptions

    options = _options(settings, colour=takes_escapes(target.descriptor))
    with progress("reading the recording and its images ...") as tell:
        naming = PipelineOptions(
            lines=settings.inline,
            system_map=settings.system_map or None,
            kernel_image=settings.kernel_image or None,
            use_cache=settings.use_cache,
            debuginfod_s=settings.debuginfod_s,
            program=settings.program,
            announce=tell,
        )
        write = examine_calls(recording, replace(options, naming=naming))
    target.put(write)


def _options(settings: Settings, *, colour: bool) -> CallsOptions:
    from prospect.call_report import CallsOptions
    from prospect.profile.calls_view import CallsChoice
    from prospect.profile.sample_choice import SampleChoice

    samples = SampleChoice(
        detail=settings.detail,  # type: ignore[arg-type]  # checked by the options' table
        process=settings.process,
        thread=settings.thread,
        cpus=settings.cpus,
        objects=settings.object,
        routine=settings.routine,
        through=settings.through,
        cause=settings.cause,
        between_s=settings.between,
    )
    choice = CallsChoice(
        samples=samples,
        sections=settings.sections,
        callers_of=settings.callers_of,
        most=settings.rows,
        share=settings.share,
    )
    return CallsOptions(choice, settings.format, colour and not os.environ.get("NO_COLOR"))
