"""The programs that record switches of followed threads, or wake-ups alone, for one recording.

``--wall`` records both. Without the programs, switches are recorded by the kernel's own records, of
every thread. ``--off-cpu`` records wake-ups by them: they know that a packet to this machine is the
doing of the thread that sends it.
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

    def __init__(self, *, every_thread: bool, wakes_only: bool = False) -> None:
        """Load the programs, for every thread or for those that are followed."""
        self._recorded = (WAKING,) if wakes_only else (SWITCH, WAKING)
        self._loaded: FollowedSwitches | None = FollowedSwitches(self._recorded)
        self._obstacle = ""
        self._is_started = False
        try:
            self._loaded.load(every_thread=every_thread)
        except CaptureError as error:
            self._obstacle = str(error)
            self.close()

    def planned(self, plan: EventPlan, cpu: int) -> EventPlan:
        """Return a plan with the events of switches; `cpu` is one that is on line."""
        if self._recorded == (WAKING,):
            return plan
        return with_switch_times(plan, cpu, self._loaded, self._obstacle)

    def wakes(self, plan: EventPlan) -> tuple[ChosenEvent, ...]:
        """Return the event of wake-ups, where the programs record nothing else."""
        is_theirs = self._recorded == (WAKING,) and plan.scope == SCOPE_SYSTEM
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
