"""callgrind: functions, their callers and instructions, for KCachegrind and callgrind_annotate.

The format is Valgrind's Callgrind Profile Format, version 1, with addresses and, if known, lines as
positions. Its costs are samples and nanoseconds of the first event. A sample counts once in each
call that its stack contains, however deep a function calls itself; ``calls=`` has these samples
too, since nobody counted calls. Source: the Valgrind manual, "Callgrind Format Specification".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import tuples
from prospect.columns.grouping import group_sums
from prospect.figures.stacks.frames import frame_files, frame_labels, frame_table
from prospect.figures.stacks.stack_weights import (
    nanoseconds,
    paths,
    stack_weights,
    weights_by_event,
)
from prospect.records import NamedTuple
from prospect.render.escape import escaped
from prospect.render.renderer import StackRenderer
from prospect.version import generator

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prospect.columns.array_types import I64
    from prospect.figures.stacks.frames import FrameTable
    from prospect.figures.stacks.stack_weights import StackSamples, StackWeights
    from prospect.profile.complete import CompleteProfile

_PART_BITS = 16
_PART = 1 << _PART_BITS  # stacks at a time


class _Costs(NamedTuple):
    """Costs of places, and of calls: from a place to a frame; i64 columns, by place ascending.

    A place is a row of `FrameTable.frame`: an address, in one of the functions inlined there.
    """

    place: I64
    samples: I64
    time_ns: I64
    call_place: I64
    callee: I64
    call_samples: I64
    call_ns: I64


class CallgrindRenderer(StackRenderer):
    """Callgrind's profile format."""

    def pieces(self, samples: StackSamples) -> Iterator[bytes]:
        """Yield the file function by function."""
        profile = samples.profile
        frames = frame_table(profile, inlined=self.inline)
        first = next(weights_by_event(stack_weights(samples)), None)
        if first is None:
            yield f"{_head(profile, 0, '0 0')}\ntotals: 0 0\n".encode()
            return
        event, weights = first
        costs = _costs(samples, frames, weights)
        totals = f"{costs.samples.sum()} {costs.time_ns.sum()}"
        yield _head(profile, event, totals).encode()
        yield from _functions(profile, frames, costs)
        yield f"\ntotals: {totals}\n".encode()


def _head(profile: CompleteProfile, event_index: int, totals: str) -> str:
    run, event = profile.run, profile.run.events[event_index]
    command = escaped(" ".join(run.command) or run.origin)
    of_other_tool = f" of {escaped(event.name)}" if event.unit else ""
    samples = event.samples_title.lower() if event.unit else "samples"
    return (
        "# callgrind format\nversion: 1\n"
        f"creator: {generator()}\n"
        f"cmd: {command}\n"
        "positions: instr line\n"
        f"event: Samples : {escaped(samples)}{of_other_tool}\n"
        f"event: Nanoseconds : nanoseconds{of_other_tool}, by the sampling period\n"
        "events: Samples Nanoseconds\n"
        f"summary: {totals}\n"
    )


def _costs(samples: StackSamples, frames: FrameTable, weights: StackWeights) -> _Costs:
    time_ns = nanoseconds(samples.profile, weights.event, weights.count, weights.period)
    selves, calls = [], []
    for first in range(0, len(weights), _PART):
        part = slice(first, first + _PART)
        start, place = _places(samples, frames, weights.stack_index[part])
        values = weights.count[part], time_ns[part]
        selves.append((place.take(start[1:] - 1), *values))
        calls.append(_calls(frames, start, place, values))
    (place,), sums = group_sums([np.concatenate([s[0] for s in selves])], _columns(selves, 1))
    keys, call_sums = group_sums(_columns(calls, 0)[:2], _columns(calls, 2))
    return _Costs(place, *sums, *keys, *call_sums)


def _columns(parts: Sequence[tuple[I64, ...]], first: int) -> list[I64]:
    return [np.concatenate(column) for column in list(zip(*parts, strict=True))[first:]]


def _places(samples: StackSamples, frames: FrameTable, stack_index: I64) -> tuple[I64, I64]:
    """Return i64[n + 1] where each stack begins, and i64[m] places, outermost first."""
    stacks = samples.stacks
    start, row = paths(stacks.caller_index, stacks.depth, stack_index)
    location = stacks.location_index.take(row)
    sizes = np.diff(frames.start).take(location)
    end = np.append(0, np.cumsum(sizes))
    shift = frames.start.take(location) - end[:-1]
    return end.take(start), np.arange(int(end[-1])) + np.repeat(shift, sizes)


def _calls(frames: FrameTable, start: I64, place: I64, values: tuple[I64, I64]) -> tuple[I64, ...]:
    """Return the calls of stacks, (place, callee, samples, ns): each once for a stack."""
    is_call = np.ones(len(place), np.bool_)
    is_call[start[1:] - 1] = False
    caller = np.flatnonzero(is_call)
    stack = np.repeat(np.arange(len(start) - 1), np.diff(start) - 1)
    callee = frames.frame.take(place.take(caller + 1))
    call = place.take(caller) * len(frames) + callee
    distinct = None
    if len(call) and int(call.max()) >= 1 << (63 - _PART_BITS):
        distinct, call = np.unique(call, return_inverse=True)
    # A call and a stack in one number: sorted, each pair is once, and those of a call are together.
    packed = np.sort(call << _PART_BITS | stack)
    packed = packed[np.append(True, packed[1:] != packed[:-1])[: len(packed)]]
    call, stack = packed >> _PART_BITS, packed & _PART - 1
    first = np.flatnonzero(np.append(True, call[1:] != call[:-1])[: len(call)])
    sums = [_sums(column.take(stack), first) for column in values]
    call = call.take(first)
    if distinct is not None:
        call = distinct.take(call)
    return (call // len(frames), call % len(frames), *sums)


def _sums(column: I64, first: I64) -> I64:
    """Return i64 the sums of stretches; `first` are their first rows, none if there is none."""
    return np.add.reduceat(column, first) if len(first) else column


def _functions(profile: CompleteProfile, frames: FrameTable, costs: _Costs) -> Iterator[bytes]:
    """Yield a block for each function: its own costs, then its calls."""
    names = _Names(profile, frames)
    location = np.repeat(np.arange(len(frames.start) - 1), np.diff(frames.start))
    address = profile.locations.address.take(location).tolist()
    line = frames.line.tolist()
    positions = [f"{a:#x} {n}" for a, n in zip(address, line, strict=True)]
    entry = _entries(profile, frames)
    own: dict[int, list[str]] = {}
    for frame, place, count, time_ns in tuples(
        frames.frame.take(costs.place), costs.place, costs.samples, costs.time_ns
    ):
        own.setdefault(frame, []).append(f"{positions[place]} {count} {time_ns}")
    calls: dict[int, list[tuple[int, str]]] = {}
    for frame, place, callee, count, time_ns in tuples(
        frames.frame.take(costs.call_place),
        costs.call_place,
        costs.callee,
        costs.call_samples,
        costs.call_ns,
    ):
        text = f"calls={count} {entry[callee]:#x} 0\n{positions[place]} {count} {time_ns}"
        calls.setdefault(frame, []).append((callee, text))
    for frame in sorted({*own, *calls}):
        lines = ["", names.of_block(frame), *own.get(frame, ())]
        for callee, text in calls.get(frame, ()):
            lines += (names.of_callee(frame, callee), text)
        yield ("\n".join(lines) + "\n").encode()


def _entries(profile: CompleteProfile, frames: FrameTable) -> list[int]:
    """Return the first address of each frame's function, 0 of inlined ones."""
    address = profile.functions.address.take(np.maximum(frames.function_index, 0))
    found: list[int] = np.where(frames.function_index >= 0, address, 0).tolist()
    return found


class _Names:
    """Names of frames, each by its number after the first time, as the format allows."""

    def __init__(self, profile: CompleteProfile, frames: FrameTable) -> None:
        self._function = frame_labels(profile, frames)
        self._file = [file or "???" for file in frame_files(profile, frames)]
        self._object = [profile.objects.path[row] for row in frames.object_index.tolist()]
        self._known: dict[tuple[str, str], int] = {}

    def of_block(self, frame: int) -> str:
        """Return the lines that name the function of a block."""
        names = (("ob", self._object), ("fl", self._file), ("fn", self._function))
        return "\n".join(f"{kind}={self._name(kind, name[frame])}" for kind, name in names)

    def of_callee(self, caller: int, callee: int) -> str:
        """Return the lines that name a callee; its object and file only if the caller differs."""
        lines = []
        if self._object[callee] != self._object[caller]:
            lines.append(f"cob={self._name('ob', self._object[callee])}")
        if self._file[callee] != self._file[caller]:
            lines.append(f"cfi={self._name('fl', self._file[callee])}")
        lines.append(f"cfn={self._name('fn', self._function[callee])}")
        return "\n".join(lines)

    def _name(self, kind: str, name: str) -> str:
        """Return a number and, the first time, its name."""
        key = kind, name
        if key in self._known:
            return f"({self._known[key]})"
        number = self._known[key] = len(self._known) + 1
        return f"({number}) {escaped(name) or '???'}"
