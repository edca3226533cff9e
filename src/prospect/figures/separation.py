"""A profile with samples → the same with its hits kept apart by CPU, thread, hour, session or host.

What differs from sample to sample is no column of the table of hits. Its rows are split here, so
that sums and error bars by class are made as all others are.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from prospect.columns.counting import counted
from prospect.columns.grouping import exact_sums
from prospect.columns.table_rows import taken
from prospect.errors import UsageError
from prospect.figures.hit_keys import SEPARATED
from prospect.options import OF_THREADS
from prospect.profile.model import NO_CPU, HitClasses
from prospect.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from prospect.profile.model import Profile

    _Classes = tuple[NDArray[np.int64], list[str]]

_AnyProfile = TypeVar("_AnyProfile", bound="Profile")
_HOUR_S = 3600
_NS = 1e-9


def separated(profile: _AnyProfile, dimension: str) -> _AnyProfile:
    """Return the profile with its hits kept apart by class, if its table of hits does not do so.

    Args:
        profile: what was recorded, with samples; or kept apart already.
        dimension: of `prospect.options.COLUMN_DIMENSIONS`.

    Raises:
        UsageError: the profile does not say what its samples have of that.
    """
    if dimension not in SEPARATED or _is_separated(profile, dimension):
        return profile
    if dimension == "session":
        raise UsageError("--columns session needs a store: add --store DIR")
    if dimension == "host":
        of_hit = np.zeros(len(profile.hits), np.int32)
        return replace(
            profile,
            hits=replace(profile.hits, class_index=of_hit),
            classes=HitClasses(dimension, [profile.run.hostname]),
        )
    if not len(profile.samples) and len(profile.hits):
        raise UsageError(f"--columns {dimension}: {profile.run.origin} has no single samples")
    number, names = _CLASSES[dimension](profile)
    return _split(profile, number, HitClasses(dimension, names))


def by_thread(profile: _AnyProfile, keys: Iterable[str]) -> _AnyProfile:
    """Return the profile with its hits kept apart by thread if keys of `--sort` ask for that.

    Args:
        profile: as of `separated`. If it has no numbers of threads, or keeps apart something else,
            "thread" means their names.
        keys: of `prospect.options.SORT_KEYS`.

    Raises:
        UsageError: "tid" is asked for, and it has no numbers or keeps apart something else.
    """
    asked = [key for key in OF_THREADS if key in keys]
    if not asked:
        return profile
    has_other_classes = profile.classes is not None and profile.classes.dimension != "thread"
    has_numbers = profile.classes is not None or _has_tids(profile)
    if asked == ["thread"] and (has_other_classes or not has_numbers):
        return profile
    if has_other_classes:
        raise UsageError("--sort tid keeps apart threads, and --columns something else: leave one")
    if len(profile.hits) and not has_numbers:
        raise UsageError(
            f"--sort tid: {profile.run.origin} has no numbers of threads; --sort comm has names"
        )
    return separated(profile, "thread")


def _has_tids(profile: Profile) -> bool:
    """Return whether samples have the numbers of their threads."""
    tid = profile.samples.tid
    return len(profile.samples) > 0 and tid is not None and bool((tid >= 0).any())


def _is_separated(profile: Profile, dimension: str) -> bool:
    return profile.classes is not None and profile.classes.dimension == dimension


def _split(
    profile: _AnyProfile, class_of_sample: NDArray[np.int64], classes: HitClasses
) -> _AnyProfile:
    """Return a profile with a row of hits for each row and class that there are samples of."""
    hits, samples = profile.hits, profile.samples
    size = max(len(classes.names), 1)
    found = counted(
        samples.hit_index.astype(np.uint64) * np.uint64(size) + class_of_sample.astype(np.uint64)
    )
    old, of_class = np.divmod(found.value.astype(np.int64), size)
    count = np.bincount(found.place, minlength=len(old)).astype(np.int64)
    if samples.period is None:
        # Only their sum is known; nothing of that is to be lost.
        whole, samples_of_old = hits.period.take(old), hits.count.take(old)
        period = whole // np.maximum(samples_of_old, 1) * count
        first = np.append(True, old[1:] != old[:-1]) if len(old) else np.zeros(0, np.bool_)
        rest = hits.period - exact_sums(old, period, len(hits))
        period[first] += rest.take(old[first])
    else:
        period = exact_sums(found.place, np.asarray(samples.period).astype(np.int64), len(old))
    return replace(
        profile,
        hits=replace(
            taken(hits, old), count=count, period=period, class_index=of_class.astype(np.int32)
        ),
        samples=replace(samples, hit_index=found.place.astype(np.int32)),
        classes=classes,
    )


def _cpus(profile: Profile) -> _Classes:
    cpu = profile.samples.cpu
    if (cpu == NO_CPU).all() and len(cpu):
        raise UsageError(f"--columns cpu: {profile.run.origin} does not say on which CPU")
    values, number = np.unique(cpu, return_inverse=True)
    names = ["?" if one == NO_CPU else str(one) for one in values.tolist()]
    return number.astype(np.int64), names


def _threads(profile: Profile) -> _Classes:
    """Number threads; one is called as it was at most of its samples."""
    tid = profile.samples.tid
    if tid is None or ((tid < 0).all() and len(tid)):
        raise UsageError(f"--columns thread: {profile.run.origin} does not say of which thread")
    values, number = np.unique(tid, return_inverse=True)
    comm = profile.hits.comm_index.take(profile.samples.hit_index)
    pairs, hits = np.unique(number.astype(np.int64) << 32 | comm + 1, return_counts=True)
    commonest = {pair >> 32: pair & 0xFFFF_FFFF for pair in pairs.take(np.argsort(hits)).tolist()}
    comms = ["", *profile.comms]
    return number.astype(np.int64), [
        thread_name(comms[commonest[at]], one) for at, one in enumerate(values.tolist())
    ]


def _hours(profile: Profile) -> _Classes:
    run, time_ns = profile.run, profile.samples.time_ns
    if not run.started_at:
        raise UsageError(f"--columns hour: {run.origin} does not say when it was recorded")
    begin_ns = min(run.begin_ns or 2**64 - 1, int(time_ns.min(initial=2**64 - 1)))
    since_s = (time_ns - np.uint64(begin_ns)).astype(np.float64) * _NS
    hours, number = np.unique((run.started_at + since_s) // _HOUR_S, return_inverse=True)
    return number.astype(np.int64), [hour_name(int(one)) for one in hours.tolist()]


def thread_name(comm: str, tid: int) -> str:
    """Return what a thread is called among others."""
    return f"{comm} ({tid})" if tid >= 0 else "?"


def hour_name(hours: int) -> str:
    """Return what an hour is called by this machine's time, of hours since 1970."""
    return datetime.fromtimestamp(hours * _HOUR_S, UTC).astimezone().strftime("%Y-%m-%d %H:%M")


_CLASSES = {"cpu": _cpus, "thread": _threads, "hour": _hours}
