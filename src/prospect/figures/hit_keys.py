"""The keys by which hits are added up, and profiles whose hits are kept apart for them.

Some dimensions, as CPUs, differ from sample to sample and are no column of the table of hits. Its
rows are split for them, so that sums and error bars by class are made as all others are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from prospect.columns.counting import counted
from prospect.columns.grouping import exact_sums
from prospect.columns.table_rows import taken
from prospect.dimensions import BY_NAME
from prospect.errors import UsageError
from prospect.figures.hit_columns import HitColumns, Keys, SampleColumns
from prospect.profile.model import HitClasses
from prospect.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from prospect.dimensions import Dimension
    from prospect.profile.complete import ProfileByRoutine
    from prospect.profile.model import Profile

_AnyProfile = TypeVar("_AnyProfile", bound="Profile")


def hit_keys(profile: ProfileByRoutine, dimension: str) -> Keys:
    """Return what each hit has of a dimension.

    Args:
        profile: completed, and kept apart by the dimension if its table of hits does not say.
        dimension: its name.

    Raises:
        UsageError: the profile does not say.
    """
    one = BY_NAME[dimension]
    classes, index = profile.classes, profile.hits.class_index
    if one.kept_as and classes is not None and classes.dimension == one.kept_as:
        if index is None:
            raise UsageError(f"--columns {dimension}: the profile does not keep this apart")
        names = classes.names
        if one.is_number:
            names = [name.rpartition(" (")[2].removesuffix(")") for name in names]
        return Keys(index.astype(np.int64), names, names.__getitem__)
    if one.keys is None:
        raise UsageError(f"--columns {dimension}: the profile does not keep this apart")
    keys: Keys = one.keys(HitColumns(profile))
    return keys


def kept_apart(profile: _AnyProfile, dimension: str) -> _AnyProfile:
    """Return the profile with its hits kept apart by a dimension, if they are not yet.

    Args:
        profile: what was recorded, with samples; or kept apart already.
        dimension: of `COLUMN_DIMENSIONS`, or "".

    Raises:
        UsageError: the profile does not say what its samples have of that.
    """
    one = BY_NAME.get(dimension)
    if one is None or not one.kept_as or _is_apart(profile, one):
        return profile
    if one.needs_store:
        raise UsageError(f"--columns {dimension} {one.missing}")
    if one.samples is None:
        return profile
    if not len(profile.samples) and len(profile.hits):
        raise UsageError(f"--columns {dimension}: {profile.run.origin} has no single samples")
    values = one.samples(SampleColumns(profile))
    if values is None:
        raise UsageError(f"--columns {dimension}: {profile.run.origin} {one.missing}")
    return _split(profile, values, one)


def kept_apart_for(profile: _AnyProfile, keys: Iterable[str]) -> _AnyProfile:
    """Return the profile with its hits kept apart for keys of `--sort` that ask for that.

    Args:
        profile: as of `kept_apart`. If it has no numbers of threads, or keeps apart something else,
            "thread" means their names.
        keys: of `SORT_KEYS`.

    Raises:
        UsageError: "tid" is asked for, and it has no numbers or keeps apart something else.
    """
    asked = [one for one in map(BY_NAME.__getitem__, keys) if one.kept_as]
    if not asked:
        return profile
    # What means something else if hits cannot be kept apart comes last.
    asked.sort(key=lambda one: one.keys is not None)
    one, classes = asked[0], profile.classes
    has_others = classes is not None and not _is_apart(profile, one)
    is_known = classes is not None or _says(profile, one)
    if one.keys is not None and (has_others or not is_known):
        return profile
    if has_others:
        raise UsageError(
            f"--sort {one.name} keeps apart {one.kept_as}s, and --columns something else: leave one"
        )
    if len(profile.hits) and not is_known:
        raise UsageError(f"--sort {one.name}: {profile.run.origin} {one.missing}")
    return kept_apart(profile, one.kept_as)


def _is_apart(profile: Profile, one: Dimension) -> bool:
    return profile.classes is not None and profile.classes.dimension == one.kept_as


def _says(profile: Profile, one: Dimension) -> bool:
    """Return whether single samples have a dimension."""
    if not len(profile.samples) or one.samples is None:
        return False
    return one.samples(SampleColumns(profile)) is not None


def _split(profile: _AnyProfile, values: NDArray[np.int64], one: Dimension) -> _AnyProfile:
    """Return a profile with a row of hits for each row and value that there are samples of.

    Args:
        profile: with samples.
        values: i64[n] what each of them has of the dimension.
        one: the dimension.
    """
    hits, samples = profile.hits, profile.samples
    known, class_of_sample = np.unique(values, return_inverse=True)
    size = max(len(known), 1)
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
    comms = _commonest_comms(profile, class_of_sample)
    names = [one.class_name(value, comm) for value, comm in zip(known.tolist(), comms, strict=True)]
    return replace(
        profile,
        hits=replace(
            taken(hits, old), count=count, period=period, class_index=of_class.astype(np.int32)
        ),
        samples=replace(samples, hit_index=found.place.astype(np.int32)),
        classes=HitClasses(one.kept_as, names),
    )


def _commonest_comms(profile: Profile, class_of_sample: NDArray[np.intp]) -> list[str]:
    """Return for each class the name of a thread that most of its samples have."""
    comm = profile.hits.comm_index.take(profile.samples.hit_index)
    pairs, hits = np.unique(class_of_sample.astype(np.int64) << 32 | comm + 1, return_counts=True)
    commonest = {pair >> 32: pair & 0xFFFF_FFFF for pair in pairs.take(np.argsort(hits)).tolist()}
    comms = ["", *profile.comms]
    return [comms[commonest[number]] for number in sorted(commonest)]
