"""A Profile whose every index is a row: hits without a process, place or object get their own.

In a Profile, -1 is "none". A `CompleteProfile` has at most one row more in the process, object,
function and location tables, so that whatever groups by row counts every hit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.profile.model import (
    BIRTH_PREEXISTING,
    KIND_UNKNOWN,
    FunctionTable,
    LocationTable,
    ObjectTable,
    ProcessTable,
    Profile,
    StackTable,
)
from prospect.profile.naming import NameSource, joined
from prospect.profile.run_info import EventInfo
from prospect.records import asdict, replace

if TYPE_CHECKING:
    from numpy.typing import NDArray

NO_PROCESS_NAME = "[no process]"
NO_OBJECT_PATH = "[no object]"
NO_EVENT_NAME = "unknown"
_STILL_RUNNING = 2**64 - 1


class ProfileByFunction(Profile):
    """A profile without an index of -1, its hits by function and perhaps not by address.

    Its last process, object, function or location is for what is missing. Rates of events are
    finite and at least 0. Computations on one need a hit's process, function, mode,
    entry reason and event; its place, thread and stack may be those of one hit among many
    (`figures.selection`).
    """


class CompleteProfile(ProfileByFunction):
    """A profile without an index of -1, its hits by address, thread and stack."""


def complete(profile: Profile) -> CompleteProfile:
    """Return `profile` with a row for "none" wherever a table refers to none."""
    if isinstance(profile, CompleteProfile):
        return profile
    hits = profile.hits
    processes, process_index = profile.processes, hits.process_index
    syscalls = profile.syscalls
    if (process_index < 0).any() or (syscalls and (syscalls.process_index < 0).any()):
        process_index = _filled(process_index, len(processes))
        if syscalls:
            filled = _filled(syscalls.process_index, len(processes))
            syscalls = replace(syscalls, process_index=filled)
        processes = _with_no_process(processes)
    waits = profile.waits
    if waits is not None and (waits.process_index < 0).any():
        waits = replace(waits, process_index=_filled(waits.process_index, len(profile.processes)))
        if len(processes) == len(profile.processes):
            processes = _with_no_process(processes)
    objects, functions, locations, location_index = _complete_places(profile)
    if waits is not None:
        waits = replace(waits, location_index=_filled(waits.location_index, len(locations) - 1))
    mappings = profile.mappings
    if (mappings.object_index < 0).any():
        index = _filled(mappings.object_index, len(objects) - 1)
        mappings = replace(mappings, object_index=index)
    events = profile.run.events or (EventInfo(NO_EVENT_NAME, 0.0, 0.0, 0.0),)
    changed = {
        "run": replace(profile.run, events=tuple(map(_usable, events))),
        "processes": processes,
        "objects": objects,
        "functions": functions,
        "locations": locations,
        "mappings": mappings,
        "hits": replace(hits, process_index=process_index, location_index=location_index),
        "syscalls": syscalls,
        "stacks": _complete_stacks(profile.stacks, len(locations) - 1),
        "waits": waits,
    }
    return CompleteProfile(**{**asdict(profile), **changed})


def _complete_stacks(stacks: StackTable | None, no_location: int) -> StackTable | None:
    if stacks is None or not (stacks.location_index < 0).any():
        return stacks
    return replace(stacks, location_index=_filled(stacks.location_index, no_location))


def _complete_places(
    profile: Profile,
) -> tuple[ObjectTable, FunctionTable, LocationTable, NDArray[np.int32]]:
    objects, functions, locations = profile.objects, profile.functions, profile.locations
    location_index = profile.hits.location_index
    others = [table.location_index for table in (profile.stacks, profile.waits) if table]
    if any((column < 0).any() for column in (location_index, *others)):
        location_index = _filled(location_index, len(locations))
        locations = LocationTable(
            function_index=_with(locations.function_index, -1),
            address=_with(locations.address, 0),
        )
    if (locations.function_index < 0).any():
        locations = replace(
            locations, function_index=_filled(locations.function_index, len(functions))
        )
        functions = _with_no_function(functions)
    if (functions.object_index < 0).any() or (profile.mappings.object_index < 0).any():
        functions = replace(functions, object_index=_filled(functions.object_index, len(objects)))
        objects = ObjectTable(
            path=[*objects.path, NO_OBJECT_PATH],
            kind=_with(objects.kind, KIND_UNKNOWN),
            build_id=[*objects.build_id, ""],
            source=_with(objects.source, NameSource.NO_MAPPING),
            note=[*objects.note, ""],
        )
    return objects, functions, locations, location_index


def _usable(event: EventInfo) -> EventInfo:
    """Take a rate that is no finite number of 0 or more, as a damaged header has, for none."""
    return replace(
        event,
        seconds_per_period=_rate(event.seconds_per_period),
        seconds_per_hit=_rate(event.seconds_per_hit),
        frequency_hz=_rate(event.frequency_hz),
    )


def _rate(value: float) -> float:
    return value if math.isfinite(value) and value >= 0 else 0.0


def _with_no_process(processes: ProcessTable) -> ProcessTable:
    return ProcessTable(
        name=[*processes.name, NO_PROCESS_NAME],
        pid=_with(processes.pid, -1),
        parent_pid=_with(processes.parent_pid, -1),
        group_pid=_with(processes.group_pid, -1),
        session_pid=_with(processes.session_pid, -1),
        parent_index=_with(processes.parent_index, -1),
        birth=_with(processes.birth, BIRTH_PREEXISTING),
        start_ns=_with(processes.start_ns, 0),
        end_ns=_with(processes.end_ns, _STILL_RUNNING),
        is_kernel_thread=_with(processes.is_kernel_thread, 0),
        is_recorder=_with(processes.is_recorder, 0),
        is_command=_with(processes.is_command, 0),
        is_descendant=_with(processes.is_descendant, 0),
        control_group=_texts(processes.control_group),
        service=_texts(processes.service),
        image=_texts(processes.image),
    )


def _with_no_function(functions: FunctionTable) -> FunctionTable:
    return FunctionTable(
        name=joined([functions.name, [""]]),
        linkage_name=[*functions.linkage_name, ""],
        aliases=joined([functions.aliases, [()]]),
        object_index=_with(functions.object_index, -1),
        address=_with(functions.address, 0),
        size_bytes=_with(functions.size_bytes, 0),
        is_global=_with(functions.is_global, 0),
        source=_with(functions.source, NameSource.NO_MAPPING),
    )


def _with(column: NDArray[Any], value: int) -> NDArray[Any]:
    return np.append(column, np.array([value], column.dtype))


def _filled(index: NDArray[np.int32], row: int) -> NDArray[np.int32]:
    return np.where(index < 0, np.int32(row), index)


def _texts(column: list[str] | None) -> list[str] | None:
    return None if column is None else [*column, ""]
