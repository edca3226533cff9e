"""Make the profile of the part of a recording that matches a specification, as of a store.

It has the matching hits and their stacks. It has no samples: the other ones would look like missing
ticks.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import gather
from prospect.columns.grouping import exact_sums, group_sums
from prospect.errors import UsageError
from prospect.figures.processes import idle_hits
from prospect.figures.sample_filter import meeting, names_of
from prospect.figures.stacks.stack_weights import stack_samples, with_waits
from prospect.profile.builder import no_clocks, no_samples
from prospect.profile.complete import complete
from prospect.profile.model import HitTable, PartOf, Profile
from prospect.records import asdict, replace
from prospect.store.conditions import conditions_in
from prospect.store.specification import ALWAYS

if TYPE_CHECKING:
    from typing import Any

    from prospect.columns.array_types import Bools
    from prospect.figures.sample_filter import Condition
    from prospect.figures.stacks.stack_weights import StackSamples
    from prospect.profile.run_info import RunInfo
    from prospect.store.specification import Specification

_NS_PER_US = 1000
_US = 1e-6
_MOST_SHOWN = 5


def part_of_recording(profile: Profile, chosen: Specification) -> Profile:
    """Return the matching part of a recording.

    The profile has samples, and stacks if the part should have them.

    Raises:
        UsageError: nothing matches, or the recording lacks the facts that a word compares.
    """
    whole = complete(profile)
    samples = stack_samples(with_waits(whole), "4")
    in_time = _in_time(samples, chosen)
    passes = in_time.copy()
    for one in conditions_in(chosen):
        fits = meeting(samples, one)
        if not fits.any():
            raise UsageError(_nothing(samples, chosen, one))
        passes &= fits
    if not passes.any():
        words = " ".join(chosen.words)
        raise UsageError(f"{whole.run.origin}: nothing matches {words}{_span(whole.run)}")
    # Waits are after all samples.
    sampled = len(samples) - (len(whole.waits) if whole.waits else 0)
    rows, of_waits = np.flatnonzero(passes[:sampled]), np.flatnonzero(passes[sampled:])
    keys = (samples.hit_index[rows], samples.stack_index[rows])
    (hit, stack), (count, period) = group_sums(keys, (samples.count[rows], samples.period[rows]))
    part_hit = np.full(len(whole.samples), -1, np.int32)
    if len(part_hit):
        distinct, each = (
            hits.astype(np.int64) * len(samples.stacks) + stacks
            for hits, stacks in ((hit, stack), keys)
        )
        part_hit[rows] = np.searchsorted(distinct, each)
    has_stacks = profile.stacks is not None
    waits = whole.waits and gather(whole.waits, of_waits)
    if waits and has_stacks:
        waits = replace(waits, stack_index=samples.stack_index[sampled:].take(of_waits))
    columns: dict[str, Any] = {
        name: column.take(hit)
        for name, column in asdict(whole.hits).items()
        if column is not None and name not in ("count", "period", "stack_index")
    }
    hits = HitTable(
        **columns,
        count=count,
        period=period,
        stack_index=stack.astype(np.int32) if has_stacks else None,
    )
    return replace(
        Profile(**asdict(whole)),
        run=replace(_run(whole.run, chosen), busy=_busy(samples, in_time)),
        hits=hits,
        samples=no_samples(),
        clocks=no_clocks(),
        clock_stops=None,
        stacks=samples.stacks if has_stacks else None,
        stack_copies=None,
        threads=None,
        wall=None,
        turns=None,
        waits=waits,
        syscalls=None,
        call_counts=None,
        sample_data=(),
        part_of=PartOf(whole, part_hit),
    )


def _busy(samples: StackSamples, in_time: Bools) -> tuple[tuple[int, int], ...]:
    """Return the samples and periods of busy CPUs, by event: see `RunInfo.busy`."""
    profile, hit_index = samples.profile, samples.hit_index
    chosen = in_time & ~idle_hits(profile).take(hit_index)
    event = profile.hits.event.take(hit_index[chosen])
    events = len(profile.run.events)
    count = exact_sums(event, samples.count[chosen], events)
    period = exact_sums(event, samples.period[chosen], events)
    return tuple(zip(count.tolist(), period.tolist(), strict=True))


def _in_time(samples: StackSamples, chosen: Specification) -> Bools:
    if chosen.since_us == -ALWAYS and chosen.until_us == ALWAYS:
        return np.ones(len(samples), np.bool_)
    run = samples.profile.run
    if samples.time_ns is None or not run.started_at:
        raise UsageError(f"{run.origin}: has no times of samples, which since: needs")
    began_us = round(run.started_at / _US)
    at_us = samples.time_ns.astype(np.int64) // _NS_PER_US + began_us
    passes: Bools = (at_us >= chosen.since_us) & (at_us < chosen.until_us)
    return passes


def _nothing(samples: StackSamples, chosen: Specification, one: Condition) -> str:
    """Return the message for a word that matches nothing, with the commonest values."""
    counted: Counter[str] = Counter()
    if known := names_of(samples, one.word):
        sums = np.bincount(known.number, samples.count, len(known.names)).astype(np.int64)
        for name, count in zip(known.names, sums.tolist(), strict=True):
            counted[name] += count
    there = ", ".join(name or "none" for name, _ in (+counted).most_common(_MOST_SHOWN))
    words = " ".join(chosen.words)
    origin = samples.profile.run.origin
    return f"{origin}: nothing matches {words}; {one.word.name}: there is {there}"


def _span(run: RunInfo) -> str:
    """Return the begin and end of a recording, for a message."""
    if not run.started_at:
        return ""
    ends = (run.started_at, run.started_at + run.wall_seconds)
    begin, end = (datetime.fromtimestamp(at, UTC).astimezone() for at in ends)
    return f"; it is from {begin:%Y-%m-%d %H:%M:%S} to {end:%H:%M:%S}"


def _run(run: RunInfo, chosen: Specification) -> RunInfo:
    words = " ".join(chosen.words)
    began, ended = run.started_at, run.started_at + run.wall_seconds
    if run.started_at:
        began = max(began, chosen.since_us * _US)
        ended = min(ended, chosen.until_us * _US)
    part = (
        f"This is the part of the recording that matches {words}: no sample accounting, no late"
        " samples, no waits."
    )
    return replace(
        run,
        started_at=began,
        wall_seconds=max(ended - began, 0.0),
        begin_ns=0,
        end_ns=0,
        limits=(part, *run.limits),
        statistics={},
        accounting={},
        cpu_accounting={},
    )
