"""Tracepoints: their numbers and fields, from tracefs.

A tracepoint ``group:name`` has a number for perf_event_open(), and fields that a filter may name.
If tracefs is not mounted, this process mounts it read-only on a file descriptor, which is in no
directory, is invisible to other processes, and ends with this one.
Functions raise CaptureError if they cannot read tracefs.

Defined by: ``Documentation/trace/events.rst``; fsopen(2), fsconfig(2), fsmount(2) (Linux 5.2).
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
from typing import TYPE_CHECKING

from prospect.abi import constants as abi
from prospect.capture.capture_limits import MOST_TRACEFS_BYTES
from prospect.capture.kernel.perf_syscalls import checked, libc
from prospect.capture.kernel.procfs import read_file, read_if_there
from prospect.errors import CaptureError
from prospect.light import Descriptor
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prospect.abi.attr import EventDescription

_MOUNTS = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
# System calls since Linux 5.0 have the same numbers on all machines.
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432
_FSOPEN_CLOEXEC = _FSMOUNT_CLOEXEC = 1
_FSCONFIG_CMD_CREATE = 6
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NOSUID, _MOUNT_ATTR_NODEV, _MOUNT_ATTR_NOEXEC = 1, 2, 4, 8
_MOUNT_ATTRS = _MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NOSUID | _MOUNT_ATTR_NODEV | _MOUNT_ATTR_NOEXEC


def events_directory() -> str:
    """Return the directory of tracefs that lists the tracepoints.

    Raises:
        CaptureError: this user may not read or mount it; says what to do.
    """
    for mount in _MOUNTS:
        if os.access(f"{mount}/events", os.R_OK | os.X_OK):
            return f"{mount}/events"
    if os.path.isdir(_MOUNTS[0]) and not os.access(_MOUNTS[0], os.R_OK | os.X_OK):
        raise CaptureError(f"tracepoints are listed in {_MOUNTS[0]}, which only root may read here")
    try:
        return f"/proc/self/fd/{_own_mount()}/events"
    except OSError as error:
        raise CaptureError(
            f"tracepoints need tracefs: run as root: mount -t tracefs nodev {_MOUNTS[0]}"
        ) from error


@functools.cache
def _own_mount() -> int:
    """Mount tracefs for this process only; return the file descriptor of its root."""
    with Descriptor(_call(_FSOPEN, b"tracefs", _FSOPEN_CLOEXEC)) as context:
        # Only this mount is read-only; the whole machine shares the file system.
        _call(_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0)
        return _call(_FSMOUNT, context, _FSMOUNT_CLOEXEC, _MOUNT_ATTRS)


def _call(number: int, *arguments: bytes | int | None) -> int:
    words = (
        ctypes.c_long(one) if isinstance(one, int) else ctypes.c_char_p(one) for one in arguments
    )
    return checked(libc().syscall(ctypes.c_long(number), *words))


_WORD = re.compile(r"\w[\w.-]*\Z", re.ASCII)
_FIELD = re.compile(r"^\tfield:([^;]+);\toffset:\d+;\tsize:(\d+);", re.MULTILINE)


class TracepointField(NamedTuple):
    """A field of a tracepoint's record: its declaration in C, and its size in bytes."""

    declaration: str
    size: int


class TracingFiles(NamedTuple):
    """The formats of some tracepoints in tracefs, for readers of recordings.

    Attributes:
        header_page, header_event: the common parts of all records.
        formats: group → the formats of its tracepoints.
    """

    header_page: bytes
    header_event: bytes
    formats: dict[str, list[bytes]]


def tracepoint_id(group: str, name: str) -> int | None:
    """Return a tracepoint's number, None if this kernel has no such tracepoint."""
    if not (_WORD.match(group) and _WORD.match(name)):
        return None
    directory = events_directory()
    try:
        text = read_file(f"{directory}/{group}/{name}/id", MOST_TRACEFS_BYTES).strip()
    except PermissionError as error:
        raise CaptureError(f"{directory}/{group} is readable by root only: run as root") from error
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def tracepoint_format(group: str, name: str) -> bytes:
    """Return the format of a tracepoint in tracefs, empty if there is no such tracepoint."""
    return read_if_there(f"{events_directory()}/{group}/{name}/format", MOST_TRACEFS_BYTES)


def tracepoints() -> list[tuple[str, str]]:
    """Return (group, name) of every tracepoint, sorted."""
    directory = events_directory()
    found = []
    for group in _names(directory):
        found += [
            (group, name)
            for name in _names(f"{directory}/{group}")
            if os.access(f"{directory}/{group}/{name}/id", os.R_OK)
        ]
    return found


def tracepoint_fields(group: str, name: str) -> list[TracepointField]:
    """Return the fields of a tracepoint, without those that all records have."""
    text = os.fsdecode(tracepoint_format(group, name))
    return [
        TracepointField(declaration, int(size))
        for declaration, size in _FIELD.findall(text)
        if not declaration.split()[-1].startswith("common_")
    ]


def recorded_tracepoints(
    events: Sequence[EventDescription], own: Mapping[str, bytes]
) -> TracingFiles | None:
    """Return the formats of the tracepoints among events; None if there are none.

    It looks up an event by its number if the user gave it a name other than its tracepoint's.

    Args:
        own: the formats of records that BPF programs wrote, by tracepoint.
    """
    named = {
        e.attr.config: tuple(e.name.split(":", 1))
        for e in events
        if e.attr.type == abi.PERF_TYPE_TRACEPOINT
    }
    numbers = named.keys()
    if not numbers:
        return None
    try:
        directory = events_directory()
        names = [(one[0], one[-1]) for one in named.values()]
        if any(tracepoint_id(*name) != number for name, number in zip(names, numbers, strict=True)):
            names = tracepoints()
    except CaptureError:
        return None
    formats: dict[str, list[bytes]] = {}
    for group, name in names:
        if tracepoint_id(group, name) in numbers:
            content = own.get(f"{group}:{name}") or tracepoint_format(group, name)
            formats.setdefault(group, []).append(content)
    header_page, header_event = (
        read_if_there(f"{directory}/{name}", MOST_TRACEFS_BYTES)
        for name in ("header_page", "header_event")
    )
    return TracingFiles(header_page, header_event, formats)


def _names(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
    except OSError:
        return []
