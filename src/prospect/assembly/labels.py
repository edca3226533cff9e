"""A label for each sample, from the label source of --label.

A label source is a plug-in: docs/plugins.md builds one. The source ``marks`` reads marks that a
program wrote at the begin and end of an activity: a text file of lines ``SECONDS TID begin NAME``
and ``SECONDS TID end``, or the lines of ftrace's ``trace`` and ``trace_pipe`` with the same words,
which the program wrote to ``trace_marker``. A sample gets the mark that its thread began last.

Source: ``Documentation/trace/ftrace.rst``, "Output format" and "trace_marker".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from prospect.assembly.assembly_limits import DEEPEST_LABELS, MOST_LABELS, MOST_MARKS_BYTES
from prospect.errors import PluginError, UsageError
from prospect.plugins import LABELS, called, described, names, plugin
from prospect.profile.model import NO_LABELS
from prospect.records import Record, replace
from prospect.spaces.attribution import task_pid, task_tid

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from prospect.columns.array_types import I32, I64, U16, U64
    from prospect.events.record_columns import Samples
    from prospect.profile.model import Profile

_MOST_STATES = 1 << 16
_WORDS = rb"(?P<word>begin|end)(?: (?P<name>[^\n]*))?$"
_OWN = re.compile(rb"^(?P<s>\d{1,9})\.(?P<ns>\d{1,9}) (?P<tid>\d{1,10}) " + _WORDS, re.MULTILINE)
# name-TID  (TGID) [CPU] flags seconds.micros: tracing_mark_write: text
_FTRACE = re.compile(
    rb"^[^\n]*?-(?P<tid>\d{1,10}) +(?:\([^)\n]*\) +)?\[\d+\] [^\n]*?"
    rb"(?P<s>\d{1,9})\.(?P<ns>\d{1,9}): tracing_mark_write: " + _WORDS,
    re.MULTILINE,
)


class LabelledSamples(Record):
    """Columns of the samples for a label source, equally long.

    Attributes:
        time_ns: u64[n] on the recording's clock: CLOCK_MONOTONIC if Prospect recorded.
        pid, tid: i32[n] process and thread.
        cpu: u16[n].
    """

    time_ns: U64
    pid: I32
    tid: I32
    cpu: U16

    def __len__(self) -> int:
        return len(self.time_ns)


class Labelled(Record):
    """Keys that separate samples in addition to process and place.

    Attributes:
        state: u16[n] number for each sample's entry reason and label; None if both are unknown.
        entry_reason: u16[s] entry reason of each state; None if states are entry reasons.
        label: i32[s] row of `names`, the last of which is "" for none.
        names: of labels, None without a label source.
        failure: sentence about a source that failed, "" if none did.
    """

    state: U16 | None
    entry_reason: U16 | None = None
    label: I32 | None = None
    names: list[str] | None = None
    failure: str = ""

    def entry_reasons_of(self, state: U16) -> U16:
        """Return the entry reasons of hits."""
        return state if self.entry_reason is None else self.entry_reason.take(state)

    def added_to(self, profile: Profile, state: U16) -> Profile:
        """Return a profile whose hits have these states with the labels of its hits."""
        if self.failure:
            limits = (*profile.run.limits, self.failure)
            profile = replace(profile, run=replace(profile.run, limits=limits))
        if self.label is None:
            return profile
        hits = replace(profile.hits, label_index=self.label.take(state))
        return replace(profile, hits=hits, labels=self.names)


def label_by(samples: Samples, entry_reason: U16 | None, wanted: str) -> Labelled:
    """Return entry reasons with a label source's labels; the entry reasons alone if it fails.

    Args:
        entry_reason: u16[n] of the samples.
        wanted: "NAME" or "NAME:ARGUMENT" of a label source.

    Raises:
        UsageError: there is no such source.
    """
    name, _, argument = wanted.partition(":")
    source = plugin(LABELS, name)
    if source is None:
        known = ", ".join(names(LABELS))
        raise UsageError(f"--label: there is no label source '{name}'; there are {known}")
    try:
        texts, row = _asked(source, samples, argument)
    except PluginError as error:
        return Labelled(entry_reason, failure=f"{error}; {NO_LABELS}")
    before = (
        np.zeros(len(samples), np.int64) if entry_reason is None else entry_reason.astype(np.int64)
    )
    both, state = np.unique(before * (len(texts) + 1) + row, return_inverse=True)
    if len(both) > _MOST_STATES:
        failure = f"{described(source)} gave too many labels; {NO_LABELS}"
        return Labelled(entry_reason, failure=failure)
    of_state, label = np.divmod(both, len(texts) + 1)
    return Labelled(
        state.astype(np.uint16), of_state.astype(np.uint16), label.astype(np.int32), [*texts, ""]
    )


def _asked(source: EntryPoint, samples: Samples, argument: str) -> tuple[list[str], I64]:
    """Return the names of labels, and each sample's row of them; their number for none."""
    given = LabelledSamples(
        time_ns=samples.time_ns,
        pid=task_pid(samples.task),
        tid=task_tid(samples.task),
        cpu=samples.cpu,
    )
    made = called(source, given, argument)
    try:
        texts, rows = made
        texts, row = [str(text) for text in texts], np.asarray(rows).astype(np.int64)
    except (TypeError, ValueError) as error:
        raise PluginError(f"{described(source)} failed: {error}") from error
    if row.shape != (len(samples),) or len(texts) > MOST_LABELS:
        sizes = f"{len(texts)} names for an array of shape {row.shape}"
        raise PluginError(f"{described(source)} failed: it returned {sizes}")
    return texts, np.where((row >= 0) & (row < len(texts)), row, len(texts))


def label_by_marks(samples: LabelledSamples, argument: str) -> tuple[list[str], I64]:
    """Return the names of marks, and the row of the mark that each sample is in, -1 for none.

    `argument` is the file.
    """
    with open(argument, "rb") as file:  # noqa: PTH123 - of a name that a person gave
        text = file.read(MOST_MARKS_BYTES)
    names: dict[str, int] = {}
    stacks: dict[int, list[int]] = {}
    found = []
    for mark in (_OWN if _OWN.search(text) else _FTRACE).finditer(text):
        tid, word = int(mark["tid"]), mark["word"]
        stack = stacks.setdefault(tid, [])
        if word == b"begin" and len(stack) < DEEPEST_LABELS:
            shown = (mark["name"] or b"").decode(errors="replace").strip()
            stack.append(names.setdefault(shown, len(names)))
        elif word == b"end" and stack:
            stack.pop()
        at_ns = int(mark["s"]) * 10**9 + int(mark["ns"].ljust(9, b"0"))
        found.append((at_ns, tid, stack[-1] if stack else -1))
    if not found:
        raise ValueError(f"{argument} has no line such as '12.345678901 4711 begin NAME'")
    return list(names), _at_samples(samples, *np.array(found, np.int64).T)


def _at_samples(samples: LabelledSamples, time_ns: I64, tid: I64, row: I64) -> I64:
    """Return the row of the last mark of each sample's thread before it, -1 if there is none."""
    marks = len(row)
    times = np.concatenate((time_ns, samples.time_ns.astype(np.int64)))
    tids = np.concatenate((tid, samples.tid.astype(np.int64)))
    # Marks come before samples of the same time.
    order = np.lexsort((np.arange(len(times)) >= marks, times, tids))
    is_mark = order < marks
    last = np.maximum.accumulate(np.where(is_mark, np.arange(len(order)), -1))
    mark = order[np.maximum(last, 0)]
    is_labelled = (last >= 0) & (tids[mark] == tids[order])
    found = np.where(is_labelled, row[np.minimum(mark, marks - 1)], -1)
    result = np.empty(len(order), np.int64)
    result[order] = found
    return result[marks:]
