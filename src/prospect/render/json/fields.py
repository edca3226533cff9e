"""The fields of the JSON report: parts of a ReportView as plain values.

Comes in: a ReportView and rows of its tables. Goes out: dicts and lists of str, int, float (NaN
for what is not known), bool and None, named as docs/schema.md describes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prospect.figures.portions import PORTION_COUNT, PORTION_NAMES, PORTION_USER
from prospect.figures.processes import BIRTH_NAMES, STILL_RUNNING_NS
from prospect.profile.control_groups import group_name
from prospect.profile.model import KIND_NAMES
from prospect.profile.naming import LABELS, REMEDIES, NameSource
from prospect.render.json.bars import bar_fields, row_fields
from prospect.render.json.causes import cause_fields, syscall_fields
from prospect.render.json.cut_rows import cut_fields, shown_figures
from prospect.render.json.disassembly import disassembly_fields
from prospect.render.json.source_lines import source_line_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from prospect.estimate.errors.event_estimates import RowEstimates
    from prospect.estimate.report import EventReport
    from prospect.figures.report.quality import SymbolQuality
    from prospect.figures.report.routines import RoutineTable
    from prospect.figures.report.view import ReportView
    from prospect.figures.stacks.stack_quality import StackQuality
    from prospect.profile.run_info import EventInfo


def run_fields(view: ReportView) -> dict[str, Any]:
    """Return the facts of the run."""
    run = view.profile.run
    return {
        "command": list(run.command),
        "origin": run.origin,
        "recorder": run.recorder,
        "recorder_command_line": list(run.recorder_command_line),
        "hostname": run.hostname,
        "os_release": run.os_release,
        "uname": run.uname,
        "arch": run.arch,
        "cpu_description": run.cpu_description,
        "cpu_mhz": run.cpu_mhz,
        "cpus": run.cpus,
        "started_at": run.started_at,
        "wall_seconds": run.wall_seconds,
        "system_wide": run.system_wide,
        "clock": run.clock,
        "events": [event_fields(event) for event in run.events],
        "accounting": {
            key: value for key, value in run.accounting.items() if isinstance(value, (int, float))
        },
    }


def event_fields(event: EventInfo) -> dict[str, Any]:
    """Return what an event is and how its hits become seconds."""
    fields: dict[str, Any] = {
        "name": event.name,
        "frequency_hz": event.frequency_hz,
        "seconds_per_period": event.seconds_per_period,
        "seconds_per_hit": event.seconds_per_hit,
    }
    return fields | ({"unit": event.unit, "counts": event.counts} if event.unit else {})


def loss_fields(view: ReportView) -> dict[str, Any]:
    """Return what the kernel dropped, by CPU."""
    losses = view.profile.losses
    rows = zip(losses.cpu.tolist(), losses.lost.tolist(), losses.throttled.tolist(), strict=True)
    return {
        "lost": int(losses.lost.sum()),
        "throttled": int(losses.throttled.sum()),
        "by_cpu": [
            {"cpu": cpu, "lost": lost, "throttled": throttled} for cpu, lost, throttled in rows
        ],
    }


def portion_fields(
    hits: list[int], seconds: list[float], estimates: RowEstimates
) -> dict[str, Any]:
    """Return hits, seconds and their error by portion; all have one entry a portion."""
    return {
        name: {
            "hits": hits[portion],
            "seconds": round(seconds[portion], 9),
            **bar_fields(estimates, portion),
        }
        for portion, name in enumerate(PORTION_NAMES)
    }


def process_fields(event: EventReport, row: int) -> dict[str, Any]:
    """Return a process with its totals."""
    view = event.report
    portions = slice(row * PORTION_COUNT, (row + 1) * PORTION_COUNT)
    estimates = event.estimates.processes.rows(portions)
    processes, totals = view.profile.processes, event.processes
    parent = int(view.parents[row])
    end_ns = int(processes.end_ns[row])
    group = processes.control_group[row] if processes.control_group else ""
    return {
        "process_index": row,
        "name": processes.name[row],
        "pid": _pid(processes.pid[row]),
        "parent_pid": _pid(processes.parent_pid[row]),
        "group_pid": _pid(processes.group_pid[row]),
        "session_pid": _pid(processes.session_pid[row]),
        "parent_name": processes.name[parent] if parent >= 0 else None,
        "birth": BIRTH_NAMES.get(int(processes.birth[row]), "unknown"),
        "end": _end(view, row),
        "start_ns": int(processes.start_ns[row]),
        "end_ns": None if end_ns == STILL_RUNNING_NS else end_ns,
        "control_group": group or None,
        "service": group_name(group) or None,
        "is_kernel_thread": bool(processes.is_kernel_thread[row]),
        "is_recorder": bool(processes.is_recorder[row]),
        "is_command": bool(processes.is_command[row]),
        "is_descendant": bool(processes.is_descendant[row]),
        "like_above": bool(estimates.like_above[PORTION_USER]),
        "in_step": bool(estimates.in_step.any()),
        **portion_fields(totals.hits[row].tolist(), totals.seconds[row].tolist(), estimates),
    }


def _pid(pid: Any) -> int | None:
    return int(pid) if pid >= 0 else None


def _end(view: ReportView, row: int) -> str:
    if view.ended_by_exec[row]:
        return "exec"
    is_running = int(view.profile.processes.end_ns[row]) == STILL_RUNNING_NS
    return "running" if is_running else "exit"


def detail_fields(event: EventReport, row: int) -> dict[str, Any]:
    """Return a process with its routines and mappings."""
    view = event.report
    mapped = view.memory_map(row)
    is_known = event.causes.is_known
    return {
        **process_fields(event, row),
        "routines": {
            PORTION_NAMES[portion]: _routines_of_process(event, row, portion)
            for portion in range(PORTION_COUNT)
        },
        "kernel_causes": cause_fields(event, row) if is_known else None,
        "system_calls": syscall_fields(event, row),
        **(
            {"source_lines": source_line_fields(event.lines.of_process(row))} if event.lines else {}
        ),
        "data_mappings_read_ns": mapped.read_ns,
        "mappings": [
            {
                "hits": hits,
                "start": start,
                "end": end,
                "size_bytes": size_bytes,
                "permissions": may_do or None,
                "pgoff": pgoff,
                "object": path,
            }
            for hits, start, end, size_bytes, may_do, pgoff, path in zip(
                mapped.hits.tolist(),
                mapped.start.tolist(),
                mapped.end.tolist(),
                mapped.size_bytes.tolist(),
                mapped.permissions,
                mapped.pgoff.tolist(),
                mapped.path,
                strict=True,
            )
        ],
    }


def _routines_of_process(event: EventReport, process: int, portion: int) -> dict[str, Any]:
    table = event.routine_table(process, portion)
    rows = event.routine_rows(process, portion)
    late = event.late.routines[rows] if event.late else None
    estimates = event.estimates.routine_rows(event, process, portion)
    fields = _routines(event.report, table, estimates, late)
    if event.code:
        routines = event.code.of_process(process, portion, table, estimates.half_width_s)
        fields["disassembly"] = disassembly_fields(event.report.profile, event.code.code, routines)
    return fields


def _routines(
    view: ReportView,
    table: RoutineTable,
    estimates: RowEstimates,
    late: NDArray[np.float64] | None,
) -> dict[str, Any]:
    shown = slice(0, table.shown)
    bars = row_fields(estimates.rows(shown), late)
    figures = shown_figures(table, table.accumulated)
    rows = [
        {**of_row, **bar, **_routine(view, function)}
        for of_row, bar, function in zip(figures, bars, table.function[shown].tolist(), strict=True)
    ]
    return cut_fields(table, rows, "routines")


def _routine(view: ReportView, function: int) -> dict[str, Any]:
    functions, objects = view.profile.functions, view.profile.objects
    object_index = int(functions.object_index[function])
    return {
        "address": int(functions.address[function]),
        "size_bytes": int(functions.size_bytes[function]),
        "name": functions.name[function] or None,
        "raw_name": functions.raw_name[function],
        "aliases": list(functions.aliases[function]),
        "is_global": bool(functions.is_global[function]),
        "source": NameSource(int(functions.source[function])).name,
        "object": objects.path[object_index],
        "object_kind": KIND_NAMES[int(objects.kind[object_index])],
        "build_id": objects.build_id[object_index] or None,
    }


def kernel_fields(event: EventReport) -> Iterator[dict[str, Any]]:
    """Yield the kernel's profile, and with `-V k` its parts."""
    kernel, estimates, late = event.kernel, event.estimates, event.late
    if kernel is None or estimates.kernel is None:
        return
    whole = _routines(event.report, kernel.whole, estimates.kernel, late.kernel if late else None)
    if event.code:
        routines = event.code.of_kernel(kernel.whole, estimates.kernel.half_width_s)
        whole["disassembly"] = disassembly_fields(event.report.profile, event.code.code, routines)
    yield {"part": "all", **whole}
    if event.report.detail == "k":
        of_parts = late.kernel_parts if late else (None,) * len(kernel.parts)
        for (name, table), bars, late_share in zip(
            kernel.parts, estimates.kernel_parts, of_parts, strict=True
        ):
            yield {"part": name, **_routines(event.report, table, bars, late_share)}


def stack_quality_fields(quality: StackQuality | None) -> dict[str, Any]:
    """Return how many stacks are whole; nothing if none was copied or cut."""
    if quality is None:
        return {}
    half, most = quality.cut_frames
    return {
        "stack_quality": {
            "stacks": quality.stacks,
            "cut_stacks": quality.cut_stacks,
            "most_frames": quality.most_frames,
            "samples": quality.samples,
            "without_copy": quality.without_copy,
            "copy_bytes": quality.copy_bytes,
            "by_end": quality.by_end,
            "continued": quality.continued,
            "cut_frames_median": half,
            "cut_frames_most": most,
            "size_for_99": quality.size_for_99,
            "is_size_least": quality.is_size_least,
            "places": [
                {"object": place.object_path, "reason": place.reason, "samples": place.samples}
                for place in quality.places
            ],
        }
    }


def quality_fields(view: ReportView, quality: SymbolQuality) -> dict[str, Any]:
    """Return where names came from."""
    objects = view.profile.objects
    return {
        "hits": quality.hits,
        "named_hits": quality.named_hits,
        "sources": [
            {
                "source": entry.source.name,
                "label": LABELS[entry.source],
                "named": entry.source.named,
                "hits": entry.hits,
                "seconds": round(entry.seconds, 9),
                "share": entry.share,
                "remedy": REMEDIES.get(entry.source),
                "objects": [
                    {
                        "object": objects.path[found.object_index],
                        "hits": found.hits,
                        "note": objects.note[found.object_index] or None,
                        "process_index": found.process_index if found.process_index >= 0 else None,
                    }
                    for found in entry.objects
                ],
                "objects_left_out": entry.objects_left_out,
            }
            for entry in quality.sources
        ],
    }
