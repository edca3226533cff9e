"""Folded stacks: a line for each stack and how many samples it has, for flame graphs.

Comes in: samples with stacks. Goes out: ``comm;outermost;...;innermost COUNT`` in UTF-8, sorted, as
stackcollapse-perf.pl writes it and flamegraph.pl, inferno, speedscope and others read it. ``_[k]``
marks the kernel's frames, ``_[i]`` inlined ones, ``_[j]`` JIT code. The first event with samples is
written.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from prospect.profile.frames import frame_annotations, frame_labels, frame_table, named_forest
from prospect.profile.stack_weights import paths, stack_weights, weights_by_event
from prospect.render.escape import escaped
from prospect.render.stack_renderer import StackRenderer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.profile.stack_weights import StackSamples

_PART = 1 << 14


@dataclass(frozen=True)
class FoldedRenderer(StackRenderer):
    """Folded stacks, for FlameGraph and what reads its input."""

    name: ClassVar[str] = "folded"
    suffix: ClassVar[str] = ".folded"
    media_type: ClassVar[str] = "text/plain; charset=utf-8"

    def pieces(self, samples: StackSamples) -> Iterator[bytes]:
        """Yield the lines, sorted."""
        for _, weights in weights_by_event(stack_weights(samples)):
            profile = samples.profile
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
                for number, (comm, count) in enumerate(
                    zip(
                        weights.comm_index[part].tolist(),
                        weights.count[part].tolist(),
                        strict=True,
                    )
                ):
                    stack = [words[f] for f in frame[bounds[number] : bounds[number + 1]]]
                    counts[";".join((roots[comm], *stack))] += count
            for line in sorted(counts):
                yield f"{line} {counts[line]}\n".encode()
            return


def _word(name: str) -> str:
    """Return a name without what separates frames and lines."""
    return escaped(name).replace(";", ":") or "[unknown]"
