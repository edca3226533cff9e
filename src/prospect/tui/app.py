"""Keys and the mouse on the screen of ``prospect top``."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding

from prospect.tui.drawing import help_height
from prospect.tui.rows import PAGES
from prospect.tui.screen import HELP_CLOSED, TopScreen
from prospect.tui.widgets import PromptLine, Question, overwrite_question, save_question

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.binding import BindingType

    from prospect.tui.widgets import RowLines

_FAR = 1_000_000


class TopApp(TopScreen):
    """The screen with its keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, action, show=False)
        for key, action in (
            ("q,ctrl+c", "quit"),
            ("ctrl+z", "suspend_process"),
            ("up,k", "move(-1)"),
            ("down,j", "move(1)"),
            ("pageup", "scroll(-1)"),
            ("pagedown", "scroll(1)"),
            ("home,g", f"move({-_FAR})"),
            ("end,G", f"move({_FAR})"),
            ("enter", "enter"),
            ("escape,backspace", "leave"),
            ("left,shift+tab", "turn(-1)"),
            ("right,tab", "turn(1)"),
            *((str(number), f"number({number})") for number in range(1, len(PAGES) + 1)),
            ("slash", "filter"),
            ("space", "freeze"),
            ("o", "order"),
            ("s", "save"),
            ("c", "clear"),
            ("question_mark,h,f1", "help"),
        )
    ]

    def action_move(self, step: int) -> None:
        """Choose another row, or go on reading."""
        if self._help_top != HELP_CLOSED:
            last = max(help_height(self._limits) - self._height, 0)
            self._help_top = min(max(self._help_top + step, 0), last)
        elif self._seen:
            picture, stand = self._seen
            rows, cursor = picture.page.rows, stand.cursor
            if picture.page.is_text:
                cursor = cursor.scrolled(rows, step, self._height)
            else:
                cursor = cursor.moved(rows, step, self._height)
            self.trail = self.trail.with_cursor(cursor)
        self._message_until = 0.0
        self._draw()

    def action_scroll(self, screens: int) -> None:
        """Go on by a screen."""
        self.action_move(screens * max(self._height - 1, 1))

    @property
    def _limits(self) -> tuple[str, ...]:
        picture = self._watch.picture
        return picture.figures.state.limits if picture else ()

    def action_enter(self) -> None:
        """Look inside the chosen row."""
        if self._seen and self._help_top == HELP_CLOSED:
            picture, stand = self._seen
            if not picture.page.is_text and stand.cursor.row < len(picture.page.rows):
                self._go(self.trail.entered(picture.page.rows[stand.cursor.row]))

    def action_leave(self) -> None:
        """Close the help, take the filter away, or go back."""
        if self._help_top != HELP_CLOSED:
            self.action_help()
        else:
            self._go(self.trail.back())

    def action_turn(self, step: int) -> None:
        """Go to the next page."""
        self._go(self.trail.turned(step))

    def action_number(self, number: int) -> None:
        """Go to a page by its number."""
        self._go(self.trail.numbered(number))

    def action_order(self) -> None:
        """Order rows by the next thing that they can be ordered by."""
        self._go(self.trail.reordered())

    def action_freeze(self) -> None:
        """Freeze the screen, or let it go on."""
        self._watch.is_frozen = not self._watch.is_frozen
        self._wake.set()

    def action_help(self) -> None:
        """Show what keys and figures mean, or go back to the rows."""
        self._help_top = 0 if self._help_top == HELP_CLOSED else HELP_CLOSED
        self._message_until = 0.0
        self._draw()

    def action_clear(self) -> None:
        """Forget what was seen."""
        self._do(self._watch.clear)

    def _do(self, job: Callable[[], str]) -> None:
        self._jobs.append(job)
        self._wake.set()

    def action_save(self) -> None:
        """Ask for a name, and save under it."""
        self._ask(save_question(self._save))

    def _save(self, path: str) -> None:
        path = os.path.expanduser(path.strip())  # noqa: PTH111 - Path's takes no `~` of nobody
        if not path:
            return
        if Path(path).is_dir():
            # Nobody wants to be asked whether to replace it.
            self._say(f"'{path}' is a directory: say which file in it", is_warning=True)
            self._draw()
        elif os.path.lexists(path):
            self._ask(overwrite_question(path, partial(self._do, partial(self._watch.save, path))))
        else:
            self._do(partial(self._watch.save, path))

    def action_filter(self) -> None:
        """Ask for letters that names must have."""
        if self.trail.here.place.page in PAGES:
            before = self.trail

            def changed(words: str) -> None:
                self._go(self.trail.filtered(words))

            self._ask(
                Question(
                    "only names with: ",
                    before.here.words,
                    done=changed,
                    changed=changed,
                    dropped=partial(self._go, before.filtered("")),
                )
            )

    def _ask(self, question: Question) -> None:
        self.query_one("#foot").display = False
        self.query_one(PromptLine).ask(question)

    def on_prompt_line_closed(self) -> None:
        """Show the keys again."""
        self.query_one("#foot").display = self.query_one(PromptLine).display is False

    def on_row_lines_clicked(self, event: RowLines.Clicked) -> None:
        """Choose the row that was clicked; enter it at the second click."""
        if self._seen:
            _, stand = self._seen
            self.action_move(stand.cursor.top + event.line - stand.cursor.row)
            if event.is_double:
                self.action_enter()

    def on_row_lines_wheeled(self, event: RowLines.Wheeled) -> None:
        """Go on by some rows."""
        self.action_move(event.rows)
