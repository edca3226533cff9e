"""The screen as a person meets it: keys in, what is read on it out."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from builders.live import MadeUpSession, state_of, with_times
from builders.profile import empty_profile, hostile_profile, interrupted_profile
from builders.screen import look, session_of
from builders.stacks import stacks_profile
from prospect.errors import CaptureError
from prospect.records import replace
from prospect.tui import app
from prospect.tui.rows import CALLEES, CALLERS, ENTRY_REASONS, FUNCTIONS, PROCESSES
from prospect.tui.table_pages import BY_BLOCKED, BY_NAME, BY_READY, BY_TIME

SIZES = [(40, 10), (80, 24), (120, 40), (200, 60)]


@pytest.mark.parametrize("size", SIZES)
def test_the_first_look_shows_the_hottest_function_at_any_size(interrupted, size):
    async def act(person):
        assert len(person.lines) == size[1]
        assert "prospect top" in person.lines[0]
        assert "busy" in person.lines[1]
        assert "main" in person.lines[4]
        share = 500 / 256 / 40 * 100
        assert f"{share:.1f}" in person.lines[4].split()[:2]
        assert "quit" in person.lines[-1] or size[0] < 80

    look(session_of(interrupted), act, size)


def test_pages_are_reached_by_number_and_by_arrow(interrupted):
    async def act(person):
        await person.press("2")
        assert "cpuspin" in person.text
        assert "pid 77" in person.text
        await person.press("right")
        assert "system call sendto" in person.text
        await person.press("left", "left")
        assert person.app.trail.here.place.page == FUNCTIONS

    look(session_of(interrupted), act)


def test_a_process_leads_to_its_functions_and_esc_back(interrupted):
    async def act(person):
        await person.press("2", "slash", *"sender", "enter")
        await person.press("enter")
        assert "sender > " in person.lines[2]
        assert "tcp_sendmsg" in person.lines[4]
        assert "main" not in person.text
        await person.press("3")
        assert "system call sendto" in person.lines[4]
        assert "exception" not in person.text
        await person.press("escape")
        assert person.app.trail.here.place.page == PROCESSES
        assert person.app.trail.here.words == "sender"
        await person.press("escape")
        assert person.app.trail.here.words == ""

    look(session_of(interrupted), act)


def test_a_function_leads_to_its_callers_and_callees():
    async def act(person):
        while "vfs_read" not in person.row:
            await person.press("down")
        await person.press("enter")
        assert person.app.trail.here.place.page == CALLERS
        for line, name in zip(
            person.lines[4:8], ("vfs_read", "do_syscall_64", "read", "main"), strict=True
        ):
            assert name in line
        await person.press("right")
        assert person.app.trail.here.place.page == CALLEES
        await person.press("left", "down", "down", "enter")
        assert "read > " in person.lines[2]
        await person.press("escape", "escape")
        assert person.app.trail.here.place.page == FUNCTIONS
        assert "vfs_read" in person.row

    look(session_of(stacks_profile()), act)


def test_instructions_that_cannot_be_had_say_why():
    async def act(person):
        while "jitted" not in person.row:
            await person.press("down")
        await person.press("enter", "3")
        assert "No instructions: " in person.text

    look(session_of(stacks_profile()), act)


def swapped(profile, first, second):
    """Return the profile with the hits of two functions' names exchanged."""
    names = profile.functions.name
    rows = {name: row for row, name in enumerate(names)}
    order = list(range(len(names)))
    order[rows[first]], order[rows[second]] = rows[second], rows[first]
    functions = profile.functions
    return replace(
        profile,
        functions=replace(
            functions,
            name=[names[row] for row in order],
            linkage_name=[functions.linkage_name[row] for row in order],
            object_index=functions.object_index[order],
            address=functions.address[order],
        ),
    )


def test_the_chosen_row_stays_chosen_and_on_its_line_while_rows_move(interrupted):
    later = swapped(interrupted, "main", "clear_page")

    async def act(person):
        await person.press("down", "down")
        chosen, line = person.app.trail.here.cursor.key, person.row.split()[5:]
        await person.next_figures()
        assert person.app.trail.here.cursor.key == chosen
        assert person.row.split()[5:] == line
        assert "main" not in person.lines[4]

    look(session_of(interrupted, later), act)


def test_until_it_is_moved_the_cursor_stays_on_the_first_row(interrupted):
    async def act(person):
        assert "main" in person.row
        await person.next_figures()
        assert person.app.trail.here.cursor.row == 0
        assert "main" not in person.row

    look(session_of(interrupted, swapped(interrupted, "main", "clear_page")), act)


def test_a_filter_is_followed_letter_by_letter_and_esc_takes_it_away(interrupted):
    async def act(person):
        await person.press("slash", *"tcp_s")
        assert "only names with: tcp_s" in person.lines[-1]
        assert "main" not in person.text
        assert "tcp_sendmsg" in person.lines[4]
        await person.press("escape")
        assert "main" in person.lines[4]
        await person.press("slash", *"zzz", "enter")
        assert "Nothing here has 'zzz' in its name" in person.text

    look(session_of(interrupted), act)


def test_frozen_figures_stand_still_while_new_ones_are_taken_in(interrupted):
    shorter = with_times(interrupted_profile(), 20.0)
    session = session_of(shorter, interrupted)

    async def act(person):
        await person.press("space")
        assert "FROZEN" in person.lines[0]
        asked = session.asked
        await person.next_figures()
        assert session.asked > asked
        before = person.lines[4]
        await person.press("2", "1")
        assert person.lines[4] == before
        await person.press("space")
        assert "FROZEN" not in person.text
        assert person.lines[4] != before

    look(session, act)


def test_keys_are_shown_after_a_question_during_which_figures_came(interrupted):
    async def act(person):
        keys = person.lines[-1]
        await person.press("s")
        await person.next_figures()
        await person.press("escape")
        assert person.lines[-1] == keys

    look(session_of(interrupted), act)


def test_what_is_asked_for_as_figures_become_due_is_done_with_them(interrupted, monkeypatch):
    session = session_of(interrupted)

    async def act(person):
        watch, asked = person.app._watch, session.asked
        watch.next_pause_s = lambda: 1000.0
        person.app._do(lambda: watch.save("x"))
        later = SimpleNamespace(
            monotonic=lambda: time.monotonic() + 100.0, thread_time=time.thread_time
        )
        monkeypatch.setattr(app, "time", later)
        await person.rest()
        assert session.asked > asked
        assert session.saved == ["x"]

    look(session, act)


def test_clear_forgets_and_shows_what_comes_from_then_on(interrupted):
    session = session_of(interrupted, empty_profile())

    async def act(person):
        await person.press("c")
        assert session.cleared == 1
        assert "Waiting for the first samples" in person.text

    look(session, act)


def test_order_by_name_and_back(interrupted):
    async def act(person):
        await person.press("o", "o")
        names = [line.split()[-2] for line in person.lines[4:13]]
        assert names == sorted(names)
        await person.press("o")
        assert "main" in person.lines[4]

    look(session_of(interrupted), act)


@pytest.mark.parametrize("size", SIZES[1:])
def test_help_shows_keys_and_what_cannot_be_seen(interrupted, size):
    async def act(person):
        await person.press("question_mark")
        assert "samples every CPU" in person.text
        assert ("↓ goes on" in person.text) == (size[1] < 40)
        seen = person.text
        for _ in range(3):
            await person.press("pagedown")
            seen += person.text
        assert "↓ goes on" not in person.text
        assert "no kernel samples" in person.text
        assert "What cannot be seen here:" in seen
        assert "no kernel samples" in seen
        await person.press("escape")
        assert "main" in person.lines[4]

    look(session_of(interrupted, limits=("no kernel samples",)), act, size)


def test_mouse_chooses_and_the_wheel_moves(interrupted):
    async def act(person):
        await person._pilot.click("#rows", offset=(10, 2))
        await person.rest()
        assert person.app.trail.here.cursor.row == 2
        person.app.action_move(3)
        await person._pilot.double_click("#rows", offset=(10, 0))
        await person.rest()
        assert person.app.trail.here.place.page == CALLERS

    look(session_of(interrupted), act)


@pytest.mark.parametrize("size", SIZES[::2])
def test_hostile_names_are_inert(size):
    async def act(person):
        for key in "1234":
            await person.press(key)
            assert all(line.isprintable() for line in person.lines)
        await person.press("1", "enter", "right", "right", "escape")
        assert all(line.isprintable() for line in person.lines)

    look(session_of(hostile_profile(), limits=("\x1b[2J",)), act, size)


def test_a_smaller_terminal_is_drawn_anew(interrupted):
    async def act(person):
        await person._pilot.resize_terminal(60, 12)
        await person.rest()
        assert len(person.lines) == 12
        assert "main" in person.lines[4]
        assert max(map(len, person.lines)) <= 60

    look(session_of(interrupted), act)


def test_a_session_that_fails_ends_the_screen_and_leaves_its_error(interrupted):
    class Failing(MadeUpSession):
        def advance(self):
            if self.asked:
                raise CaptureError("the kernel's buffers cannot be read")
            return super().advance()

    async def act(person):
        person.app._watch.clear = Failing.advance.__get__(person.app._watch._source)
        with pytest.raises(CaptureError):
            await person.next_figures()

    look(Failing([state_of(interrupted)]), act)


def test_lines_that_are_as_they_were_are_not_drawn_again(interrupted):
    drawn = []

    async def act(person):
        rows = person.app.query_one("#rows")
        plain = rows.refresh
        rows.refresh = lambda *regions, **options: (
            drawn.append(regions) or plain(*regions, **options)
        )
        person.app._draw()
        assert drawn == []
        await person.press("down")
        (regions,) = drawn
        assert [region.y for region in regions] == [0, 1]

    look(session_of(interrupted), act)


def test_it_asks_less_often_when_asking_costs_more(interrupted):
    async def act(person):
        watch = person.app._watch
        watch.next_pause_s()
        assert watch.next_pause_s() == 2.0
        watch.spend(100.0)
        assert watch.next_pause_s() == 4.0
        watch.spend(0.072)
        assert watch.next_pause_s() == pytest.approx(6.0)
        for _ in range(5):
            watch.spend(100.0)
            longest = watch.next_pause_s()
        assert longest == 30.0
        assert watch.next_pause_s() == 2.0

    look(session_of(interrupted), act)


def test_entry_reasons_have_their_own_functions(interrupted):
    async def act(person):
        await person.press("3")
        assert person.app.trail.here.place.page == ENTRY_REASONS
        while "softirq NET_RX" not in person.row:
            await person.press("down")
        await person.press("enter")
        assert "softirq NET_RX > " in person.lines[2]
        assert "tcp_v4_rcv" in person.lines[4]
        assert "net_rx_action" in person.lines[5]
        assert "main" not in person.text

    look(session_of(interrupted), act)


def test_waiting_can_be_ordered_by_what_only_it_has(interrupted):
    async def act(person):
        await person.press("5")
        for order in (BY_READY, BY_BLOCKED, BY_NAME, BY_TIME, BY_READY):
            await person.press("o")
            assert person.app.trail.here.order == order
        await person.press("1")
        assert person.app.trail.here.order == BY_TIME

    look(session_of(interrupted), act)
