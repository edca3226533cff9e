"""speedscope: a profile for each thread, as https://www.speedscope.app reads it.

The schema is speedscope's ``file-format-schema.json``: sampled profiles whose stacks are summed,
weighted by time, or by samples if the event has none; the one with the most samples first.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.figures.modes import event_has_time
from prospect.figures.stacks.frames import (
    FrameTable,
    NamedForest,
    frame_annotations,
    frame_files,
    frame_labels,
    frame_table,
    named_forest,
)
from prospect.figures.stacks.stack_weights import nanoseconds, paths, stack_weights
from prospect.render.encoding import encoded, encoded_exactly
from prospect.render.renderer import StackRenderer
from prospect.version import generator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.figures.stacks.stack_weights import StackSamples, StackWeights
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.run_info import EventInfo

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


class SpeedscopeRenderer(StackRenderer):
    """speedscope's own file format."""

    def pieces(self, samples: StackSamples) -> Iterator[bytes]:
        """Yield the document, a profile a piece."""
        profile = samples.profile
        frames = frame_table(profile, inlined=self.inline)
        forest = named_forest(samples.stacks, frames)
        yield b'{"$schema": ' + encoded(_SCHEMA)
        yield b',\n"exporter": ' + encoded(generator())
        yield b',\n"shared": {"frames": ' + encoded(_frames(profile, frames))
        yield b'},\n"profiles": ['
        for number, weights in enumerate(_by_thread(stack_weights(samples))):
            yield b",\n" if number else b"\n"
            yield encoded_exactly(_profile(profile, forest, weights))
        yield b"\n]}\n"


def _frames(profile: CompleteProfile, frames: FrameTable) -> list[dict[str, Any]]:
    rows = zip(
        frame_labels(profile, frames),
        frame_annotations(profile, frames),
        frame_files(profile, frames),
        frames.object_index.tolist(),
        strict=True,
    )
    return [
        {
            "name": f"{label}{mark if mark == '_[k]' else ''}",
            "file": file or profile.objects.path[object_index],
        }
        for label, mark, file, object_index in rows
    ]


def _by_thread(weights: StackWeights) -> list[StackWeights]:
    """Return the rows of each (event, process, thread name), those with the most samples first."""
    keys = (weights.process_index, weights.comm_index, weights.event)
    order = np.lexsort(keys)
    changes = np.zeros(len(weights), np.bool_)
    for key in keys:
        column = key.take(order)
        changes[1:] |= column[1:] != column[:-1]
    threads = [
        weights.chosen(rows) for rows in np.split(order, np.flatnonzero(changes)) if len(rows)
    ]
    return sorted(threads, key=lambda thread: (int(thread.event[0]), -int(thread.count.sum())))


def _profile(
    profile: CompleteProfile, forest: NamedForest, weights: StackWeights
) -> dict[str, Any]:
    event = profile.run.events[int(weights.event[0])]
    start, path = paths(
        forest.caller_index, forest.depth, forest.row_of_stack.take(weights.stack_index)
    )
    frames, bounds = forest.frame_index.take(path).tolist(), start.tolist()
    values = weights.count
    if event_has_time(event):
        values = nanoseconds(profile, weights.event, weights.count, weights.period)
    process = int(weights.process_index[0])
    name = profile.processes.name[process]
    comm = profile.comms[int(weights.comm_index[0])]
    thread = f"{name}/{comm}" if comm != name else name
    return {
        "type": "sampled",
        "name": f"{thread} {int(profile.processes.pid[process])}, {event.name}",
        "unit": _unit(event),
        "startValue": 0,
        "endValue": int(values.sum()),
        "samples": [frames[a:b] for a, b in itertools.pairwise(bounds)],
        "weights": values.tolist(),
    }


def _unit(event: EventInfo) -> str:
    """Return the one of the format's units that weights have."""
    if event_has_time(event):
        return "nanoseconds"
    return "bytes" if event.unit == "bytes" else "none"
