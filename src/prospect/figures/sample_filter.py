"""Samples of a profile that meet a condition, and the names that it compares.

The words of specifications and the filters of `prospect calls` choose by these names. For stores,
`store/conditions.py` has the same in SQL.
"""

from __future__ import annotations

import math
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np

from prospect.dimensions import EVENTS, OF_WORD
from prospect.errors import UsageError
from prospect.figures.hit_keys import HitColumns, SampleColumns, hit_keys
from prospect.profile.model import KIND_BPF, KIND_KERNEL, KIND_MODULE, KIND_VDSO
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.columns.array_types import Bools, Ints
    from prospect.dimensions import Dimension, Word
    from prospect.figures.stacks.stack_weights import StackSamples
    from prospect.profile.run_info import EventInfo

_MOST_COUNT = 2**63 - 1
# `dependent:no` excludes OProfile's dependent images, of the kernel and of libraries.
DEPENDENT_KINDS = (KIND_KERNEL, KIND_MODULE, KIND_VDSO, KIND_BPF)
SHARED_LIBRARY = r"\.so(?:[. ]|$)"
_DEPENDENT = "dependent"


class Condition(NamedTuple):
    """A condition on a sample, from one word: one of the patterns or numbers has to match."""

    word: Word
    patterns: tuple[str, ...] = ()
    numbers: frozenset[int] = frozenset()

    @property
    def dimension(self) -> Dimension:
        """The dimension that it chooses by."""
        return OF_WORD[self.word.name]

    @property
    def is_of_objects(self) -> bool:
        """Whether it depends on the kinds of objects as well as on their names."""
        return self.word.name == _DEPENDENT

    def is_met(self, name: str, object_kind: int = -1) -> bool:
        """Return whether a name, or a number as text, matches."""
        if self.is_of_objects:
            is_meant = object_kind in DEPENDENT_KINDS or bool(re.search(SHARED_LIBRARY, name))
        elif self.word.is_number:
            is_meant = name.isdecimal() and int(name) in self.numbers
        else:
            is_meant = any(fnmatchcase(name, one) for one in self.patterns)
        return is_meant != self.word.excludes


class Names(NamedTuple):
    """The names that a word compares.

    Attributes:
        names: or numbers as text.
        number: i[n] row of `names` of each sample.
        others: for each name, another that matches, too: the last part of a path, the kind of an
            entry reason.
    """

    names: Sequence[str]
    number: Ints
    others: Sequence[str]


def names_of(samples: StackSamples, word: Word) -> Names | None:
    """Return the names that a word compares; None if the samples lack them.

    Raises:
        UsageError: only stores have them.
    """
    profile, dimension = samples.profile, OF_WORD[word.name]
    if dimension.needs_store:
        raise UsageError(f"{word.name}: needs a store; a recording has none")
    if dimension.samples is not None:
        column = dimension.samples(SampleColumns(profile)) if len(profile.samples) else None
        if column is None:
            return None
        values, index = np.unique(column, return_inverse=True)
        names = list(map(str, values.tolist()))
        return Names(names, index, names)
    hits = HitColumns(profile)
    if word.table == EVENTS:
        names = [event_name(event, word) for event in profile.run.events]
        return Names(names, hits.event.take(samples.hit_index), names)
    if word.name == _DEPENDENT:  # by the row: objects of one name may be of several kinds
        paths = profile.objects.path
        return Names(paths, hits.object.take(samples.hit_index), paths)
    keys = hit_keys(profile, dimension.name)
    others = keys.others or keys.names
    if dimension.is_path:
        others = [path.rpartition("/")[2] for path in keys.names]
    return Names(keys.names, keys.number.take(samples.hit_index), others)


def meeting(samples: StackSamples, one: Condition) -> Bools:
    """Return bool[n]: the samples that meet a condition.

    Raises:
        UsageError: the recording lacks the data for it.
    """
    profile, word = samples.profile, one.word
    known = names_of(samples, word)
    if known is None:
        raise UsageError(f"{profile.run.origin}: {one.dimension.missing}: no {word.name}:")
    kinds = profile.objects.kind.tolist() if one.is_of_objects else [-1] * len(known.names)
    return np.array(list(map(one.is_met, known.names, kinds)), np.bool_).take(known.number)


def event_name(event: EventInfo, word: Word) -> str:
    """Return the name of an event, its period for `count:`, or its mask.

    The period of timers is that of one of them, in nanoseconds; 0 for a rate. It is below 2^63, as
    the kernel accepts none above.
    """
    if not word.is_number:
        return event.name
    if word.name == "unit-mask":
        return str(event.unit_mask)
    is_timer = math.isclose(event.seconds_per_period * event.clocks, 1e-9)
    if is_timer and event.frequency_hz > 0:
        return str(round(event.clocks * 1e9 / event.frequency_hz))
    return str(min(event.sample_period, _MOST_COUNT))
