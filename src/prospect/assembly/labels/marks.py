"""Marks that a program wrote as it began and ended something: the label source ``marks``.

Comes in: a text file, whose lines are ``SECONDS TID begin NAME`` and ``SECONDS TID end``, or those
of ftrace's ``trace`` and ``trace_pipe`` with the same words, as a program writes them to
``trace_marker``; and the samples. Goes out: what each sample's thread had begun last.

Source: ``Documentation/trace/ftrace.rst``, "Output format" and "trace_marker".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.assembly.labels.labels import LabelledSamples

_MOST_BYTES = 1 << 28
_MOST_DEPTH = 64
_WORDS = rb"(?P<word>begin|end)(?: (?P<name>[^\n]*))?$"
_OWN = re.compile(rb"^(?P<s>\d{1,9})\.(?P<ns>\d{1,9}) (?P<tid>\d{1,10}) " + _WORDS, re.MULTILINE)
# name-TID  (TGID) [CPU] flags seconds.micros: tracing_mark_write: text
_FTRACE = re.compile(
    rb"^[^\n]*?-(?P<tid>\d{1,10}) +(?:\([^)\n]*\) +)?\[\d+\] [^\n]*?"
    rb"(?P<s>\d{1,9})\.(?P<ns>\d{1,9}): tracing_mark_write: " + _WORDS,
    re.MULTILINE,
)


def label(samples: LabelledSamples, argument: str) -> tuple[list[str], NDArray[np.int64]]:
    """Return the names of marks, and which one each sample is within, -1 for none.

    Args:
        samples: when each was taken, on the recording's clock, and in which thread.
        argument: the file.
    """
    with open(argument, "rb") as file:  # noqa: PTH123 - of a name that a person gave
        text = file.read(_MOST_BYTES)
    names: dict[str, int] = {}
    time_ns, tid, row = _changes(text, names)
    if not len(row):
        raise ValueError(f"{argument} has no line such as '12.345678901 4711 begin NAME'")
    return list(names), _at_samples(samples, time_ns, tid, row)


def _changes(
    text: bytes, names: dict[str, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return when each thread began to be within what: ns, tid, row of `names` or -1."""
    pattern = _OWN if _OWN.search(text) else _FTRACE
    within: dict[int, list[int]] = {}
    found = []
    for mark in pattern.finditer(text):
        tid, word = int(mark["tid"]), mark["word"]
        stack = within.setdefault(tid, [])
        if word == b"begin" and len(stack) < _MOST_DEPTH:
            shown = (mark["name"] or b"").decode(errors="replace").strip()
            stack.append(names.setdefault(shown, len(names)))
        elif word == b"end" and stack:
            stack.pop()
        at_ns = int(mark["s"]) * 10**9 + int(mark["ns"].ljust(9, b"0"))
        found.append((at_ns, tid, stack[-1] if stack else -1))
    columns = np.array(found, np.int64).reshape(-1, 3)
    return columns[:, 0], columns[:, 1], columns[:, 2]


def _at_samples(
    samples: LabelledSamples,
    time_ns: NDArray[np.int64],
    tid: NDArray[np.int64],
    row: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return of each sample the row of its thread's last change before it, -1 without one."""
    marks = len(row)
    times = np.concatenate((time_ns, samples.time_ns.astype(np.int64)))
    tids = np.concatenate((tid, samples.tid.astype(np.int64)))
    # Marks stand before samples of their time.
    order = np.lexsort((np.arange(len(times)) >= marks, times, tids))
    is_mark = order < marks
    last = np.maximum.accumulate(np.where(is_mark, np.arange(len(order)), -1))
    mark = order[np.maximum(last, 0)]
    is_labelled = (last >= 0) & (tids[mark] == tids[order])
    found = np.where(is_labelled, row[np.minimum(mark, marks - 1)], -1)
    result = np.empty(len(order), np.int64)
    result[order] = found
    return result[marks:]
