"""Estimate how long a recorded command would take if some of its functions were faster.

The samples show a function's part of each thread's time, with its callees if stacks were recorded.
The schedule shows what that time delayed. See `prospect.wall.schedule_replay`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.analysis.profile_request import Callbacks, ProfileRequest
from prospect.analysis.reading import read_profile
from prospect.errors import UsageError
from prospect.estimate.what_if_times import Change, Outcome, WhatIf
from prospect.figures.calls.sample_choice import SampleChoice, choose_samples
from prospect.figures.modes import event_has_time
from prospect.figures.shown_rows import function_names
from prospect.figures.stacks.stack_weights import stack_samples
from prospect.records import replace
from prospect.wall.schedule_replay import Replay, saved_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from prospect.columns.array_types import F64, Bools
    from prospect.figures.stacks.stack_weights import StackSamples
    from prospect.options import NamingOptions
    from prospect.wall.path import Schedule

_NS = 1e-9
# Groups of samples that the jackknife leaves out in turn.
_GROUPS = 10
_T_95 = 2.262  # quantile of Student's t with 9 degrees of freedom
# Functions that are tried if the user names none, and the factor of their time.
_MOST_TRIED = 8
_HALF = 0.5


def what_if(
    path: str, changes: Sequence[Change], naming: NamingOptions, sinks: Callbacks
) -> WhatIf:
    """Read a recording, and replay the command's run with changes.

    `path` is a recording with switches, "-" for one on standard input. All changes are made at
    once; without any, the hottest functions become twice as fast, one by one.

    Raises:
        RecordingError: it cannot be read, or is no recording.
        UsageError: it has no switches of a command, or no function of this name.
    """
    kept: list[Schedule | None] = []
    sinks = replace(sinks, keep_schedule=kept.append)
    profile = read_profile(
        path, naming, ProfileRequest(stacks=True, hints=False, path=False), sinks
    )
    found = kept[0] if kept else None
    if found is None:
        raise UsageError(
            "whatif: the recording has no switches of a command: record one with --wall, as in "
            "prospect record --wall COMMAND"
        )
    samples = stack_samples(profile, "4")
    run = _Run(found, samples, has_callees=profile.stacks is not None)
    tried = [tuple(changes)] if changes else [(Change(one, _HALF),) for one in run.hottest()]
    outcomes = [run.outcome(one) for one in tried]
    return WhatIf(
        found.seconds, tuple(sorted(outcomes, key=lambda one: -one.gain_s)), run.has_callees
    )


class _Run:
    """A recorded run, and the samples of its clock."""

    def __init__(self, schedule: Schedule, samples: StackSamples, *, has_callees: bool) -> None:
        self._schedule, self._samples, self.has_callees = schedule, samples, has_callees
        self._replay = Replay(schedule)
        profile = samples.profile
        events = profile.run.events
        clock = next((row for row, event in enumerate(events) if event_has_time(event)), -1)
        is_of_clock = profile.hits.event.take(samples.hit_index) == clock
        recorded = profile.samples
        if samples.time_ns is None or recorded.tid is None or len(recorded) != len(samples):
            raise UsageError("whatif: samples of this recording have no threads or no times")
        is_of_clock &= choose_samples(samples, SampleChoice("3"))
        self._rows = np.flatnonzero(is_of_clock)
        self._columns = recorded.tid.take(self._rows), recorded.time_ns.take(self._rows)

    def outcome(self, changes: tuple[Change, ...]) -> Outcome:
        """Replay the run with these changes."""
        kept = np.ones(len(self._rows))
        is_changed = np.zeros(len(self._rows), np.bool_)
        for change in changes:
            is_of = self._is_of(change.name)
            kept = np.where(is_of, kept * change.factor, kept)
            is_changed |= is_of
        saved = self._saved(1.0 - kept)
        gain = self._replay.gain_ns(saved)
        return Outcome(
            changes,
            float(self._saved(is_changed.astype(np.float64)).sum()) * _NS,
            float(saved.sum()) * _NS,
            gain * _NS,
            self._half_width_ns(1.0 - kept) * _NS,
        )

    def _is_of(self, name: str) -> Bools:
        through, own = (name, "") if self.has_callees else ("", name)
        choice = SampleChoice("4", through=through, function=own)
        return choose_samples(self._samples, choice).take(self._rows)

    def _saved(self, weight: F64, rows: NDArray[np.intp] | slice = slice(None)) -> F64:
        tid, time_ns = self._columns
        return saved_by(self._schedule, (tid[rows], time_ns[rows]), weight[rows])

    def _half_width_ns(self, weight: F64) -> float:
        """Return half of the 95 % interval, from leaving out a tenth of the samples at a time.

        Source: Wolter, Introduction to Variance Estimation, 2nd edition, chapter 4 (jackknife).
        """
        if not weight.any():
            return 0.0
        group = np.arange(len(weight)) % _GROUPS
        gains = []
        for left_out in range(_GROUPS):
            rows = np.flatnonzero(group != left_out)
            gains.append(self._replay.gain_ns(self._saved(weight, rows)))
        return float(_T_95 * np.sqrt((_GROUPS - 1) ** 2 / _GROUPS * np.var(gains, ddof=1)))

    def hottest(self) -> Iterable[str]:
        """Return the names of the functions with most own samples."""
        profile = self._samples.profile
        hit = self._samples.hit_index.take(self._rows)
        location = profile.hits.location_index.take(hit)
        function = profile.locations.function_index.take(location)
        count = np.bincount(function, minlength=len(profile.functions))
        names: dict[str, None] = {}
        for row in np.argsort(-count, kind="stable")[: np.count_nonzero(count)].tolist():
            name = function_names(profile, row)[-1]
            if name and len(names) < _MOST_TRIED:
                names.setdefault(name)
        return names
