"""``prospect report``: read a recording, decode and name it, write the report.

Nothing here is on the way to a command's exec: numpy and all stages may be imported.
"""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

from prospect.cli.option_table import DEFAULT_RECORDING
from prospect.cli.progress import progress
from prospect.cli.terminal import refuse_binary, say, takes_escapes
from prospect.cli.values import STACK_FORMATS
from prospect.errors import RecordingError, UsageError
from prospect.outputs import ReportFile, are_same_file

if TYPE_CHECKING:
    from prospect.assembly.code import CodeChoice
    from prospect.cli.option_table import Settings


def run(settings: Settings, words: list[str], _command_line: tuple[str, ...]) -> int:
    """Report on the recording that is named, a file or "-" for a pipe on stdin.

    Raises:
        ProspectError: the recording cannot be read, or the report not be written.
    """
    recording = words[0] if words else DEFAULT_RECORDING
    _refuse_what_cannot_be_meant(settings, recording)
    target = ReportFile(settings.output)
    try:
        refuse_binary(settings.format, target.descriptor)
        write(recording, settings, target)
    finally:
        target.close()
    return 0


def _refuse_what_cannot_be_meant(settings: Settings, recording: str) -> None:
    if recording == "-" and os.isatty(0):
        raise UsageError("report -: standard input is a terminal; pipe a recording into it")
    if recording == DEFAULT_RECORDING and not os.path.lexists(recording):
        raise RecordingError(f"no {recording} here; make one with: prospect record COMMAND")
    if are_same_file(settings.output, recording):
        raise UsageError(f"-f {settings.output}: the report would replace its recording")


def write(
    recording: str, settings: Settings, target: ReportFile, limits: tuple[str, ...] = ()
) -> None:
    """Write the report on `recording` to `target` and put it in its place.

    Those of the recorder's `limits` that a full disk kept out of the recording are said on stderr.

    Raises:
        ProspectError: the recording cannot be read, or the report not be written.
    """
    # Numpy's linear algebra would start a thread for each CPU (58 ms); nothing here uses it.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # The tables hold no cycles, and the process ends with the report: looking for some among the
    # records of 100,000 processes took a sixth of the time.
    gc.disable()
    from prospect.heap import keep_freed_memory

    keep_freed_memory()
    from prospect import api
    from prospect.pipeline import PipelineOptions
    from prospect.render.registry import make_renderer

    # Who asks for stacks wants to see them.
    calls = settings.calls or (settings.sections if settings.call_graph else ())
    renderer = make_renderer(
        settings.format,
        detail=settings.detail,
        user_threshold_s=settings.user_threshold_s,
        kernel_threshold_s=settings.kernel_threshold_s,
        disassemble=settings.disassemble,
        inline=settings.inline,
        lines=settings.lines,
        calls=calls,
        colour=takes_escapes(target.descriptor) and not os.environ.get("NO_COLOR"),
    )
    with progress("reading the recording and naming its addresses ...") as tell:
        choices = PipelineOptions(
            system_map=settings.system_map or None,
            kernel_image=settings.kernel_image or None,
            lines=settings.lines
            or (settings.inline and settings.format in ("html", *STACK_FORMATS)),
            stacks=bool(calls) or settings.format in ("html", *STACK_FORMATS),
            waits=True,
            use_cache=settings.use_cache,
            debuginfod_s=settings.debuginfod_s,
            program=settings.program,
            announce=tell,
            code=_code_choice(settings),
        )
        profile = api.read(recording, choices)
    for limit in limits:
        if limit not in profile.run.limits:
            say(limit)
    target.put(lambda out: renderer.render(profile, out))


def _code_choice(settings: Settings) -> CodeChoice | None:
    """Return whose instructions the report shows, None without `-e`."""
    if not settings.disassemble:
        return None
    from dataclasses import replace

    from prospect.assembly.code import code_of_report
    from prospect.profile.disassembly import DisassemblyChoice

    choice = DisassemblyChoice(
        settings.detail,  # type: ignore[arg-type]  # checked by the options' table
        settings.user_threshold_s,
        settings.kernel_threshold_s,
        settings.disassemble,
    )
    code = code_of_report(settings.syntax, settings.disassembler, settings.gdb_processes, choice)
    return replace(code, with_lines=settings.format == "html")
