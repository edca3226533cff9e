"""What the threads of a critical path were blocked by: the kernel's code that waited says that.

A timer, a disk or the network ends a wait in an interrupt, or a thread of the kernel does so in its
place. The record of the wake-up does not say which of them it was; the functions below the system
call do. Without a stack only the system call is known.

Source: names of functions in ``kernel/time``, ``block``, ``fs``, ``mm`` and ``net`` of Linux 6.18.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import alike
from prospect.figures.critical_path import waits_on
from prospect.figures.entry_reasons import ENTRY_REASON_KIND_NAMES
from prospect.profile.late import gather
from prospect.profile.model import CPUMODE_KERNEL, ENTRY_REASON_SYSCALL, PATH_BLOCKED
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import WallPath

DISK, SLEEP, NETWORK, SOCKET, PIPE, LOCK, CHILD = (
    *("disk", "sleep", "network", "socket", "pipe", "lock", "child"),
)
# The reason by a function in the stack of a wait, from its exact name or from the start of it.
_BY_FUNCTION = {
    **dict.fromkeys(
        (
            *("io_schedule", "io_schedule_timeout", "submit_bio_wait", "blk_mq_get_tag"),
            *("wait_for_completion_io", "wait_for_completion_io_timeout"),
            *("jbd2_log_wait_commit", "balance_dirty_pages", "folio_wait_writeback"),
        ),
        DISK,
    ),
    **dict.fromkeys(("do_nanosleep", "hrtimer_nanosleep"), SLEEP),
    **dict.fromkeys(("pipe_read", "pipe_write", "anon_pipe_read", "anon_pipe_write"), PIPE),
    "do_futex": LOCK,
    "do_wait": CHILD,
}
_BY_BEGIN = {"unix_": SOCKET, "tcp_": NETWORK, "udp_": NETWORK, "inet_": NETWORK, "sk_": NETWORK}
# The reason by a system call alone.
_BY_CALL = {
    **dict.fromkeys(("nanosleep", "clock_nanosleep"), SLEEP),
    **dict.fromkeys(("fsync", "fdatasync", "sync", "syncfs", "msync", "sync_file_range"), DISK),
    **dict.fromkeys(("wait4", "waitid"), CHILD),
    "futex": LOCK,
}
_MOST_FRAMES = 64


class Reason(NamedTuple):
    """The reasons that block threads.

    Attributes:
        call: the system call, or what else made it enter the kernel; "" if unknown.
        device: DISK and the like; "" if unknown.
    """

    call: str
    device: str

    def __str__(self) -> str:
        if not self.call:
            return self.device or "unknown reason"
        # These calls say nothing else.
        is_all = self.device == SLEEP or not self.device
        return (self.device or self.call) if is_all else f"{self.device} ({self.call})"


UNKNOWN = Reason("", "")


def blocked_by(profile: CompleteProfile, path: WallPath) -> tuple[NDArray[np.int32], list[Reason]]:
    """Return the reason of each piece, a row i32[p] of the reasons; the first one is unknown."""
    row = np.zeros(len(path), np.int32)
    waits = profile.waits
    if waits is None or not len(waits):
        return row, [UNKNOWN]
    piece, wait = waits_on(path, waits, PATH_BLOCKED)
    entry_reason = waits.entry_reason_index.take(wait)
    stack = np.full(len(wait), -1, np.int32)
    if waits.stack_index is not None and profile.stacks is not None:
        stack = waits.stack_index.take(wait)
    found = alike([entry_reason, stack])
    calls = _calls(profile)
    reasons = [UNKNOWN]
    for of_entry_reason, of_stack in zip(
        entry_reason.take(found.row).tolist(), stack.take(found.row).tolist(), strict=True
    ):
        call = calls[of_entry_reason]
        reasons.append(Reason(call, _device(profile, of_stack) or _BY_CALL.get(call, "")))
    row[piece] = found.place + np.int32(1)
    return row, reasons


def _calls(profile: CompleteProfile) -> Sequence[str]:
    entry_reasons = profile.entry_reasons
    return [
        name if kind == ENTRY_REASON_SYSCALL else name or ENTRY_REASON_KIND_NAMES[kind]
        for kind, name in zip(entry_reasons.kind.tolist(), entry_reasons.name, strict=True)
    ]


def _device(profile: CompleteProfile, stack: int) -> str:
    """Return what the kernel's frames of a stack wait for, from the inside out; "" if unknown."""
    stacks = profile.stacks
    if stacks is None or stack < 0:
        return ""
    locations: list[int] = []
    while stack >= 0 and len(locations) < _MOST_FRAMES:
        if stacks.mode[stack] == CPUMODE_KERNEL:
            locations.append(int(stacks.location_index[stack]))
        stack = int(stacks.caller_index[stack])
    functions = profile.locations.function_index.take(np.array(locations, np.int64))
    for name in gather(profile.functions.name, functions.tolist()):
        plain = name.partition(".")[0]  # the compiler's copies of a function
        device = _BY_FUNCTION.get(plain, "")
        device = device or next(
            (one for begin, one in _BY_BEGIN.items() if plain.startswith(begin)), ""
        )
        if device:
            return device
    return ""
