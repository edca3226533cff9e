"""Work that takes long, in threads that nobody has to wait for when the screen is closed.

An executor of asyncio's is waited for at the end of its loop, however long its work takes.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Result = TypeVar("_Result")


class Background:
    """Threads that work for one screen."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []

    @property
    def is_busy(self) -> bool:
        """Whether some work is not done yet, whoever waits for it."""
        return any(thread.is_alive() for thread in self._threads)

    async def run(self, work: Callable[[], _Result]) -> _Result:
        """Return what `work` returns, or raise what it raises; called off, it is left to itself."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[_Result] = loop.create_future()

        def settle(put: Callable[[], None]) -> None:
            if not done.done():
                put()

        def run() -> None:
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - whoever waits for it gets it
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
