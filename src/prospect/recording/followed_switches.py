"""The programs that record switches and wake-ups of followed threads, for one recording.

``--wall`` and ``--off-cpu`` use them. Without them, and in an ``--off-cpu`` recording of the whole
machine, the kernel's own records have the switches of every thread. The latter still gets wake-ups
from the programs, which attribute a packet to this machine to the thread that sends it.
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
    """The programs of a recording, if the kernel permits them.

    Attributes:
        bytes_a_second: of the switches of a busy CPU.
    """

    bytes_a_second = SWITCH_TIMES_BYTES_A_SECOND

    def __init__(self, *, every_thread: bool, has_stacks: bool) -> None:
        """Load the programs.

        Args:
            every_thread: whether to record every thread, not only those that are followed.
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
        """Return a plan with the events of switches; `cpu` is online."""
        if self._has_stacks:
            return plan
        return with_switch_times(plan, cpu, self._loaded, self._obstacle)

    def beside_stacks(self, plan: EventPlan) -> tuple[ChosenEvent, ...]:
        """Return the events of the programs, if any, for a plan that has stacks of switches."""
        if self._loaded is None or plan.scope != SCOPE_SYSTEM:
            return ()
        return self._loaded.events(plan)

    def start(self, events: EventSet, pids: tuple[int, ...], command_pid: int) -> None:
        """Follow these processes, or COMMAND if there are none, with open events.

        Raises:
            OSError: the kernel refused.
        """
        names = [event.name for event in events.plan.beside]
        if self._loaded is not None and set(self._recorded) <= set(names):
            outputs = {name: events.fds_of(name) for name in self._recorded}
            self._loaded.start(outputs, pids, command_pid)
            self._is_started = True

    def finish(self) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Stop recording; return sentences on missing records, and facts for the recording."""
        if self._loaded is None or not self._is_started:
            return (), {}
        return self._loaded.finish()

    def close(self) -> None:
        """Remove the programs."""
        if self._loaded is not None:
            self._loaded.close()
            self._loaded = None
