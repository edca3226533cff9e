"""A picture and where a person stands → the lines of every part of the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from prospect.records import NamedTuple
from prospect.render.escape import escaped
from prospect.tui.columns import Scale, layout, row_lines, text_lines, title_line
from prospect.tui.header import busy_line, foot_line, run_line, tab_line
from prospect.tui.help import help_lines
from prospect.tui.lines import Span, fitted, name_fitted
from prospect.tui.row_words import interval_words
from prospect.tui.sparkline import BLOCKS
from prospect.tui.styles import BOLD, FAINT, WARNING

if TYPE_CHECKING:
    from prospect.tui.header import Mode
    from prospect.tui.pictures import Picture, Stand
    from prospect.tui.rows import Page, Row

HEAD_LINES = 4
_USUAL_WIDTH = 80
_WAITING = "Waiting for the first samples ..."
_BEGINNING = "  Sampling. The names of routines are being read ..."
_PATIENCE = "  One moment ..."
_LEAVE = "  q quits"


class Screen(NamedTuple):
    """The size of the screen, the rows that fit, and the characters of histories."""

    width: int
    rows: int
    ramp: str = BLOCKS


def draw_beginning(width: int) -> list[list[Span]]:
    """Return what is shown before the first figures."""
    return [[], [Span(fitted(_BEGINNING, width))], [], [Span(fitted(_LEAVE, width), FAINT)]]


def draw_patience(width: int) -> list[list[Span]]:
    """Return what is shown in place of rows that take long."""
    return [[], [Span(fitted(_PATIENCE, width))]]


def draw_head(picture: Picture, stand: Stand, screen: Screen, mode: Mode) -> list[list[Span]]:
    """Return the lines above the rows: the run, the CPUs, the pages, the titles of columns."""
    width = screen.width
    return [
        run_line(picture.figures, mode, width),
        busy_line(picture.figures, width),
        tab_line(stand.place, mode, width),
        _titles(picture.page, stand, width),
    ]


def _titles(page: Page, stand: Stand, width: int) -> list[Span]:
    if page.is_text:
        return [Span(fitted(page.title, width), FAINT)]
    order = stand.order if stand.place.routine is None else ""
    return title_line(layout(stand.place.page, width, order, _widest(page)), order)


def draw_rows(picture: Picture, stand: Stand, screen: Screen) -> list[list[Span]]:
    """Return the lines of the rows that fit on the screen."""
    page, cursor = picture.page, stand.cursor
    if not page.rows:
        return [[], [Span(f"  {escaped(_why_empty(picture, stand))}")]]
    shown = page.rows[cursor.top : cursor.top + screen.rows]
    if page.is_text:
        lines = text_lines(shown, screen.width)
    else:
        form = layout(stand.place.page, screen.width, stand.order, _widest(page))
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
    """Return how wide the widest name of a page is, before anything of it is escaped."""
    return max((cell_len(row.lead + row.name) for row in page.rows), default=0)


def _why_empty(picture: Picture, stand: Stand) -> str:
    if picture.page.note:
        return picture.page.note
    if stand.words:
        return f"Nothing here has '{stand.words}' in its name. Esc shows everything."
    if not len(picture.figures.profile.hits):
        return _WAITING
    return "Nothing here but idle CPUs so far."


def draw_status(picture: Picture, stand: Stand, width: int) -> list[Span]:
    """Say in words what the chosen row takes, and how sure that is."""
    page, at = picture.page, stand.cursor.row
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


def draw_foot(picture: Picture, stand: Stand, width: int) -> list[Span]:
    """Name the keys."""
    return foot_line(picture.page, stand.place, width)


def draw_message(text: str, width: int, *, is_warning: bool) -> list[Span]:
    """Return a sentence about what has just been done."""
    return [Span(fitted(text, width), WARNING if is_warning else BOLD)]


def draw_help(limits: tuple[str, ...], screen: Screen, top: int) -> list[list[Span]]:
    """Return the part of the help that fits, from line `top` on."""
    return help_lines(limits)[top : top + screen.rows]


def draw_help_status(limits: tuple[str, ...], rows: int, top: int) -> str:
    """Say how the help is read and closed."""
    more = "↓ goes on. " if help_height(limits) > top + rows else ""
    return f"{more}Esc or ? closes the help."


def help_height(limits: tuple[str, ...]) -> int:
    """Return how many lines the help has."""
    return len(help_lines(limits))
