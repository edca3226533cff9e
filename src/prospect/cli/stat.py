"""``prospect stat``: count events while COMMAND runs, then report the counts.

Before COMMAND's exec only the counter is imported; the report is imported after COMMAND's end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.cli.terminal import fit_for, show
from prospect.errors import CommandError
from prospect.files.outputs import ReportFile
from prospect.options import CountingOptions
from prospect.recording.counting_run import CountOptions, count_events
from prospect.records import asdict, project

if TYPE_CHECKING:
    from collections.abc import Callable

    from prospect.options import Settings
    from prospect.profile.event_counts import CountedEvent, CountInterval, EventCounts

_STDOUT = 1


def run(settings: Settings, command: list[str], _command_line: tuple[str, ...]) -> int:
    """Count events, write the report, and return the command's exit status.

    Raises:
        ProspectError: before the command starts, if possible; else for the report.
    """
    options = CountOptions(**asdict(project(settings, CountingOptions)), command=tuple(command))
    with ReportFile(settings.output) as target:
        # A user may be watching: show intervals as they end.
        is_live = bool(options.interval_s) and target.is_stdout and settings.format != "json"
        live = _Live(settings.format) if is_live else None
        try:
            found = _counted(settings.target, options, live)
        except CommandError as error:
            if settings.target:
                raise
            from prospect.cli.instead import explained

            raise explained(error, command) from None
        report = _rest(found, settings.format, is_live=is_live)
        shown = fit_for(target.descriptor, report, settings.format)
        target.put(lambda out: out.write(shown))
    return found.exit_status


def _counted(target: str, options: CountOptions, live: _Live | None) -> EventCounts:
    """Count here or on a target."""
    on_interval = live.show if live else None
    if target:
        from prospect.target.question_client import count_on

        return count_on(target, options, on_interval)
    return count_events(options, on_interval)


class _Live:
    """Shows intervals on standard output as they end."""

    def __init__(self, form: str) -> None:
        self._form = form
        self._has_heading = False

    def show(self, events: tuple[CountedEvent, ...], interval: CountInterval) -> None:
        """Show one interval, the first one below a heading.

        Raises:
            RenderError: standard output takes no more.
        """
        heading, row = _interval_writers(self._form)
        text = ("" if self._has_heading else heading()) + row(events, interval)
        lines = text.encode(errors="backslashreplace")
        show(fit_for(_STDOUT, lines, self._form).decode())
        self._has_heading = True


def _rest(found: EventCounts, form: str, *, is_live: bool) -> bytes:
    """Return what is to be written at the end: all, or what was not shown yet."""
    if form == "json":
        from prospect.render.json.counts_document import counts_json

        return counts_json(found)
    if form == "csv":
        from prospect.render.json.counts_document import counts_csv

        text = "" if is_live else counts_csv(found)
    else:
        from prospect.render.text.counts import counts_text

        text = counts_text(found)
        intervals = found.runs[0].intervals
        if intervals:
            heading, row = _interval_writers(form)
            lines = (row(found.events, interval) for interval in intervals)
            table = "" if is_live else heading() + "".join(lines)
            text = f"{table}\n{text}"
    return text.encode(errors="backslashreplace")


def _interval_writers(
    form: str,
) -> tuple[Callable[[], str], Callable[[tuple[CountedEvent, ...], CountInterval], str]]:
    """Return the functions that write the heading of intervals, and an interval."""
    if form == "csv":
        from prospect.render.json.counts_document import csv_heading, interval_csv

        return csv_heading, interval_csv
    from prospect.render.text.counts import interval_heading, interval_text

    return interval_heading, interval_text
