"""Turns: how long threads took from one wait for work to the next, and where that time went."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from prospect.announcing import pluralize
from prospect.estimate.wall_account import BLOCKED, FOR_A_CPU, NO_SAMPLE, RUNNING
from prospect.figures.find_turns import AFTER, OTHER_TURNS
from prospect.profile.model import THREADS_OF_TURNS
from prospect.render.escape import display_width, escaped, shortened
from prospect.render.name_parts import short_names
from prospect.render.text.style import percent
from prospect.render.text.text_table import Column, table_lines
from prospect.render.text.wall import blocked_by, had_words, what_cell, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prospect.estimate.compare.compared_turns import TurnChange
    from prospect.estimate.finished_report import Report
    from prospect.estimate.statistics.row_limits import Quantile
    from prospect.estimate.turn_account import KindOfTurns, TurnAccount, TurnRow
    from prospect.render.text.style import Style

OWN_THREAD, OTHER_THREAD, OTHER_PROCESS = THREADS_OF_TURNS
_HEAD = "Turns:  "
_MS = 1e3
_WIDTH = 79
_MOST_LINES = 3
_LEAST_SHARE = 0.01  # of an item of the first screen
_LEAST_OF_ALL = 0.1  # of the time of all turns, in a kind with a function
_FUNCTION_WIDTH, _KIND_WIDTH, _LEAST_WIDTH = 22, 40, 12
_MOST_KINDS = 20
_MOST_DETAILED = 5
_MOST_ROWS = 12
_LEAST_MS = 0.0005  # less is shown as 0.000
_MOST_CHANGES = 5
_LOCKS = ("a mutex", "Python's global lock", "futex")


def turns_summary(account: TurnAccount, width: int) -> Iterator[str]:
    """Yield the turns of the kind that took most time, in up to three lines."""
    if not account.kinds:
        return
    kind = _first(account)
    times = f"median {_ms(kind.median.value)} ms, 95 % {_ms(kind.tail.value)}"
    times += f", longest {_ms(kind.longest_s)}:"
    of = "" if kind.kind.startswith(AFTER) and not kind.is_loop else "of "
    whose = f"{_HEAD}{escaped(kind.program)}, {kind.turns} {of}{'its loop, ' * kind.is_loop}"
    room = max(width - display_width(f"{whose}: {times}"), _LEAST_WIDTH)
    head = f"{whose}{short_names([escaped(kind.kind)], room)[0]}: {times} "
    items = _items(kind)
    for most in range(len(items), -1, -1):
        lines = wrapped(head, _shown(items[:most], kind), width, len(_HEAD))
        if len(lines) <= _MOST_LINES or not most:
            yield from (shortened(line, width) for line in lines)
            return


def _first(account: TurnAccount) -> KindOfTurns:
    """Return the kind with most time, preferably a large one with the name of a function."""
    whole_s = sum(kind.seconds for kind in account.kinds)
    named = [kind for kind in account.kinds if kind.kind != OTHER_TURNS]
    of_function = [
        kind
        for kind in named
        if not kind.kind.startswith(AFTER) and kind.seconds >= _LEAST_OF_ALL * whole_s
    ]
    return [*of_function, *named, *account.kinds][0]


def _shown(items: list[tuple[float, str]], kind: KindOfTurns) -> list[str]:
    """Return the words of items, and the rest of the time."""
    left = 1.0 - sum(share for share, _ in items)
    others = [f"others {_ms(left * kind.mean_s)}"] if left >= _LEAST_SHARE else []
    return [*(text for _, text in items), *others]


def _ms(seconds: float) -> str:
    """Return milliseconds with three significant digits."""
    ms = seconds * _MS
    if math.isnan(ms):
        return "-"
    return f"{ms:.0f}" if ms >= 100 else f"{ms:.1f}" if ms >= 1 else f"{ms:.3f}"


def _items(kind: KindOfTurns) -> list[tuple[float, str]]:
    """Return the parts of an average turn, the largest first: their shares and words."""
    sums: dict[str, float] = {}
    functions: dict[str, dict[str, float]] = {}
    for row in kind.rows:
        name = _item_of(row, kind)
        sums[name] = sums.get(name, 0.0) + row.share
        if row.state == RUNNING and row.what != NO_SAMPLE:
            of_name = functions.setdefault(name, {})
            of_name[row.what] = of_name.get(row.what, 0.0) + row.share
    found = []
    for name, share in sorted(sums.items(), key=lambda one: -one[1]):
        if share < _LEAST_SHARE:
            break
        text = f"{name} {_ms(share * kind.mean_s)}"
        if name == FOR_A_CPU:
            text += had_words(kind.takers)
        elif name == _OWN_CPU or name.startswith(_LOCKS):
            text += _main_function(functions.get(name, {}), kind)
        found.append((share, text))
    return found


_OWN_CPU = "own CPU"


def _item_of(row: TurnRow, kind: KindOfTurns) -> str:
    """Return the item of the first screen that a row counts for."""
    if row.thread == OTHER_PROCESS:
        return escaped(f"other {row.program}" if row.program == kind.program else row.program)
    if row.thread == OTHER_THREAD:
        return escaped(row.during) if row.during in _LOCKS else "its other threads"
    if row.state == RUNNING:
        return _OWN_CPU
    return blocked_by(row) if row.state == BLOCKED else row.state


def _main_function(functions: dict[str, float], kind: KindOfTurns) -> str:
    """Return in brackets the function with most time of an item."""
    if not functions:
        return ""
    name, share = max(functions.items(), key=lambda one: one[1])
    return f" ({short_names([escaped(name)], _FUNCTION_WIDTH)[0]} {_ms(share * kind.mean_s)})"


def turns_lines(report: Report, style: Style) -> Iterator[str]:
    """Yield the section; nothing without turns."""
    account = report.turns
    if account is None:
        return
    yield from style.section("Turns: from the End of a Wait for Work to the Next One")
    kinds = account.kinds[:_MOST_KINDS]
    yield from turns_table_lines(kinds)
    if more := len(account.kinds) - len(kinds):
        yield style.cut(f"- {pluralize(more, 'more kind')}")
    yield from _remarks(account)
    for kind in kinds[:_MOST_DETAILED]:
        if kind.seconds >= report.user_threshold_s:
            yield ""
            yield from _parts(kind, style)
    yield ""


def turns_table_lines(kinds: Sequence[KindOfTurns]) -> Iterator[str]:
    """Yield the titles, and a line for each kind."""
    has_services = len({kind.service for kind in kinds}) > 1
    yield from table_lines(
        Column("Turns", [str(kind.turns) for kind in kinds]),
        Column("Median ms", [_ms(kind.median.value) for kind in kinds]),
        Column("±", [_between(kind.median) for kind in kinds]),
        Column("95 %", [_ms(kind.tail.value) for kind in kinds]),
        Column("±", [_between(kind.tail) for kind in kinds]),
        Column("Longest", [_ms(kind.longest_s) for kind in kinds]),
        Column("Secs", [f"{kind.seconds:.3f}" for kind in kinds]),
        Column("Program", [escaped(kind.program) for kind in kinds], right=False),
        Column("Kind", _kind_cells(kinds), right=False),
        Column(
            "Service",
            [escaped(kind.service) or "-" for kind in kinds],
            right=False,
            when=has_services,
        ),
    )


def turns_words(kind: KindOfTurns, width: int) -> list[str]:
    """Return the parts of an average turn of a kind, the largest first."""
    return wrapped("", _shown(_items(kind), kind), width, 0)


def _kind_cells(kinds: Sequence[KindOfTurns]) -> list[str]:
    names = short_names([escaped(kind.kind) for kind in kinds], _KIND_WIDTH)
    return [
        f"{name} (event loop)" if kind.is_loop else name
        for name, kind in zip(names, kinds, strict=True)
    ]


def _between(quantile: Quantile) -> str:
    """Return the 95 % interval of a quantile in ms; an end that is not known is left out."""
    low, high = ("" if math.isnan(one) else _ms(one) for one in (quantile.low, quantile.high))
    return f"{low}-{high}" if low or high else "-"


def _remarks(account: TurnAccount) -> Iterator[str]:
    left_out = []
    if account.cut:
        left_out.append(f"{account.cut} cut by the recording's start or end")
    if account.unclear:
        left_out.append(f"{account.unclear} with a wait whose reason is not known")
    if left_out:
        turns = pluralize(account.cut + account.unclear, "turn")
        yield f"Left out: {turns}: {', '.join(left_out)}."
    if account.threads_without:
        threads = pluralize(account.threads_without, "thread")
        yield f"{threads} without turns: no wait of theirs is known to be idle."
    if any(kind.is_loop for kind in account.kinds):
        yield "A turn of an event loop is one round of it, which may serve many requests."


def _parts(kind: KindOfTurns, style: Style) -> Iterator[str]:
    yield (
        f"{escaped(kind.program)}, {_kind_cells((kind,))[0]}:"
        f" a turn of {kind.mean_s * _MS:.3f} ms on average of {kind.turns} consists of"
    )
    yield from turns_words(kind, _WIDTH)
    rows = [row for row in kind.rows[:_MOST_ROWS] if row.seconds / kind.turns * _MS >= _LEAST_MS]
    has_during = any(row.during for row in rows)
    yield from table_lines(
        Column("ms", [f"{row.seconds / kind.turns * _MS:.3f}" for row in rows]),
        Column("±", [_bar(row, kind) for row in rows]),
        Column("Pcnt", [percent(row.share, 1) for row in rows]),
        Column("Pieces", [str(row.pieces) for row in rows]),
        Column("State", [row.state for row in rows], right=False),
        Column("Program", [_whose(row, kind) for row in rows], right=False),
        Column("What", [what_cell(row) for row in rows], right=False),
        Column("Meanwhile in", [escaped(row.during) for row in rows], right=False, when=has_during),
    )
    if more := len(kind.rows) - len(rows):
        left_ms = sum(row.seconds for row in kind.rows[len(rows) :]) / kind.turns * _MS
        yield style.cut(f"- {pluralize(more, 'more row')} with {left_ms:.3f} ms")


def _bar(row: TurnRow, kind: KindOfTurns) -> str:
    return f"{row.half_width_s / kind.turns * _MS:.3f}" if row.half_width_s else "-"


def _whose(row: TurnRow, kind: KindOfTurns) -> str:
    if row.program != kind.program or row.thread == OWN_THREAD:
        return escaped(row.program)
    return escaped(f"{row.program}, {row.thread}")


def turn_change_lines(changes: Sequence[TurnChange], style: Style) -> Iterator[str]:
    """Yield how the lengths of turns changed, and for the first kinds the causes."""
    shown = changes[:_MOST_KINDS]
    yield from table_lines(
        Column("A ms", [_ms(one.a) for one in shown]),
        Column("B ms", [_ms(one.b) for one in shown]),
        Column("B - A", [_signed(one.change) for one in shown]),
        Column("±", [f"{one.half_width_s * _MS:.3f}" for one in shown]),
        Column("Turns A", [str(one.a_turns) for one in shown]),
        Column("Turns B", [str(one.b_turns) for one in shown]),
        Column("Program", [escaped(one.program) for one in shown], right=False),
        Column("Kind", [escaped(one.kind) for one in shown], right=False),
    )
    if more := len(changes) - len(shown):
        yield style.cut(f"- {pluralize(more, 'more kind')}")
    for one in shown[:_MOST_DETAILED]:
        parts = [part for part in one.parts if abs(part.change) > part.half_width_s][:_MOST_CHANGES]
        if parts:
            yield ""
            name = f"{escaped(one.program)}, {escaped(one.kind)}"
            yield f"{name}: {_signed(one.change)} ms a turn, of which"
            yield from table_lines(
                Column("A ms", [f"{part.a * _MS:.3f}" for part in parts]),
                Column("B ms", [f"{part.b * _MS:.3f}" for part in parts]),
                Column("B - A", [_signed(part.change) for part in parts]),
                Column("±", [f"{part.half_width_s * _MS:.3f}" for part in parts]),
                Column("State", [part.state for part in parts], right=False),
                Column("Program", [escaped(part.program) for part in parts], right=False),
                Column("What", [escaped(part.what) for part in parts], right=False),
            )


def _signed(seconds: float) -> str:
    return f"{seconds * _MS:+.3f}"
