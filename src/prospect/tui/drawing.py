"""The lines of every part of the screen, for a picture and the state of its page.

Lines above and below the rows have the place, the time, the load, the cost, and the keys.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.cells import cell_len

from prospect.figures.modes import MODE_INTERRUPT, MODE_KERNEL, MODE_USER
from prospect.records import NamedTuple, Record
from prospect.render.escape import escaped
from prospect.tui.lines import (
    BOLD,
    CHOSEN,
    FAINT,
    KEY,
    OF_PAINT,
    PLAIN,
    WARNING,
    Span,
    ends_apart,
    fitted,
    name_fitted,
)
from prospect.tui.rows import (
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
from prospect.tui.table_pages import (
    BLOCKS,
    Scale,
    bar_digits,
    layout,
    row_lines,
    text_lines,
    title_line,
)

if TYPE_CHECKING:
    from prospect.tui.figures import LiveFigures
    from prospect.tui.pictures import PageState, Picture
    from prospect.tui.rows import Page, Place, Row


HEAD_LINES = 4
_USUAL_WIDTH = 80
_WAITING = "Waiting for the first samples ..."
_BEGINNING = "  Sampling. The names of functions are being read ..."
_PATIENCE = "  One moment ..."
_LEAVE = "  q quits"
# The help: the meaning of figures, and the keys.
HELP = (
    "prospect top samples every CPU and shows where its time goes.",
    "",
    "  % CPU    time since the start, or since c, in percent of one CPU",
    "  ±        the truth is this close, in 95 of 100 cases; shrinks as time goes on",
    "  3=       ties with the row above: their order means nothing yet",
    "  10 s     % CPU of the last ten seconds alone",
    "  minute   the last minute, now at the right; full height is the row's own peak",
    "  colours  the kernel is magenta, interrupts are red",
    "  a->b [fn 2 of 3]  a function without a symbol, between those of a and b",
    "  cost     itself is this program, sampling what samples take from all others",
    "",
    "  1 2 ... 6, ← →  functions, processes, entry reasons of kernel time, threads, waiting,",
    "                turns",
    "  ↑ ↓, mouse    choose a row; it stays chosen while others move",
    "  Enter         of a process, thread or entry reason: its functions; of a function:",
    "                who calls it, what it calls, and its instructions; of a thread",
    "                on the page Waiting: by which stacks it was blocked",
    "  Esc           takes the filter away, or goes back",
    "  /             show only rows with these letters in a name; a process by pid",
    "  Space         freeze: the screen stops, sampling goes on",
    "  o             order by time, by the last ten seconds, by name; on the page",
    "                Waiting by time, ready, blocked, name",
    "  s             save all as a recording, for prospect report and perf report",
    "  c             clear: forget all and start again",
    "  q             quit",
    "",
    "Interrupts count for no process: the interrupted one did not ask for them.",
    "Idle time is in no row. Rows are in the order of the column with ↓.",
)

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


class Screen(NamedTuple):
    """The size of the screen, the rows that fit, and the characters of histories."""

    width: int
    rows: int
    ramp: str = BLOCKS


def draw_beginning(width: int) -> list[list[Span]]:
    """Return the lines before the first figures."""
    return [[], [Span(fitted(_BEGINNING, width))], [], [Span(fitted(_LEAVE, width), FAINT)]]


def draw_patience(width: int) -> list[list[Span]]:
    """Return the lines that are shown while rows are computed."""
    return [[], [Span(fitted(_PATIENCE, width))]]


def draw_head(
    picture: Picture, page_state: PageState, screen: Screen, mode: Mode
) -> list[list[Span]]:
    """Return the lines above the rows: the run, the CPUs, the pages, the titles of columns."""
    width = screen.width
    return [
        run_line(picture.figures, mode, width),
        busy_line(picture.figures, width),
        tab_line(page_state.place, mode, width),
        _titles(picture.page, page_state, width),
    ]


def _titles(page: Page, page_state: PageState, width: int) -> list[Span]:
    if page.is_text:
        return [Span(fitted(page.title, width), FAINT)]
    order = page_state.order if page_state.place.function is None else ""
    return title_line(layout(page_state.place.page, width, order, _widest(page)), order)


def draw_rows(picture: Picture, page_state: PageState, screen: Screen) -> list[list[Span]]:
    """Return the lines of the rows that fit on the screen."""
    page, cursor = picture.page, page_state.cursor
    if not page.rows:
        return [[], [Span(f"  {escaped(_why_empty(picture, page_state))}")]]
    shown = page.rows[cursor.top : cursor.top + screen.rows]
    if page.is_text:
        lines = text_lines(shown, screen.width)
    else:
        form = layout(page_state.place.page, screen.width, page_state.order, _widest(page))
        scale = Scale(picture.figures.span_s, screen.ramp)
        lines = row_lines(shown, cursor.top, form, scale, cursor.row)
    if page.note and not page.is_text and len(lines) < screen.rows:
        lines.append([Span(f"     {fitted(page.note, max(screen.width - 6, 4))}", FAINT)])
    if page.more and cursor.top + len(shown) == len(page.rows) and len(lines) < screen.rows:
        share = page.more_s / picture.figures.span_s * 100.0
        more = f"{page.more} more" + (f", together {share:.1f} % of a CPU" if page.more_s else "")
        lines.append([Span(f"     ... {more}", FAINT)])
    return lines


def _widest(page: Page) -> int:
    """Return the width of the widest name of a page, before it is escaped."""
    return max((cell_len(row.lead + row.name) for row in page.rows), default=0)


def _why_empty(picture: Picture, page_state: PageState) -> str:
    if picture.page.note:
        return picture.page.note
    if page_state.words:
        return f"Nothing here has '{page_state.words}' in its name. Esc shows everything."
    if not len(picture.figures.profile.hits):
        return _WAITING
    return "Nothing here but idle CPUs so far."


def draw_status(picture: Picture, page_state: PageState, width: int) -> list[Span]:
    """Return the chosen row's time and its error in words."""
    page, at = picture.page, page_state.cursor.row
    if page.is_text:
        return [Span(fitted(page.note if page.rows else "", width), FAINT)]
    if at >= len(page.rows):
        return [Span("")]
    row = page.rows[at]
    words = interval_words(row, Scale(picture.figures.span_s), is_short=width < _USUAL_WIDTH)
    if width >= _USUAL_WIDTH and row.hits:
        words += f" ({row.hits:,} sample{'s' if row.hits != 1 else ''})"
    like = "; ties with the row above" if row.is_like_above else ""
    name = _full_name(row)
    room = width - len(words) - len(like) - 3
    if room < len(name):
        like, room = "", width - len(words) - 3
    return [
        Span(name_fitted(name, min(max(room, 10), len(escaped(name)))), BOLD),
        Span(f": {words}"),
        Span(like, FAINT),
    ]


def _full_name(row: Row) -> str:
    place = f" ({row.place})" if row.place else ""
    process = f" in {row.process}" if row.process and row.process != row.name else ""
    return f"{row.name}{place}{process}"


def draw_message(text: str, width: int, *, is_warning: bool) -> list[Span]:
    """Return a sentence about what has just been done."""
    return [Span(fitted(text, width), WARNING if is_warning else BOLD)]


def draw_help_status(limits: tuple[str, ...], rows: int, top: int) -> str:
    """Return how to read on in the help, and how to close it."""
    more = "↓ goes on. " if len(help_lines(limits)) > top + rows else ""
    return f"{more}Esc or ? closes the help."


def interval_words(row: Row, scale: Scale, *, is_short: bool = False) -> str:
    """Return a row's time and its interval in words; `is_short` for a narrow screen."""
    percent = 100.0 / scale.span_s
    digits = bar_digits(row.half_width_s * percent)
    if not math.isnan(row.blocked_s):
        return _waiting_words(row, percent)
    if math.isnan(row.seconds):
        return "called the row above"
    share = f"{row.seconds * percent:.{digits}f} % of a CPU"
    if math.isnan(row.half_width_s):
        return share
    if is_short:
        return f"{row.seconds * percent:.{digits}f} % ± {row.half_width_s * percent:.{digits}f}"
    low, high = (max(row.seconds + sign * row.half_width_s, 0.0) * percent for sign in (-1, 1))
    return f"{share}, 95 % sure: {low:.{digits}f} to {high:.{digits}f}"


def _waiting_words(row: Row, percent: float) -> str:
    """Return how long a row was blocked and, for threads, how they spent their other time."""
    blocked = f"blocked {row.blocked_s * percent:.1f} % of the time"
    if math.isnan(row.seconds):
        return blocked
    ran, ready = row.seconds * percent, row.ready_s * percent
    return f"{blocked}, ran {ran:.1f} %, waited for a CPU {ready:.1f} %"


def help_lines(limits: tuple[str, ...]) -> list[list[Span]]:
    """Return the page of help, followed by the limits of this session."""
    lines = [[Span(line, KEY if not number else PLAIN)] for number, line in enumerate(HELP)]
    if limits:
        lines += [[Span("")], [Span("What cannot be seen here:", KEY)]]
        lines += [[Span(fitted(f"- {limit}", max(len(limit), 20) + 2))] for limit in limits]
    return lines


class Mode(Record):
    """The state of the screen besides its page.

    Attributes:
        words: the filter, "" for none.
        pause_s: the pause between figures.
    """

    words: str = ""
    is_frozen: bool = False
    pause_s: float = 0.0


def run_line(figures: LiveFigures, mode: Mode, width: int) -> list[Span]:
    """Return the line on the host, the sampling, its time and its cost."""
    run, state = figures.profile.run, figures.state
    # The followed processes, else the machine.
    host = state.followed or run.hostname or "this machine"
    host = fitted(host, min(cell_len(host), max(width // 3, 24) if state.followed else 24))
    event = run.events[figures.event_index]
    hits = figures.design.hits
    samples = int(hits[figures.is_shown].sum() if state.followed else hits.sum())
    facts = [
        f"{run.cpus} CPU{'s' if run.cpus != 1 else ''}",
        f"{event.frequency_hz:.0f} Hz",
        _clock(figures.span_s),
        f"{samples:,} samples",
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


def _cost(figures: LiveFigures, mode: Mode, width: int) -> list[Span]:
    """Return the cost of this program, and the pause between figures if it is long."""
    state = figures.state
    is_known = state.sampling_cpu_percent > 0 and width >= _WIDE
    taking = f" + sampling {state.sampling_cpu_percent:.1f}" if is_known else ""
    cost = f"cost: itself {state.own_cpu_percent:.1f}{taking} % of a CPU"
    is_costly = state.own_cpu_percent > _COSTLY_PERCENT
    # The start costs more than the rest.
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
    """Return the load by mode: shares of all CPUs' time; for followed processes, of one CPU's."""
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
    """Return the titles of the pages, the choices on the way here, and the filter."""
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


def draw_foot(page: Page, place: Place, width: int) -> list[Span]:
    """Return the names of the keys, without the least important ones if there is no room."""
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
