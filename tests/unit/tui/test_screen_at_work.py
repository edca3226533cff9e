"""The screen of `prospect top` while it works: keys are answered, and it says what it does."""

from __future__ import annotations

import asyncio
import threading

import pytest

from builders.live import MadeUpSession, state_of
from builders.screen import Person, look, session_of
from prospect.tui.app import TopApp


class SlowSession(MadeUpSession):
    """Takes as long as it is told to for each new look but the first."""

    def __init__(self, states, *, slow_from=1):
        super().__init__(states)
        self.slow_from = slow_from
        self.may_go_on = threading.Event()
        self.is_at_work = threading.Event()

    def advance(self):
        if self.asked >= self.slow_from:
            self.is_at_work.set()
            assert self.may_go_on.wait(30.0)
        return super().advance()


def slow_look(session, act):
    """Run the screen while its session may be at work: `act` cannot wait for rest."""
    app = TopApp(session, use_cache=False)

    async def use():
        async with app.run_test(size=(120, 40)) as pilot:
            try:
                await act(Person(app, pilot))
            finally:
                session.may_go_on.set()

    asyncio.run(use())


async def shown(person, words):
    for _ in range(2000):
        if words in person.text:
            return
        await person._pilot.pause(0.005)
    pytest.fail(f"never shown: {words}\n{person.text}")


def test_keys_are_answered_while_new_figures_are_being_taken_in(interrupted):
    session = SlowSession([state_of(interrupted)])

    async def act(person):
        await shown(person, "main")
        assert await asyncio.to_thread(session.is_at_work.wait, 30.0)
        await person._pilot.press("2")
        await shown(person, "pid 77")
        await person._pilot.press("3")
        await shown(person, "system call sendto")
        assert session.asked == 1

    slow_look(session, act)


def test_before_the_first_figures_it_says_that_it_works(interrupted):
    session = SlowSession([state_of(interrupted)], slow_from=0)

    async def act(person):
        await shown(person, "The names of functions are being read ...")
        await person._pilot.press("2")
        session.may_go_on.set()
        await shown(person, "pid 77")
        assert "being read" not in person.text

    slow_look(session, act)


def test_a_page_that_takes_long_says_one_moment(interrupted, monkeypatch):
    session, may_go_on = session_of(interrupted), threading.Event()

    async def act(person):
        look_on = person.app._watch.look

        def slow(stand):
            assert may_go_on.wait(30.0)
            return look_on(stand)

        monkeypatch.setattr(person.app._watch, "look", slow)
        try:
            await person._pilot.press("2")
            await shown(person, "One moment ...")
            assert "main" not in person.text
        finally:
            may_go_on.set()
        await shown(person, "pid 77")
        assert "One moment" not in person.text

    look(session, act)
