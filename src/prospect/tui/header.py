"""The lines above and below the rows: where, how long, how busy, at what cost; which keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len

from prospect.profile.portions import (
    PORTION_INTERRUPT,
    PORTION_KERNEL,
    PORTION_USER,
)
from prospect.tui.lines import Span, ends_apart, fitted
from prospect.tui.places import (
    CALLEES,
    CALLERS,
    CAUSES,
    INSTRUCTIONS,
    PAGES,
    PROCESSES,
    ROUTINES,
    THREADS,
    WAIT_STACKS,
    WAITING,
)
from prospect.tui.styles import BOLD, CHOSEN, FAINT, KEY, OF_PAINT, PLAIN, WARNING

if TYPE_CHECKING:
    from prospect.tui.figures import LiveFigures
    from prospect.tui.places import Place
    from prospect.tui.rows import Page

PAGE_TITLES = {
    ROUTINES: "Routines",
    PROCESSES: "Processes",
    CAUSES: "Causes",
    THREADS: "Threads",
    WAITING: "Waiting",
    WAIT_STACKS: "Where it waits",
    CALLERS: "Who calls it",
    CALLEES: "What it calls",
    INSTRUCTIONS: "Instructions",
}
_ENTER = {
    PROCESSES: "its routines",
    THREADS: "its routines",
    CAUSES: "its routines",
    WAITING: "where it waits",
}
_COSTLY_PERCENT = 2.0
_BEGINNING_S = 30.0
_GAUGE = 20
_WIDE = 100


@dataclass(frozen=True)
class Mode:
    """What a person has set.

    Attributes:
        words: the filter, "" for none.
        is_frozen: the screen stands still.
    """

    words: str = ""
    is_frozen: bool = False


def run_line(figures: LiveFigures, mode: Mode, width: int) -> list[Span]:
    """Say what is sampled, how, for how long, and what that costs."""
    run, state = figures.profile.run, figures.state
    host = fitted(run.hostname, min(cell_len(run.hostname), 24)) if run.hostname else "this machine"
    event = run.events[figures.event_index]
    facts = [
        f"{run.cpus} CPU{'s' if run.cpus != 1 else ''}",
        f"{event.frequency_hz:.0f} Hz",
        _clock(figures.span_s),
        f"{int(figures.design.hits.sum()):,} samples",
    ]
    taking = f" + sampling {state.sampling_cpu_percent:.1f}" if width >= _WIDE else ""
    cost = f"cost: itself {state.own_cpu_percent:.1f}{taking} % of a CPU"
    # Beginning costs more than going on.
    is_costly = state.own_cpu_percent > _COSTLY_PERCENT and figures.span_s > _BEGINNING_S
    style = WARNING if is_costly else FAINT
    right = [Span(cost, style)]
    if state.lost:
        right = [Span(f"{state.lost:,} samples lost", WARNING), Span("  "), *right]
    if mode.is_frozen:
        right = [Span(" FROZEN, still sampling ", CHOSEN), Span("  "), *right]
    needed = sum(cell_len(span.text) for span in right) + 2
    while facts and 16 + cell_len(host) + sum(len(fact) + 3 for fact in facts) + needed > width:
        del facts[-1 if len(facts) != 3 else 1]
    left = [Span("prospect top ", BOLD), Span(" · ".join([f" {host}", *facts]))]
    return ends_apart(left, right, width)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def busy_line(figures: LiveFigures, width: int) -> list[Span]:
    """Say how busy the CPUs were, and with what: shares of all CPUs' time."""
    whole_s = figures.span_s * max(figures.profile.run.cpus, 1)
    by_portion = figures.seconds_by_portion / whole_s * 100.0
    busy = min(float(by_portion.sum()), 100.0)
    parts = (
        ("user", PORTION_USER, "user"),
        ("kernel", PORTION_KERNEL, "kernel"),
        ("interrupts", PORTION_INTERRUPT, "interrupt"),
    )
    spans = []
    if width >= _WIDE:
        full = round(busy / 100.0 * _GAUGE)
        spans = [Span("█" * full), Span("░" * (_GAUGE - full), FAINT), Span("  ")]
    spans += [Span(f"CPUs busy {busy:.1f} %", BOLD), Span("  =  ", FAINT)]
    for title, portion, paint in parts:
        spans += [Span(f"{title} {by_portion[portion]:.1f}", OF_PAINT[paint]), Span("  ")]
    return [*spans, Span(f"   idle {max(100.0 - busy, 0.0):.1f} %", FAINT)]


def tab_line(place: Place, mode: Mode, width: int) -> list[Span]:
    """Show the pages side by side, the way here, and the filter."""
    spans: list[Span] = []
    for step in place.trail:
        spans += [Span(fitted(step, min(cell_len(step), max(width // 4, 8))), BOLD), Span(" > ")]
    titles = [f" {number} {PAGE_TITLES[page]} " for number, page in enumerate(place.pages, 1)]
    used = sum(cell_len(span.text) for span in spans)
    is_wide = used + sum(len(title) + 1 for title in titles) <= width
    for title, page in zip(titles, place.pages, strict=True):
        is_here = page == place.page
        shown = title if is_wide or is_here else title[:3]
        spans += [Span(shown, CHOSEN if is_here else PLAIN), Span(" ")]
    if not mode.words:
        return spans
    text = fitted(mode.words, min(cell_len(mode.words), 24))
    return ends_apart(spans, [Span("only ", FAINT), Span(f"/{text}/", WARNING)], width)


def foot_line(page: Page, place: Place, width: int) -> list[Span]:
    """Name the keys; those that matter least go where there is no room."""
    can_enter = any(row.target for row in page.rows)
    is_table = place.page in PAGES
    keys = [
        ("Enter", _ENTER.get(place.page, "who calls it")) if can_enter else None,
        ("Esc", "back") if place.trail else None,
        ("←→", "page"),
        ("/", "filter") if is_table else None,
        ("Space", "freeze"),
        ("o", "order") if is_table else None,
        ("s", "save"),
        ("c", "clear"),
        ("?", "help"),
        ("q", "quit"),
    ]
    shown = [key for key in keys if key]
    expendable = ["c", "o", "s", "←→", "/", "Space"]
    while expendable and sum(len(key) + len(what) + 3 for key, what in shown) > width:
        drop = expendable.pop(0)
        shown = [key for key in shown if key[0] != drop]
    spans = []
    for key, what in shown:
        spans += [Span(f" {key} ", CHOSEN), Span(f"{what} ", PLAIN)]
    return spans


HELP = (
    "prospect top samples every CPU and shows where its time goes.",
    "",
    "  % CPU    time since the start, or since c, in percent of one CPU",
    "  ±        the truth is this close, in 95 of 100 cases; shrinks as time goes on",
    "  3=       not told from the row above: their order means nothing yet",
    "  10 s     % CPU of the last ten seconds alone",
    "  minute   the last minute, now at the right; full height is the row's own peak",
    "  colours  the kernel is magenta, interrupts are red",
    "",
    "  1 2 ... 5, ← →  routines, processes, causes of kernel time, threads, waiting",
    "  ↑ ↓, mouse    choose a row; it stays chosen while others move",
    "  Enter         of a process, thread or cause: its routines; of a routine:",
    "                who calls it, what it calls, and its instructions; of a thread",
    "                on the page Waiting: by which stacks it was blocked",
    "  Esc           takes the filter away, or goes back",
    "  /             show only rows with these letters in a name",
    "  Space         freeze: the screen stands still, sampling goes on",
    "  o             order by time, by the last ten seconds, by name",
    "  s             save all as a recording, for prospect report and perf report",
    "  c             clear: forget all and start anew",
    "  q             quit",
    "",
    "Interrupts count for no process: what they interrupted did not ask for them.",
    "Idle time is in no row. Rows swap only when one clearly exceeds the other.",
)


def help_lines(limits: tuple[str, ...]) -> list[list[Span]]:
    """Return the page of help, with what cannot be seen here below it."""
    lines = [[Span(line, KEY if not number else PLAIN)] for number, line in enumerate(HELP)]
    if limits:
        lines += [[Span("")], [Span("What cannot be seen here:", KEY)]]
        lines += [[Span(fitted(f"- {limit}", max(len(limit), 20) + 2))] for limit in limits]
    return lines
