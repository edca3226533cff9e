"""The page of `prospect top` for turns: what those of the last interval consisted of, by kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.render.text.turns_section import turns_table_lines, turns_words
from prospect.tui.rows import USER, Page, Row

if TYPE_CHECKING:
    from prospect.tui.figures import LiveFigures

_WIDTH = 1000  # the screen cuts lines
_MOST_KINDS = 30
_NO_SWITCHES = "No switches were recorded: start it with --off-cpu to see turns."
_NO_TURNS = (
    "No turn yet: no thread has ended two waits for work since the last look, with stacks by"
    " which these are known."
)


def turns_page(figures: LiveFigures, words: str) -> Page:
    """Return the turns of the last interval, those with most time first.

    Args:
        figures: of a state.
        words: only programs and kinds with these letters.
    """
    account = figures.turns
    if account is None or not account.kinds:
        note = _NO_SWITCHES if figures.profile.threads is None else _NO_TURNS
        return Page((), is_text=True, note=note)
    found = words.casefold()
    kinds = [one for one in account.kinds if found in one.program.casefold() + one.kind.casefold()][
        :_MOST_KINDS
    ]
    title, *lines = turns_table_lines(kinds)
    rows = []
    for kind, line in zip(kinds, lines, strict=True):
        key = (kind.program, kind.service, kind.kind)
        rows.append(Row((*key, 0), line, paint=USER))
        rows.append(Row((*key, 1), f"        {turns_words(kind, _WIDTH)[0]}", paint=USER))
    return Page(tuple(rows), is_text=True, title=f"{title}   (since the last look)")
