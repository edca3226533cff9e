"""In short: the first screen of a report, for a terminal of 80 columns and 24 lines.

The page, a notebook and JSON show the same lines.
"""

from __future__ import annotations

import math
import shlex
from textwrap import wrap
from typing import TYPE_CHECKING

from prospect.announcing import pluralize
from prospect.estimate.summary import summary
from prospect.figures.processes import asked_for
from prospect.figures.remarks import nothing_chosen
from prospect.profile.model import copies_of_waits_alone
from prospect.profile.naming import SHORT_REMEDIES, NameSource
from prospect.profile.run_info import MAX_STACK
from prospect.render.escape import display_width, escaped, shortened
from prospect.render.name_parts import short_names
from prospect.render.next_commands import NOTHING, Repeated, next_lines
from prospect.render.text.style import NO_TIME, Figures, Style
from prospect.render.text.text_table import Column, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.estimate.finished_report import Report
    from prospect.estimate.summary import FunctionRow, ServiceRow, Summary
    from prospect.estimate.wall_seconds import WallTime
    from prospect.figures.report.waiting import Waiting
    from prospect.profile.run_info import Throttled

_WIDTH, _HEIGHT = 79, 24
_EMPTY_LINES = 4
_PROGRAM_WIDTH = 24
# With services, of both tables.
_SERVICE_WIDTH = 18
# Widths of functions, callers and programs, with and without the callers.
_FUNCTION_WIDTHS = (30, 22)
_CALLER_WIDTH = 13
_NAME_WIDTHS = (14, 9)
# The tables that lose rows if the first screen is longer than a terminal, and how many rows stay.
_GIVEN_UP = (
    ("functions", 3),
    ("with_callees", 3),
    ("programs", 2),
    ("functions", 2),
    ("programs", 1),
)
# With so large a share the second program stays; functions with their callees get fewer rows.
_LEAST_OF_SECOND = 0.1
_MOST_BLOCKERS = 3
_MOST_HINT_LINES = 2
_MS = 0.0005  # rounds to 0.001 s
_HOLDER_WIDTH = 22
_OTHERS_SERVICE_WIDTH = 14
_LEAST_NAMELESS = 0.01
_DEBUG_SYMBOLS = " (install debug symbols)"
_LEAST_EXPLAINED = 0.05
_LEAST_CUT = 0.05
_LEAST_UNKNOWN = 0.05  # of the waits with a known reason


def in_short_lines(
    view: Report, short: Summary, recording: str, style: Style, repeated: Repeated = NOTHING
) -> Iterator[str]:
    """Yield the summary of a report: the text that every format shows.

    `recording` is what to call the recording in a command line, "" if it is not kept.
    """
    figures = Figures(short.hits, short.seconds, has_time=short.has_time)
    run = view.profile.run
    title = escaped(shlex.join(run.command)) or escaped(run.origin) or "unknown"
    head = [style.title(shortened(title, _WIDTH)), *_whole_lines(view, short, figures)]
    if view.is_widened:
        asked, shown = view.asked, view.detail
        head.append(
            f"Note: this is -V {shown}, not -V {asked}: the recording does not name COMMAND."
        )
    tail = [*_entry_reason_line(short, figures), *_wall_or_waits(view, short.wall)]
    tail += _others_line(short)
    if view.throttled:
        tail.append(_throttled_line(view.throttled))
    tail += _seen_lines(view, short, style)
    for hint in view.hints[:1]:
        lines = wrap(
            f"Names:  {escaped(hint.short)}",
            _WIDTH,
            subsequent_indent=" " * 8,
            break_on_hyphens=False,
        )
        tail += lines[:_MOST_HINT_LINES]
    tail += next_lines(view, short, recording, repeated)
    yield from head
    yield ""
    if short.hits:
        services = list(_service_lines(short, figures, style))
        if services:
            yield from services
            yield ""
        room = _HEIGHT - len(head) - len(tail) - _EMPTY_LINES - len(services) - bool(services)
        rows = _rows_that_fit(short, room)
        yield from _program_lines(short, figures, style, rows["programs"])
        yield ""
        if rows["with_callees"]:
            yield from _callees_lines(short, figures, style, rows["with_callees"])
            yield ""
        yield from _function_lines(short, figures, style, rows["functions"])
    else:
        yield from wrap(escaped(nothing_chosen(view.profile, view.detail)), _WIDTH)
    yield ""
    yield from tail


def _rows_that_fit(short: Summary, room: int) -> dict[str, int]:
    """Choose how many rows each table has, so that the next commands are on the first screen.

    Tables keep all rows if there are neither services nor functions with their callees.

    `room` is the number of lines for all tables with their titles and closing lines.
    """
    rows = {
        "programs": len(short.first_programs),
        "with_callees": len(short.with_callees),
        "functions": len(short.first_functions),
    }
    if not (short.with_callees or short.services):
        return rows
    programs = rows["programs"] + short.programs_after
    is_large = any(row.hits >= _LEAST_OF_SECOND * short.hits for row in short.programs[1:2])
    for table, least in (*_GIVEN_UP[:-1], ("with_callees", 2)) if is_large else _GIVEN_UP:
        while rows[table] > least:
            titles = 2 + bool(rows["with_callees"])
            # One line has the ties of functions, another the number of further programs.
            closing = 1 + (rows["programs"] < programs)
            if titles + sum(rows.values()) + closing <= room:
                break
            rows[table] -= 1
    return rows


def in_short_plain(
    report: Report, recording: str, repeated: Repeated = NOTHING
) -> tuple[Summary, list[str]]:
    """Return the summary of a report, and its lines without colours."""
    short = summary(report.events[0])
    return short, list(in_short_lines(report, short, recording, Style(colour=False), repeated))


def _cut(line: str) -> str:
    """Cut a line after a whole word, so that no number loses digits."""
    if display_width(line) <= _WIDTH:
        return line
    short = shortened(line, _WIDTH).removesuffix("...")
    return f"{short.rpartition(' ')[0] or short}..."


def _listed(head: str, items: list[str]) -> str:
    """Return a line with as many whole items as fit."""
    for most in range(len(items), 0, -1):
        more = ", ..." if most < len(items) else ""
        line = f"{head}{', '.join(items[:most])}{more}"
        if display_width(line) <= _WIDTH:
            return line
    return _cut(head + items[0])


def _whole_lines(view: Report, short: Summary, figures: Figures) -> Iterator[str]:
    run = view.profile.run
    parts = []
    if run.wall_seconds > 0:
        parts.append(f"{run.wall_seconds:.2f} s on {pluralize(run.cpus, 'CPU')}")
    if not math.isnan(short.busy_share):
        parts.append(f"{_percent(short.busy_share)} busy")
    if not short.has_time:
        yield _cut(
            f"{', '.join([*parts, pluralize(short.hits, escaped(short.event.samples_word))])}"
            f" of {asked_for(run, view.detail)}"
        )
        return
    share = ""
    if short.seen_s > 0 and short.event.is_cpu_time:
        share = f", {_percent(short.seconds / short.seen_s)} of the machine"
    whose = asked_for(run, view.detail).capitalize()
    time = figures.with_bar(short.seconds, short.half_width_s)
    whole = f"{whose}: {time} {escaped(short.event.time_title)}{share}"
    one_line = "; ".join([", ".join(parts), whole]) if parts else whole
    if display_width(one_line) <= _WIDTH:
        yield one_line
    else:
        yield ", ".join(parts)
        yield _cut(whole)


def _service_lines(short: Summary, figures: Figures, style: Style) -> Iterator[str]:
    rows = short.services
    if not rows:
        return
    times, bars = figures.timed_columns(
        [row.seconds for row in rows], [row.half_width_s for row in rows]
    )
    columns = [
        Column("Service", [_service_name(row.name, _PROGRAM_WIDTH) for row in rows], right=False),
        Column(escaped(short.event.time_title), times),
        Column("±", bars),
        Column(escaped(short.event.samples_title), [str(row.hits) for row in rows]),
        Column("User", [_percent(row.user_share) for row in rows]),
        Column("Kernel", [_percent(1.0 - row.user_share) for row in rows]),
        Column("Program", [_program_of(row, _NAME_WIDTHS[0]) for row in rows], right=False),
    ]
    yield from style.hot_rows(
        table_lines(*_known(columns)), [row.hits / max(short.hits, 1) for row in rows]
    )
    if short.more_services:
        yield f"... and {pluralize(short.more_services, 'service')} more"


def _program_lines(short: Summary, figures: Figures, style: Style, most: int) -> Iterator[str]:
    rows = short.first_programs[:most]
    times, bars = figures.timed_columns(
        [row.seconds for row in rows], [row.half_width_s for row in rows]
    )
    width = _SERVICE_WIDTH if short.has_services else _PROGRAM_WIDTH
    kernel = [_percent(1.0 - row.user_share) for row in rows]
    services = []
    for row in rows:
        others = f" +{row.other_services}" if row.other_services else ""
        services.append(_service_name(row.service, _SERVICE_WIDTH - len(others)) + others)
    columns = [
        Column("Program", [_brief(row.name, width) for row in rows], right=False),
        Column(escaped(short.event.time_title), times),
        Column("±", bars),
        Column(escaped(short.event.samples_title), [str(row.hits) for row in rows]),
        Column("User", [_percent(row.user_share) for row in rows]),
        # Services take its place: it is the rest of the user's share.
        Column("Kernel", kernel, when=not short.has_services),
        Column("Processes", [str(row.processes) for row in rows]),
        Column("Service", services, right=False, when=short.has_services),
    ]
    shares = [row.hits / max(short.hits, 1) for row in rows]
    yield from style.hot_rows(table_lines(*_known(columns)), shares)
    if more := short.programs_after + len(short.first_programs) - len(rows):
        yield f"... and {pluralize(more, 'program')} more"


def _callees_lines(short: Summary, figures: Figures, style: Style, most: int) -> Iterator[str]:
    from prospect.render.text.function_table import callees_columns  # noqa: PLC0415 - only with stacks

    rows = short.first_with_callees(most)
    columns = callees_columns(rows, figures, escaped(short.event.samples_title))
    yield from style.hot_rows(table_lines(*columns), [row.share for row in rows])


def _function_lines(short: Summary, figures: Figures, style: Style, most: int) -> Iterator[str]:
    rows = short.first_functions[:most]
    times, bars = figures.timed_columns(
        [row.seconds for row in rows], [row.half_width_s for row in rows]
    )
    has_callers = any(row.caller for row in rows)
    names = [escaped(row.name) for row in rows]
    ranks = [f"{rank}{'=' * row.is_like_above}" for rank, row in enumerate(rows, start=1)]
    functions = short_names(names, _FUNCTION_WIDTHS[has_callers], [row.object_path for row in rows])
    own = Column(escaped(short.event.samples_title), [str(row.hits) for row in rows])
    programs = [_program_of(row, _NAME_WIDTHS[has_callers]) for row in rows]
    callers = short_names(
        [escaped(row.caller) or NO_TIME for row in rows],
        _CALLER_WIDTH,
        [row.caller_object for row in rows],
    )
    columns = [
        Column("", ranks),
        Column("Function", functions, right=False),
        Column("Own s", times) if short.has_time else own,
        Column("±", bars),
        Column("Share", [_percent(row.share) for row in rows]),
        Column("Program", programs, right=False),
        Column("Called by", callers, right=False, when=has_callers),
    ]
    yield from style.hot_rows(table_lines(*_known(columns)), [row.share for row in rows])
    left_out = short.functions_after + len(short.first_functions) - len(rows)
    more = f"... and {left_out} more" if left_out else ""
    if closing := [part for part in (more, _separation(short)) if part]:
        yield _cut("; ".join(closing))


def _known(columns: list[Column]) -> list[Column]:
    """Return a table without its columns of unknown times and ±."""
    return [column for column in columns if any(one != NO_TIME for one in column.cells)]


def _separation(short: Summary) -> str:
    if not short.needed_s:
        return ""
    if math.isinf(short.needed_s):
        return "= ties with the row above, however long the run"
    seconds = float(f"{short.needed_s:.2g}")
    return f"= ties with the row above; a {seconds:.0f} s run would separate them"


def _service_name(name: str, width: int) -> str:
    name = name.removesuffix(".service") or "-"
    pod, _, container = name.rpartition(" ")
    if len(name) > width and pod.startswith("pod ") and len(container) < width // 2:
        # A pod's name ends with a number; its container's name says what runs in it.
        return f"{_brief(pod, width - len(container) - 1)} {_brief(container, width)}"
    return _brief(name, width)


def _program_of(row: FunctionRow | ServiceRow, width: int) -> str:
    more = f" +{row.other_programs}" if row.other_programs else ""
    return _brief(row.program, width) + more


def _entry_reason_line(short: Summary, figures: Figures) -> Iterator[str]:
    if not short.entry_reasons:
        return

    def amount(value: float) -> str:
        return figures.seconds(value) if short.has_time else f"{value:.0f}"

    unit = " s" if short.has_time else " samples"
    entry_reasons = [f"{escaped(name)} {amount(value)}" for name, value in short.entry_reasons]
    yield _listed(f"Kernel: {amount(short.kernel_s)}{unit}: ", entry_reasons)


def _others_line(short: Summary) -> Iterator[str]:
    """Yield who used the machine if COMMAND hardly did: a daemon may have worked for it."""
    if not short.others:
        return
    services = (_service_name(row.service, _OTHERS_SERVICE_WIDTH) for row in short.others)
    items = [
        f"{_brief(row.name, _PROGRAM_WIDTH)} {row.seconds:.2f}"
        + (f" ({service})" * bool(row.service))
        for row, service in zip(short.others, services, strict=True)
    ]
    yield _listed(f"Others: {short.others_s:.2f} {escaped(short.event.time_title)}: ", items)


def _throttled_line(throttled: tuple[Throttled, ...]) -> str:
    """Return how long a CPU limit stopped a group: no other process had its CPUs then."""
    first = throttled[0]
    head = f"Throttled: {first.seconds:.2f} s by a CPU limit, {first.throttled} of"
    head += f" {pluralize(first.periods, 'period')}"
    more = f" +{len(throttled) - 1}" if len(throttled) > 1 else ""
    room = _WIDTH - display_width(head + more) - len(" (cgroup )")
    group = escaped(first.group)
    # Groups differ in the ends of their paths.
    name = group if display_width(group) <= room else f"...{group[3 - room :]}"
    return f"{head} (cgroup {name}{more})"


def _wall_line(wall: WallTime) -> str:
    """Return the parts of a command's wall time, for a recording without switches."""
    running = f"running {wall.busy_s:.2f} (on {wall.at_once:.1f} CPUs at once)"
    line = f"Wall:   {wall.total_s:.2f} s: {running}, not running {wall.idle_s:.2f}"
    more = " (--wall)"
    return _cut(line + more if display_width(line + more) <= _WIDTH else line)


def _wall_or_waits(view: Report, wall: WallTime | None) -> list[str]:
    """Return where the wall time of a command or of turns went, and what threads waited for."""
    if view.wall is not None:
        from prospect.render.text.wall import wall_summary  # noqa: PLC0415 - of switches only

        return list(wall_summary(view.wall, _WIDTH))
    if view.turns is not None and view.turns.kinds:
        from prospect.render.text.turns_section import turns_summary  # noqa: PLC0415 - of switches only

        return [*turns_summary(view.turns, _WIDTH), _waits_line(view)]
    return [_wall_line(wall) if wall and view.waiting is None else _waits_line(view)]


def _waits_line(view: Report) -> str:
    if view.waiting is None and view.profile.run.store_part:
        return "Waits:  not kept in this store"
    if view.waiting is None:
        return "Waits:  not recorded (--off-cpu)"
    if view.waiting.blockers is None:
        return "Waits:  by thread, see Waiting"
    parts = []
    for idle, words in ((False, ""), (True, "idle: ")):
        waits = [
            (escaped(one.name), one.seconds) for one in view.waiting.blockers if one.idle == idle
        ]
        if not idle:
            runnable_s = view.waiting.runnable_s
            waits.append((f"for a CPU{_throttled_part(view, runnable_s)}", runnable_s))
            known_s = sum(one.seconds for one in view.waiting.blockers)
            if view.waiting.stackless_s >= _LEAST_UNKNOWN * known_s:
                waits.append(("reason unknown", view.waiting.stackless_s))
        first = sorted(waits, key=lambda one: -one[1])[:_MOST_BLOCKERS]
        named = [(name, f"{name} {seconds:.3f} s") for name, seconds in first if seconds >= _MS]
        if named:
            parts.append((words, named))
    line = "Waits:  "
    for place, (words, named) in enumerate(parts):
        line = listed_with(f"{line}{'; ' if place else ''}{words}", named, _holder(view.waiting))
    return line if parts else f"{line}none"


def listed_with(head: str, items: list[tuple[str, str]], more: dict[str, str]) -> str:
    """Return a line of named items, with more words on some of them if as many items still fit."""
    line = _listed(head, [text for _, text in items])
    longer = _listed(head, [text + more.get(name, "") for name, text in items])
    return line if longer.endswith("...") and not line.endswith("...") else longer


def _holder(found: Waiting) -> dict[str, str]:
    """Return the lock that threads waited for longest, and words for its holder."""
    if not found.holders:
        return {}
    first = found.holders[0]
    (name,) = short_names([escaped(first.function)], _HOLDER_WIDTH)
    return {escaped(first.lock): f" (held in {name})"}


def _throttled_part(view: Report, runnable_s: float) -> str:
    throttled_s = min(sum(one.seconds for one in view.throttled), runnable_s)
    return f" (about {throttled_s:.2f} s throttled)" if throttled_s >= _MS else ""


def _seen_lines(view: Report, short: Summary, style: Style) -> Iterator[str]:
    """Yield a line or two on what is missing from the figures."""
    if view.warnings:
        more = f" (and {len(view.warnings) - 1} more)" if len(view.warnings) > 1 else ""
        lines = _wrapped_missing(escaped(view.warnings[0]))
        if len(lines[-1]) + len(more) <= _WIDTH:
            lines[-1] += more
        yield from map(style.warning, lines)
        return
    parts = []
    if short.nameless >= _LEAST_NAMELESS:
        parts.append(f"{_percent(short.nameless)} of samples unnamed{_reason(view, short)}")
    if short.bracketed >= _LEAST_NAMELESS:
        parts.append(
            f"{_percent(short.bracketed)} of samples in functions without symbols{_DEBUG_SYMBOLS}"
        )
    parts += _cut_stacks(view)
    yield from _wrapped_missing("; ".join(parts) or "nothing was lost")


def _wrapped_missing(what: str) -> list[str]:
    """Return two lines at most, with options in one piece, so that they can be copied."""
    return wrap(
        f"Missing: {what}",
        _WIDTH,
        subsequent_indent=" " * len("Missing: "),
        break_on_hyphens=False,
        max_lines=2,
        placeholder=" ...",
    )


def _reason(view: Report, short: Summary) -> str:
    """Return the commonest reason for missing names, unless a hint on a runtime says more."""
    source = short.nameless_source
    has_hint = source == NameSource.NO_ANONYMOUS and bool(view.hints)
    if source is None or has_hint or short.nameless < _LEAST_EXPLAINED:
        return ""
    return f" ({SHORT_REMEDIES[source]})"


def _cut_stacks(view: Report) -> Iterator[str]:
    quality = view.stack_quality
    if quality is None:
        return
    cut = f"{_percent(quality.cut_share)} of stacks cut"
    of_waits = copies_of_waits_alone(view.profile)
    if quality.most_frames and quality.cut_stacks:
        yield f"{cut} at {quality.most_frames} frames ({MAX_STACK})"
    elif quality.size_for_99 and quality.cut_share >= _LEAST_CUT and not of_waits:
        size = quality.size_to_ask_for
        yield f"{cut} (--call-graph {f'dwarf,{size}' if size else 'fp'})"


def _brief(name: str, width: int) -> str:
    return shortened(escaped(name), width)


def _percent(share: float) -> str:
    return f"{100.0 * share:.0f} %"
