"""Frames of runtimes in one recording: the child that attaches the walker (`watcher`), its result.

The recorder does not wait for the child. If frames could not be read, `limits` has the reasons.
"""

from __future__ import annotations

import errno
import mmap
import os

from prospect.abi import runtime_frames as wire
from prospect.capture.capture_limits import READER_LAST_WORD_S
from prospect.capture.events.event_choice import EVERY_TASK
from prospect.capture.kernel.own_process import come_first
from prospect.capture.machine.mapped_files import mapped_rings, open_mapping_events
from prospect.capture.runtimes.walk_state import WalkState
from prospect.files.child import Child, given
from prospect.light import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from prospect.capture.events.cpu_events import EventSet
    from prospect.capture.following.process_filter import ProcessFilter
    from prospect.capture.runtimes.attaching import Walker

    # CPU → events of mappings, a descriptor of /dev/null, the result of `EventSet.python_fds`, and
    # other arguments of `RuntimeFrames.start`: rate, `beside_others` and `is_there`.
    _Order = tuple[dict[int, list[int]], int, dict[int, int], list[int], float, bool, bool]

_PROGRAM = "prospect.capture.runtimes.runtime_reader"
_OTHERS = (
    "another tracer's programs (BPF) take more than 2% of the CPUs' time, and as many samples would"
    " be lost; --python reads them anyway"
)
_NOT_ANY_MORE = (
    "Python functions were read until another tracer's programs (BPF) took {share:.0%} of the CPUs'"
    " time, and samples with it; --python goes on anyway."
)
# A smaller share is below the cost of a timer.
_LEAST_SHARE = 0.001
_OLDEST = {wire.CPYTHON: 0x308, wire.RUBY: 0x207}
_NAMES = {wire.CPYTHON: "CPython", wire.RUBY: "Ruby", wire.V8: "V8"}
_NEEDED = "reading them needs eBPF: root, or CAP_BPF and CAP_PERFMON"
_LEFT_OUT = {
    "held_up": "Functions of runtimes: files not read, because the file system did not answer: {}.",
    "missed": "Functions of runtimes: mappings of files that may be runtimes, which could not be"
    " read or exceed the limit for one user: {}.",
    "lost": "Functions of runtimes: mappings that did not fit into the ring buffer: {}."
    " Prospect looked for them in the running processes.",
}


def _unknown(state: WalkState, count: int) -> str:
    """Return a sentence on the unknown version of a runtime, of the last process counted."""
    runtime, version = state["unknown_runtime"], state["unknown_version"]
    others = f" and {count - 1} more" if count > 1 else ""
    whose = f"(process {state['unknown_pid']}{others}) was not read"
    if runtime == wire.PHP:
        return f"PHP {whose}: its code is not known."
    oldest = _OLDEST.get(runtime, 0)
    major, minor = version >> 8, version & 0xFF
    name = f"{_NAMES.get(runtime, 'runtime')} {major}.{minor}"
    if version < oldest:
        return f"{name} {whose}: Prospect reads {oldest >> 8}.{oldest & 0xFF} and later."
    return (
        f"{name} {whose}: this version of Prospect does not know its structures; a later one may."
    )


def left_out(state: WalkState, since: Mapping[str, int]) -> list[str]:
    """Return sentences on processes whose functions or names were left out.

    Counts have the form that `profile.notes` adds up; those in `since` were already reported.
    """
    said = []
    more = {name: count - since.get(name, 0) for name, count in state.counts.items()}
    if count := more["unknown"]:
        said.append(_unknown(state, count))
    said += [text.format(more[name]) for name, text in _LEFT_OUT.items() if more[name]]
    if count := more["refused"]:
        pid = state["refused_pid"]
        whose = f"process {pid}" if pid else "one user"
        said.append(
            f"Functions of runtimes: names left out: {count}, most of them of {whose}, which sent"
            " more names than a process or user may."
        )
    return said


def _serve(stop_fd: int, state: WalkState, order: _Order, chosen: ProcessFilter | None) -> None:
    """Watch, in the child, until `stop_fd` is at its end."""
    fds, null_fd, outputs, sampling, rate_hz, beside_others, is_there = order
    come_first()  # there are no frames before it reads
    rings = mapped_rings(fds.values(), null_fd)
    # Imports cost the command nothing here. Those of the walker are for recordings with a runtime.
    from prospect.capture.runtimes.first_runtime import (  # noqa: PLC0415 - in the child alone
        first_runtime,
        runtime_mappings,
        share_for,
    )

    share = share_for(rate_hz)
    found = list(runtime_mappings()) if is_there else first_runtime(stop_fd, rings, share)
    if not (is_there or found):
        return
    from prospect.capture.runtimes.attaching import attach_walker  # noqa: PLC0415 - once there is Python
    from prospect.capture.runtimes.watcher import serve  # noqa: PLC0415 - once there is Python

    def attach() -> Walker:
        state.attached()
        return attach_walker(outputs, sampling, chosen=chosen.maps if chosen else None)

    serve(stop_fd, rings, attach, state, found, beside_others=beside_others, share=share)


class RuntimeFrames(Closing):
    """The watcher of one recording."""

    def __init__(self, *, is_program: bool = False) -> None:
        """Prepare.

        Args:
            is_program: whether it is a separate program, without pages of this process: a daemon
                has much memory when it begins another session. It reads frames of all processes.
        """
        self.child = Child()
        self._is_program = is_program
        self._failure = ""
        self._state = WalkState()

    def start(
        self,
        events: EventSet,
        rate_hz: float,
        *,
        beside_others: bool,
        is_there: bool = False,
        chosen: ProcessFilter | None = None,
    ) -> None:
        """Start the watcher.

        Args:
            events: with room for the walker's records.
            rate_hz: samples a second and CPU; looks cost no more than these.
            beside_others: whether it reads even if programs of other tracers run.
            is_there: whether a runtime runs already; otherwise the watcher waits for one.
            chosen: the programs that choose processes; None to read frames of all.
        """
        outputs, sampling = events.python_fds()
        fds: dict[int, list[int]] = {cpu: [] for cpu in outputs}
        null_fd = state_fd = -1
        try:
            null_fd = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            open_mapping_events(fds, (EVERY_TASK,))
            order = (fds, null_fd, outputs, sampling, rate_hz, beside_others, is_there)
            opened = [fd for of_cpu in fds.values() for fd in of_cpu]
            kept = [*opened, null_fd, *outputs.values(), *sampling]

            if self._is_program:
                state_fd = os.memfd_create("walk-state", os.MFD_CLOEXEC)
                os.ftruncate(state_fd, mmap.PAGESIZE)
                self._state = WalkState(state_fd)
                self.child.start_program(_PROGRAM, [*kept, state_fd], (state_fd, order))
                return

            def serve(stop_fd: int) -> None:
                _serve(stop_fd, self._state, order, chosen)

            maps = chosen.maps.descriptors if chosen else ()
            self.child.start(serve, (*kept, *maps))
        except OSError as error:
            self._failure = os.strerror(error.errno or 0)
        finally:
            for fd in (*(fd for of_cpu in fds.values() for fd in of_cpu), null_fd, state_fd):
                if fd >= 0:
                    os.close(fd)

    @property
    def is_attached(self) -> bool:
        """Whether the kernel may have written records."""
        return self._state["attached"] != 0

    @property
    def limits(self) -> list[str]:
        """Sentences on what could not be read so far."""
        return self.limits_since({})

    @property
    def counts(self) -> dict[str, int]:
        """Counts of what was left out so far, for `limits_since`."""
        return self._state.counts

    def limits_since(self, counts: Mapping[str, int]) -> list[str]:
        """Return these sentences, without what earlier `counts` have."""
        failure = self._state.failure
        if failure in (errno.EPERM, errno.EACCES):
            reason = _NEEDED
        elif failure == errno.EBUSY:
            reason = _OTHERS
        elif failure >= 0:
            why = os.strerror(failure) if failure else "its structures are not known here"
            reason = f"this kernel refused: {why}"
        else:
            reason = self._failure
        if self._state.is_detached:
            said = [_NOT_ANY_MORE.format(share=self._state.most_beside)]
        else:
            said = [f"Python functions were not read: {reason}."] if reason else []
        return said + left_out(self._state, counts)

    @property
    def pids(self) -> list[int]:
        """The processes that work for it."""
        return [*filter(None, [self.child.pid, self.child.pid and self._state["reader"]])]

    @property
    def used_s(self) -> tuple[float, float]:
        """User and system time of the watcher, once it has ended."""
        return self.child.used_s

    @property
    def dropped_share(self) -> float:
        """The largest part of the samples that other tracers' programs cost, 0 to 1."""
        share = self._state.most_beside
        return share if share >= _LEAST_SHARE else 0.0

    def stop(self) -> None:
        """Ask the watcher to end, before `finish`."""
        self.child.stop()

    def finish(self) -> None:
        """End the watcher, and note if it failed."""
        if not self.child.pid:
            return
        self.child.stop()
        ended = self.child.reap(READER_LAST_WORD_S)
        if ended and self.child.status:
            self._failure = f"their watcher failed with status {self.child.status}"
        elif not ended:
            self.child.kill()

    def close(self) -> None:
        """Leave nothing behind."""
        self.child.kill()


if __name__ == "__main__":  # started by `RuntimeFrames.start`
    _stop_fd, (_state_fd, _order) = given()
    _serve(_stop_fd, WalkState(_state_fd), _order, None)
