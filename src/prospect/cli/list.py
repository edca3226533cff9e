"""``prospect list``: show the events of this machine as a table or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.capture.events.event_listing import check_event, list_events
from prospect.cli.progress import Progress
from prospect.cli.terminal import show
from prospect.errors import UsageError
from prospect.render.escape import escaped
from prospect.render.json.document_fields import indented
from prospect.render.json.machine_documents import EVENTS
from prospect.render.text.text_table import Column, table_lines

if TYPE_CHECKING:
    from prospect.capture.events.event_listing import CheckedEvent, ListedEvent
    from prospect.options import Settings


def run(settings: Settings, words: list[str], _command_line: tuple[str, ...]) -> int:
    """Show the events whose names match the pattern, or all events.

    Raises:
        UsageError: there is none.
        CaptureError: the target does not answer.
    """
    pattern = words[0] if words else ""
    if settings.target:
        from prospect.target.question_client import list_on

        events, limits, checks = list_on(
            settings.target, pattern, with_fields=settings.fields, check=settings.check
        )
    else:
        events, limits = list_events(pattern, with_fields=settings.fields)
        checks = _checks(events) if settings.check else [None] * len(events)
    if not events:
        reason = f"; {limits[0]}" if limits else ""
        where = settings.target or "here"
        raise UsageError(f"list: no event {where} is called '{pattern}'{reason}")
    if settings.format == "json":
        rows = [*zip(events, checks, strict=True)]
        show(indented(EVENTS, (rows, limits)))
    else:
        show(table_text(events, checks, limits, with_fields=settings.fields))
    return int(settings.check and not _is_there(events, checks, pattern))


def _is_there(events: list[ListedEvent], checks: list[CheckedEvent | None], pattern: str) -> bool:
    """Return whether an event of this name can be counted, or any event if none has the name."""
    named = [pattern in (event.name, *event.other_names) for event in events]
    return any(
        check is not None and not check.counting and (is_named or not any(named))
        for check, is_named in zip(checks, named, strict=True)
    )


def _checks(events: list[ListedEvent]) -> list[CheckedEvent | None]:
    """Try the events that can be opened, which takes a few milliseconds each."""
    checks: list[CheckedEvent | None] = []
    with Progress("trying events") as progress:
        for number, event in enumerate(events, 1):
            progress.announce(f"trying {number} of {len(events)} events: {event.name}")
            checks.append(check_event(event) if event.can_be_opened else None)
    return checks


def table_text(
    events: list[ListedEvent],
    checks: list[CheckedEvent | None],
    limits: tuple[str, ...],
    *,
    with_fields: bool,
) -> str:
    """Return a table of the events, with a column for checks if there are any."""
    names = [escaped(", ".join((event.name, *event.other_names))) for event in events]
    here = [_check_text(check) for check in checks]
    heading, *rows = table_lines(
        Column("Event", names, right=False),
        Column("Kind", [event.kind for event in events], right=False),
        Column("Here", here, right=False, when=any(checks)),
        Column("Description", [escaped(event.description) for event in events], right=False),
    )
    lines = [heading]
    for event, row in zip(events, rows, strict=True):
        lines.append(row)
        if with_fields:
            lines += [f"    {escaped(name)}  {bits}" for name, bits in event.parameters]
            lines += [f"    {escaped(field.declaration)}" for field in event.fields]
    return "\n".join([*lines, *map(escaped, limits)]) + "\n"


def _check_text(check: CheckedEvent | None) -> str:
    if check is None:
        return ""
    if check.counting:
        return f"no: {escaped(check.counting)}"
    where = " in user space" if check.user_only else ""
    if check.sampling:
        return f"counted only{where}: {escaped(check.sampling)}"
    return f"counted, sampled{where}"
