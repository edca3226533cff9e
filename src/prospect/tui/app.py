"""The screen of ``prospect top``: keys and the mouse, and the loop that asks for new figures.

One loop does all slow work in threads, one task at a time: it reads new records, computes the page
on the screen, saves and clears. Only a page that a key asks for is computed while new records are
read, from the figures before them: on a busy machine reading may take seconds. Keys that only move
the cursor redraw the present page. The pause between figures depends on their cost.

Closing the screen does not wait for these threads; the end of an asyncio loop would wait for its
executor.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import select
import signal
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from textual._xterm_parser import XTermParser
from textual.app import App
from textual.binding import Binding
from textual.drivers.linux_driver import LinuxDriver

from prospect.errors import ProspectError
from prospect.records import Record, field, replace
from prospect.tui.drawing import (
    HEAD_LINES,
    Mode,
    Screen,
    draw_beginning,
    draw_foot,
    draw_head,
    draw_help_status,
    draw_message,
    draw_patience,
    draw_rows,
    draw_status,
    help_lines,
)
from prospect.tui.figures import live_figures
from prospect.tui.pictures import Cursor, PageState, Picture, take_picture
from prospect.tui.rows import PAGES, Place
from prospect.tui.table_pages import ASCII, BLOCKS, CodeMemory
from prospect.tui.widgets import (
    Lines,
    PromptLine,
    Question,
    RowLines,
    overwrite_question,
    save_question,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from prospect.live.session import LiveState
    from prospect.tui.figures import LiveFigures
    from prospect.tui.lines import Span
    from prospect.tui.rows import Row


_LARGEST_READ = 1 << 12
# How often the parser checks whether an escape key was typed alone.
_TICK_S = 0.05


class Keyboard(LinuxDriver):
    """A terminal that accepts any input, typed or pasted, and that closes at once.

    The library's own loop ends, and the screen with it, at bytes that are not UTF-8, such as those
    of a key of another encoding. At the end of the screen it takes 0.2 s to close.
    """

    def __init__(self, app: App[Any], **options: Any) -> None:
        """Take over the terminal of `app`, with the library's options."""
        super().__init__(app, **options)
        self._end_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def run_input_thread(self) -> None:
        """Read what is typed until the input is disabled; ignore bytes that are not text."""
        parser = XTermParser(self._debug)
        decode = codecs.getincrementaldecoder("utf-8")("ignore").decode
        sources = (self.fileno, self._end_fd)
        while not self.exit_event.is_set():
            typed = b""
            if self.fileno in select.select(sources, (), (), _TICK_S)[0]:
                try:
                    typed = os.read(self.fileno, _LARGEST_READ)
                except OSError:
                    return  # the terminal is gone
                if not typed:
                    return
            # The parser takes an empty text for the end of the input.
            text = decode(typed)
            for message in (*(parser.feed(text) if text else ()), *parser.tick()):
                self.process_message(message)

    def disable_input(self) -> None:
        """End the reading, without waiting for the next key."""
        os.eventfd_write(self._end_fd, 1)
        super().disable_input()
        os.eventfd_read(self._end_fd)


_FOOT_LINES = 2
_MESSAGE_S = 10.0
_PATIENCE_S = 0.3
# All signals that would end the process and leave the terminal as it is, except those of bugs.
_ENDING = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGVTALRM,
    signal.SIGPROF,
    signal.SIGIO,
    signal.SIGXCPU,
)
HELP_CLOSED = -1
_Result = TypeVar("_Result")


class Background:
    """Threads that work for one screen."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []

    @property
    def is_busy(self) -> bool:
        """Whether any work goes on."""
        return any(thread.is_alive() for thread in self._threads)

    async def run(self, work: Callable[[], _Result]) -> _Result:
        """Return what `work` returns, or raise what it raises; a cancelled thread goes on."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[_Result] = loop.create_future()

        def settle(put: Callable[[], None]) -> None:
            if not done.done():
                put()

        def run() -> None:
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - raised again in the caller that waits for it
                failure = error
                end = lambda: done.set_exception(failure)  # noqa: E731 - one of two
            else:
                end = lambda: done.set_result(result)  # noqa: E731 - one of two
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(settle, end)

        thread = threading.Thread(target=run, name="look", daemon=True)
        self._threads = [one for one in self._threads if one.is_alive()]
        self._threads.append(thread)
        thread.start()
        return await done

    def wait(self) -> None:
        """Wait until all work is done."""
        for thread in self._threads:
            thread.join()


class Trail(Record):
    """The page on the screen, and the pages that Esc leads back to, the latest last."""

    here: PageState = field(default_factory=PageState)
    before: tuple[PageState, ...] = ()

    def entered(self, row: Row) -> Trail:
        """Go to the target of a row, if it has one."""
        if not isinstance(row.target, Place):
            return self
        return Trail(self.here.at(row.target), (*self.before, self.here))

    def back(self) -> Trail:
        """Remove the filter, or else go back."""
        if self.here.words:
            return self.filtered("")
        return Trail(self.before[-1], self.before[:-1]) if self.before else self

    def turned(self, step: int) -> Trail:
        """Go to a neighbouring page."""
        return self._on(self.here.place.turned(step))

    def numbered(self, number: int) -> Trail:
        """Go to one of the neighbouring pages by its number, from 1."""
        pages = self.here.place.pages
        if number > len(pages):
            return self
        return self._on(replace(self.here.place, page=pages[number - 1]))

    def _on(self, place: Place) -> Trail:
        if place == self.here.place:
            return self
        return replace(self, here=self.here.at(place))

    def filtered(self, words: str) -> Trail:
        """Show only rows with `words` in a name."""
        return replace(self, here=replace(self.here, words=words, cursor=Cursor()))

    def reordered(self) -> Trail:
        """Order rows by the next of their orders."""
        return replace(self, here=self.here.reordered())

    def with_cursor(self, cursor: Cursor) -> Trail:
        """Choose another row."""
        return replace(self, here=replace(self.here, cursor=cursor))


class TopScreen(App[None]):
    """The screen without its keys.

    Attributes:
        failure: the error that ended it, None for none.
        ended_by: the signal that ended it, 0 for none.
        is_idle: whether no work is left.
    """

    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None
    CSS = """
    Screen, Lines { background: ansi_default; color: ansi_default; }
    Lines { width: 100%; height: 1; }
    #head { height: 4; }
    #rows { height: 1fr; }
    """

    def __init__(self, source: LiveSource, *, use_cache: bool = True) -> None:
        """Show the figures of `source`; `use_cache` keeps symbol tables on disk between runs."""
        super().__init__(Keyboard, ansi_color=True)
        self.animation_level = "none"
        self.failure: ProspectError | None = None
        self.ended_by = 0
        self.trail = Trail()
        self.is_idle = False
        self._watch = Watch(source, use_cache=use_cache)
        self._help_top = HELP_CLOSED
        self._message = ""
        self._is_warning = False
        self._message_until = 0.0
        self._jobs: list[Callable[[], str]] = []
        self._wake = asyncio.Event()
        self._looks, self._saves = Background(), Background()
        self._ramp = ASCII if os.environ.get("TERM") == "linux" else BLOCKS

    def is_working(self) -> bool:
        """Wait for saves; return whether a page is still being computed, which nobody will see."""
        self._saves.wait()
        return self._looks.is_busy

    def compose(self) -> ComposeResult:
        """Make the parts of the screen, from the top."""
        yield Lines(id="head")
        yield RowLines(id="rows")
        yield Lines(id="status")
        yield Lines(id="foot")
        yield PromptLine()

    def on_load(self) -> None:
        """End in good order at a signal, from before the terminal is changed."""
        loop = asyncio.get_running_loop()
        for number in _ENDING:
            loop.add_signal_handler(number, self._end_by, number)

    def on_mount(self) -> None:
        """Begin to watch."""
        self.app_resume_signal.subscribe(self, self._draw_all)
        self.run_worker(self._go_on())

    def on_resize(self) -> None:
        """Draw for the new size, once the parts have their sizes."""
        self.call_after_refresh(self._draw if self._watch.picture else self._draw_beginning)

    def _draw_beginning(self) -> None:
        """Show that it works, before there are figures: names are read first."""
        if not self._watch.picture and self.is_running:
            self.query_one("#rows", Lines).show(draw_beginning(self.size.width))

    def _draw_all(self, _app: App[None]) -> None:
        """Draw the whole screen again: another program may have used it."""
        for part in self.query(Lines):
            part.refresh()
        self.screen.refresh()

    def _end_by(self, number: int) -> None:
        self.ended_by = number
        self.exit()

    async def _go_on(self) -> None:
        """Read records, compute and draw, until the screen is closed."""
        due_s = 0.0
        try:
            while True:
                self._wake.clear()
                is_due = time.monotonic() >= due_s
                if is_due:
                    await self._take_in()
                # Also if figures are due: the key's wake was cleared above.
                await self._do_jobs()
                await self._look()
                if is_due:
                    due_s = time.monotonic() + self._watch.next_pause_s()
                    self._draw()
                self.is_idle = not self._wake.is_set()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), max(due_s - time.monotonic(), 0.0))
                self.is_idle = False
        except ProspectError as error:
            self.failure = error
            self.exit()

    async def _take_in(self) -> None:
        """Read new records; meanwhile answer keys from the present figures."""
        taking = asyncio.ensure_future(self._looks.run(self._watch.advance))
        try:
            while self._watch.picture and not taking.done():
                waking = asyncio.ensure_future(self._wake.wait())
                await asyncio.wait((taking, waking), return_when=asyncio.FIRST_COMPLETED)
                waking.cancel()
                if self._wake.is_set() and not taking.done():
                    self._wake.clear()
                    await self._look()
            if news := await taking:
                self._say(news, is_warning=True)
        finally:
            taking.cancel()

    async def _do_jobs(self) -> None:
        """Do the slow work that keys asked for."""
        while self._jobs:
            try:
                self._say(await self._saves.run(self._jobs.pop(0)))
            except ProspectError as error:
                self._say(str(error), is_warning=True)

    async def _look(self) -> None:
        """Compute the present page, and draw it."""
        page_state = self.trail.here
        picture = await self._looks.run(partial(self._watch.look, page_state))
        begin_s = time.thread_time()
        here = self.trail.here
        if here.view != page_state.view:
            self._wake.set()
            return
        page, cursor = picture.page, here.cursor
        if page.is_text:
            cursor = cursor.opened(page.rows, page.opens_at, self._height)
        else:
            cursor = cursor.followed(page.rows, self._height)
        self.trail = self.trail.with_cursor(cursor)
        self._draw()
        self._watch.spend(time.thread_time() - begin_s)

    @property
    def _height(self) -> int:
        """How many rows fit."""
        return max(self.size.height - HEAD_LINES - _FOOT_LINES, 1)

    @property
    def _mode(self) -> Mode:
        return Mode(self.trail.here.words, self._watch.is_frozen, self._watch.pause_s)

    @property
    def _seen(self) -> tuple[Picture, PageState] | None:
        """The page on the screen and its state, None while it is being computed."""
        picture, page_state = self._watch.picture, self.trail.here
        return (picture, page_state) if picture and picture.view == page_state.view else None

    def _draw(self) -> None:
        """Show the present figures; only changed lines reach the terminal."""
        seen = self._seen
        if seen is None or not self.is_running:
            return
        picture, page_state = seen
        screen = Screen(self.size.width, self._height, self._ramp)
        lines = {part: self.query_one(f"#{part}", Lines) for part in ("head", "rows", "status")}
        lines["head"].show(draw_head(picture, page_state, screen, self._mode))
        if self._help_top == HELP_CLOSED:
            lines["rows"].show(draw_rows(picture, page_state, screen))
        else:
            limits = picture.figures.state.limits
            lines["rows"].show(help_lines(limits)[self._help_top :][: screen.rows])
        lines["status"].show([self._status(picture, page_state, screen.width)])
        foot = draw_foot(picture.page, page_state.place, screen.width)
        self.query_one("#foot", Lines).show([foot])

    def _status(self, picture: Picture, page_state: PageState, width: int) -> list[Span]:
        if time.monotonic() < self._message_until:
            return draw_message(self._message, width, is_warning=self._is_warning)
        if self._help_top != HELP_CLOSED:
            words = draw_help_status(picture.figures.state.limits, self._height, self._help_top)
            return draw_message(words, width, is_warning=False)
        return draw_status(picture, page_state, width)

    def _say(self, message: str, *, is_warning: bool = False) -> None:
        self._message, self._is_warning = message, is_warning
        self._message_until = time.monotonic() + _MESSAGE_S

    def _go(self, trail: Trail) -> None:
        """Go to another page, and draw it as soon as it is computed."""
        self._message_until = 0.0
        self.trail = trail
        self._wake.set()
        if self._seen is None:
            self.set_timer(_PATIENCE_S, self._draw_patience)

    def _draw_patience(self) -> None:
        """Show the titles of a page that takes time."""
        picture, page_state = self._watch.picture, self.trail.here
        if picture and self._seen is None and self.is_running:
            head = draw_head(picture, page_state, Screen(self.size.width, 0), self._mode)
            self.query_one("#head", Lines).show(head[:-1])
            self.query_one("#rows", Lines).show(draw_patience(self.size.width))
            self.query_one("#status", Lines).show([])


# The pause between figures; longer if they would cost more than this part of a CPU.
_PAUSE_S = 2.0
_FIRST_PAUSE_S = 1.0
_FIRST_S = 8.0
_LONGEST_PAUSE_S = 30.0
_BUDGET = 0.012


class Watch:
    """Figures of the session, the page that was made of them, and their cost.

    Its methods are slow and run in threads. `look` may run at the same time as `advance`, and then
    sees the figures before it; otherwise they run one at a time.

    Attributes:
        is_frozen: new figures are read but not shown.
        picture: the last page, None before the first.
        pause_s: the pause before the next figures.
    """

    def __init__(self, source: LiveSource, *, use_cache: bool = True) -> None:
        self.is_frozen = False
        self.picture: Picture | None = None
        self._source = source
        self._code = CodeMemory(use_cache)
        self._latest: LiveFigures | None = None
        self._shown: LiveFigures | None = None
        # One item for each piece of work: several threads append.
        self._spent_s: list[float] = []
        self.pause_s = _FIRST_PAUSE_S
        self._news = ""

    def advance(self) -> str:
        """Read new records; return news for the person at the screen, "" for none.

        Raises:
            ProspectError: nothing can be recorded any more.
        """
        begin_s = time.thread_time()
        state = self._source.advance()
        self._latest = live_figures(state)
        self.spend(time.thread_time() - begin_s)
        news, self._news = state.news if state.news != self._news else "", state.news
        return news

    def look(self, page_state: PageState) -> Picture:
        """Compute a page, after the first `advance`."""
        begin_s = time.thread_time()
        if not self.is_frozen or self._shown is None:
            self._shown = self._latest
        if self._shown is None:
            raise ValueError("no records were read yet")
        self.picture = take_picture(self._shown, page_state, self._code)
        self.spend(time.thread_time() - begin_s)
        return self.picture

    def save(self, path: str) -> str:
        """Save a recording; see `LiveSource`."""
        return self._source.save(path)

    def clear(self) -> str:
        """Forget all figures, frozen ones too."""
        self._source.clear()
        self.is_frozen = False
        self.picture = self._shown = None
        self.advance()
        return "Cleared: figures start from now."

    def spend(self, seconds: float) -> None:
        """Add the CPU time of drawing."""
        self._spent_s.append(seconds)

    def next_pause_s(self) -> float:
        """Return the pause before new figures, by the cost of the last ones."""
        spent, self._spent_s = self._spent_s, []
        is_first = self._latest is not None and self._latest.span_s < _FIRST_S
        least = _FIRST_PAUSE_S if is_first else _PAUSE_S
        # Reading code for the first time costs once: the pause grows slowly.
        longest = min(2.0 * self.pause_s, _LONGEST_PAUSE_S)
        self.pause_s = max(least, min(sum(spent) / _BUDGET, longest))
        return self.pause_s


class LiveSource(Protocol):
    """The session: called once at a time, but not always from the same thread."""

    def advance(self) -> LiveState:
        """Read the records since the last call, and return everything.

        Raises:
            ProspectError: nothing can be recorded any more.
        """
        ...

    def save(self, path: str) -> str:
        """Write the records that are kept as a recording, and return a sentence about it.

        Raises:
            ProspectError: it cannot be written.
        """
        ...

    def clear(self) -> None:
        """Forget all figures and start again."""
        ...


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
        """Choose another row, or scroll lines of text."""
        if self._help_top != HELP_CLOSED:
            last = max(len(help_lines(self._limits)) - self._height, 0)
            self._help_top = min(max(self._help_top + step, 0), last)
        elif self._seen:
            picture, page_state = self._seen
            rows, cursor = picture.page.rows, page_state.cursor
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
            picture, page_state = self._seen
            row = page_state.cursor.row
            if not picture.page.is_text and row < len(picture.page.rows):
                self._go(self.trail.entered(picture.page.rows[row]))

    def action_leave(self) -> None:
        """Close the help, remove the filter, or go back."""
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
        """Order rows by the next of their orders."""
        self._go(self.trail.reordered())

    def action_freeze(self) -> None:
        """Freeze the screen, or unfreeze it."""
        self._watch.is_frozen = not self._watch.is_frozen
        self._wake.set()

    def action_help(self) -> None:
        """Show what keys and figures mean, or go back to the rows."""
        self._help_top = 0 if self._help_top == HELP_CLOSED else HELP_CLOSED
        self._message_until = 0.0
        self._draw()

    def action_clear(self) -> None:
        """Forget all figures."""
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
            # A directory cannot be replaced, so there is no question.
            self._say(f"'{path}' is a directory: say which file in it", is_warning=True)
            self._draw()
        elif os.path.lexists(path):
            self._ask(overwrite_question(path, partial(self._do, partial(self._watch.save, path))))
        else:
            self._do(partial(self._watch.save, path))

    def action_filter(self) -> None:
        """Ask for letters that names must have."""
        if self.trail.here.place.page in PAGES:

            def changed(words: str) -> None:
                self._go(self.trail.filtered(words))

            dropped = partial(self._go, self.trail.filtered(""))
            words = self.trail.here.words
            self._ask(Question("only names with: ", words, changed, changed, dropped))

    def _ask(self, question: Question) -> None:
        self.query_one("#foot").display = False
        self.query_one(PromptLine).ask(question)

    def on_prompt_line_closed(self) -> None:
        """Show the keys again."""
        self.query_one("#foot").display = self.query_one(PromptLine).display is False

    def on_row_lines_clicked(self, event: RowLines.Clicked) -> None:
        """Choose the row that was clicked; enter it at the second click."""
        if self._seen:
            cursor = self._seen[1].cursor
            self.action_move(cursor.top + event.line - cursor.row)
            if event.is_double:
                self.action_enter()

    def on_row_lines_wheeled(self, event: RowLines.Wheeled) -> None:
        """Go on by some rows."""
        self.action_move(event.rows)
