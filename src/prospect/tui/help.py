"""The page of help: what figures mean, which keys there are, and what cannot be seen."""

from __future__ import annotations

from prospect.tui.lines import Span, fitted
from prospect.tui.styles import KEY, PLAIN

HELP = (
    "prospect top samples every CPU and shows where its time goes.",
    "",
    "  % CPU    time since the start, or since c, in percent of one CPU",
    "  ±        the truth is this close, in 95 of 100 cases; shrinks as time goes on",
    "  3=       ties with the row above: their order means nothing yet",
    "  10 s     % CPU of the last ten seconds alone",
    "  minute   the last minute, now at the right; full height is the row's own peak",
    "  colours  the kernel is magenta, interrupts are red",
    "  a->b [fn 2 of 3]  a routine without a symbol, between those of a and b",
    "  cost     itself is this program, sampling what samples take from all others",
    "",
    "  1 2 ... 5, ← →  routines, processes, causes of kernel time, threads, waiting",
    "  ↑ ↓, mouse    choose a row; it stays chosen while others move",
    "  Enter         of a process, thread or cause: its routines; of a routine:",
    "                who calls it, what it calls, and its instructions; of a thread",
    "                on the page Waiting: by which stacks it was blocked",
    "  Esc           takes the filter away, or goes back",
    "  /             show only rows with these letters in a name; a process by pid",
    "  Space         freeze: the screen stands still, sampling goes on",
    "  o             order by time, by the last ten seconds, by name; on the page",
    "                Waiting by time, ready, blocked, name",
    "  s             save all as a recording, for prospect report and perf report",
    "  c             clear: forget all and start anew",
    "  q             quit",
    "",
    "Interrupts count for no process: the interrupted one did not ask for them.",
    "Idle time is in no row. Rows are in the order of the column with ↓.",
)


def help_lines(limits: tuple[str, ...]) -> list[list[Span]]:
    """Return the page of help, with what cannot be seen here below it."""
    lines = [[Span(line, KEY if not number else PLAIN)] for number, line in enumerate(HELP)]
    if limits:
        lines += [[Span("")], [Span("What cannot be seen here:", KEY)]]
        lines += [[Span(fitted(f"- {limit}", max(len(limit), 20) + 2))] for limit in limits]
    return lines
