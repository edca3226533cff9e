"""The programs that record switches and wake-ups of followed threads, for one recording.

``--wall`` and ``--off-cpu`` use them. Without them, and in an ``--off-cpu`` recording of the whole
machine, the kernel's own records have the switches of every thread. The latter has its wake-ups by
the programs anyway: they know that a packet to this machine is the doing of the thread that
sends it.
"""

from __future__ import annotations

from prospect.capture.events.event_choice import SCOPE_SYSTEM
from prospect.capture.events.switches import SWITCH_TIMES_BYTES_A_SECOND, with_switch_times
from prospect.capture.following.followed import SWITCH, WAKING, FollowedSwitches
from prospect.errors import CaptureError
from prospect.light import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from prospect.capture.events.cpu_events import EventSet
    from prospect.capture.events.event_choice import ChosenEvent, EventPlan


class SwitchPrograms(Closing):
    """The programs of a recording, if this kernel and this user can have them.

    Attributes:
        bytes_a_second: how many bytes a second the switches of a busy CPU take in its ring.
    """

    bytes_a_second = SWITCH_TIMES_BYTES_A_SECOND

    def __init__(self, *, every_thread: bool, has_stacks: bool) -> None:
        """Load the programs.

        Args:
            every_thread: for every thread, not only those that are followed.
            has_stacks: whether another event samples the stacks of threads that leave their CPU.
        """
        self._has_stacks = has_stacks
        self._recorded = (WAKING,) if has_stacks and every_thread else (SWITCH, WAKING)
        self._loaded: FollowedSwitches | None = FollowedSwitches(self._recorded)
        self._obstacle = ""
        self._is_started = False
        try:
            self._loaded.load(every_thread=every_thread)
        except CaptureError as error:
            self._obstacle = str(error)
            self.close()

    def planned(self, plan: EventPlan, cpu: int) -> EventPlan:
        """Return a plan with the events of switches; `cpu` is one that is online."""
        if self._has_stacks:
            return plan
        return with_switch_times(plan, cpu, self._loaded, self._obstacle)

    def beside_stacks(self, plan: EventPlan) -> tuple[ChosenEvent, ...]:
        """Return the events of the programs for a plan that has stacks of switches; () if none."""
        is_theirs = self._loaded is not None and plan.scope == SCOPE_SYSTEM
        return self._loaded.events(plan) if self._loaded is not None and is_theirs else ()

    def start(self, events: EventSet, pids: tuple[int, ...], command_pid: int) -> None:
        """Follow these processes, or else COMMAND, with the events that were opened.

        Raises:
            OSError: the kernel refused.
        """
        names = [event.name for event in events.plan.beside]
        if self._loaded is not None and set(self._recorded) <= set(names):
            outputs = {name: events.fds_of(name) for name in self._recorded}
            self._loaded.start(outputs, pids, command_pid)
            self._is_started = True

    def finish(self) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Record no more; return what was not recorded, and what the recording keeps of it."""
        if self._loaded is None or not self._is_started:
            return (), {}
        return self._loaded.finish()

    def close(self) -> None:
        """Let go of the programs."""
        if self._loaded is not None:
            self._loaded.close()
            self._loaded = None
