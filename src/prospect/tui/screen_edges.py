"""The lines above and below the rows: where, how long, how busy, at what cost; which keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from prospect.figures.modes import (
    MODE_INTERRUPT,
    MODE_KERNEL,
    MODE_USER,
)
from prospect.records import Record
from prospect.tui.lines import (
    BOLD,
    CHOSEN,
    FAINT,
    OF_PAINT,
    PLAIN,
    WARNING,
    Span,
    ends_apart,
    fitted,
)
from prospect.tui.screen_places import (
    CALLEES,
    CALLERS,
    ENTRY_REASONS,
    FUNCTIONS,
    INSTRUCTIONS,
    PAGES,
    PROCESSES,
    THREADS,
    TURNS,
    WAIT_STACKS,
    WAITING,
)

if TYPE_CHECKING:
    from prospect.tui.figures import LiveFigures
    from prospect.tui.rows import Page
    from prospect.tui.screen_places import Place

PAGE_TITLES = {
    FUNCTIONS: "Functions",
    PROCESSES: "Processes",
    ENTRY_REASONS: "Entry reasons",
    THREADS: "Threads",
    WAITING: "Waiting",
    TURNS: "Turns",
    WAIT_STACKS: "Where it waits",
    CALLERS: "Who calls it",
    CALLEES: "What it calls",
    INSTRUCTIONS: "Instructions",
}
_ENTER = {
    PROCESSES: "its functions",
    THREADS: "its functions",
    ENTRY_REASONS: "its functions",
    WAITING: "where it waits",
}
_COSTLY_PERCENT = 2.0
_BEGINNING_S = 30.0
_LONG_PAUSE_S = 4.5
_GAUGE = 20
_WIDE = 100


class Mode(Record):
    """The settings of a person.

    Attributes:
        words: the filter, "" for none.
        is_frozen: the screen does not change.
        pause_s: how long figures stay before new ones come.
    """

    words: str = ""
    is_frozen: bool = False
    pause_s: float = 0.0


def run_line(figures: LiveFigures, mode: Mode, width: int) -> list[Span]:
    """Say what is sampled, how, for how long, and what that costs."""
    run, state = figures.profile.run, figures.state
    host = _whom(figures, width)
    event = run.events[figures.event_index]
    facts = [
        f"{run.cpus} CPU{'s' if run.cpus != 1 else ''}",
        f"{event.frequency_hz:.0f} Hz",
        _clock(figures.span_s),
        f"{_samples(figures):,} samples",
    ]
    right = _cost(figures, mode, width)
    if state.lost:
        what = "samples" if figures.profile.threads is None else "samples and switches"
        right = [Span(f"{state.lost:,} {what} lost", WARNING), Span("  "), *right]
    if state.has_ended:
        right = [Span("ended", WARNING), Span("  "), *right]
    if mode.is_frozen:
        right = [Span(" FROZEN, still sampling ", CHOSEN), Span("  "), *right]
    needed = sum(cell_len(span.text) for span in right) + 2
    while facts and 16 + cell_len(host) + sum(len(fact) + 3 for fact in facts) + needed > width:
        del facts[-1 if len(facts) != 3 else 1]
    left = [Span("prospect top ", BOLD), Span(" · ".join([f" {host}", *facts]))]
    return ends_apart(left, right, width)


def _whom(figures: LiveFigures, width: int) -> str:
    """Return who is followed, else the machine's name."""
    name = figures.state.followed or figures.profile.run.hostname or "this machine"
    return fitted(name, min(cell_len(name), max(width // 3, 24) if figures.state.followed else 24))


def _samples(figures: LiveFigures) -> int:
    hits = figures.design.hits
    return int(hits[figures.is_shown].sum() if figures.state.followed else hits.sum())


def _cost(figures: LiveFigures, mode: Mode, width: int) -> list[Span]:
    """Say what looking costs, and how rarely figures come if it costs much."""
    state = figures.state
    is_known = state.sampling_cpu_percent > 0 and width >= _WIDE
    taking = f" + sampling {state.sampling_cpu_percent:.1f}" if is_known else ""
    cost = f"cost: itself {state.own_cpu_percent:.1f}{taking} % of a CPU"
    is_costly = state.own_cpu_percent > _COSTLY_PERCENT
    # Beginning costs more than going on.
    if is_costly and figures.span_s <= _BEGINNING_S:
        return [Span(f"{cost} to begin", FAINT)]
    spans = [Span(cost, WARNING if is_costly else FAINT)]
    if mode.pause_s > _LONG_PAUSE_S:
        spans.append(Span(f", new every {mode.pause_s:.0f} s", FAINT))
    return spans


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def busy_line(figures: LiveFigures, width: int) -> list[Span]:
    """Say how busy the CPUs were, and with what: shares of all CPUs' time.

    The followed processes took shares of one CPU, as in the rows.
    """
    is_all = not figures.state.followed
    whole_s = figures.span_s * (max(figures.profile.run.cpus, 1) if is_all else 1)
    by_mode = figures.seconds_by_mode / whole_s * 100.0
    busy = min(float(by_mode.sum()), 100.0) if is_all else float(by_mode.sum())
    parts = (
        ("user", MODE_USER, "user"),
        ("kernel", MODE_KERNEL, "kernel"),
        ("interrupts", MODE_INTERRUPT, "interrupt"),
    )
    spans = []
    if is_all and width >= _WIDE:
        full = round(busy / 100.0 * _GAUGE)
        spans = [Span("█" * full), Span("░" * (_GAUGE - full), FAINT), Span("  ")]
    busy_words = f"CPUs busy {busy:.1f} %" if is_all else f"Together {busy:.1f} % of a CPU"
    spans += [Span(busy_words, BOLD), Span("  =  ", FAINT)]
    for title, mode, paint in parts:
        spans += [Span(f"{title} {by_mode[mode]:.1f}", OF_PAINT[paint]), Span("  ")]
    idle = f"   idle {max(100.0 - busy, 0.0):.1f} %" if is_all else ""
    return [*spans, Span(idle, FAINT)]


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
    """Name the keys; those that matter least go if there is no room."""
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
