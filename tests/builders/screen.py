"""A person in front of the screen of `prospect top`, with a session that is made up."""

from __future__ import annotations

import asyncio

import pytest

from builders.live import MadeUpSession, state_of
from prospect.tui.app import TopApp


class Person:
    """Presses keys, and reads what is on the screen once it has come to rest."""

    def __init__(self, app, pilot):
        self.app = app
        self._pilot = pilot

    async def press(self, *keys):
        for key in keys:
            await self._pilot.press(key)
            await self.rest()

    async def rest(self):
        """Wait until nothing is under way: no job, no message, no line that is to be drawn."""
        calm = 0
        for _ in range(2000):
            await self._pilot.pause(0.005)
            calm = calm + 1 if self._is_calm else 0
            if calm == 2:
                return
        pytest.fail("the screen never comes to rest")

    @property
    def _is_calm(self):
        app = self.app
        if not app.is_running:
            return True
        nodes = (app, app.screen, *app.query("*"))
        return (
            app._seen
            and app.is_idle
            and not app._wake.is_set()
            and not app.screen._callbacks
            and not any(node.message_queue_size for node in nodes)
        )

    async def next_figures(self):
        """Have new figures taken in at once."""
        await asyncio.to_thread(self.app._watch.advance)
        self.app._wake.set()
        await self.rest()

    @property
    def lines(self):
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips]

    @property
    def text(self):
        return "\n".join(self.lines)

    @property
    def row(self):
        """The line under the cursor."""
        cursor = self.app.trail.here.cursor
        return self.lines[4 + cursor.row - cursor.top]


def look(session, act, size=(120, 40)):
    """Run the screen, let `act` use it, and return the app as it ended."""
    app = TopApp(session, use_cache=False)

    async def use():
        async with app.run_test(size=size) as pilot:
            person = Person(app, pilot)
            await person.rest()
            await act(person)

    asyncio.run(use())
    return app


def session_of(*profiles, **facts):
    return MadeUpSession([state_of(profile, **facts) for profile in profiles])
