"""All events of this machine, and whether each can be counted and sampled.

Events come from the tables of `event_parsing`, sysfs, tracefs and libpfm4. `check_event` opens one.

Defined by: as `event_parsing`, `pmus`, `tracepoints`, `vendor_events`.
"""

from __future__ import annotations

import errno
import fnmatch
import os
from itertools import chain
from typing import TYPE_CHECKING

from prospect.abi import constants as abi
from prospect.capture.events import pmus, vendor_events
from prospect.capture.events.event_choice import EVERY_TASK
from prospect.capture.events.event_opening import NO_CORE_COUNTERS, open_chosen
from prospect.capture.events.event_parsing import named_events, parse_events
from prospect.capture.events.tracepoints import TracepointField, tracepoint_fields, tracepoints
from prospect.capture.events.vendor_events import NOT_INSTALLED, listed_events
from prospect.capture.kernel import perf_syscalls
from prospect.capture.kernel.procfs import parse_cpu_list
from prospect.errors import CaptureError, ProspectError
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.capture.events.event_choice import ChosenEvent

UNIT_EVENT, UNIT, RAW, PROBE, TRACEPOINT = "unit event", "unit", "raw", "probe", "tracepoint"
VENDOR = "vendor event"
_NONE_OPEN = f"Hardware, cache and vendors' events cannot be opened: {NO_CORE_COUNTERS}."
_COUNTED_BY_CORES = ("hardware", "cache", RAW, VENDOR)
_OWN_TASK = 0
_ANY_CPU = -1
_NOT_ALLOWED = "not allowed to this user"
# Rare enough that a check is not interrupted.
_CHECKED_PERIOD = 1 << 30


class ListedEvent(NamedTuple):
    """An event, or a way to write one.

    Attributes:
        kind: ``software``, ``hardware``, ``cache``, or one of this module's kinds.
        name: the argument of ``--event``; of UNIT, RAW and PROBE a pattern of it.
        other_names: synonyms.
        description: the counted things, or the parameters that the kernel gives for it.
        unit: of a count, "" for plain counts.
        parameters: name and bits of a unit's parameters, or the modifiers of a vendor's event.
        fields: those that a tracepoint's filter may name.
    """

    kind: str
    name: str
    other_names: tuple[str, ...] = ()
    description: str = ""
    unit: str = ""
    parameters: tuple[tuple[str, str], ...] = ()
    fields: tuple[TracepointField, ...] = ()

    @property
    def can_be_opened(self) -> bool:
        """Whether its name is complete."""
        return self.kind not in (UNIT, RAW, PROBE)


class CheckedEvent(NamedTuple):
    """The reasons why an event cannot be counted and sampled, "" if it can.

    `user_only`: this user may open it for user space only.
    """

    counting: str
    sampling: str
    user_only: bool = False


def list_events(
    pattern: str = "", *, with_fields: bool = False
) -> tuple[list[ListedEvent], tuple[str, ...]]:
    """Return the events whose name matches a pattern, and sentences about missing events.

    Args:
        pattern: with ``*`` and ``?``, or a part of the name; "" for all. ``UNIT::PATTERN`` lists
            vendors' events of that unit, which may be another machine's.
        with_fields: whether to list tracepoints with their fields.
    """
    limits: tuple[str, ...] = ()
    named = chain(_untraced_events(), _vendor_events(pattern))
    found = [event for event in named if _fits(event, pattern)]
    if not found and "::" in pattern and not vendor_events.library():
        limits = (f"{NOT_INSTALLED}.",)
    if any(event.kind in _COUNTED_BY_CORES for event in found) and not pmus.has_core_counters():
        limits = (*limits, _NONE_OPEN)
    try:
        points = [f"{group}:{name}" for group, name in tracepoints()]
    except CaptureError as error:
        points, limits = [], (*limits, f"{error}.")
    for point in points:
        event = ListedEvent(TRACEPOINT, point)
        if _fits(event, pattern):
            fields = tracepoint_fields(*point.split(":", 1)) if with_fields else []
            found.append(event._replace(fields=tuple(fields)))
    return found, limits


def check_event(event: ListedEvent) -> CheckedEvent:
    """Open an event for counting and for sampling, and return the kernel's answers."""
    try:
        chosen = parse_events(event.name)[0]
    except ProspectError as error:
        return CheckedEvent(str(error), str(error))
    user_only = False
    if _try(chosen) == _NOT_ALLOWED:
        flags = chosen.attr.flags | abi.FLAG_EXCLUDE_KERNEL | abi.FLAG_EXCLUDE_HV
        alone = chosen._replace(attr=chosen.attr._replace(flags=flags))
        user_only = not _try(alone)
        chosen = alone if user_only else chosen
    sampling = chosen.attr._replace(
        sample_period=_CHECKED_PERIOD, sample_type=abi.PERF_SAMPLE_IP | abi.PERF_SAMPLE_TID
    )
    return CheckedEvent(_try(chosen), _try(chosen._replace(attr=sampling)), user_only)


def _try(event: ChosenEvent) -> str:
    pid, cpu = _OWN_TASK, _ANY_CPU
    if event.cpus:
        pid, cpu = EVERY_TASK, parse_cpu_list(event.cpus)[0]
    attr = event.attr._replace(flags=event.attr.flags | abi.FLAG_DISABLED)
    try:
        os.close(open_chosen(event._replace(attr=attr), pid, cpu))
    except OSError as error:
        if perf_syscalls.is_refusal(error):
            return _NOT_ALLOWED
        if event.attr.sample_period and error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
            return "its counter cannot interrupt"
        if error.errno in (errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.EINVAL):
            return "not on this machine"
        return os.strerror(error.errno or errno.EIO)
    except ProspectError as error:
        return str(error)
    return ""


def _untraced_events() -> Iterator[ListedEvent]:
    for event in named_events():
        name, *others = event.names
        unit = "ns" if name.endswith("-clock") else ""
        yield ListedEvent(event.kind, name, tuple(others), event.description, unit)
    for unit in pmus.pmu_names():
        events, parameters = pmus.pmu_events(unit), pmus.pmu_parameters(unit)
        for named in events:
            yield ListedEvent(
                UNIT_EVENT, f"{unit}/{named.name}/", (), f"{unit}/{named.terms}/", named.unit
            )
        if parameters and unit != "uprobe":
            bits = tuple((name, _bits_text(p)) for name, p in parameters.items())
            name = f"{unit}/{','.join(f'{parameter}=N' for parameter in parameters)}/"
            yield ListedEvent(UNIT, name, (), "a unit's event by its parameters", "", bits)
    if pmus.pmu_type("cpu") is not None:
        yield ListedEvent(RAW, "rHEX", (), "a CPU's event by its config, in hexadecimal")
    if pmus.pmu_type("uprobe") is not None:
        yield ListedEvent(PROBE, "FILE:FUNCTION", (), "calls of a function in a file")
        yield ListedEvent(PROBE, "FILE:FUNCTION%return", (), "returns of a function in a file")
        yield ListedEvent(PROBE, "FILE+OFFSET", (), "executions of the instruction at an offset")


def _vendor_events(pattern: str) -> Iterator[ListedEvent]:
    """Yield vendors' events, each unit mask as its own event."""
    for unit, event in listed_events(pattern):
        elsewhere = "" if unit.is_present else f"; needs {unit.description}"
        name, what = f"{unit.name}::{event.name}", event.description.rstrip(".")
        for mask, masked in event.masks or (("", ""),):
            description = masked if masked.startswith(what) else f"{what}: {masked}"
            yield ListedEvent(
                VENDOR,
                f"{name}:{mask}" if mask else name,
                (),
                (description if masked else what).rstrip(".") + elsewhere,
                "",
                event.modifiers,
            )


def _bits_text(parameter: pmus.Parameter) -> str:
    """Return a parameter's field and bits, as in sysfs."""
    ranges: list[list[int]] = []
    for bit in parameter.bits:
        if ranges and ranges[-1][1] == bit - 1:
            ranges[-1][1] = bit
        else:
            ranges.append([bit, bit])
    texts = (str(first) if first == last else f"{first}-{last}" for first, last in ranges)
    return f"{parameter.field}:{','.join(texts)}"


def _fits(event: ListedEvent, pattern: str) -> bool:
    if not pattern:
        return True
    # Ignore case: vendors' names are in capitals, users may type small letters.
    names = [name.lower() for name in (event.name, *event.other_names, event.kind)]
    pattern = pattern.lower()
    if any(char in pattern for char in "*?["):
        return any(fnmatch.fnmatchcase(name, pattern) for name in names)
    return any(pattern in name for name in names)
