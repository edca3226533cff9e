"""Folded stacks → a Profile.

The lines are ``thread;outermost;...;innermost COUNT``, as stackcollapse-*.pl of FlameGraph and
other tools write them. Counts may have fractions, and lines that begin with ``# `` are comments.
The first frame is the thread's name, as in stackcollapse-perf.pl. ``_[k]`` marks the kernel's
frames and ``_[j]`` JIT code; ``_[i]``, for inlined functions, stays with the name. A frame in
brackets is an object without a name.
"""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING

import numpy as np

from prospect.errors import RecordingError
from prospect.figures.stacks.frames import object_label
from prospect.foreign.stack_profile import (
    NamedFrames,
    Numbers,
    OddLines,
    StackColumns,
    WeightedStacks,
    run_info,
    stack_profile,
    text_lines,
)
from prospect.profile.model import KIND_ELF, KIND_JIT, KIND_KERNEL
from prospect.profile.run_info import EventInfo

if TYPE_CHECKING:
    from prospect.columns.array_types import I64
    from prospect.profile.model import Profile

_KERNEL, _JIT = "_[k]", "_[j]"
_MOST_COUNT = 1 << 53  # the sum of all; shares are computed as floating point
_COUNT = re.compile(rb"([0-9]{1,18})(?:\.([0-9]*))?")
_DECIMALS = 6
_COMMENT = re.compile(rb"#(?:[#!\s]|$)")


def folded_profile(origin: str, data: memoryview) -> Profile:
    """Read folded stacks.

    Bytes that are not UTF-8 become surrogates, as with `os.fsdecode`.

    Raises:
        RecordingError: most lines are none, or there are more samples than can be counted.
    """
    frames, comms, stacks = Numbers(), Numbers(), StackColumns()
    odd = OddLines("folded stack with a count")
    comm, whole, millionths = array("i"), array("q"), array("i")
    for number, line in text_lines(data):
        words = line.rsplit(None, 1)
        if not words or _COMMENT.match(line):
            continue
        count = _COUNT.fullmatch(words[-1])
        if count is None or len(words) == 1:
            odd.add(number)
            continue
        stack = words[0].strip().split(b";")
        comm.append(comms[stack[0]])
        stacks.add([frames[word] for word in stack[1:] or stack])
        whole.append(int(count[1]))
        millionths.append(int((count[2] or b"")[:_DECIMALS].ljust(_DECIMALS, b"0")))
    limits = odd.limits(len(stacks))
    weights, scale = _weights(np.array(whole, np.int64), np.array(millionths, np.int64))
    name = "samples"
    if scale > 1:
        name = f"samples/{scale}"
        limits += (f"Counts have fractions: a sample is 1/{scale} of what the file counts.",)
    start, location = stacks.columns()
    zeros, threads = np.zeros(len(weights), np.int64), np.array(comm, np.int64)
    names = comms.texts()
    return stack_profile(
        _named(frames.texts()),
        WeightedStacks(
            start=start,
            location=location,
            process=threads,
            comm=threads,
            event=zeros,
            entry_reason=zeros,
            count=weights,
            period=weights,
        ),
        run=run_info(origin, (EventInfo(name, 0.0, 0.0, 0.0),), 0.0, limits=limits),
        processes=[(name, -1) for name in names],
        comms=names,
    )


def _weights(whole: I64, millionths: I64) -> tuple[I64, int]:
    """Return i64[n] whole numbers in proportion to the counts, and the number that represents 1."""
    total = float(whole.sum(dtype=np.float64))
    if total > _MOST_COUNT:
        raise RecordingError("more samples than can be counted")
    scale = next(10**k for k in range(_DECIMALS + 1) if not (millionths % 10 ** (6 - k)).any())
    while scale > 1 and (total + len(whole)) * scale > _MOST_COUNT:
        scale //= 10
    return whole * scale + millionths // (10**_DECIMALS // scale), scale


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
        list(objects), functions, np.arange(len(functions)), np.zeros(len(functions), np.uint64)
    )
