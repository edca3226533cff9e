"""Python frames of one recording: the event that their records are samples of, and the watcher.

Comes in: the plan of a recording's events, then these events, open. Goes out: the plan with the
event beside the others, and a child that fills its rings by BPF (`watcher`). On the way to
COMMAND's start: nothing here waits for that child.
"""

from __future__ import annotations

import errno
import os

from prospect.abi import constants as abi
from prospect.abi.python_frames import EVENT_NAME
from prospect.capture.events.chosen_event import ChosenEvent
from prospect.capture.events.event_choice import EVERY_TASK, SCOPE_SYSTEM, SIDE_BAND_FLAGS
from prospect.capture.machine.mapped_files import mapped_rings, open_mapping_events
from prospect.capture.python.walk_state import WalkState
from prospect.files.child import Child
from prospect.light import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.capture.events.cpu_events import EventSet
    from prospect.capture.events.event_choice import EventPlan

_PRECISE_IP = 3 << 15
_LAST_WORD_S = 0.5
_NEEDED = "reading them needs eBPF: root, or CAP_BPF and CAP_PERFMON"


def can_walk(plan: EventPlan) -> bool:
    """Whether this machine and this user may have Python frames at all."""
    return plan.scope == SCOPE_SYSTEM and os.uname().machine == "x86_64" and os.geteuid() == 0


def with_python_frames(plan: EventPlan) -> EventPlan:
    """Return a plan that has room for Python frames beside each sample; last, behind all others."""
    clock = plan.attr
    dropped = (
        SIDE_BAND_FLAGS
        | _PRECISE_IP
        | abi.FLAG_FREQ
        | abi.FLAG_EXCLUDE_CALLCHAIN_USER
        | abi.FLAG_EXCLUDE_CALLCHAIN_KERNEL
    )
    kept = (
        abi.PERF_SAMPLE_IDENTIFIER
        | abi.PERF_SAMPLE_TID
        | abi.PERF_SAMPLE_TIME
        | abi.PERF_SAMPLE_CPU
    )
    attr = clock._replace(
        type=abi.PERF_TYPE_SOFTWARE,
        config=abi.PERF_COUNT_SW_BPF_OUTPUT,
        sample_period=1,
        sample_type=clock.sample_type & kept | abi.PERF_SAMPLE_RAW,
        flags=clock.flags & ~dropped,
        sample_regs_user=0,
        sample_stack_user=0,
        branch_sample_type=0,
    )
    return plan._replace(beside=(*plan.beside, ChosenEvent(EVENT_NAME, attr)))


class PythonFrames(Closing):
    """The watcher of one recording.

    Attributes:
        child: the watcher's process.
        limits: sentences about what could not be read.
    """

    def __init__(self) -> None:
        self.child = Child()
        self.limits: list[str] = []
        self._state = WalkState()

    def start(self, events: EventSet) -> None:
        """Start the watcher, if the events have room for what it makes the kernel write."""
        outputs, sampling = events.python_fds()
        if not outputs:
            return
        fds: dict[int, list[int]] = {cpu: [] for cpu in outputs}
        null_fd = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            open_mapping_events(fds, (EVERY_TASK,))

            def serve(stop_fd: int) -> None:
                rings = mapped_rings(fds.values(), null_fd)
                # Here, not in the recorder: it costs the command nothing.
                from prospect.capture.python.watcher import serve  # noqa: PLC0415 - see above

                serve(stop_fd, rings, outputs, sampling, self._state)

            opened = [fd for of_cpu in fds.values() for fd in of_cpu]
            self.child.start(serve, (*opened, null_fd, *outputs.values(), *sampling))
        except OSError as error:
            self._not_read(os.strerror(error.errno or 0))
        finally:
            for fd in (*(fd for of_cpu in fds.values() for fd in of_cpu), null_fd):
                os.close(fd)

    def finish(self) -> None:
        """Let the watcher end; see what became of it."""
        if not self.child.pid:
            return
        self.child.stop()
        ended = self.child.reap(_LAST_WORD_S)
        failure = self._state.failure
        if failure in (errno.EPERM, errno.EACCES):
            self._not_read(_NEEDED)
        elif failure >= 0:
            reason = os.strerror(failure) if failure else "its structures are not known here"
            self._not_read(f"this kernel refused: {reason}")
        elif ended and self.child.status:
            self._not_read(f"their watcher failed with status {self.child.status}")
        elif not ended:
            self.child.kill()

    def close(self) -> None:
        """Leave nothing behind."""
        self.child.kill()

    def _not_read(self, reason: str) -> None:
        self.limits.append(f"Python functions were not read: {reason}.")
