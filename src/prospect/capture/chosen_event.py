"""An event that somebody asked for: what to open, and how reports call it."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, NamedTuple

from prospect.abi import constants as abi
from prospect.capture import syscalls
from prospect.errors import CaptureError

if TYPE_CHECKING:
    from prospect.abi.attr import EventAttr

ALONE = -1


class ChosenEvent(NamedTuple):
    """An event that was asked for.

    Attributes:
        name: as reports show it.
        attr: what to open: its kind, who is excluded; `sample_period` is 0 unless a period, or
            with FLAG_FREQ a rate, was asked for.
        group: events of one number from 0 on count at the same times; `ALONE` without.
        filter: of a tracepoint's records, "" for all.
        path: of the file that a probe stands in.
        cpus: the kernel's list of CPUs that count for all, empty where each counts for itself.
        unit, scale: what a count stands for: count times scale, in units.
    """

    name: str
    attr: EventAttr
    group: int = ALONE
    filter: str = ""
    path: bytes = b""
    cpus: bytes = b""
    unit: str = ""
    scale: float = 1.0

    @property
    def has_modifiers(self) -> bool:
        """Whether somebody is excluded already."""
        return bool(self.attr.flags & (abi.FLAG_EXCLUDE_USER | abi.FLAG_EXCLUDE_KERNEL))


def open_chosen(event: ChosenEvent, pid: int, cpu: int, group_fd: int = -1) -> int:
    """Open an event as its attributes say, its file and its filter included.

    Raises:
        OSError: the kernel refuses it.
        CaptureError: the kernel refuses its filter.
        UsageError: the file of a probe is gone.
    """
    if not event.path:
        fd = syscalls.perf_event_open(event.attr.pack(), pid, cpu, group_fd)
    else:
        from prospect.capture.probe_places import open_program  # noqa: PLC0415 - probes only

        program = open_program(os.fsdecode(event.path))
        try:
            # By its descriptor: whoever swaps the file now does not move the probe.
            path = ctypes.create_string_buffer(b"/proc/self/fd/%d" % program)
            attr = event.attr._replace(config1=ctypes.addressof(path))
            fd = syscalls.perf_event_open(attr.pack(), pid, cpu, group_fd)
        finally:
            os.close(program)
    if event.filter:
        try:
            syscalls.set_filter(fd, event.filter)
        except OSError as error:
            os.close(fd)
            raise CaptureError(
                f"{event.name}: the kernel does not understand the filter '{event.filter}';"
                f" prospect list --fields {event.name} shows what it may name"
            ) from error
    return fd
