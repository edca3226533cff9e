"""Runs, losses and clocks of one interval after another → those of all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from prospect.columns.table_rows import appended
from prospect.profile.model import LossTable
from prospect.profile.notes import counted_notes
from prospect.records import replace

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from numpy.typing import NDArray

    from prospect.profile.model import ClockTable
    from prospect.profile.run_info import EventInfo, RunInfo

_Key = TypeVar("_Key", bound="Hashable")
_NS = 1e-9
_SECONDS = "_s"


def join_runs(runs: Sequence[RunInfo]) -> RunInfo:
    """Return the run from the begin of the first to the end of the last; there is at least one.

    Counts and times add up; what else is said of a run is what the last one says.
    """
    first, last = runs[0], runs[-1]
    return replace(
        last,
        started_at=first.started_at,
        begin_ns=first.begin_ns,
        end_ns=last.end_ns,
        events=tuple(map(_joined_event, zip(*(run.events for run in runs), strict=False))),
        wall_seconds=max(last.end_ns - first.begin_ns, 0) * _NS,
        limits=counted_notes(limit for run in runs for limit in run.limits),
        process_notes=_distinct(note for run in runs for note in run.process_notes),
        damage=_distinct(sentence for run in runs for sentence in run.damage),
        cut_chains=tuple(cut for run in runs for cut in run.cut_chains),
        statistics=_sums([run.statistics for run in runs]),
        accounting={
            key: value for key, value in last.accounting.items() if not key.endswith(_SECONDS)
        }
        | _sums([_seconds(run.accounting) for run in runs]),
        cpu_accounting={
            cpu: _sums([run.cpu_accounting.get(cpu, {}) for run in runs])
            for cpu in sorted({cpu for run in runs for cpu in run.cpu_accounting})
        },
    )


def _joined_event(parts: Sequence[EventInfo]) -> EventInfo:
    """Return what the last part says that knows best what a counter's period is worth."""
    weighed = [part for part in parts if part.weighs_periods]
    if not weighed:
        return parts[-1]
    return min(
        reversed(weighed), key=lambda part: (not part.seconds_per_period, part.relative_error)
    )


def _distinct(items: Iterable[_Key]) -> tuple[_Key, ...]:
    return tuple(dict.fromkeys(items))


def _seconds(accounting: dict[str, Any]) -> dict[str, float]:
    return {key: value for key, value in accounting.items() if key.endswith(_SECONDS)}


def _sums(counted: Sequence[dict[_Key, Any]]) -> dict[_Key, Any]:
    result: dict[_Key, Any] = {}
    for counts in counted:
        for key, count in counts.items():
            result[key] = result.get(key, 0) + count
    return result


def join_losses(losses: Sequence[LossTable]) -> LossTable:
    """Add up losses by CPU."""
    cpu, row = np.unique(np.concatenate([part.cpu for part in losses]), return_inverse=True)
    lost, throttled = np.zeros(len(cpu), np.int64), np.zeros(len(cpu), np.int64)
    np.add.at(lost, row, np.concatenate([part.lost for part in losses]))
    np.add.at(throttled, row, np.concatenate([part.throttled for part in losses]))
    return LossTable(cpu, lost, throttled)


def join_clocks(whole: ClockTable, part: ClockTable) -> tuple[ClockTable, NDArray[np.int32]]:
    """Let clocks of `whole` that tick on in `part` end as there, and append the others.

    Returns:
        The clocks, and i32 the row of each clock of the part.
    """
    known = {key: row for row, key in enumerate(_clock_keys(whole, whole.end_ns))}
    row = [known.get(key, -1) for key in _clock_keys(part, part.begin_ns)]
    new = np.flatnonzero(np.array(row, np.int64) < 0)
    joined = appended(whole, part, new)
    for offset, each in enumerate(new.tolist()):
        row[each] = len(whole) + offset
    rows = np.array(row, np.int32)
    joined.end_ns[rows] = part.end_ns
    goes_on = rows < len(whole)
    np.add.at(joined.lost, rows[goes_on], part.lost[goes_on])
    return joined, rows


def lost_in_parts(clocks: ClockTable, parts: Iterable[ClockTable]) -> NDArray[np.int64]:
    """Return i64[c] the samples that parts lost; of a clock with several rows, all in the first."""
    lost: dict[tuple[int, int, int], int] = {}
    for part in parts:
        for key, count in zip(_identities(part), part.lost.tolist(), strict=True):
            lost[key] = lost.get(key, 0) + count
    return np.array([lost.pop(key, 0) for key in _identities(clocks)], np.int64)


def _identities(clocks: ClockTable) -> Iterable[tuple[int, int, int]]:
    columns = clocks.event.tolist(), clocks.clock.tolist(), clocks.cpu.tolist()
    return zip(*columns, strict=True)


def _clock_keys(clocks: ClockTable, at_ns: NDArray[np.uint64]) -> Iterable[tuple[float, ...]]:
    columns = (clocks.event, clocks.clock, clocks.cpu, clocks.period_ns, at_ns)
    return zip(*(column.tolist() for column in columns), strict=True)
