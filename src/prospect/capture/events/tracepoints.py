"""Tracepoints: their numbers and fields, from tracefs.

Comes in: ``group:name``. Goes out: the number that perf_event_open() takes, the fields that a
filter may name. Nothing is written.

Defined by: ``Documentation/trace/events.rst``.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from prospect.abi import constants as abi
from prospect.capture.kernel.procfs import read_file, read_if_there
from prospect.capture.kernel.tracefs import tracing_directory
from prospect.errors import CaptureError
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.abi.attr import EventDescription

_MOST_BYTES = 1 << 20
_WORD = re.compile(r"\w[\w.-]*\Z", re.ASCII)
_FIELD = re.compile(r"^\tfield:([^;]+);\toffset:\d+;\tsize:(\d+);", re.MULTILINE)


class TracepointField(NamedTuple):
    """A field of a tracepoint's record, as C declares it, and its size in bytes."""

    declaration: str
    size: int


class TracingFiles(NamedTuple):
    """What tracefs says of the records of some tracepoints, as readers of recordings need it.

    Attributes:
        header_page, header_event: what all records have in common.
        formats: group → the formats of its tracepoints.
    """

    header_page: bytes
    header_event: bytes
    formats: dict[str, list[bytes]]


def events_directory() -> str:
    """Return where tracefs lists the tracepoints.

    Raises:
        CaptureError: this user cannot read it, or it is not mounted and cannot be; says what to do.
    """
    return f"{tracing_directory()}/events"


def tracepoint_id(group: str, name: str) -> int | None:
    """Return a tracepoint's number, None where this kernel has no such tracepoint.

    Raises:
        CaptureError: tracefs cannot be read.
    """
    if not (_WORD.match(group) and _WORD.match(name)):
        return None
    directory = events_directory()
    try:
        text = read_file(f"{directory}/{group}/{name}/id", _MOST_BYTES).strip()
    except PermissionError as error:
        raise CaptureError(f"{directory}/{group} is readable by root only: run as root") from error
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def tracepoints() -> list[tuple[str, str]]:
    """Return (group, name) of every tracepoint, sorted.

    Raises:
        CaptureError: tracefs cannot be read.
    """
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
    """Return the fields of a tracepoint's own, without those that all records have.

    Raises:
        CaptureError: tracefs cannot be read.
    """
    path = f"{events_directory()}/{group}/{name}/format"
    text = os.fsdecode(read_if_there(path, _MOST_BYTES))
    return [
        TracepointField(declaration, int(size))
        for declaration, size in _FIELD.findall(text)
        if not declaration.split()[-1].startswith("common_")
    ]


def recorded_tracepoints(events: Sequence[EventDescription]) -> TracingFiles | None:
    """Return what tracefs says of the tracepoints among events; None where there are none.

    They are found by their numbers where an event is not called as its tracepoint is: names may be
    of whoever recorded.
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
            content = read_if_there(f"{directory}/{group}/{name}/format", _MOST_BYTES)
            formats.setdefault(group, []).append(content)
    header_page, header_event = (
        read_if_there(f"{directory}/{name}", _MOST_BYTES)
        for name in ("header_page", "header_event")
    )
    return TracingFiles(header_page, header_event, formats)


def _names(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
    except OSError:
        return []
