"""Chrome's trace format: every sample at its time, with its stack.

The document is of the Trace Event Format's object form: ``samples`` with ``stackFrames``, and
metadata events that name processes and threads. Times are microseconds since the interval's start.
In a profile without times, samples follow each other by their periods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.columns.sorting import distinct
from prospect.figures.stacks.frames import (
    LANGUAGES,
    FrameTable,
    NamedForest,
    frame_labels,
    frame_languages,
    frame_table,
    is_kernel_frame,
    named_forest,
)
from prospect.figures.stacks.stack_weights import nanoseconds, sample_threads
from prospect.profile.model import NO_CPU
from prospect.render.encoding import encoded
from prospect.render.renderer import StackRenderer
from prospect.version import generator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.figures.stacks.stack_weights import SampleThreads, StackSamples
    from prospect.profile.complete import CompleteProfile

_PART = 1 << 14


class ChromeTraceRenderer(StackRenderer):
    """Chrome's Trace Event Format, with sampled stacks."""

    def pieces(self, samples: StackSamples) -> Iterator[bytes]:
        """Yield the document piece by piece."""
        profile = samples.profile
        frames = frame_table(profile, inlined=self.inline)
        forest = named_forest(samples.stacks, frames)
        threads = sample_threads(samples)
        yield b'{"displayTimeUnit": "ms",\n"otherData": '
        yield encoded({"generator": generator(), "recorder": profile.run.recorder})
        yield b',\n"traceEvents": ' + encoded(_metadata(profile, threads))
        yield b',\n"stackFrames": {'
        yield from _stack_frames(profile, frames, forest)
        yield b'},\n"samples": ['
        yield from _samples(samples, forest, threads)
        yield b"]}\n"


def _metadata(profile: CompleteProfile, threads: SampleThreads) -> list[dict[str, Any]]:
    processes = profile.processes
    events: list[dict[str, Any]] = []
    columns = (threads.process_index, threads.comm_index, threads.tid)
    for process, comm, tid in zip(*(column.tolist() for column in columns), strict=True):
        common = {"ph": "M", "pid": int(processes.pid[process]), "tid": tid, "ts": 0}
        events += [
            {**common, "name": "process_name", "args": {"name": processes.name[process]}},
            {**common, "name": "thread_name", "args": {"name": profile.comms[comm]}},
        ]
    return events


def _stack_frames(
    profile: CompleteProfile, frames: FrameTable, forest: NamedForest
) -> Iterator[bytes]:
    # By `frame_languages`, -1 for the last one.
    categories = np.array([*LANGUAGES, "user"], object).take(frame_languages(profile, frames))
    categories[is_kernel_frame(profile, frames)] = "kernel"
    words = [
        encoded({"category": category, "name": label})[:-1].decode()
        for label, category in zip(frame_labels(profile, frames), categories, strict=True)
    ]
    for first in range(0, len(forest), _PART):
        part = slice(first, first + _PART)
        rows = zip(
            forest.caller_index[part].tolist(), forest.frame_index[part].tolist(), strict=True
        )
        lines = [
            f'"{first + number}": {words[frame]}, "parent": "{caller}"}}'
            if caller >= 0
            else f'"{first + number}": {words[frame]}}}'
            for number, (caller, frame) in enumerate(rows)
        ]
        yield (",\n" if first else "\n").encode() + ",\n".join(lines).encode()


def _samples(samples: StackSamples, forest: NamedForest, threads: SampleThreads) -> Iterator[bytes]:
    """Yield the samples in time order: one format string for a part of them at a time."""
    process = threads.process_index.take(threads.thread_index)
    pid = samples.profile.processes.pid.astype(np.int64).take(process)
    tid = threads.tid.take(threads.thread_index)
    events = [
        encoded(event.name).decode().replace("%", "%%") for event in samples.profile.run.events
    ]
    event = samples.of_hit(samples.profile.hits.event)
    when = samples.time_ns
    if when is None:
        time = nanoseconds(samples.profile, event, samples.count, samples.period)
        when = (np.cumsum(time) - time).astype(np.uint64)
    separator = "\n"
    order = np.lexsort((when, event))
    for first in range(0, len(order), _PART):
        rows = order[first : first + _PART]
        for number in distinct(event.take(rows)).tolist():
            of_event = rows[event.take(rows) == number]
            template = (
                f'{{"name": {events[number]}, "cpu": %d, "pid": %d, "tid": %d, "ts": %d.%03d, '
                '"sf": "%d", "weight": %d}'
            )
            cpu = samples.cpu.take(of_event).astype(np.int64)
            time_ns = when.take(of_event).astype(np.int64)
            columns = (
                np.where(cpu == NO_CPU, 0, cpu),
                pid.take(of_event),
                tid.take(of_event),
                time_ns // 1000,
                time_ns % 1000,
                forest.row_of_stack.take(samples.stack_index.take(of_event)),
                samples.count.take(of_event),
            )
            values = np.stack(columns, axis=1).ravel().tolist()
            text = ",\n".join([template] * len(of_event)) % tuple(values)
            yield separator.encode() + text.encode()
            separator = ",\n"
