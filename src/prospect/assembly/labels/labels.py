"""A label for each sample, from a label source that a person named.

Comes in: samples, ``NAME:ARGUMENT`` of `--label`, and what else separates samples into hits. Goes
out: `Labelled`: one number a sample that stands for both, as `attribute` takes it. A label source
is a plug-in: docs/plugins.md builds one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.errors import PluginError, UsageError
from prospect.plugins import LABELS, called, described, names, plugin
from prospect.records import Record, replace
from prospect.spaces.runs import task_pid, task_tid

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from numpy.typing import NDArray

    from prospect.events.columns import Samples
    from prospect.profile.model import Profile

_MOST_LABELS = 1 << 14
_MOST_STATES = 1 << 16


class LabelledSamples(Record):
    """What a label source gets of the samples, equally long columns.

    Attributes:
        time_ns: u64[n] on the recording's clock: CLOCK_MONOTONIC where Prospect recorded.
        pid, tid: i32[n] process and thread.
        cpu: u16[n].
    """

    time_ns: NDArray[np.uint64]
    pid: NDArray[np.int32]
    tid: NDArray[np.int32]
    cpu: NDArray[np.uint16]

    def __len__(self) -> int:
        return len(self.time_ns)


class Labelled(Record):
    """What separates samples beside who and where.

    Attributes:
        state: u16[n] a number for each sample's cause and label; None where neither is known.
        cause: u16[s] of each state, its cause; None where a state is its cause.
        label: i32[s] row of `names`, the last of which is "" for none.
        names: of labels, None where no label source was asked.
        failure: what a source's failure leaves out, "" for nothing.
    """

    state: NDArray[np.uint16] | None
    cause: NDArray[np.uint16] | None = None
    label: NDArray[np.int32] | None = None
    names: list[str] | None = None
    failure: str = ""

    def causes_of(self, state: NDArray[np.uint16]) -> NDArray[np.uint16]:
        """Return the causes of hits."""
        return state if self.cause is None else self.cause.take(state)

    def added_to(self, profile: Profile, state: NDArray[np.uint16]) -> Profile:
        """Return a profile whose hits have these states with the labels of its hits."""
        if self.failure:
            limits = (*profile.run.limits, self.failure)
            profile = replace(profile, run=replace(profile.run, limits=limits))
        if self.label is None:
            return profile
        hits = replace(profile.hits, label_index=self.label.take(state))
        return replace(profile, hits=hits, labels=self.names)


def label_by(samples: Samples, cause: NDArray[np.uint16] | None, wanted: str) -> Labelled:
    """Return causes with the labels that a label source gives; the causes alone if it fails.

    Args:
        samples: n of them.
        cause: u16[n] what separates them already.
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
        return Labelled(cause, failure=f"{error}; samples have no labels")
    before = np.zeros(len(samples), np.int64) if cause is None else cause.astype(np.int64)
    both, state = np.unique(before * (len(texts) + 1) + row, return_inverse=True)
    if len(both) > _MOST_STATES:
        failure = f"{described(source)} gave too many labels; samples have none"
        return Labelled(cause, failure=failure)
    of_state, label = np.divmod(both, len(texts) + 1)
    return Labelled(
        state.astype(np.uint16), of_state.astype(np.uint16), label.astype(np.int32), [*texts, ""]
    )


def _asked(
    source: EntryPoint, samples: Samples, argument: str
) -> tuple[list[str], NDArray[np.int64]]:
    """Return the names of labels, and of each sample a row of them, their number for none.

    Raises:
        PluginError: the source failed, or what it returned is none of that.
    """
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
    if row.shape != (len(samples),) or len(texts) > _MOST_LABELS:
        sizes = f"{len(texts)} names for an array of shape {row.shape}"
        raise PluginError(f"{described(source)} failed: it returned {sizes}")
    return texts, np.where((row >= 0) & (row < len(texts)), row, len(texts))
