"""A profile's tables joined and flat, for notebooks.

They are equally long numpy arrays by name; names are arrays of str objects. docs/python.md lists
the columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.columns.buffers import gather
from prospect.errors import UsageError
from prospect.estimate.clocks.grid import tick_grid
from prospect.estimate.errors.design import sampling_design
from prospect.estimate.errors.error_bars import half_widths
from prospect.figures.entry_reasons import ENTRY_REASON_KIND_NAMES
from prospect.figures.modes import (
    MODE_INTERRUPT,
    MODE_KERNEL,
    MODE_NAMES,
    MODE_USER,
    event_has_time,
    event_seconds,
    hit_modes,
)
from prospect.figures.processes import BIRTH_NAMES, chosen_hits, chosen_waits, shown_processes
from prospect.profile.complete import complete
from prospect.profile.group_names import service_names
from prospect.profile.model import (
    BLOCKED,
    KIND_NAMES,
    NO_PATH,
    NO_TURNS,
    PATH_STATES,
    RUNNABLE,
    TURN_STATES,
)
from prospect.profile.optional_tables import innermost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.columns.array_types import F64, I32
    from prospect.options import Detail
    from prospect.profile.complete import ProfileByFunction
    from prospect.profile.model import Profile

    Table = dict[str, NDArray[Any]]

_NS = 1e-9


def hits_table(profile: Profile, detail: Detail = "4") -> Table:
    """Return rows of hits with their names; those of every process add up to all samples.

    With source lines, `file` and `line` are those of the instruction.
    """
    profile = complete(profile)
    locations, functions = profile.locations, profile.functions
    at = np.flatnonzero(chosen_hits(profile, detail))
    hits = gather(profile.hits, at)
    function = locations.function_index[hits.location_index]
    columns = {
        "process": _text(profile.processes.name, hits.process_index),
        "pid": profile.processes.pid[hits.process_index],
        "thread": _text(profile.comms, hits.comm_index),
        "mode": _text(MODE_NAMES, hit_modes(profile)[at]),
        "entry_reason": _text(
            ENTRY_REASON_KIND_NAMES, profile.entry_reasons.kind[hits.entry_reason_index]
        ),
        "entry_reason_name": _text(profile.entry_reasons.name, hits.entry_reason_index),
        "function": _text(functions.name, function),
        "object": _text(profile.objects.path, functions.object_index[function]),
        "address": locations.address[hits.location_index],
        "event": _text([event.name for event in profile.run.events], hits.event),
        "samples": hits.count,
        "seconds": _seconds(profile)[at],
    }
    if profile.lines is not None:
        file_index, line = innermost(profile.lines, hits.location_index)
        columns |= {"file": _text([*profile.lines.files, ""], file_index), "line": line}
    return columns


def functions_table(profile: Profile, detail: Detail = "4") -> Table:
    """Return the functions with a hit, the one with the most time first, each with its ±."""
    profile = complete(profile)
    functions = profile.functions
    at = np.flatnonzero(chosen_hits(profile, detail))
    row = profile.locations.function_index[profile.hits.location_index[at]]
    count = _sums(row, profile.hits.count[at], len(functions)).astype(np.int64)
    seconds = _sums(row, _seconds(profile)[at], len(functions))
    order = np.lexsort((functions.address, -count, -seconds))
    order = order[count[order] > 0]
    object_index = functions.object_index[order]
    rank = np.full(len(functions), -1, np.int32)
    rank[order] = np.arange(len(order))
    row_of_hit = np.full(len(profile.hits), -1, np.int32)
    row_of_hit[at] = rank.take(row)
    return {
        "function": _text(functions.name, order),
        "object": _text(profile.objects.path, object_index),
        "kind": _text(KIND_NAMES, profile.objects.kind[object_index]),
        "address": functions.address[order],
        "samples": count[order],
        "seconds": seconds[order],
        "error_seconds": _error_seconds(profile, row_of_hit, len(order)),
        "percent": 100.0 * count[order] / max(int(count.sum()), 1),
    }


def processes_table(profile: Profile, detail: Detail = "4") -> Table:
    """Return the processes, the one with the most user time first, with kernel time."""
    profile = complete(profile)
    processes, hits = profile.processes, profile.hits
    is_chosen = chosen_hits(profile, detail)
    seconds, mode = _seconds(profile), hit_modes(profile)
    columns: Table = {
        "process": _text(processes.name, np.arange(len(processes))),
        "pid": processes.pid,
        "parent_pid": processes.parent_pid,
        "control_group": _text(
            processes.control_group or [""] * len(processes), np.arange(len(processes))
        ),
        "birth": _text([BIRTH_NAMES[code] for code in sorted(BIRTH_NAMES)], processes.birth),
        "is_command": processes.is_command,
        "is_descendant": processes.is_descendant,
        "is_kernel_thread": processes.is_kernel_thread,
    }
    for code in (MODE_USER, MODE_KERNEL, MODE_INTERRUPT):
        of_mode = (mode == code) & is_chosen
        row = hits.process_index[of_mode]
        count = _sums(row, hits.count[of_mode], len(processes))
        columns[f"{MODE_NAMES[code]}_samples"] = count.astype(np.int64)
        columns[f"{MODE_NAMES[code]}_seconds"] = _sums(row, seconds[of_mode], len(processes))
    order = np.lexsort((processes.pid, -columns["kernel_seconds"], -columns["user_seconds"]))
    order = order[shown_processes(processes, detail)[order]]
    return {name: column[order] for name, column in columns.items()}


def mappings_table(profile: Profile, detail: Detail = "4") -> Table:
    """Return the mappings with hits of each process."""
    profile = complete(profile)
    of_chosen = shown_processes(profile.processes, detail)[profile.mappings.process_index]
    mappings = gather(profile.mappings, np.flatnonzero(of_chosen))
    return {
        "process": _text(profile.processes.name, mappings.process_index),
        "pid": profile.processes.pid[mappings.process_index],
        "object": _text(profile.objects.path, mappings.object_index),
        "start": mappings.start,
        "end": mappings.end,
        "pgoff": mappings.pgoff,
        "samples": mappings.hits,
    }


def losses_table(profile: Profile, _detail: Detail = "4") -> Table:
    """Return the losses by CPU, of all processes together."""
    losses = profile.losses
    return {"cpu": losses.cpu, "lost": losses.lost, "throttled": losses.throttled}


def waits_table(profile: Profile, detail: Detail = "4") -> Table:
    """Return the waits of a recording with switches, in the order of the recording."""
    profile = complete(profile)
    waits = chosen_waits(profile, detail)
    if waits is None:
        raise UsageError(
            "the profile has no waits: record with --off-cpu, and open with stacks=True"
        )
    locations, functions = profile.locations, profile.functions
    function = locations.function_index[waits.location_index]
    return {
        "process": _text(profile.processes.name, waits.process_index),
        "pid": profile.processes.pid[waits.process_index],
        "thread": _text(profile.comms, waits.comm_index),
        "tid": waits.tid,
        "state": _text([BLOCKED, RUNNABLE], waits.is_runnable.astype(np.intp)),
        "entry_reason": _text(
            ENTRY_REASON_KIND_NAMES, profile.entry_reasons.kind[waits.entry_reason_index]
        ),
        "entry_reason_name": _text(profile.entry_reasons.name, waits.entry_reason_index),
        "function": _text(functions.name, function),
        "object": _text(profile.objects.path, functions.object_index[function]),
        "begin_ns": waits.begin_ns,
        "seconds": waits.length_ns * _NS,
    }


def path_table(profile: Profile, _detail: Detail = "4") -> Table:
    """Return the pieces of a command's critical path, which add up to its wall time."""
    path = profile.wall
    if path is None:
        raise UsageError(NO_PATH)
    profile = complete(profile)
    return {
        "state": _text(PATH_STATES, path.state),
        "process": _text([*profile.processes.name, ""], path.process_index),
        "pid": np.append(profile.processes.pid, np.int32(-1)).take(path.process_index),
        "thread": _text(path.names, path.name_index),
        "tid": path.tid,
        "ended_by": _text([*path.names, ""], path.ender_index),
        "begin_ns": path.begin_ns,
        "seconds": path.length_ns * _NS,
    }


def turns_table(profile: Profile, detail: Detail = "3") -> Table:
    """Return the turns of threads: program, kind, thread, begin, seconds and state.

    Raises:
        UsageError: the profile has none.
    """
    turns = profile.turns
    if turns is None:
        raise UsageError(NO_TURNS)
    profile = complete(profile)
    shown = shown_processes(profile.processes, detail)
    rows = np.flatnonzero(np.append(shown, shown.all()).take(turns.process_index))
    process = turns.process_index.take(rows)
    return {
        "process": _text([*profile.processes.name, ""], process),
        "pid": np.append(profile.processes.pid, np.int32(-1)).take(process),
        "tid": turns.tid.take(rows),
        "service": _text([*service_names(profile.processes), ""], process),
        "kind": _text(turns.kinds, turns.kind_index.take(rows)),
        "is_loop": turns.is_loop.take(rows),
        "state": _text(TURN_STATES, turns.state.take(rows)),
        "begin_ns": turns.begin_ns.take(rows),
        "seconds": turns.length_ns.take(rows) * _NS,
    }


TABLES = {
    "functions": functions_table,
    "processes": processes_table,
    "hits": hits_table,
    "waits": waits_table,
    "path": path_table,
    "turns": turns_table,
    "mappings": mappings_table,
    "losses": losses_table,
}


def _seconds(profile: ProfileByFunction) -> F64:
    """Return each hit row's time: f64[h] seconds, 0 for an event that is not time."""
    seconds = np.zeros(len(profile.hits))
    hits = profile.hits
    for event_index, event in enumerate(profile.run.events):
        rows = hits.event == event_index
        seconds[rows] = event_seconds(event, hits.count[rows], hits.period[rows])
    return seconds


def _error_seconds(profile: ProfileByFunction, row_of_hit: I32, rows: int) -> F64:
    """Return half of each row's 95 % interval, f64[rows] s; NaN if no event is time.

    Timed events add up in `seconds`, and so do their errors, which may be correlated.
    """
    grid, found = tick_grid(profile), []
    for event_index, event in enumerate(profile.run.events):
        if event_has_time(event):
            design = sampling_design(profile, event_index, grid)
            row = np.where(profile.hits.event == event_index, row_of_hit, -1)
            found.append(half_widths(design, row, rows))
    return np.sum(found, axis=0) if found else np.full(rows, np.nan)


def _sums(row: NDArray[Any], weights: NDArray[Any], total: int) -> F64:
    return np.bincount(row, weights, total).astype(np.float64)


def _text(names: Sequence[str], row: NDArray[Any]) -> NDArray[np.object_]:
    column = np.empty(len(names), dtype=object)
    column[:] = [as_unicode(name) for name in names]
    return column.take(row)


def as_unicode(name: str) -> str:
    r"""Return a name that any library takes: bytes that are not UTF-8 become ``\xff``.

    Linux names are bytes; `os.fsdecode` represents them as lone surrogates, which neither Arrow nor
    a notebook can encode.
    """
    if name.isascii():
        return name
    try:
        exact = name.encode(errors="surrogateescape")
    except UnicodeEncodeError:  # a surrogate that is no byte: the recording itself made it up
        exact = name.encode(errors="backslashreplace")
    return exact.decode(errors="backslashreplace")
