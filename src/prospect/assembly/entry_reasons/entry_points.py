"""Names of kernel functions → why the CPU was in the kernel.

An `EntryPoint` is a function through which the kernel is entered. Some hand on (dispatchers of
system calls, of interrupts, of softirqs): the function that they call gives the entry reason. The
names are those of x86-64 and arm64, from `entry_names`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prospect.assembly.entry_reasons import entry_names as names
from prospect.profile.model import (
    ENTRY_REASON_EXCEPTION,
    ENTRY_REASON_IDLE,
    ENTRY_REASON_INTERRUPT,
    ENTRY_REASON_KERNEL_THREAD,
    ENTRY_REASON_NONE,
    ENTRY_REASON_SOFTIRQ,
    ENTRY_REASON_SYSCALL,
    ENTRY_REASON_UNCLASSIFIED,
    ENTRY_REASON_UNRECORDED,
)
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container


class EntryReason(NamedTuple):
    """Why the CPU was in the kernel: an ENTRY_REASON_*, and which of its kind."""

    kind: int
    name: str = ""


class EntryPoint(NamedTuple):
    """The meaning of a function in a chain.

    Attributes:
        entry_reason: if the function called by it says nothing.
        hands_on: whether the function called by it may say more, see `entry_reason_of_called`.
    """

    entry_reason: EntryReason
    hands_on: bool = False


NO_ENTRY_REASON = EntryReason(ENTRY_REASON_NONE)
UNCLASSIFIED = EntryReason(ENTRY_REASON_UNCLASSIFIED)
UNRECORDED = EntryReason(ENTRY_REASON_UNRECORDED)
IDLE = EntryReason(ENTRY_REASON_IDLE)
KERNEL_THREAD = EntryReason(ENTRY_REASON_KERNEL_THREAD)  # its name is the thread's
# In brackets: time of calls, though of none that has a name.
NEW_TASK = EntryReason(ENTRY_REASON_SYSCALL, "(new task)")
# A wait that began outside of a system call, if nothing says more.
OUTSIDE_OF_CALLS = EntryReason(ENTRY_REASON_EXCEPTION, "page fault")
_TASK_SWITCH = EntryReason(ENTRY_REASON_SYSCALL, "(task switch)")
_CALL_PATH = EntryReason(ENTRY_REASON_SYSCALL, "(entry and exit)")
_TRAP_PATH = EntryReason(ENTRY_REASON_EXCEPTION, "(entry and exit)")
_IRQ_PATH = EntryReason(ENTRY_REASON_INTERRUPT, "(irq entry and exit)")
_SOFTIRQ_PATH = EntryReason(ENTRY_REASON_SOFTIRQ, "(softirq entry and exit)")

_BY_NAME: dict[str, EntryPoint] = {
    name: entry
    for known, entry in (
        (names.CALL_PATHS, EntryPoint(_CALL_PATH)),
        (names.CALL_DISPATCHERS, EntryPoint(_CALL_PATH, hands_on=True)),
        ("emulate_vsyscall", EntryPoint(EntryReason(ENTRY_REASON_SYSCALL, "(vsyscall)"))),
        ("task_work_run", EntryPoint(EntryReason(ENTRY_REASON_SYSCALL, "(task_work_run)"))),
        ("ret_from_fork ret_from_fork_asm", EntryPoint(NEW_TASK)),
        (names.SIGNALS, EntryPoint(EntryReason(ENTRY_REASON_EXCEPTION, "signal"))),
        (names.IRQ_PATHS, EntryPoint(_IRQ_PATH)),
        (names.IRQ_DISPATCHERS, EntryPoint(_IRQ_PATH, hands_on=True)),
        (names.SOFTIRQ_DISPATCHERS, EntryPoint(_SOFTIRQ_PATH, hands_on=True)),
        ("kthread", EntryPoint(KERNEL_THREAD)),
        (names.IDLE_LOOPS, EntryPoint(IDLE)),
    )
    for name in known.split()
}
_BY_NAME |= {
    name: EntryPoint(EntryReason(kind, words))
    for kind, table in (
        (ENTRY_REASON_KERNEL_THREAD, names.THREADS),
        (ENTRY_REASON_EXCEPTION, names.EXCEPTIONS),
        (ENTRY_REASON_INTERRUPT, names.OLD_VECTORS),
    )
    for name, words in table.items()
}
_WITHOUT_OUTER_FRAMES = dict.fromkeys(names.SWITCHES.split(), _TASK_SWITCH)
_WITHOUT_OUTER_FRAMES |= dict.fromkeys(names.TRAP_PATHS.split(), _TRAP_PATH)


def entry_point(function: str) -> EntryPoint | None:
    """Return what a kernel function says of why the kernel was entered, None if nothing."""
    function = function.partition(".")[0]  # what the compiler adds: .isra.0, .constprop.0
    known = _BY_NAME.get(function)
    if known is not None:
        return known
    if not re.search(names.IN_EVERY_PATTERN, function):
        return None  # as of most of the thousands of functions that a kernel spends time in
    entry_reason = _call(function) or _exception(function) or _interrupt(function)
    return EntryPoint(entry_reason) if entry_reason else None


def entry_reason_of_place(function: str) -> EntryReason | None:
    """Return what the function that was hit says where a chain has no more to say."""
    return _WITHOUT_OUTER_FRAMES.get(function.partition(".")[0])


def entry_reason_of_called(entry: EntryPoint, function: str, calls: Container[str]) -> EntryReason:
    """Return the entry reason that a function names if an entry point calls it.

    Args:
        entry: the entry point.
        function: what it called.
        calls: names of the machine's system calls. A function that is none of them is a leaf of
            the dispatcher, or was jumped to by a call whose own frame is gone.
    """
    function = function.partition(".")[0]
    if not function:
        return entry.entry_reason
    if entry.entry_reason.kind == ENTRY_REASON_SOFTIRQ:
        name = names.SOFTIRQS.get(function)
        return EntryReason(ENTRY_REASON_SOFTIRQ, name) if name else entry.entry_reason
    if entry.entry_reason.kind == ENTRY_REASON_INTERRUPT:
        if re.match(names.AROUND_HANDLER, function):
            return entry.entry_reason
        return EntryReason(ENTRY_REASON_INTERRUPT, names.HANDLERS.get(function, function))
    if re.match(names.AROUND_CALL, function):
        return entry.entry_reason
    stem = re.fullmatch(names.IMPLEMENTATION, function)
    call = names.CALLS.get(function) or (stem.group(1) if stem else function)
    name = names.CALLS.get(call, call)
    return EntryReason(ENTRY_REASON_SYSCALL, name) if name in calls else entry.entry_reason


def _call(function: str) -> EntryReason | None:
    found = re.fullmatch(names.CALL, function)
    if not found:
        return None
    name = found.group(1)
    return EntryReason(ENTRY_REASON_SYSCALL, names.CALLS.get(name, name))


def _exception(function: str) -> EntryReason | None:
    found = re.fullmatch(names.EXCEPTION, function)
    if found:
        name = found.group(1)
        if name == "xen_hypervisor_callback":
            return EntryReason(ENTRY_REASON_INTERRUPT, "Xen event")
        return EntryReason(
            ENTRY_REASON_EXCEPTION, names.EXCEPTIONS.get(name, name.replace("_", " "))
        )
    if re.fullmatch(names.ARM64_ERROR, function):
        return EntryReason(ENTRY_REASON_EXCEPTION, "SError")
    found = re.fullmatch(names.ARM64_CLASS, function)
    if found and found.group(1) in names.ARM64_CLASSES:
        return EntryReason(ENTRY_REASON_EXCEPTION, names.ARM64_CLASSES[found.group(1)])
    return None


def _interrupt(function: str) -> EntryReason | None:
    if re.fullmatch(names.ARM64_IRQ, function):
        return _IRQ_PATH
    found = re.fullmatch(names.VECTOR, function)
    if not found:
        return None
    name = found.group(1)
    return EntryReason(ENTRY_REASON_INTERRUPT, names.VECTORS.get(name, name.replace("_", " ")))
