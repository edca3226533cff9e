"""Opening a `ChosenEvent`, and saying why the kernel refused one."""

from __future__ import annotations

import ctypes
import errno
import os

from prospect.abi import constants as abi
from prospect.capture.kernel import perf_syscalls
from prospect.capture.kernel.procfs import read_setting
from prospect.errors import CaptureError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.capture.events.event_choice import ChosenEvent

_PARANOID = "/proc/sys/kernel/perf_event_paranoid"
# Errors of the kernel for an event that this machine, or this kind of target, does not have.
_NOT_HERE = (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV, errno.EINVAL, errno.ENXIO)
NO_CORE_COUNTERS = "the kernel has no hardware counters here, as in most virtual machines"
_OF_CORES = (abi.PERF_TYPE_HARDWARE, abi.PERF_TYPE_HW_CACHE, abi.PERF_TYPE_RAW)


def open_chosen(event: ChosenEvent, pid: int, cpu: int, group_fd: int = -1) -> int:
    """Open an event as its attributes say, its file and its filter included.

    Raises:
        OSError: the kernel refuses it.
        CaptureError: the kernel refuses its filter.
        UsageError: the file of a probe is gone.
    """
    if not event.path:
        fd = perf_syscalls.perf_event_open(event.attr.pack(), pid, cpu, group_fd)
    else:
        from prospect.capture.events.probe_places import open_program  # noqa: PLC0415 - probes only

        program = open_program(os.fsdecode(event.path))
        try:
            # By its descriptor: a file that is swapped now does not move the probe.
            path = ctypes.create_string_buffer(b"/proc/self/fd/%d" % program)
            attr = event.attr._replace(config1=ctypes.addressof(path))
            fd = perf_syscalls.perf_event_open(attr.pack(), pid, cpu, group_fd)
        finally:
            os.close(program)
    if event.filter:
        try:
            perf_syscalls.set_filter(fd, event.filter)
        except OSError as error:
            os.close(fd)
            raise CaptureError(
                f"{event.name}: the kernel does not understand the filter '{event.filter}';"
                f" prospect list --fields {event.name} shows its fields"
            ) from error
    return fd


def refusal_message(event: ChosenEvent, error: OSError, *, follows_tasks: bool) -> str:
    """Say why an event cannot be opened, and what to do."""
    name = event.name
    if perf_syscalls.is_filtered(error.errno):
        return f"{name}: {perf_syscalls.FILTERED}"
    if perf_syscalls.is_refusal(error):
        if event.path or event.attr.type == abi.PERF_TYPE_TRACEPOINT:
            return f"{name}: not allowed to this user: run as root, or give CAP_PERFMON"
        level = read_setting(_PARANOID)
        who, wanted = ("as root or its owner", 1) if follows_tasks else ("as root", 0)
        return (
            f"{name}: not allowed to this user: run {who}, give CAP_PERFMON, or run: sysctl"
            f" kernel.perf_event_paranoid={wanted} (it is {level})"
        )
    if event.cpus and follows_tasks:
        return f"{name} counts for whole CPUs, not for a process: use prospect stat -V4 or --cpu"
    if error.errno in _NOT_HERE and event.attr.type in _OF_CORES and not _has_core_counters():
        return f"{name}: this machine does not have it: {NO_CORE_COUNTERS}"
    reasons = {
        errno.EMFILE: "too many open files: raise the limit with `ulimit -n`",
        errno.ESRCH: "the process has ended",
        **dict.fromkeys(
            _NOT_HERE, "this machine does not have it; prospect list --check shows what it has"
        ),
    }
    unknown = f"perf_event_open() failed: {error.strerror}"
    return f"{name}: {reasons.get(error.errno or 0, unknown)}"


def _has_core_counters() -> bool:
    from prospect.capture.events.pmus import has_core_counters  # noqa: PLC0415 - only on the way to an error

    return has_core_counters()
