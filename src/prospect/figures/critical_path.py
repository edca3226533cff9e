"""The samples and waits on the critical path of a command, and the reasons why it was blocked.

Moments of threads become numbers in one order: by thread, then by time.

A timer, a disk or the network ends a wait in an interrupt or by a thread of the kernel. The record
of the wake-up does not distinguish them; the functions below the system call do. Without a stack
only the system call is known.

Source: names of functions in ``kernel/time``, ``block``, ``fs``, ``mm`` and ``net`` of Linux 6.18.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import gather, segments
from prospect.columns.grouping import alike
from prospect.columns.sorting import distinct
from prospect.errors import UsageError
from prospect.figures.entry_reasons import ENTRY_REASON_KIND_NAMES
from prospect.figures.selection import only_used
from prospect.profile import naming
from prospect.profile.complete import complete
from prospect.profile.model import (
    CPUMODE_KERNEL,
    ENTRY_REASON_SYSCALL,
    NO_PATH,
    PATH_BLOCKED,
    PATH_RAN,
    PATH_WAITED,
)
from prospect.records import NamedTuple, replace

if TYPE_CHECKING:
    from prospect.columns.array_types import I32, I64, U64
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import Profile, SampleTable, WaitTable, WallPath


def on_critical_path(profile: Profile) -> Profile:
    """Return a profile with only the samples and waits on its critical path.

    Raises:
        UsageError: it has no critical path.
    """
    path = profile.wall
    if path is None:
        raise UsageError(NO_PATH)
    profile = complete(profile)
    rows, _ = samples_on(path, profile.samples)
    is_on = np.zeros(len(profile.samples), np.bool_)
    is_on[rows] = True
    waits = profile.waits
    if waits is not None:
        found = [waits_on(path, waits, state)[1] for state in (PATH_BLOCKED, PATH_WAITED)]
        waits = gather(waits, np.sort(np.concatenate(found)))
    return only_used(replace(profile, waits=waits), is_on)


def samples_on(path: WallPath, samples: SampleTable) -> tuple[I64, I64]:
    """Return the samples that hit a thread of the path while it was on it, and their pieces.

    The path is a command's, or that of turns, whose pieces may share samples.
    """
    nothing = np.empty(0, np.int64)
    pieces = np.flatnonzero(path.state == PATH_RAN)
    if samples.tid is None or not len(pieces) or not len(samples):
        return nothing, nothing
    tid, begin_ns = path.tid.take(pieces), path.begin_ns.take(pieces)
    end_ns = begin_ns + path.length_ns.take(pieces).view(np.uint64)
    of_samples, begins, ends = moment_keys(
        (samples.tid, samples.time_ns), (tid, begin_ns), (tid, end_ns)
    )
    order = np.argsort(of_samples, kind="stable")
    ordered = of_samples.take(order)
    first = np.searchsorted(ordered, begins)
    count = np.searchsorted(ordered, ends) - first
    return order.take(segments(first, count)), np.repeat(pieces, count)


def waits_on(path: WallPath, waits: WaitTable, state: int) -> tuple[I64, I64]:
    """Return the pieces whose wait is in the table, and its rows there, i64[k] each.

    `state` is that of the pieces: PATH_BLOCKED or PATH_WAITED.
    """
    pieces = np.flatnonzero(path.state == state)
    rows = np.flatnonzero(waits.is_runnable == (state == PATH_WAITED))
    if not len(rows):
        return pieces[:0], rows
    tid, time_ns = path.tid.take(pieces), path.begin_ns.take(pieces)
    begin_ns = waits.begin_ns.take(rows)
    begins, wanted = moment_keys((waits.tid.take(rows), begin_ns), (tid, time_ns))
    order = np.argsort(begins, kind="stable")
    place = np.searchsorted(begins.take(order), wanted, "right") - 1
    row = rows.take(order.take(np.maximum(place, 0)))
    is_in = (place >= 0) & (waits.tid.take(row) == tid)
    is_in &= time_ns < waits.begin_ns.take(row) + waits.length_ns.take(row)
    return pieces[is_in], row[is_in]


_KEY_BITS = 63


def moment_keys(*moments: tuple[I32, U64]) -> list[I64]:
    """Return comparable keys, i64[n], of several columns of threads, i32[n], and times, u64[n] ns.

    Times lose their lowest bits if there are many threads and the interval is long.
    """
    tids = distinct(np.concatenate([tid for tid, _ in moments]))
    times = [time_ns for _, time_ns in moments if len(time_ns)]
    begin_ns = np.uint64(min((int(one.min()) for one in times), default=0))
    length_ns = max((int(one.max()) for one in times), default=0) - int(begin_ns)
    room = _KEY_BITS - max(len(tids), 1).bit_length()
    bits = min(max(length_ns, 1).bit_length(), room)
    shift = np.uint64(max(length_ns.bit_length() - room, 0))
    return [
        (np.searchsorted(tids, tid).astype(np.int64) << bits)
        | ((time_ns - begin_ns) >> shift).astype(np.int64)
        for tid, time_ns in moments
    ]


DISK, SLEEP, NETWORK, SOCKET, PIPE, LOCK, CHILD = (
    *("disk", "sleep", "network", "socket", "pipe", "lock", "child"),
)
# The reason by a function in the stack of a wait: by its exact name, or the start of it.
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
    """A reason why a thread was blocked.

    Attributes:
        call: the system call, or another reason for entering the kernel; "" if unknown.
        device: DISK and the like; "" if unknown.
    """

    call: str
    device: str

    def __str__(self) -> str:
        if not self.call:
            return self.device or "unknown reason"
        # The name of such a call adds nothing.
        is_all = self.device == SLEEP or not self.device
        return (self.device or self.call) if is_all else f"{self.device} ({self.call})"


UNKNOWN = Reason("", "")


def blocked_by(profile: CompleteProfile, path: WallPath) -> tuple[I32, list[Reason]]:
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
    entry_reasons, reasons = profile.entry_reasons, [UNKNOWN]
    calls = [
        name if kind == ENTRY_REASON_SYSCALL else name or ENTRY_REASON_KIND_NAMES[kind]
        for kind, name in zip(entry_reasons.kind.tolist(), entry_reasons.name, strict=True)
    ]
    for of_entry_reason, of_stack in zip(
        entry_reason.take(found.row).tolist(), stack.take(found.row).tolist(), strict=True
    ):
        call = calls[of_entry_reason]
        reasons.append(Reason(call, _device(profile, of_stack) or _BY_CALL.get(call, "")))
    row[piece] = found.place + np.int32(1)
    return row, reasons


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
    for name in naming.gather(profile.functions.name, functions.tolist()):
        plain = name.partition(".")[0]  # the compiler's copies of a function
        device = _BY_FUNCTION.get(plain, "")
        device = device or next(
            (one for begin, one in _BY_BEGIN.items() if plain.startswith(begin)), ""
        )
        if device:
            return device
    return ""
