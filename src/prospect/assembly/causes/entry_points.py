"""Names of kernel functions → why the CPU was in the kernel.

An `EntryPoint` is a function through which the kernel is entered. Some hand on (dispatchers of
system calls, of interrupts, of softirqs): the function that they call gives the cause. The
names are those of x86-64 and arm64, from `entry_names`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prospect.assembly.causes import entry_names as names
from prospect.profile.model import (
    CAUSE_EXCEPTION,
    CAUSE_IDLE,
    CAUSE_INTERRUPT,
    CAUSE_KERNEL_THREAD,
    CAUSE_NONE,
    CAUSE_SOFTIRQ,
    CAUSE_SYSCALL,
    CAUSE_UNCLASSIFIED,
    CAUSE_UNRECORDED,
)
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container


class Cause(NamedTuple):
    """Why the CPU was in the kernel: a CAUSE_*, and which of its kind."""

    kind: int
    name: str = ""


class EntryPoint(NamedTuple):
    """The meaning of a function in a chain.

    Attributes:
        cause: if the function called by it says nothing.
        hands_on: whether the function called by it may say more, see `cause_of_called`.
    """

    cause: Cause
    hands_on: bool = False


NO_CAUSE = Cause(CAUSE_NONE)
UNCLASSIFIED = Cause(CAUSE_UNCLASSIFIED)
UNRECORDED = Cause(CAUSE_UNRECORDED)
IDLE = Cause(CAUSE_IDLE)
KERNEL_THREAD = Cause(CAUSE_KERNEL_THREAD)  # its name is the thread's
# In brackets: time of calls, though of none that has a name.
NEW_TASK = Cause(CAUSE_SYSCALL, "(new task)")
# A wait that began outside of a system call, if nothing says more.
OUTSIDE_OF_CALLS = Cause(CAUSE_EXCEPTION, "page fault")
_TASK_SWITCH = Cause(CAUSE_SYSCALL, "(task switch)")
_CALL_PATH = Cause(CAUSE_SYSCALL, "(entry and exit)")
_TRAP_PATH = Cause(CAUSE_EXCEPTION, "(entry and exit)")
_IRQ_PATH = Cause(CAUSE_INTERRUPT, "(irq entry and exit)")
_SOFTIRQ_PATH = Cause(CAUSE_SOFTIRQ, "(softirq entry and exit)")

_BY_NAME: dict[str, EntryPoint] = {
    name: entry
    for known, entry in (
        (names.CALL_PATHS, EntryPoint(_CALL_PATH)),
        (names.CALL_DISPATCHERS, EntryPoint(_CALL_PATH, hands_on=True)),
        ("emulate_vsyscall", EntryPoint(Cause(CAUSE_SYSCALL, "(vsyscall)"))),
        ("task_work_run", EntryPoint(Cause(CAUSE_SYSCALL, "(task_work_run)"))),
        ("ret_from_fork ret_from_fork_asm", EntryPoint(NEW_TASK)),
        (names.SIGNALS, EntryPoint(Cause(CAUSE_EXCEPTION, "signal"))),
        (names.IRQ_PATHS, EntryPoint(_IRQ_PATH)),
        (names.IRQ_DISPATCHERS, EntryPoint(_IRQ_PATH, hands_on=True)),
        (names.SOFTIRQ_DISPATCHERS, EntryPoint(_SOFTIRQ_PATH, hands_on=True)),
        ("kthread", EntryPoint(KERNEL_THREAD)),
        (names.IDLE_LOOPS, EntryPoint(IDLE)),
    )
    for name in known.split()
}
_BY_NAME |= {
    name: EntryPoint(Cause(kind, words))
    for kind, table in (
        (CAUSE_KERNEL_THREAD, names.THREADS),
        (CAUSE_EXCEPTION, names.EXCEPTIONS),
        (CAUSE_INTERRUPT, names.OLD_VECTORS),
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
    cause = _call(function) or _exception(function) or _interrupt(function)
    return EntryPoint(cause) if cause else None


def cause_of_place(function: str) -> Cause | None:
    """Return what the function that was hit says where a chain has no more to say."""
    return _WITHOUT_OUTER_FRAMES.get(function.partition(".")[0])


def cause_of_called(entry: EntryPoint, function: str, calls: Container[str]) -> Cause:
    """Return the cause that a function names if an entry point calls it.

    Args:
        entry: the entry point.
        function: what it called.
        calls: names of the machine's system calls. A function that is none of them is a leaf of
            the dispatcher, or was jumped to by a call whose own frame is gone.
    """
    function = function.partition(".")[0]
    if not function:
        return entry.cause
    if entry.cause.kind == CAUSE_SOFTIRQ:
        name = names.SOFTIRQS.get(function)
        return Cause(CAUSE_SOFTIRQ, name) if name else entry.cause
    if entry.cause.kind == CAUSE_INTERRUPT:
        if re.match(names.AROUND_HANDLER, function):
            return entry.cause
        return Cause(CAUSE_INTERRUPT, names.HANDLERS.get(function, function))
    if re.match(names.AROUND_CALL, function):
        return entry.cause
    stem = re.fullmatch(names.IMPLEMENTATION, function)
    call = names.CALLS.get(function) or (stem.group(1) if stem else function)
    name = names.CALLS.get(call, call)
    return Cause(CAUSE_SYSCALL, name) if name in calls else entry.cause


def _call(function: str) -> Cause | None:
    found = re.fullmatch(names.CALL, function)
    if not found:
        return None
    name = found.group(1)
    return Cause(CAUSE_SYSCALL, names.CALLS.get(name, name))


def _exception(function: str) -> Cause | None:
    found = re.fullmatch(names.EXCEPTION, function)
    if found:
        name = found.group(1)
        if name == "xen_hypervisor_callback":
            return Cause(CAUSE_INTERRUPT, "Xen event")
        return Cause(CAUSE_EXCEPTION, names.EXCEPTIONS.get(name, name.replace("_", " ")))
    if re.fullmatch(names.ARM64_ERROR, function):
        return Cause(CAUSE_EXCEPTION, "SError")
    found = re.fullmatch(names.ARM64_CLASS, function)
    if found and found.group(1) in names.ARM64_CLASSES:
        return Cause(CAUSE_EXCEPTION, names.ARM64_CLASSES[found.group(1)])
    return None


def _interrupt(function: str) -> Cause | None:
    if re.fullmatch(names.ARM64_IRQ, function):
        return _IRQ_PATH
    found = re.fullmatch(names.VECTOR, function)
    if not found:
        return None
    name = found.group(1)
    return Cause(CAUSE_INTERRUPT, names.VECTORS.get(name, name.replace("_", " ")))
