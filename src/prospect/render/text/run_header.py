"""The Run: what was profiled and how, what the run could not see, and its statistics.

Statistics of Run are the recorder's and the profile's counters under Prospect's names.
"""

from __future__ import annotations

import math
import shlex
from datetime import UTC, datetime
from itertools import zip_longest
from typing import TYPE_CHECKING

from prospect.announcing import pluralize
from prospect.figures.report.counters import sample_traces
from prospect.render.escape import escaped
from prospect.render.text.numbers import NO_TIME
from prospect.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prospect.figures.report.report_view import ReportView
    from prospect.profile.run_info import EventInfo, RunInfo
    from prospect.render.text.style import Style


_UNKNOWN = "unknown"
# (counter, its label with the report's word for samples) by column; an indented label is part of
# the one above.
_RUN_LEFT: tuple[tuple[str, str], ...] = (
    ("buffers_read", "Buffers read"),
    ("notifications", "Notifications received"),
    ("execs", "  Num execs"),
    ("forks", "  Num forks"),
    ("maps", "  Num maps"),
    ("incomplete_maps", "  Num incomplete maps"),
    ("exits", "  Num exits"),
    ("unknowns", "  Num unknowns"),
    ("processes", "Total processes"),
)
_RUN_RIGHT: tuple[tuple[str, str], ...] = (
    ("buffer_flushes", "Buffer Flushes"),
    ("samples", "Num samples"),
    ("samples_per_buffer", "  Ave {samples}/buffer"),
    ("system_samples", "  System {samples}"),
    ("interrupt_samples", "    Interrupt {samples}"),
    ("user_samples", "  User {samples}"),
    ("unknown_samples", "  Unknown {samples}"),
    ("recorder_samples", "  {Samples} of Prospect"),
    ("lost", "Lost samples"),
    ("throttled", "Throttles"),
)
# More counters of the report of 2002: counter, label, and the counter that it precedes.
_CLASSIC = (
    ("drop_modules", "  Num drop modules", "exits"),
    ("sample_traces", "Num sample traces", "samples"),
    ("samples_per_trace", "  Ave {samples}/sample trace", "samples_per_buffer"),
    ("low_transport_samples", "  Low transport samples", "system_samples"),
    ("high_transport_samples", "  High transport samples", "system_samples"),
)
_KERNEL_LEFT = (
    ("kernel_module_samples", "Total kern-module {samples}"),
    ("kernel_samples", "Total kernel {samples}"),
    ("kernel_unique", "  Unique of those"),
    ("process_0_samples", "Total process 0 {samples}"),
    ("process_0_unique", "  Unique of those"),
)
_KERNEL_RIGHT = (
    ("kernel_threads", "Total kthreads"),
    ("kernel_thread_samples", "Total kthread {samples}"),
    ("kernel_thread_unique", "  Unique of those"),
    ("user_kernel_samples", "Total usr_kernel"),
    ("user_kernel_unique", "  Unique of those"),
)
_NAMED = {name for name, _ in (*_RUN_LEFT, *_RUN_RIGHT, *_KERNEL_LEFT, *_KERNEL_RIGHT)}
_LEAST_WIDTH = 36


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
    cpus = pluralize(run.cpus, "CPU") if run.cpus > 0 else "CPUs unknown"
    own = "the command's processes only" if run.command else "some processes only"
    scope = "every process" if run.system_wide else own
    return f"{wall}, {cpus}, {scope}"


def statistics_lines(view: ReportView, style: Style) -> Iterator[str]:
    """Yield the section; counters that this run does not have are left out."""
    counters: Mapping[str, float | None] = view.counters
    left, right = _RUN_LEFT, _RUN_RIGHT
    if style.words.is_classic:
        counters = {**counters, **sample_traces(view.profile)}
        left, right = _with_classic(left), _with_classic(right)
    yield from style.section("Statistics of Run")
    others = [(name, _own_label(name)) for name in view.counters if name not in _NAMED]
    half = (len(others) + 1) // 2
    term = style.words.term
    words = {"samples": term("samples"), "Samples": term("Samples")}
    blocks = [
        (_cells(left, counters, words), _cells(right, counters, words)),
        (_cells(_KERNEL_LEFT, counters, words), _cells(_KERNEL_RIGHT, counters, words)),
        (_cells(others[:half], counters, {}), _cells(others[half:], counters, {})),
    ]
    width = max(
        len(label) + len(number) for block in blocks for side in block for label, number in side
    )
    width = max(width + 2, _LEAST_WIDTH)
    for block in blocks:
        for pair in zip_longest(*block):
            sides = [f"{cell[0]}{cell[1]:>{width - len(cell[0])}}" if cell else "" for cell in pair]
            yield f"{sides[0]:<{width}}    {sides[1]}".rstrip()
    yield ""


def _with_classic(names: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return a column with the counters that the report of 2002 has in addition."""
    column: list[tuple[str, str]] = []
    for name, label in names:
        column += [(own, words) for own, words, before in _CLASSIC if before == name]
        column.append((name, label))
    return tuple(column)


def _cells(
    names: tuple[tuple[str, str], ...] | list[tuple[str, str]],
    counters: Mapping[str, float | None],
    words: Mapping[str, str],
) -> list[tuple[str, str]]:
    return [
        (f"{label.format(**words) if words else label}:", _number(counters[name]))
        for name, label in names
        if name in counters
    ]


def _number(value: float | None) -> str:
    if value is None:
        return NO_TIME
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _own_label(name: str) -> str:
    return escaped(name).replace("_", " ").capitalize()
