"""What signals that are to end a run ask for: one for the command, another for the recorder.

Comes in: signals that have arrived, and the command. Goes out: until when it is waited for.
"""

from __future__ import annotations

from prospect.capture.loop.signals import ENDING, terminal_signals_group
from prospect.light import monotonic_ns, signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.capture.loop.command import Command
    from prospect.capture.loop.signals import SignalWatch

# How long a command may take to end after a signal that was passed on to it.
_GRACE_NS = 2_000_000_000


class EndRequest:
    """Passes the first signal on to the command; the second one ends the wait at once.

    Where there is no command, the first one does.

    Attributes:
        interrupted_by: the first signal that was to end the run, 0 without.
        give_up_ns: from when on, in CLOCK_MONOTONIC, the command is not waited for; 0 until known.
    """

    def __init__(self, signals: SignalWatch, command: Command | None) -> None:
        self.interrupted_by = 0
        self.give_up_ns = 0
        self._signals = signals
        self._command = command

    def obey(self) -> None:
        """Handle the signals that have arrived."""
        for number in self._signals.arrived():
            if number not in ENDING:
                continue
            if self.interrupted_by or not self._command:
                self.interrupted_by = self.interrupted_by or number
                self.give_up_ns = monotonic_ns()
                continue
            self.interrupted_by = number
            self.give_up_ns = monotonic_ns() + _GRACE_NS
            if number != signal.SIGINT or not terminal_signals_group():
                self._command.send(number)

    def is_over(self, now_ns: int) -> bool:
        """Say whether the command has had its time."""
        return 0 < self.give_up_ns <= now_ns
