"""Two sides of recordings → the changes, row by row, and their significance.

The steps: choose the compared part, give the same things the same row, sum and estimate each
recording by itself, estimate how much runs differ, compare, and control how many of the rows that
are called different are not. Notes on the claims and limits of a comparison are sentences, each
complete in itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from prospect.announcing import pluralize
from prospect.errors import UsageError
from prospect.estimate.compare.changes import ChangeTable, changes, in_order, judge
from prospect.estimate.compare.compared_run import compared_run, rows_of, run_parts, seconds_per_hit
from prospect.estimate.compare.compared_stacks import (
    StackTest,
    compared_inclusive,
    compared_stacks,
    matched_stacks,
)
from prospect.estimate.compare.comparison import ComparedRecording, CompareOptions, Comparison
from prospect.estimate.compare.matching import label_runs, matched_rows, named_row
from prospect.estimate.compare.option_texts import chosen_work, parse_condition, parse_work
from prospect.estimate.compare.unnamed_samples import unnamed_notes, unnamed_samples
from prospect.estimate.compare.variation import own_spread_of, side_means, spread_of, variation_of
from prospect.estimate.statistics.row_limits import adjusted
from prospect.figures.processes import DETAIL_WORDS, DETAILS
from prospect.figures.remarks import nothing_chosen
from prospect.profile.naming import NameSource
from prospect.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prospect.columns.array_types import F64
    from prospect.estimate.compare.changes import Verdict
    from prospect.estimate.compare.compared_run import ComparedRun, RunParts
    from prospect.estimate.compare.compared_stacks import ComparedStacks
    from prospect.estimate.compare.compared_turns import ComparedWall, TurnChange
    from prospect.estimate.compare.matching import Kind, Labels, MatchedRows
    from prospect.estimate.compare.option_texts import Condition, Work
    from prospect.estimate.compare.variation import Rows, Spread, Variation
    from prospect.options import Detail
    from prospect.profile.model import Profile
    from prospect.profile.run_info import RunInfo


# A row with fewer hits on both sides together is not tested: it could hardly pass, and each test
# weakens the others.
_TESTED_FROM_HITS = 10
# The part of the standard deviation between runs that a fully loaded machine adds. With other
# programs on four fifths of two CPUs, runs of one program differed by 15 to 18 % (docs/diff.md).
_LOAD_EFFECT = 0.4
_TESTED_KINDS: tuple[Kind, ...] = ("process", "object", "function")
_SUMS: tuple[Kind, ...] = ("total", "mode")
_KINDS = (*_TESTED_KINDS, *_SUMS)


class _Recordings(Record):
    """All recordings, those of A first, `before` of them; `divisor` f64[n] is from `divisors`."""

    runs: tuple[ComparedRun, ...]
    labels: tuple[Labels, ...]
    before: int
    divisor: F64

    @property
    def exposure(self) -> tuple[float, float]:
        """The hits that a side would have of a row that took one unit of time."""
        each = [
            float(divisor) / seconds_per_hit(run)
            for run, divisor in zip(self.runs, self.divisor, strict=True)
        ]
        return sum(each[: self.before]), sum(each[self.before :])


def compare(
    before: Sequence[Profile], after: Sequence[Profile], options: CompareOptions | None = None
) -> Comparison:
    """Compare the recordings of A with those of B.

    Several recordings of a side are replicates: runs of the same program.

    Raises:
        UsageError: an invalid option, or one that does not fit the recordings.
        RecordingError: a recording has no event that is time.
    """
    asked = options or CompareOptions()
    _check(before, after, asked)
    work, condition = parse_work(asked.per), parse_condition(asked.fail_if)
    shown = replace(asked, scope=_shown_scope(asked.scope, (*before, *after)))
    sides = [[compared_run(profile, shown.scope) for profile in side] for side in (before, after)]
    is_of_runs = shown.scope in ("2", "3") or not any(
        profile.run.system_wide for profile in (*before, *after)
    )
    work = chosen_work(work, is_of_runs=is_of_runs)
    data = _Recordings(
        runs=(*sides[0], *sides[1]),
        labels=tuple(label_runs(*sides)),
        before=len(before),
        divisor=divisors(work, before, after),
    )
    allowance = _load_allowance(data, shown)
    matched = {kind: matched_rows(kind, data.runs, data.labels) for kind in _KINDS}
    merged = [
        run_parts(run, [rows.row_of_hit[at] for rows in matched.values()])
        for at, run in enumerate(data.runs)
    ]
    found = {kind: _rows(data, rows, merged) for kind, rows in matched.items()}
    rows = [found[kind] for kind in _TESTED_KINDS]
    assumed = [math.hypot(shown.run_variation, allowed) for allowed in allowance]
    variation = variation_of(rows[-1], data.before, (assumed[0], assumed[1]))
    tables = [
        _table(data, matched[kind], each, spread_of(each, data.before, variation))
        for kind, each in zip(_TESTED_KINDS, rows, strict=True)
    ]
    (processes, objects, functions), tested_count = _with_significance(tables, shown.fdr)
    total, modes = (
        _table(data, matched[kind], found[kind], own_spread_of(found[kind], data.before, variation))
        for kind in _SUMS
    )
    described = _described(data)
    comparison = Comparison(
        options=shown,
        before=described[: data.before],
        after=described[data.before :],
        work=work,
        total=total,
        modes=modes,
        processes=processes,
        objects=objects,
        functions=functions,
        tested=tested_count,
        variation=variation,
        load_allowance=allowance,
        notes=(),
        warnings=(),
        unnamed=unnamed_samples(data.before, data.runs),
        verdict=_verdict(data, condition, variation, shown.scope, found["total"])
        if condition
        else None,
    )
    stacks, inclusive = _compared_stacks(data, comparison)
    return replace(
        comparison,
        wall=_compared_wall(before, after),
        turns=_compared_turns(before, after, shown.scope),
        stacks=stacks,
        inclusive=inclusive,
        notes=comparison_notes(comparison, asked.scope, data.runs, data.labels),
        warnings=comparison_warnings(comparison, data.runs),
    )


def _compared_turns(
    before: Sequence[Profile], after: Sequence[Profile], detail: Detail
) -> tuple[TurnChange, ...]:
    """Compare turns of threads; none unless all recordings have some."""
    if any(profile.turns is None for profile in (*before, *after)):
        return ()
    from prospect.estimate.compare.compared_turns import compared_turns  # noqa: PLC0415 - of switches only

    return compared_turns(before, after, detail)


def _compared_wall(before: Sequence[Profile], after: Sequence[Profile]) -> ComparedWall | None:
    """Compare where the wall time went; None unless all recordings have switches."""
    if any(profile.wall is None for profile in (*before, *after)):
        return None
    from prospect.estimate.compare.compared_turns import compared_wall  # noqa: PLC0415 - of switches only

    return compared_wall(before, after)


def divisors(work: Work, before: Sequence[Profile], after: Sequence[Profile]) -> F64:
    """Return the divisors of each recording's times, f64[n]: A's recordings, then B's.

    Raises:
        UsageError: the counts do not fit the recordings, or a recording has no length.
    """
    if work.kind == "second":
        walls = [profile.run.wall_seconds for profile in (*before, *after)]
        if not all(math.isfinite(wall) and wall > 0 for wall in walls):
            raise UsageError("a recording does not say how long it was: compare with --per run")
        return np.array(walls, np.float64)
    sides = (("A", work.before, before), ("B", work.after, after))
    for name, counts, recordings in sides:
        if len(counts) not in (1, len(recordings)):
            raise UsageError(
                f"--per has {len(counts)} counts for {name}, but {name} has {len(recordings)} "
                f"recording{'s' if len(recordings) > 1 else ''}: give one for all, or one each"
            )
    return np.concatenate(
        [
            np.broadcast_to(np.array(counts, np.float64), len(recordings))
            for _, counts, recordings in sides
        ]
    )


def _compared_stacks(
    data: _Recordings, comparison: Comparison
) -> tuple[ComparedStacks | None, ChangeTable | None]:
    """Compare call stacks if requested: their tree, and functions with all that they call."""
    options = comparison.options
    has_callers = options.inclusive and all(
        run.profile.run.has_user_callers and run.profile.stacks is not None for run in data.runs
    )
    if not (options.stacks or has_callers):
        return None, None
    test = StackTest(
        before=data.before,
        divisor=data.divisor,
        exposure=data.exposure,
        variation=comparison.variation,
        least_hits=_TESTED_FROM_HITS,
        fdr=options.fdr,
        total=comparison.total,
    )
    matched = matched_stacks(data.runs, data.labels)
    return (
        compared_stacks(matched, test) if options.stacks else None,
        compared_inclusive(matched, test) if has_callers else None,
    )


def _check(before: Sequence[Profile], after: Sequence[Profile], options: CompareOptions) -> None:
    if not (before and after):
        raise UsageError("a comparison needs a recording on each side")
    if options.scope not in DETAILS:
        raise UsageError(f"-V {options.scope} is not one of {', '.join(DETAILS)}")
    if not 0.0 < options.fdr < 1.0:
        raise UsageError(f"--fdr {options.fdr} is not between 0 and 1")
    if not 0.0 <= options.run_variation < 1.0:
        raise UsageError(f"--run-variation {options.run_variation} is not between 0 and 1")


def _shown_scope(scope: Detail, profiles: Sequence[Profile]) -> Detail:
    """Return "4" if the command's own processes are requested and one side knows none."""
    known = all(profile.processes.is_command.any() for profile in profiles)
    return scope if known or scope not in ("2", "3") else "4"


def _load_allowance(data: _Recordings, options: CompareOptions) -> tuple[float, float]:
    """Return how much other load may have slowed down each of two recordings, as parts of its time.

    CPUs that share a core, a cache or a memory bus slow each other down: a program next to
    others takes more CPU time, depending on what they do. There is no allowance if the runs are
    compared as they were (`--run-variation 0`), or if several recordings a side show the variation.
    """
    if len(data.runs) != 2 or not options.run_variation:
        return 0.0, 0.0
    loads = [run.other_load if math.isfinite(run.other_load) else 0.0 for run in data.runs]
    return _LOAD_EFFECT * loads[0], _LOAD_EFFECT * loads[1]


def _rows(
    data: _Recordings, matched: MatchedRows, merged: Sequence[RunParts] | None = None
) -> Rows:
    """Add hits up by row; `merged` has the parts of each recording, if known."""
    parts: Sequence[RunParts | None] = [None] * len(data.runs) if merged is None else merged
    runs = zip(data.runs, matched.row_of_hit, parts, strict=True)
    return rows_of(runs, len(matched), data.divisor)


def _table(data: _Recordings, matched: MatchedRows, rows: Rows, spread: Spread) -> ChangeTable:
    mean = side_means(rows.values, data.before)
    hits = np.stack(
        [rows.hits[:, : data.before].sum(axis=1), rows.hits[:, data.before :].sum(axis=1)], axis=1
    )
    found = changes(mean, spread, hits, data.exposure)
    return ChangeTable(
        kind=matched.kind,
        name=matched.name,
        object=matched.object,
        mode=matched.mode,
        hits=hits,
        mean=mean,
        **found._asdict(),
        q_value=np.full(len(matched), np.nan),
        significant=np.zeros(len(matched), np.bool_),
    )


def _with_significance(tables: Sequence[ChangeTable], fdr: float) -> tuple[list[ChangeTable], int]:
    """Mark the significant rows of all tables together, and sort each table."""
    is_tested = [table.hits.sum(axis=1) >= _TESTED_FROM_HITS for table in tables]
    p_values = [
        np.where(tested, table.p_value, np.nan)
        for table, tested in zip(tables, is_tested, strict=True)
    ]
    q_values = adjusted(np.concatenate(p_values))
    ends = np.cumsum([len(table) for table in tables])[:-1]
    marked = [
        in_order(replace(table, p_value=p_value, q_value=q_value, significant=q_value <= fdr))
        for table, p_value, q_value in zip(tables, p_values, np.split(q_values, ends), strict=True)
    ]
    return marked, int(np.count_nonzero(np.concatenate(is_tested)))


def _described(data: _Recordings) -> tuple[ComparedRecording, ...]:
    return tuple(
        ComparedRecording(
            run=run.profile.run,
            hits=int(run.profile.hits.count[run.counts].sum()),
            seconds=float(run.seconds[run.counts].sum()),
            work=float(work),
            other_load=run.other_load,
        )
        for run, work in zip(data.runs, data.divisor, strict=True)
    )


def _verdict(
    data: _Recordings, condition: Condition, variation: Variation, scope: Detail, total: Rows
) -> Verdict:
    """Judge the row that a condition names, or `total`, of the whole compared part."""
    about = DETAIL_WORDS[scope]
    if condition.name:
        matched = named_row(condition.kind, condition.name, data.runs, data.labels)
        if matched is None:
            kind = condition.kind or "process, object or function"
            raise UsageError(f"--fail-if: no {kind} '{condition.name}' has a sample in {about}")
        about = f"the {matched.kind} {condition.name}, in {about}"
        rows = _rows(data, matched)
    else:
        rows = total
    spread = own_spread_of(rows, data.before, variation)
    if not len(rows.values):
        raise UsageError(f"--fail-if: {about} has no sample in any recording")
    mean = side_means(rows.values, data.before)[0]
    recordings = max(data.before, len(data.runs) - data.before)
    return judge(condition, about, (float(mean[0]), float(mean[1])), spread, recordings)


_LOAD_TO_TELL = 0.05
_ALLOWANCE_TO_TELL = 0.005
_NAMED_SHARE_TO_TELL = 0.2
_HITS_TO_TELL = 50
# A side shorter than this, and than this part of the other one, has hardly any data.
_SHORT_S, _MUCH_LONGER = 10.0, 5.0
# Facts that should be the same on both sides.
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
    comparison: Comparison, asked: Detail, runs: Sequence[ComparedRun], labels: Sequence[Labels]
) -> tuple[str, ...]:
    """Return the claims of the comparison, and what may mislead."""
    notes = [*_variation_notes(comparison)]
    shown = comparison.options.scope
    # A store's windows never have a command.
    if asked != shown and not all(run.profile.run.store_part for run in runs):
        notes.append(
            f"Not every recording says which process is COMMAND, so -V {shown} is compared "
            f"instead of -V {asked}."
        )
    notes += _same_file_notes(comparison)
    notes += _short_side_notes(comparison)
    notes += _difference_notes(comparison, runs)
    notes += _name_notes(len(comparison.before), runs, labels)
    notes += unnamed_notes(comparison.unnamed, runs)
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
    """Return damage and losses of the recordings."""
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


def _sides(comparison: Comparison) -> tuple[tuple[str, tuple[ComparedRecording, ...]], ...]:
    return (("A", comparison.before), ("B", comparison.after))


def _short_side_notes(comparison: Comparison) -> Iterator[str]:
    """Report a side with hardly any data, such as a span with a window or two of a daemon."""
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
        return  # `_assumption_notes` has the allowance
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
    """Report objects whose functions have names on one side only."""
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
