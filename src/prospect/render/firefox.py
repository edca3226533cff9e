"""The Firefox Profiler's processed profile: every sample of every thread at its time.

The document is of processed version 70, as the Firefox Profiler's
``docs-developer/CHANGELOG-formats.md`` and ``src/types/profile.ts`` describe it. Frames are
functions; the first event with samples is written. Times are since the interval's start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.figures.entry_reasons import ENTRY_REASON_KIND_NAMES
from prospect.figures.modes import event_has_time
from prospect.figures.stacks.frames import (
    LANGUAGES,
    FrameTable,
    NamedForest,
    frame_files,
    frame_labels,
    frame_languages,
    frame_table,
    frames_by_line,
    is_kernel_frame,
    named_forest,
    object_label,
)
from prospect.figures.stacks.stack_weights import nanoseconds, sample_threads
from prospect.profile.model import ENTRY_REASON_IDLE, ENTRY_REASON_NONE, KIND_ELF
from prospect.render.code_tables import Strings
from prospect.render.encoding import encoded, encoded_exactly
from prospect.render.renderer import StackRenderer
from prospect.version import generator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.columns.array_types import F64, I64, Bools
    from prospect.figures.stacks.stack_weights import SampleThreads, StackSamples
    from prospect.profile.complete import CompleteProfile

    # A table by line, and of each row its function and its line: see `frames_by_line`.
    _ByLine = tuple[FrameTable, I64, I64]

_VERSION = 70
_GECKO_VERSION = 34
_USER, _KERNEL, _IDLE = 0, 1, 2
_CATEGORIES = [
    {"name": "User", "color": "yellow", "subcategories": ["Other"]},
    {"name": "Kernel", "color": "orange", "subcategories": ["Other"]},
    {"name": "Idle", "color": "transparent", "subcategories": ["Other"]},
    {"name": "Other", "color": "grey", "subcategories": ["Other"]},
]
_FIRST_LANGUAGE = len(_CATEGORIES)
_CATEGORIES += [{"name": name, "color": "blue", "subcategories": ["Other"]} for name in LANGUAGES]
_MARKER_INTERVAL = 1


class FirefoxRenderer(StackRenderer):
    """The Firefox Profiler's own format, processed."""

    def pieces(self, samples: StackSamples) -> Iterator[bytes]:
        """Yield the document, a thread a piece."""
        profile = samples.profile
        strings = Strings()
        frames = frame_table(profile, inlined=self.inline)
        by_line = frames_by_line(frames)
        forest = named_forest(samples.stacks, by_line[0])
        threads = sample_threads(samples)
        yield b'{"meta": ' + encoded(_meta(profile))
        yield b',\n"libs": ' + encoded(_libs(profile))
        yield b',\n"threads": ['
        separator = b"\n"
        for thread, rows in _rows_by_thread(samples, threads):
            fields = _thread(samples, threads, thread)
            fields["samples"] = _samples(samples, forest, rows)
            fields["markers"] = _markers(samples, rows, strings)
            yield separator + encoded_exactly(fields)
            separator = b",\n"
        yield b'],\n"shared": '
        yield encoded(_shared(samples, frames, by_line, forest, strings))
        yield b"}\n"


def _meta(profile: CompleteProfile) -> dict[str, Any]:
    run = profile.run
    frequency_hz = run.events[0].frequency_hz
    return {
        "interval": 1e3 / frequency_hz if frequency_hz > 0 else 1.0,
        "startTime": round(max(run.started_at, 0.0) * 1e3, 3),
        "processType": 0,
        "product": " ".join(run.command) or run.origin,
        "stackwalk": 1,
        "version": _GECKO_VERSION,
        "preprocessedProfileVersion": _VERSION,
        "categories": _CATEGORIES,
        "markerSchema": [],
        "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
        "symbolicated": True,
        "symbolicationNotSupported": True,
        "sourceCodeIsNotOnSearchfox": True,
        "usesOnlyOneStackType": True,
        "importedFrom": generator(),
        "oscpu": f"Linux {run.os_release} {run.arch}",
        "platform": "Linux",
        "CPUName": run.cpu_description,
        "logicalCPUs": run.cpus,
    }


def _libs(profile: CompleteProfile) -> list[dict[str, Any]]:
    objects = profile.objects
    return [
        {
            "arch": profile.run.arch,
            "name": object_label(path),
            "path": path,
            "debugName": object_label(path),
            "debugPath": path,
            "breakpadId": "",
            "codeId": build_id or None,
        }
        for path, build_id in zip(objects.path, objects.build_id, strict=True)
    ]


def _rows_by_thread(samples: StackSamples, threads: SampleThreads) -> Iterator[tuple[int, I64]]:
    """Yield each thread with its samples of the first event, in time order."""
    event = samples.of_hit(samples.profile.hits.event)
    rows = np.flatnonzero(event == event.min(initial=0xFFFF))
    order = np.argsort(threads.thread_index.take(rows), kind="stable")
    if samples.time_ns is not None:
        order = np.lexsort((samples.time_ns.take(rows), threads.thread_index.take(rows)))
    rows = rows.take(order)
    thread = threads.thread_index.take(rows)
    for part in np.split(rows, np.flatnonzero(np.diff(thread)) + 1):
        if len(part):
            yield int(threads.thread_index[part[0]]), part


def _thread(samples: StackSamples, threads: SampleThreads, thread: int) -> dict[str, Any]:
    profile = samples.profile
    process = int(threads.process_index[thread])
    pid, tid = int(profile.processes.pid[process]), int(threads.tid[thread])
    return {
        "processType": "default",
        "processStartupTime": 0,
        "processShutdownTime": None,
        "registerTime": 0,
        "unregisterTime": None,
        "pausedRanges": [],
        "name": profile.comms[int(threads.comm_index[thread])],
        "processName": profile.processes.name[process],
        "isMainThread": pid == tid or tid >= 1 << 22,
        "showMarkersInTimeline": True,
        "pid": str(pid),
        "tid": tid,
    }


def _times_ms(samples: StackSamples, rows: I64) -> F64:
    if samples.time_ns is not None:
        return samples.time_ns.take(rows) / 1e6
    event = samples.of_hit(samples.profile.hits.event).take(rows)
    time = nanoseconds(samples.profile, event, samples.count.take(rows), samples.period.take(rows))
    return (np.cumsum(time) - time) / 1e6


def _samples(samples: StackSamples, forest: NamedForest, rows: I64) -> dict[str, Any]:
    count = samples.count.take(rows)
    event = samples.of_hit(samples.profile.hits.event).take(rows)
    time = nanoseconds(samples.profile, event, count, samples.period.take(rows))
    is_running = [
        event_has_time(info) and not info.is_waiting for info in samples.profile.run.events
    ]
    stack = forest.row_of_stack.take(samples.stack_index.take(rows)).tolist()
    times_ms = _times_ms(samples, rows).tolist()
    table = {
        "stack": stack,
        "time": times_ms,
        "weight": None if bool((count == 1).all()) else count.tolist(),
        "weightType": "samples",
        "length": len(rows),
    }
    if not all(is_running[row] for row in set(event.tolist())):
        return table
    # The CPU time up to each sample: the profiler's panels show from it how busy the thread was.
    # They ignore that of a thread's first sample, before which nothing is known. So the first
    # sample here has neither stack nor weight, and is at the beginning of that time.
    begin_ms = times_ms[0] - int(time[0]) / 1e6
    return table | {
        "threadCPUDelta": [0, *time.tolist()],
        "stack": [None, *stack],
        "time": [begin_ms, *times_ms],
        "weight": [0, *count.tolist()],
        "length": len(rows) + 1,
    }


def _markers(samples: StackSamples, rows: I64, strings: Strings) -> dict[str, Any]:
    """Return a marker for each stretch of samples with one entry reason of kernel time."""
    entry_reasons = samples.profile.entry_reasons
    entry_reason = samples.of_hit(samples.profile.hits.entry_reason_index).take(rows)
    time = _times_ms(samples, rows)
    start = np.flatnonzero(np.append(True, entry_reason[1:] != entry_reason[:-1]))
    end = np.append(start[1:], len(rows)) - 1
    is_kernel = entry_reasons.kind.take(entry_reason.take(start)) != ENTRY_REASON_NONE
    start, end = start[is_kernel], end[is_kernel]
    names = [
        strings[": ".join(filter(None, (ENTRY_REASON_KIND_NAMES[kind], name)))]
        for kind, name in zip(entry_reasons.kind.tolist(), entry_reasons.name, strict=True)
    ]
    return {
        "data": [None] * len(start),
        "name": [names[row] for row in entry_reason.take(start).tolist()],
        "startTime": time.take(start).tolist(),
        "endTime": time.take(end).tolist(),
        "phase": [_MARKER_INTERVAL] * len(start),
        "category": [_KERNEL] * len(start),
        "length": len(start),
    }


def _shared(
    samples: StackSamples,
    frames: FrameTable,
    by_line: _ByLine,
    forest: NamedForest,
    strings: Strings,
) -> dict[str, Any]:
    profile = samples.profile
    labels = strings.of(frame_labels(profile, frames)).tolist()
    nothing: list[None] = [None] * len(frames)
    resources, resource = np.unique(frames.object_index, return_inverse=True)
    caller = forest.caller_index
    sources, files = frame_files(profile, frames), dict[str, int]()
    return {
        "stackTable": {
            "frame": forest.frame_index.tolist(),
            "prefixOffset": np.where(caller < 0, 0, np.arange(len(forest)) - caller).tolist(),
            "length": len(forest),
        },
        "frameTable": _frame_table(samples, frames, by_line, forest),
        "funcTable": {
            "name": labels,
            "isJS": (frame_languages(profile, frames) == LANGUAGES.index("JavaScript")).tolist(),
            "relevantForJS": [False] * len(frames),
            "resource": resource.tolist(),
            "source": [files.setdefault(one, len(files)) if one else None for one in sources],
            "lineNumber": nothing,
            "columnNumber": nothing,
            "originalLocation": nothing,
            "length": len(frames),
        },
        "resourceTable": {
            "name": strings.of([profile.objects.path[row] for row in resources.tolist()]).tolist(),
            "host": [None] * len(resources),
            "type": [1] * len(resources),
            "length": len(resources),
        },
        "nativeSymbols": _native_symbols(profile, frames, labels),
        "sources": _source_table(list(files), strings),
        "sourceLocationTable": {"source": [], "line": [], "column": [], "length": 0},
        "stringArray": list(strings.rows),
    }


def _frame_table(
    samples: StackSamples, frames: FrameTable, by_line: _ByLine, forest: NamedForest
) -> dict[str, Any]:
    """Return a frame for each function and line of it; without lines, for each function."""
    profile = samples.profile
    lined, func, line = by_line
    category = np.where(is_kernel_frame(profile, lined), _KERNEL, _USER)
    language = frame_languages(profile, lined)
    category = np.where(language < 0, category, _FIRST_LANGUAGE + language)
    kind = profile.entry_reasons.kind.take(profile.hits.entry_reason_index.take(samples.hit_index))
    idle = samples.stack_index[kind == ENTRY_REASON_IDLE]
    category[forest.frame_index.take(forest.row_of_stack.take(idle))] = _IDLE
    is_native = _is_native(profile, frames)
    symbol = np.where(is_native, np.cumsum(is_native) - 1, -1).take(func).tolist()
    address = profile.functions.address.take(np.maximum(lined.function_index, 0))
    nothing: list[None] = [None] * len(lined)
    return {
        "address": [
            value if known else -1
            for value, known in zip(address.tolist(), is_native.take(func).tolist(), strict=True)
        ],
        "lib": lined.object_index.tolist(),
        "inlineDepth": (lined.function_index < 0).astype(np.int64).tolist(),
        "category": category.tolist(),
        "subcategory": [0] * len(lined),
        "func": func.tolist(),
        "nativeSymbol": [row if row >= 0 else None for row in symbol],
        "innerWindowID": nothing,
        "line": [number or None for number in line.tolist()],
        "column": nothing,
        "originalLocation": nothing,
        "length": len(lined),
    }


def _is_native(profile: CompleteProfile, frames: FrameTable) -> Bools:
    """Return bool[f]: functions of images at addresses that JavaScript has as whole numbers."""
    is_image = profile.objects.kind.take(frames.object_index) == KIND_ELF
    address = profile.functions.address.take(np.maximum(frames.function_index, 0))
    found: Bools = is_image & (address < np.uint64(1 << 53))
    return found & (frames.function_index >= 0)


def _native_symbols(
    profile: CompleteProfile, frames: FrameTable, labels: list[int]
) -> dict[str, Any]:
    rows = np.flatnonzero(_is_native(profile, frames))
    functions = frames.function_index.take(rows)
    sizes = profile.functions.size_bytes.take(functions)
    return {
        "libIndex": frames.object_index.take(rows).tolist(),
        "address": profile.functions.address.take(functions).tolist(),
        "name": [labels[row] for row in rows.tolist()],
        "functionSize": [size if 0 < size < 1 << 53 else None for size in sizes.tolist()],
        "length": len(rows),
    }


def _source_table(files: list[str], strings: Strings) -> dict[str, Any]:
    nothing: list[None] = [None] * len(files)
    return {
        "id": nothing,
        "filename": strings.of(files).tolist(),
        "startLine": [1] * len(files),
        "startColumn": [1] * len(files),
        "sourceMapURL": nothing,
        "content": nothing,
        "length": len(files),
    }
