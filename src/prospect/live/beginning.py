"""How a live session begins: with the right to sample all, and a first look at the system.

Comes in: the session's events. Goes out: what stood before them, as records in its sink.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.capture.events.event_choice import SCOPE_SYSTEM
from prospect.capture.kernel.procfs import read_setting
from prospect.errors import CaptureError

if TYPE_CHECKING:
    from typing import Protocol

    from prospect.capture.events.cpu_events import EventSet
    from prospect.capture.loop.ring_drain import RingDrain

    class _Records(Protocol):
        def put(self, records: bytes) -> None:
            """Take records of our own."""
            ...


_PARANOID = "/proc/sys/kernel/perf_event_paranoid"


def check_scope(events: EventSet) -> None:
    """Refuse to sample less than the whole system.

    Raises:
        CaptureError: this user may not; says what to do.
    """
    if events.plan.scope != SCOPE_SYSTEM:
        raise CaptureError(
            "the whole system cannot be sampled: run as root, give CAP_PERFMON, or run: sysctl"
            f" kernel.perf_event_paranoid=0 (it is {read_setting(_PARANOID)}); or name processes of"
            " your own (-p PID)"
        )


class Beginning:
    """The loop in which the first look at the system is taken; see `describe_surroundings`."""

    done = False

    def __init__(self, drain: RingDrain, sink: _Records) -> None:
        self._drain = drain
        self._sink = sink

    def write(self, records: bytes) -> None:
        """Hand records of our own on."""
        if records:
            self._sink.put(records)

    def step(self, *, wait: bool) -> None:
        """Empty the rings."""
        del wait  # nothing is waited for
        self._drain.drain(b"", follows_cpus=True)

    def begin_rounds(self, end: bytes) -> None:
        """Nothing changes: `FINISHED_ROUND` is written from the first `advance` on."""
        del end
