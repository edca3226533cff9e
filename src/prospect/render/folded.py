"""Folded stacks: a line for each stack and how many samples it has, for flame graphs.

Lines are ``comm;outermost;...;innermost COUNT`` in UTF-8, sorted, as stackcollapse-perf.pl writes
them and flamegraph.pl, inferno, speedscope and others read them. ``_[k]`` marks the kernel's
frames, ``_[i]`` inlined ones, ``_[j]`` JIT code. The first event with samples is written; if waits
were recorded, the time on and off the CPU, in microseconds.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from prospect.figures.stacks.frames import (
    frame_annotations,
    frame_labels,
    frame_table,
    named_forest,
)
from prospect.figures.stacks.stack_weights import main_weights, nanoseconds, paths, stack_weights
from prospect.render.escape import escaped
from prospect.render.renderer import StackRenderer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.columns.array_types import I64
    from prospect.figures.stacks.stack_weights import StackSamples, StackWeights
    from prospect.profile.complete import CompleteProfile

_PART = 1 << 14
_NS_PER_US = 1000


class FoldedRenderer(StackRenderer):
    """Folded stacks, for FlameGraph and other readers of its input."""

    def pieces(self, samples: StackSamples) -> Iterator[bytes]:
        """Yield the lines, sorted."""
        profile = samples.profile
        weights = main_weights(profile, stack_weights(samples))
        values = _values(profile, weights)
        frames = frame_table(profile, inlined=self.inline)
        forest = named_forest(samples.stacks, frames)
        annotated = zip(
            frame_labels(profile, frames), frame_annotations(profile, frames), strict=True
        )
        words = [f"{_word(label)}{mark}" for label, mark in annotated]
        roots = [_word(comm) for comm in profile.comms]
        counts: Counter[str] = Counter()
        for first in range(0, len(weights), _PART):
            part = slice(first, first + _PART)
            rows = forest.row_of_stack.take(weights.stack_index[part])
            start, path = paths(forest.caller_index, forest.depth, rows)
            frame = forest.frame_index.take(path).tolist()
            bounds = start.tolist()
            for number, (comm, value) in enumerate(
                zip(weights.comm_index[part].tolist(), values[part].tolist(), strict=True)
            ):
                stack = [words[f] for f in frame[bounds[number] : bounds[number + 1]]]
                counts[";".join((roots[comm], *stack))] += value
        for line in sorted(counts):
            if counts[line]:
                yield f"{line} {counts[line]}\n".encode()


def _values(profile: CompleteProfile, weights: StackWeights) -> I64:
    """Return i64[w] samples; microseconds if waits are among them."""
    is_waiting = np.array([event.is_waiting for event in profile.run.events], np.bool_)
    if not is_waiting.take(weights.event).any():
        return weights.count
    time_ns = nanoseconds(profile, weights.event, weights.count, weights.period)
    return time_ns // _NS_PER_US


def _word(name: str) -> str:
    """Return a name without characters that separate frames and lines."""
    return escaped(name).replace(";", ":") or "[unknown]"
