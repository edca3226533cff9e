"""The deadline of a daemon that a signal ends, and the alarm that ends what takes longer.

A service manager kills after a while whatever has not ended by itself, with all that it has. So the
last window has until a first point in time to get its names, the store until a second one to write
it, and those that send windows elsewhere the rest.

Source: setitimer(2); signal(7).
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from prospect.daemon.daemon_limits import END_S, KILLED_S, LAST_SEND_S, LAST_TAKE_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

# Of the daemon's first thread, and of what it starts from then on: the end is short, and a busy
# machine would make it long.
_LAST_PRIORITY = -10
_SOON_S = 0.01


class TooLateError(Exception):
    """The deadline has passed."""


class Ending:
    """The points in time by which a daemon's last steps are done.

    Attributes:
        has_begun: whether the daemon is to end.
    """

    def __init__(self) -> None:
        self.has_begun = False
        self._end_s = float("inf")
        self._is_in_take = False

    def begin(self) -> None:
        """Set the deadline, if it is not set yet; signal handlers may call it at any point."""
        if self.has_begun:
            return
        self._end_s = time.monotonic() + END_S
        self.has_begun = True
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, _LAST_PRIORITY)
        if self._is_in_take:
            self._set_alarm()

    @property
    def write_left_s(self) -> float:
        """In how many seconds the store must have all; infinite before `begin`."""
        return self._end_s - KILLED_S - LAST_SEND_S - time.monotonic()

    @property
    def send_until_s(self) -> float:
        """Until when windows may be sent elsewhere, in CLOCK_MONOTONIC."""
        return self._end_s - KILLED_S

    @contextmanager
    def in_time(self) -> Iterator[None]:
        """Interrupt the block at the deadline of the last window.

        Raises:
            TooLateError: in the block, whatever it was doing: its objects may be used no more.
        """
        self._is_in_take = True
        try:
            if self.has_begun:
                self._set_alarm()
            yield
        finally:
            self._is_in_take = False
            signal.setitimer(signal.ITIMER_REAL, 0)

    def on_alarm(self, _number: int, _frame: FrameType | None) -> None:
        """Handle SIGALRM."""
        if self._is_in_take:
            raise TooLateError

    def _set_alarm(self) -> None:
        left_s = self._end_s - END_S + LAST_TAKE_S - time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, max(left_s, _SOON_S))
