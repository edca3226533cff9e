"""The header: what was profiled, by what, on what, how, and what the run could not see."""

from __future__ import annotations

import math
import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from prospect.announcing import counted
from prospect.render.escape import escaped
from prospect.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prospect.figures.report.view import ReportView
    from prospect.profile.run_info import EventInfo, RunInfo
    from prospect.render.text.style import Style

_UNKNOWN = "unknown"


def header_lines(view: ReportView, style: Style) -> Iterator[str]:
    """Yield the report's first lines."""
    run = view.profile.run
    yield style.title(f"Time: {_what(run)}")
    yield ""
    yield f"Prospect: {__version__}"
    yield ""
    yield f"Uname: {escaped(run.uname) or _UNKNOWN}"
    yield f"Prospect was built for: Linux {escaped(run.arch) or _UNKNOWN}"
    yield f"Current command line: '{_words(run.recorder_command_line)}'"
    yield f"CPU Speed: {_cpu_speed(run)}"
    yield f"Sampling frequency: {_frequencies([event.event for event in view.events])}"
    if run.clock:
        yield f"Sampling clock: {escaped(run.clock)}"
    yield f"Recorded: {_recorded(run)}"
    yield f"Interval: {_interval(run)}"


def note_lines(view: ReportView) -> Iterator[str]:
    """Yield what the run could not see."""
    for note in view.notes:
        yield f"Note: {escaped(note)}"


def warning_lines(view: ReportView, style: Style) -> Iterator[str]:
    """Yield what was lost or damaged."""
    for warning in view.warnings:
        yield style.warning(f"Warning: {escaped(warning)}")


def _what(run: RunInfo) -> str:
    return _words(run.command) or escaped(run.origin) or _UNKNOWN


def _words(words: tuple[str, ...]) -> str:
    return escaped(shlex.join(words))


def _cpu_speed(run: RunInfo) -> str:
    speed = f"{run.cpu_mhz:.3f} MHz" if run.cpu_mhz > 0 else _UNKNOWN
    return f"{speed} ({escaped(run.cpu_description)})" if run.cpu_description else speed


def _frequencies(events: Sequence[EventInfo]) -> str:
    if len(events) == 1:
        return _hz(events[0].frequency_hz)
    return ", ".join(f"{escaped(event.name)} {_hz(event.frequency_hz)}" for event in events)


def _hz(frequency_hz: float) -> str:
    if not (math.isfinite(frequency_hz) and frequency_hz > 0):
        return _UNKNOWN
    return f"{frequency_hz:.6g} Hz"


def _recorded(run: RunInfo) -> str:
    by = escaped(run.recorder) or _UNKNOWN
    unknown = f"at an unknown time by {by}"
    if not run.started_at > 0:
        return unknown
    try:
        started = datetime.fromtimestamp(run.started_at, UTC)
    except (OverflowError, ValueError, OSError):
        return unknown
    return f"{started:%Y-%m-%d %H:%M:%S} UTC by {by}"


def _interval(run: RunInfo) -> str:
    wall = f"{run.wall_seconds:.3f} Sec" if run.wall_seconds > 0 else f"{_UNKNOWN} wall time"
    cpus = counted(run.cpus, "CPU") if run.cpus > 0 else "CPUs unknown"
    own = "the command's processes only" if run.command else "some processes only"
    scope = "every process" if run.system_wide else own
    return f"{wall}, {cpus}, {scope}"
