"""Counts of events as text, as docs/stat.md describes it: a line an event, with derived figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.estimate.count_means import Mean, count_means
from prospect.profile.event_counts import NS_PER_S, derived_figures
from prospect.render.escape import escaped
from prospect.render.text.text_table import Column, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.profile.event_counts import (
        CountedEvent,
        CountInterval,
        DerivedFigure,
        EventCounts,
    )

_NOT_COUNTED = "not counted"
_ALL_THE_TIME = 0.9995


def counts_text(found: EventCounts) -> str:
    """Return the report on all runs."""
    lines = [counts_title(found), ""]
    lines += [f"  {line}" for line in table_lines(*count_columns(found))]
    lines += ["", *(f"  {line}" for line in time_lines(found))]
    lines += [escaped(limit) for limit in found.limits]
    return "\n".join(lines) + "\n"


def counts_title(found: EventCounts) -> str:
    """Return who was counted, and how often."""
    runs = f", {len(found.runs)} runs" if len(found.runs) > 1 else ""
    return f"Counts of {escaped(found.target)}{runs}"


def count_columns(found: EventCounts) -> list[Column]:
    """Return the columns of the table of counts."""
    means = count_means(found)
    rows = tuple(mean.value if mean else None for mean in means.counts)
    figures = derived_figures(found.events, rows, means.elapsed_s.value)
    counts = list(zip(found.events, means.counts, strict=True))
    is_shared = min(means.running, default=1.0) < _ALL_THE_TIME
    return [
        Column("Count", [_count(event, mean) for event, mean in counts]),
        Column("±", [_half(event, mean) for event, mean in counts], when=len(found.runs) != 1),
        Column("Event", [_name(event) for event in found.events], right=False),
        Column("Counted", [f"{100.0 * share:.1f}%" for share in means.running], when=is_shared),
        Column("", [_figure(figure) for figure in figures], right=False),
    ]


def interval_heading() -> str:
    """Return the line above the intervals."""
    return f"{'Seconds':>12}  {'Count':>18}  Event\n"


def interval_text(events: tuple[CountedEvent, ...], interval: CountInterval) -> str:
    """Return the lines of one interval."""
    estimates = tuple(count.estimate for count in interval.counts)
    figures = derived_figures(events, estimates, interval.end_s - interval.begin_s)
    lines = []
    for event, count, estimate, figure in zip(
        events, interval.counts, estimates, figures, strict=True
    ):
        shown = _count(event, None if estimate is None else Mean(estimate))
        parts = [_figure(figure)]
        if 0.0 < count.running_share < _ALL_THE_TIME:
            parts.append(f"counted {100.0 * count.running_share:.1f}%")
        said = ", ".join(filter(None, parts))
        lines.append(f"{interval.end_s:12.6f}  {shown:>18}  {_name(event):<28}  {said}".rstrip())
    return "\n".join(lines) + "\n"


def time_lines(found: EventCounts) -> Iterator[str]:
    """Yield how long it took, and what the command used."""
    means = count_means(found)
    for mean, what in (
        (means.elapsed_s, "s elapsed"),
        (means.user_s, "s in user space"),
        (means.system_s, "s in the kernel"),
    ):
        if mean:
            half = f" ± {mean.half:.6f}" if mean.half is not None else ""
            yield f"{mean.value:.6f}{half} {what}"


def _name(event: CountedEvent) -> str:
    group = f" {{{event.group}}}" if event.group >= 0 else ""
    return escaped(event.name) + group


def _count(event: CountedEvent, mean: Mean | None) -> str:
    return _NOT_COUNTED if mean is None else _number(event, mean.value, with_unit=True)


def _half(event: CountedEvent, mean: Mean | None) -> str:
    return "" if mean is None or mean.half is None else _number(event, mean.half, with_unit=False)


def _number(event: CountedEvent, value: float, *, with_unit: bool) -> str:
    """Return a count: times in ms, what has its own unit in that."""
    if event.unit == "ns":
        return f"{1e3 * value / NS_PER_S:,.3f}{' ms' * with_unit}"
    if event.unit:
        return f"{value * event.scale:,.3f}{f' {escaped(event.unit)}' * with_unit}"
    return f"{value * event.scale:,.0f}"


def _figure(figure: DerivedFigure | None) -> str:
    if figure is None:
        return ""
    digits = 0 if figure.value >= 1000 else 3
    space = "" if figure.unit.startswith(("%", "/")) else " "
    return f"{figure.value:,.{digits}f}{space}{figure.unit}"
