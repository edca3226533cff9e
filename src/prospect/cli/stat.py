"""``prospect stat``: count events while COMMAND runs, then say how many.

On the way to COMMAND's exec: only what counts is imported before it, what reports after its end.
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
    from prospect.options import Settings
    from prospect.profile.event_counts import CountedEvent, CountInterval, EventCounts

_STDOUT = 1


def run(settings: Settings, command: list[str], _command_line: tuple[str, ...]) -> int:
    """Count events, write the report, and return the command's exit status.

    Raises:
        ProspectError: before the command starts, where that can be known; else for the report.
    """
    options = CountOptions(**asdict(project(settings, CountingOptions)), command=tuple(command))
    with ReportFile(settings.output) as target:
        # Somebody may be watching: intervals are shown as they end.
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
        text = _heading(self._form) * (not self._has_heading)
        text += _lines(self._form, events, interval)
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
            lines = (_lines(form, found.events, interval) for interval in intervals)
            table = "" if is_live else _heading(form) + "".join(lines)
            text = f"{table}\n{text}"
    return text.encode(errors="backslashreplace")


def _heading(form: str) -> str:
    if form == "csv":
        from prospect.render.json.counts_document import csv_heading

        return csv_heading()
    from prospect.render.text.counts import interval_heading

    return interval_heading()


def _lines(form: str, events: tuple[CountedEvent, ...], interval: CountInterval) -> str:
    if form == "csv":
        from prospect.render.json.counts_document import interval_csv

        return interval_csv(events, interval)
    from prospect.render.text.counts import interval_text

    return interval_text(events, interval)
