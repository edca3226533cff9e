"""The remarks of a comparison: what it claims, and what it cannot know.

Each is a sentence that is complete in itself. Nothing degrades silently.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from prospect.announcing import pluralize
from prospect.figures.remarks import nothing_chosen
from prospect.profile.naming import NameSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prospect.estimate.compare.compared_run import ComparedRun
    from prospect.estimate.compare.comparison import ComparedRecording, Comparison
    from prospect.estimate.compare.matching import Labels
    from prospect.options import Detail
    from prospect.profile.run_info import RunInfo

_LOAD_TO_TELL = 0.05
_ALLOWANCE_TO_TELL = 0.005
_NAMED_SHARE_TO_TELL = 0.2
_HITS_TO_TELL = 50
# A side shorter than this, and than this part of the other one, has next to no data.
_SHORT_S, _MUCH_LONGER = 10.0, 5.0
# Facts that should be the same on both sides, and what to think if they are not.
_FACTS: tuple[tuple[str, Callable[[RunInfo], object]], ...] = (
    ("machine", lambda run: run.hostname),
    ("processor", lambda run: run.cpu_description),
    ("architecture", lambda run: run.arch),
    ("number of CPUs", lambda run: run.cpus),
    ("kernel", lambda run: run.os_release),
    ("scope", lambda run: "every process" if run.system_wide else "the command's processes only"),
    ("recorder", lambda run: run.recorder),
)


def comparison_notes(
    comparison: Comparison,
    asked: Detail,
    runs: Sequence[ComparedRun],
    labels: Sequence[Labels],
) -> tuple[str, ...]:
    """Return what the comparison claims and what may mislead."""
    notes = [*_variation_notes(comparison)]
    shown = comparison.options.scope
    # A store's windows have no command, nor are they expected to.
    if asked != shown and not all(run.profile.run.store_part for run in runs):
        notes.append(
            f"Not every recording says which process is COMMAND, so -V {shown} is compared "
            f"instead of -V {asked}."
        )
    notes += _same_file_notes(comparison)
    notes += _short_side_notes(comparison)
    notes += _difference_notes(comparison, runs)
    notes += _name_notes(len(comparison.before), runs, labels)
    empty = [compared for compared in runs if not compared.counts.any()]
    said = [f"{run.profile.run.origin}: {nothing_chosen(run.profile, shown)}" for run in empty]
    notes += dict.fromkeys(said)
    both = (comparison.functions.hits > 0).all(axis=1)
    if not (both.any() or empty):
        notes.append(
            "The sides have no function in common: are they recordings of the same program?"
        )
    return tuple(notes)


def comparison_warnings(comparison: Comparison, runs: Sequence[ComparedRun]) -> tuple[str, ...]:
    """Return what is damaged or lost in the recordings."""
    warnings = []
    for side, recordings in _sides(comparison):
        for recording in recordings:
            run = recording.run
            where = f"{side}, {run.origin}"
            warnings += [f"{where}: {damage}" for damage in run.damage]
    for compared in runs:
        profile = compared.profile
        lost = int(max(profile.losses.lost.sum(), profile.run.statistics.get("lost", 0), 0))
        if lost:
            warnings.append(
                f"{profile.run.origin}: {pluralize(lost, 'sample')} lost because the kernel's "
                "buffers were full; its times are too short by as much."
            )
    return tuple(warnings)


def _variation_notes(comparison: Comparison) -> Iterator[str]:
    variation = comparison.variation
    if variation.assumed:
        yield from _assumption_notes(comparison)
        return
    before, after = (f"{part:.1%}" for part in variation.common)
    yield (
        f"Between runs of a side, all rows together vary by {before} in A and {after} in B, and "
        f"each row by {variation.row:.1%} more, beyond sampling errors "
        "(standard deviations)."
    )
    if min(len(comparison.before), len(comparison.after)) == 1:
        yield "The side with one recording is assumed to vary as the other one does."


def _assumption_notes(comparison: Comparison) -> Iterator[str]:
    part = comparison.options.run_variation
    if not part:
        yield (
            "With one recording a side and no variation between runs (--run-variation 0), only "
            "these two runs are compared: other runs may differ by another amount."
        )
        return
    yield (
        "One recording a side does not show how much two runs of the same program differ. "
        f"Each row is assumed to vary by {part:.1%} from run to run (standard deviation, "
        "--run-variation). Record several runs a side to measure it."
    )
    loads = [side[0].other_load for _, side in _sides(comparison)]
    if not all(map(math.isfinite, loads)):
        yield (
            "The load of other programs is not recorded on both sides: it slows a program down, "
            "and the intervals do not allow for it."
        )
    elif max(comparison.load_allowance) > _ALLOWANCE_TO_TELL:
        allowed = " and ".join(f"{share:.1%}" for share in comparison.load_allowance)
        yield (
            f"Other processes took {loads[0]:.0%} of the CPUs' time in A and {loads[1]:.0%} in B. "
            "They slow down programs that share a core, a cache or memory with them; the "
            f"intervals allow {allowed} more for that (standard deviation)."
        )


def _sides(
    comparison: Comparison,
) -> tuple[tuple[str, tuple[ComparedRecording, ...]], ...]:
    return (("A", comparison.before), ("B", comparison.after))


def _short_side_notes(comparison: Comparison) -> Iterator[str]:
    """Say that a side has next to no data, as a span with a window or two of a daemon."""
    walls = [sum(one.run.wall_seconds for one in side) for _, side in _sides(comparison)]
    short, long = sorted(walls)
    if 0.0 < short < min(_SHORT_S, long / _MUCH_LONGER):
        names = "AB" if walls[0] < walls[1] else "BA"
        yield (
            f"{names[0]} has only {short:.1f} s of data and {names[1]} {long:.0f} s: functions "
            f"that take little time may be missing in {names[0]} by chance."
        )


def _same_file_notes(comparison: Comparison) -> Iterator[str]:
    def identity(run: RunInfo) -> tuple[object, ...]:
        return (run.origin, run.started_at, run.begin_ns, run.end_ns)

    before = {identity(recording.run) for recording in comparison.before}
    for origin in sorted({r.run.origin for r in comparison.after if identity(r.run) in before}):
        yield f"{origin} is on both sides, and compared with itself."


def _difference_notes(comparison: Comparison, runs: Sequence[ComparedRun]) -> Iterator[str]:
    for fact, value in _FACTS:
        first, second = (
            sorted({str(value(recording.run)) for recording in side})
            for side in (comparison.before, comparison.after)
        )
        if first != second:
            yield f"The {fact} differs: {_listed(first)} in A, {_listed(second)} in B."
    count = len(comparison.before)
    first, second = (
        sorted({f"{run.event.name} at {run.event.frequency_hz:g} Hz" for run in side})
        for side in (runs[:count], runs[count:])
    )
    if first != second:
        yield f"The sampling differs: {_listed(first)} in A, {_listed(second)} in B."
    loads = [
        float(np.mean([run.other_load for run in side])) for side in (runs[:count], runs[count:])
    ]
    if comparison.variation.assumed:
        return  # another remark has the allowance already
    if math.isfinite(sum(loads)) and abs(loads[0] - loads[1]) > _LOAD_TO_TELL:
        yield (
            f"Other processes took {loads[0]:.0%} of the CPUs' time in A and {loads[1]:.0%} in B: "
            "some of the change may be theirs."
        )


def _listed(values: Sequence[str]) -> str:
    return " and ".join(value or "unknown" for value in values)


def _name_notes(
    before: int, runs: Sequence[ComparedRun], labels: Sequence[Labels]
) -> Iterator[str]:
    """Say of which objects the functions have names on one side only."""
    sides = [
        _named_hits(runs[columns], labels[columns])
        for columns in (slice(before), slice(before, None))
    ]
    for name in sorted(sides[0].keys() & sides[1].keys()):
        shares = []
        for side in sides:
            named, hits = side[name]
            shares.append(named / hits if hits >= _HITS_TO_TELL else math.nan)
        if abs(shares[0] - shares[1]) > _NAMED_SHARE_TO_TELL:
            yield (
                f"{shares[0]:.0%} of the samples in {name} have an exact name in A, {shares[1]:.0%}"
                " in B: compare it as an object, not by function."
            )


def _named_hits(
    runs: Sequence[ComparedRun], labels: Sequence[Labels]
) -> dict[str, tuple[int, int]]:
    """Return, by object, how many compared hits have an exact name, and how many there are."""
    found: dict[str, tuple[int, int]] = {}
    for run, label in zip(runs, labels, strict=True):
        profile = run.profile
        function = profile.locations.function_index.take(profile.hits.location_index)[run.counts]
        count = profile.hits.count[run.counts]
        source = profile.functions.source
        is_exact = (source < NameSource.NO_STRIPPED) & (source != NameSource.BRACKET)
        of_object = profile.functions.object_index.take(function)
        hits = np.bincount(of_object, count, len(profile.objects))
        named = np.bincount(of_object, count * is_exact.take(function), len(profile.objects))
        for row in np.flatnonzero(hits).tolist():
            name = label.object[row]
            known = found.get(name, (0, 0))
            found[name] = (known[0] + int(named[row]), known[1] + int(hits[row]))
    return found
