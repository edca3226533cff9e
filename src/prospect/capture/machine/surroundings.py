"""What stood before the command began: the kernel, the processes, the machine.

Comes in: a drain loop whose events are on. Goes out: records of what /proc shows, written to its
sink between one look at the rings and the next, and the data on the machine.
"""

from __future__ import annotations

import os

from prospect.abi import constants as abi
from prospect.capture.events.event_choice import SCOPE_SYSTEM
from prospect.capture.kernel.procfs import read_file
from prospect.capture.machine.control_groups import control_group_records
from prospect.capture.machine.kernel_maps import KernelMaps, read_kernel_maps
from prospect.capture.machine.machine import Machine, describe_machine
from prospect.capture.machine.processes import Snapshot
from prospect.capture.machine.synthesis import FINISHED_ROUND, comm_record, fork_record
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from prospect.capture.events.event_choice import EventPlan

    class Loop(Protocol):
        """What drains the rings meanwhile; see `DrainLoop`."""

        @property
        def done(self) -> bool:
            """Whether there is nothing more to wait for."""
            ...

        def write(self, records: bytes) -> None:
            """Add records that do not come from a ring."""
            ...

        def step(self, *, wait: bool) -> None:
            """Handle what has happened."""
            ...

        def begin_rounds(self, end: bytes) -> None:
            """Write `end` behind each pass from now on: no older record than that can follow."""
            ...


NO_COMMAND = -1
# How the sentence begins, with pids and names behind it.
UNREADABLE_MAPPINGS = "The kernel did not show the mappings of process "
_SHOWN_PROCESSES = 3


class Background(NamedTuple):
    """What is read while the command runs, with a sentence for each thing that was hidden."""

    kernel: KernelMaps
    snapshot: Snapshot
    machine: Machine
    limits: tuple[str, ...]


def describe_surroundings(
    loop: Loop, plan: EventPlan, pid: int = NO_COMMAND, tasks: tuple[int, ...] = ()
) -> Background:
    """Record what stood before the command `pid`, draining the rings between the portions.

    Args:
        loop: takes the records.
        plan: what is recorded.
        pid: the command, which waits for its exec; NO_COMMAND for none.
        tasks: threads that ran before and are followed, where not the whole system is.
    """
    limits: tuple[str, ...] = ()
    kernel = KernelMaps(b"", (), ())
    if not plan.attr.flags & abi.FLAG_EXCLUDE_KERNEL:
        kernel = read_kernel_maps()
        limits += kernel.limits
    loop.write(kernel.records)
    if plan.attr.flags & abi.FLAG_CGROUP:
        for portion in control_group_records():
            loop.write(portion)
            if not loop.done:
                loop.step(wait=False)
    with_data = bool(plan.attr.flags & abi.FLAG_MMAP_DATA)
    only = tasks if plan.scope != SCOPE_SYSTEM else ()
    snapshot = Snapshot(command_pid=pid, with_data=with_data, only=only)
    if plan.scope == SCOPE_SYSTEM or only:
        for portion in snapshot.portions():
            loop.write(portion)
            if not loop.done:
                loop.step(wait=False)
    if pid != NO_COMMAND:
        snapshot.processes[pid] = [os.getpid(), os.getpgrp(), os.getsid(0), 0]
        # Until its exec it runs the recorder's code, under the recorder's name.
        own_name = read_file("/proc/self/comm")[:-1]
        loop.write(fork_record(pid, os.getpid()) + comm_record(pid, pid, own_name))
    if snapshot.unreadable:
        limits += (_unreadable_maps(snapshot.unreadable),)
    loop.begin_rounds(FINISHED_ROUND)
    return Background(kernel, snapshot, describe_machine(), limits)


def _unreadable_maps(unreadable: dict[int, bytes]) -> str:
    named = [f"{pid} ({os.fsdecode(comm)})" for pid, comm in sorted(unreadable.items())]
    shown = ", ".join(named[:_SHOWN_PROCESSES])
    more = len(named) - _SHOWN_PROCESSES
    return (
        f"{UNREADABLE_MAPPINGS}{shown}"
        + (f" and {more} more" if more > 0 else "")
        + ": code that they mapped before the start has no names. This takes root with"
        " CAP_SYS_PTRACE, which containers often lack."
    )
