"""Widgets of lines that redraw only changed lines, and a line for questions.

A table widget lays out and styles each cell again; a live view of 60 rows would spend more on that
than on its figures. Here a refresh compares finished lines, and the terminal gets those that
differ.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import Horizontal
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from prospect.records import NamedTuple
from prospect.tui.lines import BOLD, Span, fitted, strip

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType


class Lines(Widget):
    """Shows lines of spans."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - the library's name
        super().__init__(id=id)
        self._lines: Sequence[Sequence[Span]] = ()
        self._strips: list[Strip] = []

    def on_resize(self) -> None:
        """Fit the lines to the new width; a hidden widget has none."""
        self.show(self._lines)

    def show(self, lines: Sequence[Sequence[Span]]) -> None:
        """Show these lines, from the first on; draw only those that changed."""
        width = self.size.width
        self._lines = lines
        strips = [strip(spans, width) for spans in lines]
        before, self._strips = self._strips, strips
        changed = [
            Region(0, y, width, 1)
            for y in range(max(len(strips), len(before)))
            if y >= len(strips) or y >= len(before) or strips[y] != before[y]
        ]
        if changed:
            self.refresh(*changed)

    def render_line(self, y: int) -> Strip:
        """Return a finished line."""
        return self._strips[y] if y < len(self._strips) else Strip.blank(self.size.width)


class RowLines(Lines):
    """The rows of a page; posts messages about clicks and the wheel."""

    class Clicked(Message):
        """A line was clicked."""

        def __init__(self, line: int, *, is_double: bool) -> None:
            super().__init__()
            self.line = line
            self.is_double = is_double

    class Wheeled(Message):
        """The wheel was turned by so many rows."""

        def __init__(self, rows: int) -> None:
            super().__init__()
            self.rows = rows

    def on_click(self, event: events.Click) -> None:
        """Choose the row under the mouse; a second click enters it."""
        self.post_message(self.Clicked(event.y, is_double=event.chain > 1))

    def on_mouse_scroll_down(self) -> None:
        """Go on."""
        self.post_message(self.Wheeled(3))

    def on_mouse_scroll_up(self) -> None:
        """Go back."""
        self.post_message(self.Wheeled(-3))


class Question(NamedTuple):
    """A question.

    Attributes:
        text: shown before the answer.
        answer: the proposed one.
        done: called with the answer.
        changed: called with each change of it.
        dropped: called when the question is cancelled.
    """

    text: str
    answer: str
    done: Callable[[str], None]
    changed: Callable[[str], None] | None = None
    dropped: Callable[[], None] | None = None


def save_question(done: Callable[[str], None]) -> Question:
    """Ask for the name of a recording; one with the time of day is proposed."""
    name = time.strftime("prospect-%Y%m%d-%H%M%S.data")
    return Question("Save the recording as: ", name, done)


def overwrite_question(path: str, done: Callable[[], None]) -> Question:
    """Ask whether to replace a file."""

    def answered(word: str) -> None:
        if word.strip().casefold() in ("y", "yes"):
            done()

    return Question(f"{path} is there already. Replace it? (y or n) ", "", answered)


class PromptLine(Horizontal):
    """The line on which questions are asked; hidden while there is none."""

    DEFAULT_CSS = """
    PromptLine { display: none; height: 1; width: 100%; }
    PromptLine Input { width: 1fr; background: ansi_default; color: ansi_default; }
    """

    # Elsewhere Ctrl+C ends the program, and all figures with it.
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,ctrl+c", "drop", show=False)]

    class Closed(Message):
        """No question is open any more."""

    def __init__(self) -> None:
        super().__init__()
        self._question: Question | None = None

    def compose(self) -> ComposeResult:
        """Make the question's text and the answer's."""
        yield Lines(id="question")
        answer = Input(compact=True, select_on_focus=False)
        answer.cursor_blink = False
        yield answer

    def ask(self, question: Question) -> None:
        """Open a question instead of any open one."""
        self._question = question
        answer = self.query_one(Input)
        with self.prevent(Input.Changed):
            answer.value = question.answer
        answer.cursor_position = len(question.answer)
        self.display = True
        text = fitted(question.text, min(len(question.text), max(self.app.size.width - 12, 1)))
        label = self.query_one(Lines)
        label.styles.width = len(text)
        self.call_after_refresh(label.show, [[Span(text, BOLD)]])
        answer.focus()

    def _close(self) -> Question | None:
        question, self._question = self._question, None
        self.display = False
        self.screen.set_focus(None)
        self.post_message(self.Closed())
        return question

    def on_input_changed(self, event: Input.Changed) -> None:
        """Pass each change on to the question."""
        event.stop()
        if self._question and self._question.changed:
            self._question.changed(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take the answer."""
        event.stop()
        if question := self._close():
            question.done(event.value)

    def action_drop(self) -> None:
        """Cancel the question."""
        if (question := self._close()) and question.dropped:
            question.dropped()
