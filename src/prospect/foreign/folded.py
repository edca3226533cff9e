"""Folded stacks → a Profile.

Comes in: lines as ``thread;outermost;...;innermost COUNT``, which stackcollapse-*.pl of FlameGraph
and others write. The first frame is taken for the thread's name, as stackcollapse-perf.pl puts it.
``_[k]`` marks the kernel's frames and ``_[j]`` JIT code; ``_[i]``, of inlined functions, stays with
the name. A frame in brackets is an object without a name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.errors import RecordingError
from prospect.foreign.stacks import NamedFrames, WeightedStacks, stack_profile
from prospect.foreign.tables import run_info
from prospect.profile.frames import object_label
from prospect.profile.model import KIND_ELF, KIND_JIT, KIND_KERNEL
from prospect.profile.run_info import EventInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.profile.model import Profile

_KERNEL, _JIT = "_[k]", "_[j]"
_MOST_COUNT = 1 << 53  # the sum of all; shares are computed as floating point


def folded_profile(origin: str, data: memoryview) -> Profile:
    """Read folded stacks.

    Args:
        origin: the file's name.
        data: UTF-8; bytes that are none are kept as `os.fsdecode` does.

    Raises:
        RecordingError: a line is none, or there are more samples than can be counted.
    """
    frames: dict[str, int] = {}
    comms: dict[str, int] = {}
    length, location, comm, count = [], [], [], []
    for words, samples in _lines(data):
        comm.append(comms.setdefault(words[0], len(comms)))
        stack = words[1:] or words
        location += [frames.setdefault(word, len(frames)) for word in stack]
        length.append(len(stack))
        count.append(samples)
    if sum(count) > _MOST_COUNT:
        raise RecordingError("more samples than can be counted")
    weights = np.array(count, np.int64)
    zeros = np.zeros(len(count), np.int64)
    threads = np.array(comm, np.int64)
    names = list(comms)
    return stack_profile(
        _named(list(frames)),
        WeightedStacks(
            start=np.append(0, np.cumsum(np.array(length, np.int64))),
            location=np.array(location, np.int64),
            process=threads,
            comm=threads,
            event=zeros,
            cause=zeros,
            count=weights,
            period=weights,
        ),
        run=run_info(origin, (EventInfo("samples", 0.0, 0.0, 0.0),), 0.0),
        processes=[(name, -1) for name in names],
        comms=names,
    )


def _lines(data: memoryview) -> Iterator[tuple[list[str], int]]:
    """Yield the frames and the count of each line that is not empty."""
    for number, line in enumerate(bytes(data).split(b"\n"), start=1):
        stack, _, count = line.strip().rpartition(b" ")
        if not stack.strip() and not count:
            continue
        if not (stack.strip() and count.isdigit()) or len(count) > 18:
            raise RecordingError(f"line {number} is no folded stack with a count")
        yield stack.strip().decode("utf-8", "surrogateescape").split(";"), int(count)


def _named(words: list[str]) -> NamedFrames:
    objects: dict[tuple[str, int, str], int] = {}
    functions = []
    for word in words:
        kind, name = KIND_ELF, word
        for mark, marked in ((_KERNEL, KIND_KERNEL), (_JIT, KIND_JIT)):
            if word.endswith(mark):
                kind, name = marked, word.removesuffix(mark)
        path = {KIND_KERNEL: "[kernel]", KIND_JIT: "[jit]", KIND_ELF: "[unknown]"}[kind]
        if name == f"[{object_label(name)}]":
            path, name = name, ""
        row = objects.setdefault((path, kind, ""), len(objects))
        functions.append((name, name, row))
    return NamedFrames(
        list(objects),
        functions,
        np.arange(len(functions)),
        np.zeros(len(functions), np.uint64),
    )
