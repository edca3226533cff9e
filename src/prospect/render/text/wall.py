"""Wall time: where the time of a command went, from its start to its exit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.announcing import pluralize
from prospect.estimate.wall_account import (
    BLOCKED,
    FOR_A_CPU,
    HOST,
    INTERRUPT,
    NO_SAMPLE,
    NOBODY,
    NOT_KNOWN,
    QUOTA,
    RUNNING,
    UNRECORDED,
)
from prospect.render.escape import display_width, escaped
from prospect.render.name_parts import short_names
from prospect.render.text.style import percent
from prospect.render.text.text_table import Column, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.estimate.compare.compared_turns import ComparedWall, PartChange
    from prospect.estimate.finished_report import Report
    from prospect.estimate.turn_account import TurnRow
    from prospect.estimate.wall_account import Taker, WallAccount, WallRow
    from prospect.render.text.style import Style

_HEAD = "Wall:   "
_MOST_LINES = 2
_MOST_TAKERS = 2
_LEAST_SHARE = 0.005  # of an item of the first screen
_LEAST_OF_WAIT = 0.1  # of a program that had the CPU
_LEAST_KNOWN = 0.5  # of the time, to name who had it
_NAME_WIDTH = 24
_MOST_ROWS = 40
_MOST_HAD = 10
_TAKERS = {NOBODY: "nobody"}
_NO_PROGRAMS = (NOBODY, UNRECORDED, QUOTA, HOST)
_WHOSE = ("another", "the command")  # by `is_own`


def wall_summary(account: WallAccount, width: int) -> Iterator[str]:
    """Yield the account in up to two lines, the longest times first."""
    digits = 2 if account.seconds >= 1 else 3
    rows = [row for row in account.of_all_programs if row.share >= _LEAST_SHARE]
    items = [_item(row, account, digits) for row in rows]
    for most in range(len(items), -1, -1):
        left_s = account.seconds - sum(row.seconds for row in rows[:most])
        shown = items[:most]
        if round(left_s, digits) > 0:
            shown = [*shown, f"others {left_s:.{digits}f}"]
        lines = wrapped(f"{_HEAD}{account.seconds:.{digits}f} s: ", shown, width, len(_HEAD))
        if len(lines) <= _MOST_LINES or not most:
            yield from lines
            return


def wrapped(head: str, items: list[str], width: int, indent: int) -> list[str]:
    """Return items in lines of a width, broken between items; further lines are indented."""
    lines, line = [], head
    for place, item in enumerate(items):
        text = f"{item}{',' if place + 1 < len(items) else ''}"
        if line != " " * indent and display_width(line + text) > width:
            lines.append(line.rstrip())
            line = " " * indent
        line += f"{text} "
    return [*lines, line.rstrip()]


def _item(row: WallRow, account: WallAccount, digits: int) -> str:
    time = f"{row.seconds:.{digits}f}"
    if row.half_width_s >= 10.0**-digits:
        time += f" ± {row.half_width_s:.{digits}f}"
    if row.state == FOR_A_CPU and not row.what:
        return f"waiting for a CPU {time}{had_words(account.takers)}"
    return f"{_short(row)} {time}"


def _what(row: WallRow | PartChange) -> str:
    """Return the function or the wait of a row, without its program."""
    if row.state == RUNNING:
        return escaped(
            f"{row.program} running" if row.what == NO_SAMPLE and row.program else row.what
        )
    return blocked_by(row) if row.state == BLOCKED else row.what or row.state


def blocked_by(row: WallRow | PartChange | TurnRow) -> str:
    """Return what blocked a thread, and which other program ended the wait."""
    by = f", ended by {row.ended_by}" if row.ended_by not in ("", INTERRUPT) else ""
    return escaped(f"{row.what}{by}")


def what_cell(row: WallRow | TurnRow) -> str:
    """Return the cell of a row's function, or of its wait and what ended it."""
    if row.state != BLOCKED:
        return escaped(row.what)
    return blocked_by(row) if row.ended_by else escaped(f"{row.what}, end not recorded")


def _short(row: WallRow | PartChange) -> str:
    """Return the same for a line, with a function's name shortened."""
    what = _what(row)
    return short_names([what], _NAME_WIDTH)[0] if row.state == RUNNING else what


def had_words(takers: tuple[Taker, ...]) -> str:
    """Return in brackets who had the CPU, if that is known for most of the time."""
    takers = tuple(taker for taker in takers if taker.program not in (QUOTA, HOST))
    total_s = sum(taker.seconds for taker in takers)
    known = [taker for taker in takers if taker.program != UNRECORDED]
    found = [taker for taker in known if taker.seconds >= _LEAST_OF_WAIT * total_s]
    if sum(taker.seconds for taker in known) < _LEAST_KNOWN * total_s or not found:
        return ""
    names = dict.fromkeys(
        "its own threads" if taker.is_own else _TAKERS.get(taker.program, escaped(taker.program))
        for taker in found[:_MOST_TAKERS]
    )
    return f" ({', '.join(names)} had it)"


def wall_lines(report: Report, style: Style) -> Iterator[str]:
    """Yield the section; nothing without an account."""
    account = report.wall
    if account is None:
        return
    yield from style.section("Wall Time: What the Command's Exit Had to Wait for")
    least_s = report.user_threshold_s
    rows = [row for row in account.rows if row.seconds >= least_s][:_MOST_ROWS]
    yield from table_lines(
        Column("Secs", [f"{row.seconds:.3f}" for row in rows]),
        Column("±", [_bar(row) for row in rows]),
        Column("Pcnt", [percent(row.share, 1) for row in rows]),
        Column("Pieces", [str(row.pieces) for row in rows]),
        Column("Longest", [f"{row.longest_s:.6f}" for row in rows]),
        Column("State", [row.state for row in rows], right=False),
        Column("Program", [escaped(row.program) for row in rows], right=False),
        Column("What", [what_cell(row) for row in rows], right=False),
    )
    if more := len(account.rows) - len(rows):
        left_s = sum(row.seconds for row in account.rows) - sum(row.seconds for row in rows)
        yield style.cut(
            f"- Left out by '-m {least_s:g}': {pluralize(more, 'row')} with {left_s:.3f} s"
        )
    yield from _closure(account)
    if account.takers:
        yield ""
        yield from style.section("Who Had the CPU Meanwhile")
        yield from _takers(account, style)
    yield ""


def _bar(row: WallRow | PartChange) -> str:
    return f"{row.half_width_s:.3f}" if row.half_width_s else "-"


def _closure(account: WallAccount) -> Iterator[str]:
    parts = [
        f"{state} {account.seconds_of(state):.3f}"
        for state in (RUNNING, FOR_A_CPU, BLOCKED, NOT_KNOWN)
        if state != NOT_KNOWN or account.seconds_of(state)
    ]
    yield (
        f"{pluralize(account.pieces, 'piece')} of one path add up to {account.seconds:.3f} Sec"
        f" from start to exit: {', '.join(parts)}."
    )


def _takers(account: WallAccount, style: Style) -> Iterator[str]:
    takers = account.takers[:_MOST_HAD]
    total_s = sum(taker.seconds for taker in account.takers)
    whose = ["" if taker.program in _NO_PROGRAMS else _WHOSE[taker.is_own] for taker in takers]
    yield from table_lines(
        Column("Secs", [f"{taker.seconds:.3f}" for taker in takers]),
        Column("Pcnt", [percent(taker.seconds / total_s, 1) for taker in takers]),
        Column("Whose", whose, right=False),
        Column("Program", [escaped(taker.program) for taker in takers], right=False),
    )
    if more := len(account.takers) - len(takers):
        yield style.cut(f"- {pluralize(more, 'more program')}")


def wall_change_line(wall: ComparedWall, width: int) -> str:
    """Return the largest changes of a command's wall time."""
    digits = 2 if max(wall.a, wall.b) >= 1 else 3
    least_s = 10.0**-digits
    change = wall.b - wall.a
    word = "slower" if change > 0 else "faster"
    head = f"Wall: {abs(change):.{digits}f} s {word} ({wall.a:.{digits}f} to {wall.b:.{digits}f})"
    line = head
    for row in wall.rows:
        if abs(row.change) < max(least_s, row.half_width_s):
            continue
        item = f"{_short(row)} {row.change:+.{digits}f}"
        further = f"{line}{': ' if line == head else ', '}{item}"
        if display_width(further) > width:
            break
        line = further
    return line


def wall_change_lines(wall: ComparedWall, rows: int, style: Style) -> Iterator[str]:
    """Yield a table of the changes of a command's wall time."""
    shown = wall.rows[:rows]
    yield from table_lines(
        Column("A", [f"{wall.a:.3f}", *(f"{row.a:.3f}" for row in shown)]),
        Column("B", [f"{wall.b:.3f}", *(f"{row.b:.3f}" for row in shown)]),
        Column("B - A", [f"{wall.b - wall.a:+.3f}", *(f"{row.change:+.3f}" for row in shown)]),
        Column("±", ["-", *(_bar(row) for row in shown)]),
        Column("State", ["", *(row.state for row in shown)], right=False),
        Column("What", ["all", *(_what(row) for row in shown)], right=False),
    )
    if more := len(wall.rows) - len(shown):
        yield style.cut(f"- {pluralize(more, 'more row')}")
