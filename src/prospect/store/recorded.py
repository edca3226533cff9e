"""A recording and a specification → the part of it that fits, as a part of a store would be.

Comes in: a profile with its samples. Goes out: a profile of the hits that fit and their stacks.
It has no samples: what is left out would look like ticks that are missing.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import exact_sums, group_sums
from prospect.errors import UsageError
from prospect.figures.processes import idle_hits
from prospect.figures.stacks.stack_weights import stack_samples
from prospect.profile.builder import no_clocks, no_samples
from prospect.profile.group_names import group_name
from prospect.profile.model import NO_CPU, HitTable, PartOf, Profile
from prospect.records import contents, replace
from prospect.store.specification import (
    ALWAYS,
    DEPENDENT_KINDS,
    EXCLUDING,
    OF_EVENTS,
    SHARED_LIBRARY,
    event_number,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from prospect.figures.stacks.stack_weights import StackSamples
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.run_info import RunInfo
    from prospect.store.specification import Specification

_NS_PER_US = 1000
_US = 1e-6
_MOST_SHOWN = 5


def part_of_recording(profile: Profile, chosen: Specification) -> Profile:
    """Return the part of a recording that fits.

    Args:
        profile: of the recording, with samples, and stacks where these are wanted.
        chosen: what the samples have to fit.

    Raises:
        UsageError: nothing fits, or the recording does not say what a word asks for.
    """
    samples = stack_samples(profile, "4")
    whole = samples.profile
    in_time = _in_time(samples, chosen)
    passes = in_time.copy()
    for word in (*chosen.texts, *chosen.numbers):
        fits = _fitting(samples, chosen, word)
        if not fits.any():
            raise UsageError(_nothing(samples, chosen, word))
        passes &= fits
    if not passes.any():
        words = " ".join(chosen.words)
        raise UsageError(f"{whole.run.origin}: nothing fits {words}{_span(whole.run)}")
    keys = (samples.hit_index[passes], samples.stack_index[passes])
    (hit, stack), (count, period) = group_sums(
        keys, (samples.count[passes], samples.period[passes])
    )
    part_hit = np.full(len(whole.samples), -1, np.int32)
    if len(part_hit):
        part_hit[passes] = _places((hit, stack), keys, len(samples.stacks))
    has_stacks = profile.stacks is not None
    columns: dict[str, Any] = {
        name: column.take(hit)
        for name, column in contents(whole.hits).items()
        if column is not None and name not in ("count", "period", "stack_index")
    }
    hits = HitTable(
        **columns,
        count=count,
        period=period,
        stack_index=stack.astype(np.int32) if has_stacks else None,
    )
    return replace(
        Profile(**contents(whole)),
        run=replace(_run(whole.run, chosen), busy=_busy(samples, in_time)),
        hits=hits,
        samples=no_samples(),
        clocks=no_clocks(),
        clock_stops=None,
        stacks=samples.stacks if has_stacks else None,
        stack_copies=None,
        threads=None,
        syscalls=None,
        call_counts=None,
        sample_data=(),
        part_of=PartOf(whole, part_hit),
    )


def _places(
    found: tuple[NDArray[np.int64], NDArray[np.int64]],
    keys: tuple[NDArray[np.int32], NDArray[np.int32]],
    stacks: int,
) -> NDArray[np.int64]:
    """Return which of the distinct, ascending pairs of a hit and a stack each pair is."""
    first, each = (hit.astype(np.int64) * stacks + stack for hit, stack in (found, keys))
    return np.searchsorted(first, each)


def _busy(samples: StackSamples, in_time: NDArray[np.bool_]) -> tuple[tuple[int, int], ...]:
    """Return the samples and periods of busy CPUs, by event: see `RunInfo.busy`."""
    profile, hit_index = samples.profile, samples.hit_index
    chosen = in_time & ~idle_hits(profile).take(hit_index)
    event = profile.hits.event.take(hit_index[chosen])
    events = len(profile.run.events)
    count = exact_sums(event, samples.count[chosen], events)
    period = exact_sums(event, samples.period[chosen], events)
    return tuple(zip(count.tolist(), period.tolist(), strict=True))


def _in_time(samples: StackSamples, chosen: Specification) -> NDArray[np.bool_]:
    if chosen.since_us == -ALWAYS and chosen.until_us == ALWAYS:
        return np.ones(len(samples), np.bool_)
    run = samples.profile.run
    if samples.time_ns is None or not run.started_at:
        raise UsageError(f"{run.origin}: does not say when its samples were taken: no since:")
    began_us = round(run.started_at / _US)
    at_us = samples.time_ns.astype(np.int64) // _NS_PER_US + began_us
    passes: NDArray[np.bool_] = (at_us >= chosen.since_us) & (at_us < chosen.until_us)
    return passes


def _fitting(samples: StackSamples, chosen: Specification, word: str) -> NDArray[np.bool_]:
    """Return bool[n]: the samples that fit one word."""
    if word in chosen.numbers:
        numbers = _numbers(samples, word)
        return np.isin(numbers, chosen.numbers[word])
    names, index = _names(samples.profile, word)
    if word == "dependent":
        kinds = samples.profile.objects.kind.tolist()
        is_library = re.compile(SHARED_LIBRARY).search
        meant = [
            kind in DEPENDENT_KINDS or bool(is_library(name))
            for name, kind in zip(names, kinds, strict=True)
        ]
    else:
        patterns = chosen.texts[word]
        meant = [any(fnmatchcase(name, one) for one in patterns) for name in names]
    fits = np.array([*meant, False], np.bool_) ^ (word in EXCLUDING)
    return fits.take(index).take(samples.hit_index)


def _numbers(samples: StackSamples, word: str) -> NDArray[np.int64]:
    """Return i64[n]: what a word of numbers compares."""
    if word == "tid":
        return samples.tid.astype(np.int64)
    if word == "cpu":
        if (samples.cpu == NO_CPU).all():
            raise UsageError(f"{samples.profile.run.origin}: does not say on which CPU: no cpu:")
        return samples.cpu.astype(np.int64)
    profile = samples.profile
    if word in OF_EVENTS:
        of_event = [event_number(event, word) for event in profile.run.events]
        return np.array(of_event, np.int64).take(profile.hits.event).take(samples.hit_index)
    pid = profile.processes.pid.take(profile.hits.process_index)
    return pid.take(samples.hit_index).astype(np.int64)


def _names(profile: CompleteProfile, word: str) -> tuple[Sequence[str], NDArray[np.int64]]:
    """Return the names that a word compares, and i64[h] which one each hit has."""
    hits, processes = profile.hits, profile.processes
    function = profile.locations.function_index.take(hits.location_index).astype(np.int64)
    none = np.zeros(len(hits), np.int64)
    process = hits.process_index.astype(np.int64)
    images = profile.functions.object_index.take(function).astype(np.int64)
    groups = processes.control_group or [""] * len(processes.name)
    known: dict[str, tuple[Sequence[str], NDArray[np.int64]]] = {
        "image": (processes.name, process),
        "comm": (profile.comms, hits.comm_index.astype(np.int64)),
        "symbol": (profile.functions.name, function),
        "exclude-symbol": (profile.functions.name, function),
        "lib-image": (profile.objects.path, images),
        "dependent": (profile.objects.path, images),
        "event": ([event.name for event in profile.run.events], hits.event.astype(np.int64)),
        "host": ([profile.run.hostname], none),
        "service": ([group_name(group) for group in groups], process),
        "container": ([group_name(group) for group in groups], process),
    }
    if word not in known:
        raise UsageError(f"{word}: needs a store; a recording has none")
    return known[word]


def _nothing(samples: StackSamples, chosen: Specification, word: str) -> str:
    """Say what there is where one word fits nothing."""
    counted: Counter[str] = Counter()
    if word in chosen.numbers:
        values, place = np.unique(_numbers(samples, word), return_inverse=True)
        names, index = list(map(str, values.tolist())), place
    else:
        known, of_hit = _names(samples.profile, word)
        names, index = list(known), of_hit.take(samples.hit_index)
    sums = np.bincount(index, samples.count, len(names)).astype(np.int64)
    for name, count in zip(names, sums.tolist(), strict=True):
        counted[name] += count
    there = ", ".join(name or "none" for name, _ in counted.most_common(_MOST_SHOWN))
    words = " ".join(chosen.words)
    return f"{samples.profile.run.origin}: nothing fits {words}; {word}: there is {there}"


def _span(run: RunInfo) -> str:
    """Say from when to when a recording is."""
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
        f"This is the part of the recording that fits {words}: no ledger, no late hits, no waits."
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
