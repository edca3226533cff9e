"""A Profile in which every index is a row: missing processes, places and objects have rows.

In a Profile, -1 is "none". A `CompleteProfile` has at most one more row in the process, object,
function and location tables, so that grouping by row includes every hit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from prospect.profile.model import KIND_UNKNOWN, Profile
from prospect.profile.naming import NameSource, joined
from prospect.profile.run_info import EventInfo
from prospect.records import Record, asdict, replace

if TYPE_CHECKING:
    from prospect.columns.array_types import I32
    from prospect.profile.model import FunctionTable, LocationTable, ObjectTable

_Table = TypeVar("_Table", bound=Record)

NO_PROCESS_NAME = "[no process]"
NO_OBJECT_PATH = "[no object]"
NO_EVENT_NAME = "unknown"
_STILL_RUNNING = 2**64 - 1


class ProfileByFunction(Profile):
    """A profile without an index of -1, its hits by function and perhaps not by address.

    Its last process, object, function or location is for missing ones. Rates of events are finite
    and at least 0. Computations on one may use a hit's process, function, mode, entry reason and
    event. Its place, thread and stack may be those of any of the merged hits (`figures.selection`).
    """


class CompleteProfile(ProfileByFunction):
    """A profile without an index of -1, its hits by address, thread and stack."""


def complete(profile: Profile) -> CompleteProfile:
    """Return `profile` with a row for "none" in each table that an index of -1 refers to."""
    if isinstance(profile, CompleteProfile):
        return profile
    hits = profile.hits
    processes, process_index = profile.processes, hits.process_index
    syscalls = profile.syscalls
    waits, no_process = profile.waits, len(profile.processes)
    indexes = [table.process_index for table in (hits, syscalls, waits) if table is not None]
    if any((index < 0).any() for index in indexes):
        process_index = _filled(process_index, no_process)
        if syscalls:
            filled = _filled(syscalls.process_index, no_process)
            syscalls = replace(syscalls, process_index=filled)
        if waits is not None:
            waits = replace(waits, process_index=_filled(waits.process_index, no_process))
        unknown = dict.fromkeys(("pid", "parent_pid", "group_pid", "session_pid"), -1)
        processes = _with_row(
            processes, name=NO_PROCESS_NAME, parent_index=-1, end_ns=_STILL_RUNNING, **unknown
        )
    objects, functions, locations, location_index = _complete_places(profile)
    if waits is not None:
        waits = replace(waits, location_index=_filled(waits.location_index, len(locations) - 1))
    mappings = profile.mappings
    if (mappings.object_index < 0).any():
        index = _filled(mappings.object_index, len(objects) - 1)
        mappings = replace(mappings, object_index=index)
    stacks = profile.stacks
    if stacks is not None and (stacks.location_index < 0).any():
        index = _filled(stacks.location_index, len(locations) - 1)
        stacks = replace(stacks, location_index=index)
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
        "stacks": stacks,
        "waits": waits,
    }
    return CompleteProfile(**{**asdict(profile), **changed})


def _complete_places(profile: Profile) -> tuple[ObjectTable, FunctionTable, LocationTable, I32]:
    objects, functions, locations = profile.objects, profile.functions, profile.locations
    location_index = profile.hits.location_index
    others = [table.location_index for table in (profile.stacks, profile.waits) if table]
    if any((column < 0).any() for column in (location_index, *others)):
        location_index = _filled(location_index, len(locations))
        locations = _with_row(locations, function_index=-1)
    if (locations.function_index < 0).any():
        locations = replace(
            locations, function_index=_filled(locations.function_index, len(functions))
        )
        functions = _with_row(functions, aliases=(), object_index=-1, source=NameSource.NO_MAPPING)
    if (functions.object_index < 0).any() or (profile.mappings.object_index < 0).any():
        functions = replace(functions, object_index=_filled(functions.object_index, len(objects)))
        objects = _with_row(
            objects, path=NO_OBJECT_PATH, kind=KIND_UNKNOWN, source=NameSource.NO_MAPPING
        )
    return objects, functions, locations, location_index


def _usable(event: EventInfo) -> EventInfo:
    """Replace rates that are not finite or negative by 0, as in a damaged header."""
    names = ("seconds_per_period", "seconds_per_hit", "frequency_hz")
    rates: dict[str, Any] = {name: getattr(event, name) for name in names}
    for name, rate in rates.items():
        if not (math.isfinite(rate) and rate >= 0):
            rates[name] = 0.0
    return replace(event, **rates)


def _with_row(table: _Table, **values: Any) -> _Table:
    """Return a table with one more row, whose other values are 0 or ""."""

    def column(name: str, rows: Any) -> Any:
        if isinstance(rows, np.ndarray):
            return np.append(rows, np.array([values.get(name, 0)], rows.dtype))
        return None if rows is None else joined([rows, [values.get(name, "")]])

    return type(table)(**{name: column(name, rows) for name, rows in asdict(table).items()})


def _filled(index: I32, row: int) -> I32:
    return np.where(index < 0, np.int32(row), index)
